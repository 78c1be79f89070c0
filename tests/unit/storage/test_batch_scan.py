"""Walking a file of batches: by chunks of any size, from any batch, through any junk."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.records.batch import BATCH_OVERHEAD
from pkafka.records.legacy import build_message_set
from pkafka.storage.batch_scan import DamagedBatchError, find_batch, max_timestamp_of, scan, scan_buffer
from pkafka.storage.files import OsFiles
from tests.unit.storage.makers import NOW, World, append, batch, stored


def file_of(data: bytes) -> int:
    descriptor = os.memfd_create("batches")
    os.pwrite(descriptor, data, 0)
    return descriptor


@given(sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=12), chunk=st.integers(17, 2000))
def test_every_chunk_size_finds_the_same_batches(sizes: list[int], chunk: int) -> None:
    data = b"".join(bytes(stored(batch([b"x" * size]), 3 * place)) for place, size in enumerate(sizes))
    descriptor = file_of(data)
    try:
        found = [
            (each.position, each.size, each.base_offset, bytes(each.data))
            for each in scan(OsFiles(), descriptor, 0, len(data), check=True, chunk_bytes=chunk)
        ]
        assert [offset for _, _, offset, _ in found] == [3 * place for place in range(len(sizes))]
        assert b"".join(each for *_, each in found) == data
        for place in range(len(sizes)):
            for asked in (3 * place - 2, 3 * place - 1, 3 * place):
                where = find_batch(OsFiles(), descriptor, asked, 0, len(data))
                assert where == (*found[place][:2], 3 * place)
        assert find_batch(OsFiles(), descriptor, 3 * len(sizes), 0, len(data)) is None
    finally:
        os.close(descriptor)


@given(junk=st.binary(max_size=300))
def test_junk_ends_the_walk_with_the_documented_error(junk: bytes) -> None:
    descriptor = file_of(junk)
    try:
        used, damage = 0, len(junk)
        try:
            for each in scan(OsFiles(), descriptor, 0, len(junk), check=True):
                used = each.position + each.size
        except DamagedBatchError as error:
            damage = error.position
        assert damage == used
    finally:
        os.close(descriptor)


def test_a_partial_batch_at_the_end_of_a_fetch_is_left_out() -> None:
    whole = stored(batch([b"a"]), 0)
    for length in range(len(whole)):
        assert len(list(scan_buffer(memoryview(whole + whole[:length]), check=True))) == 1


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_a_message_format_that_does_not_exist_is_damage(magic: int) -> None:
    data = stored(batch([b"a"]), 0)
    data[16] = magic
    with pytest.raises(DamagedBatchError, match=f"magic {magic}"):
        list(scan_buffer(memoryview(data), check=True))


def test_an_index_search_reads_little(tmp_path: Path) -> None:
    reads: list[int] = []

    class Counting(OsFiles):
        def pread(self, descriptor: int, length: int, position: int) -> bytes:
            reads.append(length)
            return os.pread(descriptor, length, position)

    data = b"".join(bytes(stored(batch([b"x" * 200_000]), offset)) for offset in range(4))
    path = tmp_path / "big"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    assert find_batch(Counting(), descriptor, 3, 0, len(data)) is not None
    os.close(descriptor)
    # Only headers, never the records of the batches that are passed over.
    assert sum(reads) < 40_000


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_largest_timestamp_stands_in_the_header(magic: int) -> None:
    if magic == 2:
        data = bytes(batch([b"a", b"b"], timestamp=NOW))
    else:
        data = build_message_set([(0, NOW, b"k", b"v" * 60)], magic=magic)
    expected = next(scan_buffer(memoryview(data), check=True)).max_timestamp
    assert expected == (-1, NOW, NOW + 1)[magic]
    assert max_timestamp_of(data[:BATCH_OVERHEAD]) == expected
    assert max_timestamp_of(data[:17]) == max_timestamp_of(b"") == -1


def test_the_age_of_a_segment_costs_a_few_bytes(tmp_path: Path) -> None:
    class CountingFiles(OsFiles):
        count = 0

        def pread(self, descriptor: int, length: int, position: int) -> bytes:
            self.count += length
            return os.pread(descriptor, length, position)

        def read_into(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
            self.count += len(buffer)
            return super().read_into(descriptor, buffer, position)

    files = CountingFiles()
    log = World(tmp_path, files=files).create()
    append(log, b"x" * 600, timestamp=NOW)
    log.roll(NOW)
    log.close()
    log = World(tmp_path, files=files).open(clean=True)
    files.count = 0
    assert log.segments[0].first_timestamp == NOW
    assert files.count == BATCH_OVERHEAD
    assert log.segments[1].first_timestamp == -1
