"""Replicas side by side: how far they are the same, and what is said where they are not."""

import struct
import zlib

import pytest

from pkafka.records.batch import CRC_POSITION
from pkafka.records.builder import build_batch
from pkafka.records.checksum import crc32c
from pkafka.tools.cluster.replica_verification import Difference, Fetched, Kind, compare


def batch(offset: int, *values: bytes) -> bytes:
    return bytes(build_batch([(0, None, value, ()) for value in values], base_offset=offset))


def all_same(records: bytes, *high_watermarks: int) -> dict[int, Fetched]:
    return {broker: Fetched(records, each) for broker, each in enumerate(high_watermarks)}


THREE = batch(0, b"a", b"b") + batch(2, b"c") + batch(3, b"d")


@pytest.mark.parametrize(
    ("high_watermarks", "end"),
    [
        ((4, 4, 4), 4),
        ((4, 3, 4), 3),  # one does not know yet that the last batch is committed
        ((4, 2), 2),
        ((4, 1), 0),
        ((4, -1), 0),
        ((0, 0), 0),
        ((4,), 4),
    ],
)
def test_replicas_are_compared_up_to_every_high_watermark(high_watermarks: tuple[int, ...], end: int) -> None:
    assert compare(all_same(THREE, *high_watermarks), 0) == (end, [])


def test_a_replica_that_has_less_ends_the_comparison() -> None:
    behind = {**all_same(THREE, 4, 4), 2: Fetched(batch(0, b"a", b"b"), 4)}
    assert compare(behind, 0) == (2, [])
    assert compare({**behind, 3: Fetched(b"", 4)}, 0) == (0, [])


@pytest.mark.parametrize("kept", range(len(THREE)))
def test_a_batch_that_is_cut_off_is_compared_next_time(kept: int) -> None:
    end = sum(kept >= size for size in (len(batch(0, b"a", b"b")),))
    reached, differences = compare({0: Fetched(THREE, 4), 1: Fetched(THREE[:kept], 4)}, 0)
    assert differences == []
    assert (reached >= 2) == bool(end)
    assert reached < 4


def test_other_bytes_are_a_difference_and_the_rest_is_compared() -> None:
    other = batch(0, b"a", b"b") + batch(2, b"X") + batch(3, b"d")
    sums = [crc32c(each[21:]) for each in (batch(2, b"c"), batch(2, b"X"))]
    found = compare({5: Fetched(THREE, 4), 7: Fetched(other, 4)}, 0)
    assert found == (4, [Difference(Kind.CHECKSUM, 2, (5, 7), (sums[0], sums[1]))])


def test_damage_under_the_right_checksum_is_a_difference() -> None:
    damaged = bytearray(THREE)
    damaged[-1] ^= 1
    end, [found] = compare({0: Fetched(THREE, 4), 1: Fetched(damaged, 4)}, 0)
    assert (end, found.kind, found.offset) == (4, Kind.CHECKSUM, 3)
    stored = struct.unpack_from(">I", batch(3, b"d"), CRC_POSITION)[0]
    assert found.values[0] == stored != found.values[1]


def test_a_checksum_that_is_damaged_is_a_difference() -> None:
    damaged = bytearray(THREE)
    damaged[CRC_POSITION] ^= 1
    end, [found] = compare({0: Fetched(THREE, 4), 1: Fetched(damaged, 4)}, 0)
    assert (end, found.kind, found.offset) == (4, Kind.CHECKSUM, 1)
    assert found.values[0] ^ found.values[1] == 1 << 24


def test_other_offsets_end_the_comparison() -> None:
    other = batch(0, b"a", b"b") + batch(2, b"c", b"d")
    assert compare({0: Fetched(THREE, 4), 1: Fetched(other, 4)}, 0) == (
        2,
        [Difference(Kind.OFFSET, 3, (0, 1), (2, 3))],
    )


def test_messages_of_old_formats() -> None:
    def message(offset: int, value: bytes) -> bytes:
        body = struct.pack(">bbqi", 1, 0, 0, -1) + struct.pack(">i", len(value)) + value
        return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body

    one, other = (message(0, b"a") + message(1, each) for each in (b"b", b"c"))
    assert compare(all_same(one, 2, 2), 0) == (2, [])
    end, [found] = compare({0: Fetched(one, 2), 1: Fetched(other, 2)}, 0)
    assert (end, found.kind, found.offset) == (2, Kind.CHECKSUM, 1)


def test_nothing_to_compare() -> None:
    assert compare({}, 7) == (7, [])
    assert compare(all_same(b"", 7, 7), 7) == (7, [])
