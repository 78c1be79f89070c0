"""Buffers for frames that come in pieces: sizes, reuse, and what stays allocated."""

import mmap

import pytest

from pkafka.net.buffers import SLOTS, SLOTS_KEPT_FOR_FRAMES, Arena, Lease, ReadBuffers, map_arena


@pytest.mark.parametrize("size", [1, 4, 32 * 1024, 32 * 1024 + 1, 2 * 1024 * 1024, 2 * 1024 * 1024 + 1])
def test_a_buffer_is_large_enough_and_writable(size: int) -> None:
    buffer = ReadBuffers().take(size)
    assert len(buffer) >= size
    buffer[size - 1 : size] = b"x"
    assert buffer[size - 1 : size] == b"x"


def test_large_buffers_are_used_again_and_few_are_kept() -> None:
    buffers = ReadBuffers()
    taken = [buffers.take(1_000_000) for _ in range(10)]
    assert len({id(one) for one in taken}) == 10
    for one in taken:
        buffers.give_back(one)
    again = [buffers.take(100_000) for _ in range(10)]
    assert len({id(one) for one in again} & {id(one) for one in taken}) == 4


def test_small_and_huge_buffers_are_not_kept() -> None:
    buffers = ReadBuffers()
    small, huge = buffers.take(100), buffers.take(50_000_000)
    assert isinstance(small, bytearray)
    assert isinstance(huge, mmap.mmap)
    buffers.give_back(small)
    buffers.give_back(huge)
    assert len(buffers.take(1_000_000)) < len(huge)


def test_large_frames_lie_in_the_arena_while_it_has_room() -> None:
    arena = Arena.create()
    assert arena is not None
    buffers = ReadBuffers(arena=arena)
    taken = [buffers.take(1_000_000) for _ in range(SLOTS)]
    assert arena.free_slots == 0  # one is what all connections read into
    assert isinstance(taken[-1], mmap.mmap)
    for one in taken:
        buffers.give_back(one)
    assert arena.free_slots == SLOTS - 1
    assert buffers.take(1_000_000) is taken[-2]  # the one given back last, whose pages are there already


def test_another_mapping_shows_what_was_read_into_a_slot() -> None:
    arena = Arena.create()
    assert arena is not None
    elsewhere = map_arena(arena.descriptor)
    arena.take()
    slot = arena.take()
    assert slot is not None
    slot[100:105] = b"hello"
    place = arena.position_of(slot[100:105])
    assert bytes(elsewhere[place : place + 5]) == b"hello"


def test_a_buffer_of_another_kind_is_not_taken_for_a_slot() -> None:
    arena = Arena.create()
    assert arena is not None
    assert not arena.give_back(memoryview(bytearray(10)))
    assert arena.free_slots == SLOTS


def test_the_shared_buffer_is_left_to_one_connection_while_slots_are_left() -> None:
    arena = Arena.create()
    assert arena is not None
    buffers = ReadBuffers(arena=arena)
    read = buffers.shared
    read[:5] = b"hello"
    lease = buffers.lend_shared()
    assert lease is not None
    buffers.shared[:5] = b"other"
    assert bytes(read[:5]) == b"hello"
    leases = [lease, *iter(buffers.lend_shared, None)]
    assert arena.free_slots == SLOTS_KEPT_FOR_FRAMES
    for one in leases:
        one.release()
    assert arena.free_slots == SLOTS - 1


def test_what_several_need_goes_back_when_the_last_lets_go() -> None:
    given_back: list[memoryview] = []
    lease = Lease(memoryview(bytearray(10)), given_back.append)
    lease.hold()
    lease.release()
    assert not given_back
    lease.release()
    assert given_back == [lease.slot]


def test_without_an_arena_the_shared_buffer_is_not_lent() -> None:
    assert ReadBuffers().lend_shared() is None


def test_frames_are_taken_up_to_their_limit_and_who_waits_hears_of_room() -> None:
    buffers = ReadBuffers(arena=Arena.create(), frames_bytes_max=100_000)
    heard: list[str] = []
    lease = buffers.lend_shared()
    frames = [buffers.take(60_000), buffers.take(60_000)]
    assert not buffers.has_room
    for name in ("one", "other"):
        buffers.call_when_room(lambda name=name: heard.append(name))  # type: ignore[misc]
    if lease is not None:
        lease.release()
    # What all read into is not counted, and gives no room back.
    assert heard == []
    assert not buffers.has_room
    buffers.give_back(frames.pop())
    assert heard == ["one", "other"]
    assert buffers.has_room
    buffers.give_back(frames.pop())
    assert heard == ["one", "other"]
