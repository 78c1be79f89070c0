"""A segment with offsets too far from its base, as old compaction left them: recovery makes several of it."""

import errno
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from pkafka.errors import StorageError
from pkafka.records.control import build_end_marker
from pkafka.storage.config import LogConfig
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from pkafka.storage.segment import RELATIVE_OFFSET_MAX
from pkafka.storage.transaction_index import AbortedTransaction
from tests.unit.storage.makers import NOW, SMALL, FaultyFiles, World, append, batch, everything, stored

FAR = RELATIVE_OFFSET_MAX + 1
WIDE = replace(SMALL, segment_bytes=1 << 20)
OFFSETS = [*range(0, 8, 2), RELATIVE_OFFSET_MAX, FAR, FAR + 7, 3 * FAR, 3 * FAR + 1]
BASES = [0, FAR, 3 * FAR]


def write_segment(world: World, offsets: Iterable[int], *, base: int = 0, tail: bytes = b"") -> bytes:
    """The files of one segment with a batch at each of the offsets; returns its data."""
    if not world.directory.exists():
        world.directory.mkdir(parents=True)
        world.crash(world.open())
    data = b"".join(stored(batch([b"%d" % offset], timestamp=NOW), offset) for offset in offsets) + tail
    (world.directory / f"{base:020d}.log").write_bytes(data)
    return data


def opened(world: World, *, clean: bool = False) -> Log:
    log = world.open(clean=clean)
    log.set_high_watermark(log.log_end_offset)
    return log


def bases_of(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_every_record_is_there_and_the_data_is_the_same(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    data = write_segment(world, OFFSETS)
    path = world.paths(".log")[0]
    os.utime(path, ns=(1, NOW * 1_000_000))
    log = opened(world)
    assert bases_of(log) == BASES
    assert log.log_end_offset == OFFSETS[-1] + 1
    assert everything(log) == [(offset, b"%d" % offset) for offset in OFFSETS]
    assert b"".join(path.read_bytes() for path in world.paths(".log")) == data
    assert {path.stat().st_mtime_ns for path in world.paths(".log")} == {NOW * 1_000_000}
    assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)
    assert append(log, b"next").base_offset == OFFSETS[-1] + 1
    log.close()
    assert not [name for name in world.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert bases_of(world.open(clean=True)) == BASES


def test_the_pieces_have_indexes(tmp_path: Path) -> None:
    world = World(tmp_path, replace(WIDE, index_interval_bytes=0))
    write_segment(world, OFFSETS)
    log = opened(world)
    assert [segment.offset_index.entries for segment in log.segments] == [4, 1, 1]
    assert [segment.time_index.entries for segment in log.segments] == [1, 1, 1]
    assert all(everything(log, offset)[0][0] == offset for offset in OFFSETS)


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_index_shows_it_even_after_a_clean_stop(tmp_path: Path, clean: bool) -> None:
    world = World(tmp_path, WIDE)
    write_segment(world, OFFSETS)
    world.paths(".index")[0].unlink()
    assert bases_of(opened(world, clean=clean)) == BASES


def test_without_a_recovery_it_is_served_as_it_is(tmp_path: Path) -> None:
    """Kafka looks at indexes only, too, when the stop was clean; what is new goes into a segment of its own."""
    world = World(tmp_path, replace(WIDE, index_interval_bytes=0))
    write_segment(world, OFFSETS)
    for suffix in (".index", ".timeindex"):
        world.paths(suffix)[0].write_bytes(b"odd")
    log = opened(world, clean=True)
    assert bases_of(log) == [0]
    assert everything(log) == [(offset, b"%d" % offset) for offset in OFFSETS]
    assert append(log, b"next").base_offset == OFFSETS[-1] + 1
    assert bases_of(log) == [0, OFFSETS[-1] + 1]
    log.close()
    assert bases_of(opened(world)) == [*BASES, OFFSETS[-1] + 1]


def test_the_first_piece_keeps_the_base_even_when_it_is_empty(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    write_segment(world, OFFSETS[5:])
    log = opened(world)
    assert bases_of(log) == BASES
    assert log.segments[0].size == 0
    assert [offset for offset, _ in everything(log)] == OFFSETS[5:]


def test_damage_behind_the_overflow_is_cut_and_nothing_before_it(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    data = write_segment(world, OFFSETS, tail=b"torn" * 9)
    assert len(everything(opened(world))) == len(OFFSETS)
    for place in (1, 6, 7, 8):
        for path in world.directory.iterdir():
            path.unlink()
        damaged = bytearray(data)
        one = len(stored(batch([b"0"]), 0))
        damaged[place * one + 60] ^= 1
        write_segment(world, [])
        (world.directory / f"{0:020d}.log").write_bytes(damaged)
        log = opened(world)
        assert everything(log) == [(offset, b"%d" % offset) for offset in OFFSETS[:place]]
        world.crash(log)


def test_an_offset_that_reaches_the_next_segment_is_damage_not_overflow(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    write_segment(world, [0, 1, 2, 7 * FAR, 4])
    write_segment(world, [5, 6], base=5)
    log = opened(world)
    assert bases_of(log) == [0]
    assert [offset for offset, _ in everything(log)] == [0, 1, 2]


def test_an_overflow_between_segments_ends_before_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    write_segment(world, [0, FAR, 9 * FAR, FAR + 1])
    write_segment(world, [3 * FAR, 3 * FAR + 1], base=3 * FAR)
    log = opened(world)
    assert bases_of(log) == [0, FAR]
    assert [offset for offset, _ in everything(log)] == [0, FAR]


def test_producers_epochs_and_aborted_transactions_survive(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    data = b"".join(
        [
            stored(batch([b"a"], pid=7, epoch=0, sequence=0, transactional=True), 0, 1),
            stored(batch([b"b"], pid=7, epoch=0, sequence=1, transactional=True), FAR, 2),
            stored(
                build_end_marker(
                    committed=False,
                    producer_id=7,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp_ms=NOW,
                ),
                FAR + 1,
                3,
            ),
        ]
    )
    write_segment(world, [])
    (world.directory / f"{0:020d}.log").write_bytes(data)
    for _ in range(2):
        log = opened(world)
        assert bases_of(log) == [0, FAR]
        assert log.leader_epochs.entries == [(1, 0), (2, FAR), (3, FAR + 1)]
        assert log.aborted_transactions(0, 2 * FAR) == [AbortedTransaction(7, 0, FAR + 1, FAR + 2)]
        assert log.producers.entries[7].last_sequence == 1
        log.close()


class Killed(BaseException):
    """The process is gone."""


class KilledFiles(OsFiles):
    """The real disk, but for the waiting, until the process is killed after so many changes; -1 is never."""

    def __init__(self, changes: int) -> None:
        self.left = changes
        self.opened: set[int] = set()

    def _change(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def open(self, path: Path, flags: int) -> int:
        if flags & (os.O_CREAT | os.O_TRUNC):
            self._change()
        descriptor = super().open(path, flags)
        self.opened.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self.opened.remove(descriptor)
        os.close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        self._change()
        return os.pwrite(descriptor, data, position)

    def truncate(self, descriptor: int, length: int) -> None:
        self._change()
        os.ftruncate(descriptor, length)

    def rename(self, source: Path, target: Path) -> None:
        self._change()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._change()
        super().unlink(path)

    def fsync(self, descriptor: int) -> None:  # type: ignore[override]
        self._change()

    def fsync_directory(self, path: Path) -> None:
        self._change()


def killed_after(world: World, changes: int) -> bool:
    """Open the log with a kill on the way; says whether it came to that."""
    files = KilledFiles(changes)
    try:
        World(world.root, world.config, files).open()
    except Killed:
        return True
    finally:
        for descriptor in files.opened:
            os.close(descriptor)
    return False


@pytest.mark.parametrize("second", [None, 3, 5, 12])
def test_a_kill_at_every_change_loses_nothing_and_doubles_nothing(tmp_path: Path, second: int | None) -> None:
    """``second``: the next start is killed as well, so many changes later."""
    changes = 0
    while True:
        world = World(tmp_path / str(changes), replace(WIDE, index_interval_bytes=0), KilledFiles(-1))
        data = write_segment(world, BASES)
        if not killed_after(world, changes):
            break
        if second is not None:
            killed_after(world, second)
        log = opened(world)
        assert everything(log) == [(offset, b"%d" % offset) for offset in BASES], changes
        assert bases_of(log) == BASES, changes
        assert b"".join(path.read_bytes() for path in world.paths(".log")) == data
        log.close()
        assert not [name for name in world.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
        changes += 1
    assert changes > 40


@pytest.mark.parametrize("clean", [True, False])
def test_what_kafka_leaves_when_it_is_killed_between_the_renames(tmp_path: Path, clean: bool) -> None:
    """Its first piece has the name of the first offset, which is not that of the segment."""
    world = World(tmp_path, WIDE)
    write_segment(world, [10, 11, FAR + 10, FAR + 11])
    pieces = {10: [10, 11], FAR + 10: [FAR + 10, FAR + 11]}
    for base, offsets in pieces.items():
        write_segment(world, offsets, base=base)
        (world.directory / f"{base:020d}.log").rename(world.directory / f"{base:020d}.log.swap")
    log = opened(world, clean=clean)
    assert bases_of(log) == [10, FAR + 10]
    assert [offset for offset, _ in everything(log)] == [10, 11, FAR + 10, FAR + 11]


def test_a_full_disk_leaves_the_segment_and_no_pieces(tmp_path: Path) -> None:
    files = FaultyFiles()
    world = World(tmp_path, WIDE, files)
    data = write_segment(world, OFFSETS)
    files.fail("fsync", errno.ENOSPC)
    with pytest.raises(StorageError, match="No space left"):
        world.open()
    assert not [name for name in world.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert world.paths(".log")[0].read_bytes() == data
    files.failures.clear()
    assert bases_of(opened(world)) == BASES


def test_many_small_batches_are_copied_in_large_runs(tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig())
    offsets = [*range(20_000), *range(FAR, FAR + 20_000)]
    data = write_segment(world, offsets)
    assert len(data) > 2 << 20
    log = opened(world)
    assert bases_of(log) == [0, FAR]
    assert b"".join(path.read_bytes() for path in world.paths(".log")) == data
    assert log.log_end_offset == FAR + 20_000
    found = log.read(FAR + 9, bytes_max=1, min_one_batch=True, upper_bound=2**62)
    assert os.pread(found.segment.fileno(), 8, found.position) == (FAR + 9).to_bytes(8, "big")
