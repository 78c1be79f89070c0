"""Answers with ranges of files, on real socket pairs: whole, in order, from files that close, shrink or are on disk."""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pkafka.net.answers import Answer, FileRange, Part
from pkafka.net.page_cache import PageCache
from tests.open_files import count_open_files
from tests.unit.net.connected import Client, Run, framed, turns


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "numbers"
    path.write_bytes(b"".join(struct.pack(">I", n) for n in range(2_000_000)))
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def number_bytes(position: int, length: int) -> bytes:
    first, last = position // 4, (position + length + 3) // 4
    whole = b"".join(struct.pack(">I", n) for n in range(first, last))
    return whole[position % 4 :][:length]


def test_ranges_of_files_go_out_between_bytes(run: Run, numbers: int) -> None:
    async def test() -> None:
        parts: Answer = (
            b"head",
            FileRange(numbers, 3, 5),
            FileRange(numbers, 0, 0),
            b"",
            b"middle",
            FileRange(numbers, 1_000_001, 5_000_000),
            b"tail",
        )
        client = Client(lambda _connection, frame: parts if frame == b"get" else (b"next",))
        await client.send(framed(b"get", b"more"))
        expected = b"".join(
            [b"head", number_bytes(3, 5), b"middle", number_bytes(1_000_001, 5_000_000), b"tail", b"next"]
        )
        assert await client.receive(len(expected)) == expected
        client.end()

    run(test)


def test_small_ranges_leave_with_what_surrounds_them(run: Run, numbers: int) -> None:
    # Packets, so that what was one call to the kernel can be told.
    async def test() -> None:
        parts: Answer = (b"head", FileRange(numbers, 3, 50_000), b"middle", FileRange(numbers, 8, 4), b"tail")
        client = Client(lambda _connection, _frame: parts, pair=socket.socketpair(type=socket.SOCK_SEQPACKET))
        await client.send(framed(b"get"))
        expected = b"".join([b"head", number_bytes(3, 50_000), b"middle", number_bytes(8, 4), b"tail"])
        assert client.sock.recv(1 << 20) == expected
        client.end()

    run(test)


@pytest.mark.parametrize(("ranges", "size"), [(1500, 40), (20, 60_000)])
def test_many_small_ranges_go_out_whole(run: Run, numbers: int, ranges: int, size: int) -> None:
    async def test() -> None:
        parts: list[Part] = []
        for place in range(ranges):
            parts += [b"<%d>" % place, FileRange(numbers, place, size)]
        client = Client(lambda _connection, _frame: parts)
        await client.send(framed(b"get"))
        expected = b"".join(b"<%d>" % place + number_bytes(place, size) for place in range(ranges))
        assert await client.receive(len(expected)) == expected
        client.end()

    run(test)


def test_a_range_goes_on_after_its_file_was_closed(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "file"
        path.write_bytes(b"r" * 6_000_000)
        fd = os.open(path, os.O_RDONLY)
        client = Client(lambda _connection, _frame: (FileRange(fd, 0, 6_000_000),))
        await client.send(framed(b"get"))
        await turns()
        os.close(fd)
        path.unlink()
        assert await client.receive(6_000_000) == b"r" * 6_000_000
        client.end()

    run(test)


def test_a_socket_that_is_full_is_not_asked_whether_it_is(
    run: Run, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    sendfile = os.sendfile

    def counted(out: int, source: int, position: int, length: int) -> int:
        calls.append(0)
        calls[-1] = sendfile(out, source, position, length)
        return calls[-1]

    monkeypatch.setattr(os, "sendfile", counted)

    async def test() -> None:
        client = Client(lambda _connection, _frame: (FileRange(numbers, 5, 7_000_000),))
        await client.send(framed(b"get"))
        assert await client.receive(7_000_000) == number_bytes(5, 7_000_000)
        client.end()

    run(test)
    assert len(calls) > 2
    assert all(calls), "a call that could send nothing is one too many"


def test_a_small_range_that_cannot_be_read_closes_the_connection(run: Run, numbers: int) -> None:
    async def test() -> None:
        closed = os.dup(numbers)
        os.close(closed)
        client = Client(lambda _connection, _frame: (b"head", FileRange(closed, 0, 8)))
        await client.send(framed(b"get"))
        assert await client.receive(100) == b""
        assert client.closed == 1
        client.end()

    run(test)


def test_a_file_that_is_shorter_than_promised_closes_the_connection(run: Run, numbers: int) -> None:
    async def test() -> None:
        client = Client(lambda _connection, _frame: (b"head", FileRange(numbers, 8_000_000 - 4, 8)))
        await client.send(framed(b"get"))
        assert await client.receive(100) == b"head" + struct.pack(">I", 1_999_999)
        assert client.closed == 1
        client.end()

    run(test)


def test_no_descriptor_is_left_when_a_client_goes_in_the_middle_of_a_file(run: Run, numbers: int) -> None:
    async def test() -> None:
        before = count_open_files()
        for _ in range(20):
            client = Client(lambda _connection, _frame: (FileRange(numbers, 0, 8_000_000), b"x") * 2)
            await client.send(framed(b"get"))
            await turns()
            client.sock.close()
            await turns()
            client.end()
        assert count_open_files() == before

    run(test)


class ForgetfulPageCache(PageCache):
    """As if nothing were in memory but what was read ahead."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        super().__init__(threads)
        self.reads: list[tuple[int, int]] = []

    def bytes_in_memory(self, fd: int, position: int, length: int) -> int:
        return 0

    def read_ahead(self, fd: int, position: int, length: int, done: Callable[[int], None]) -> None:
        self.reads.append((position, length))
        super().read_ahead(fd, position, length, done)


def test_what_is_not_in_memory_is_read_by_a_thread_before_it_is_sent(run: Run, numbers: int) -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            page_cache = ForgetfulPageCache(threads)
            parts = (b"head", FileRange(numbers, 5, 7_000_000), b"tail")
            client = Client(lambda _connection, _frame: parts, page_cache)
            expected = b"head" + number_bytes(5, 7_000_000) + b"tail"
            for _ in range(2):
                await client.send(framed(b"get"))
                assert await client.receive(len(expected)) == expected
                position = 5
                for start, length in page_cache.reads:
                    assert start == position
                    assert length <= 2 * 1024 * 1024
                    position += length
                assert position == 7_000_005
                page_cache.reads.clear()
            client.end()

    run(test)


def test_a_client_may_go_while_its_file_is_read(run: Run, numbers: int) -> None:
    async def test() -> None:
        before = count_open_files()
        with ThreadPoolExecutor(1) as threads:
            page_cache = ForgetfulPageCache(threads)
            client = Client(lambda _connection, _frame: (FileRange(numbers, 0, 4_000_000),), page_cache)
            await client.send(framed(b"get"))
            await turns()
            assert page_cache.reads
            client.end()
        await turns()
        assert count_open_files() == before

    run(test)
