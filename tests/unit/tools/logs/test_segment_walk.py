"""Stepping over batches: windows, damage of any kind, files that lie about how much memory they need."""

import random
import struct
import tracemalloc
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import PkafkaError
from pkafka.records.builder import build_batch
from pkafka.tools.logs import segment_walk
from pkafka.tools.logs.dump import Dump, is_known
from pkafka.tools.logs.rows import document_of, text_of
from pkafka.tools.logs.segment_walk import SegmentWalk
from pkafka.tools.logs.selection import EVERYTHING
from pkafka.tools.logs.stats import LogStats
from pkafka.tools.logs.verification.log import verify_log
from tests.log_files import name_of, old_segment, rich_segment, write_rich_files

RICH: Final = bytes(rich_segment().data)
OLD: Final = bytes(old_segment().data)


@pytest.mark.parametrize("window", [1, 61, 130, 1_000])
def test_windows_of_any_size_show_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    path = tmp_path / name_of(0)
    path.write_bytes(OLD + RICH)
    whole = [(batch[2:], bytes(batch.view[batch.at : batch.at + batch.size])) for batch in SegmentWalk(path)]
    assert len(whole) == 36
    assert b"".join(data for _, data in whole) == OLD + RICH
    monkeypatch.setattr(segment_walk, "WINDOW_BYTES", window)
    read: list[int] = []
    walk = SegmentWalk(path, on_read=read.append)
    assert [(batch[2:], bytes(batch.view[batch.at : batch.at + batch.size])) for batch in walk] == whole
    assert (walk.end, walk.size, walk.fault, sum(read)) == (len(OLD + RICH),) * 2 + (None, len(OLD + RICH))


def test_a_file_cut_at_every_byte_ends_with_the_last_whole_batch(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    ends = [0, *(position for _, _, position in rich_segment().places[1:])]
    for size in range(0, len(RICH), 7):
        path.write_bytes(RICH[:size])
        walk = SegmentWalk(path)
        assert all(batch.is_valid for batch in walk)
        assert (walk.end, walk.fault) == (max(end for end in ends if end <= size), None)


def test_a_length_that_lies_takes_no_memory(tmp_path: Path) -> None:
    """A batch that says that it is as long as a file of 300 MB, most of it a hole."""
    first = build_batch([(1, None, b"v", ())])
    liar = bytearray(build_batch([(1, None, b"v", ())], base_offset=1))
    liar[8:12] = struct.pack(">i", 300_000_000 - len(first) - 12)
    path = tmp_path / name_of(0)
    with path.open("wb") as file:
        file.write(first + liar)
        file.truncate(300_000_000)
    tracemalloc.start()
    for resync in (False, True):
        walk = SegmentWalk(path, resync=resync)
        found = [(batch.position, batch.is_valid) for batch in walk]
        assert found[0] == (0, True)
    dump = Dump(records=True)
    assert len(list(dump.rows(path))) == 4
    assert dump.findings.damage == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_a_batch_that_is_really_large_is_read(tmp_path: Path) -> None:
    path = tmp_path / name_of(0)
    path.write_bytes(build_batch([(1, None, bytes(70 << 20), ())]))
    (batch,) = SegmentWalk(path)
    assert batch.is_valid
    assert len(batch.view) >= batch.size


def test_megabytes_of_noise_are_searched_in_no_time(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(5_000_000)
    path = tmp_path / name_of(0)
    path.write_bytes(RICH + noise + build_batch([(1, None, b"v", ())], base_offset=60))
    left_out: list[tuple[int, int, str]] = []
    walk = SegmentWalk(path, resync=True, on_damage=lambda *what: left_out.append(what))
    assert [batch.header.base_offset for batch in walk][-1] == 60
    assert [(position, size) for position, size, _ in left_out] == [(len(RICH), len(noise))]


def everything(path: Path) -> None:
    """Whatever can be done with a file: shown in both ways, summed up, checked."""
    for resync in (False, True):
        try:
            for row in Dump(records=True, resync=resync).rows(path):
                text_of(row, content=True)
                document_of(row)
            for block in Dump(records=True, resync=resync).text(path, content=True):
                block.decode()
        except PkafkaError:
            pass
    if path.suffix == ".log":
        LogStats(path.parent).read(path, EVERYTHING)
    segments = sorted(path.parent.glob("*.log"))
    verify_log(segments, is_whole=True, deep=True)


@given(
    data=st.sampled_from([RICH, OLD]),
    changes=st.lists(st.tuples(st.integers(0, 2_000), st.binary(min_size=1, max_size=9)), max_size=4),
    cut=st.integers(0, 2_000),
)
def test_no_damage_of_a_segment_raises(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, changes: list[tuple[int, bytes]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / name_of(0)
    damaged = bytearray(data)
    for position, value in changes:
        start = position % len(data)
        damaged[start : start + len(value)] = value[: len(data) - start]
    path.write_bytes(damaged[: len(data) - cut % len(data)])
    everything(path)


@given(
    number=st.integers(0, 20),
    position=st.integers(0, 400),
    value=st.binary(max_size=9),
    cut=st.integers(0, 60),
)
def test_no_damage_of_any_other_file_raises(
    tmp_path_factory: pytest.TempPathFactory, number: int, position: int, value: bytes, cut: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    write_rich_files(directory)
    (directory / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (directory / "replication-offset-checkpoint").write_text("0\n1\na 0 5\n")
    (directory / f"{3:020}.kafka").write_bytes(b"\0\0\0\7\0abcdef")
    files = sorted(path for path in directory.iterdir() if is_known(path))
    path = files[number % len(files)]
    data = bytearray(path.read_bytes())
    start = position % (len(data) + 1)
    data[start : start + len(value)] = value
    path.write_bytes(data[: max(len(data) - cut, 0)])
    everything(path)
