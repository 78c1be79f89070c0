"""The swap of cleaned segments for old ones: its order, and what a start makes of every moment of it."""

import contextlib
import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pkafka.errors import StorageError
from pkafka.storage.log import Log
from tests.unit.storage.cleaned import COMPACT, compact, latest, records_of, write
from tests.unit.storage.makers import NOW, FaultyFiles, World, append, everything

WIDE = replace(COMPACT, segment_bytes=4096)


class Recording(FaultyFiles):
    """Notes renames and unlinks by the names of the files, without the digits."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if ".log" in target.name:
            self.steps.append(f"{int(source.name[:20])}{source.name[20:]} > {target.name[20:]}")

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if ".log" in path.name:
            self.steps.append(f"unlink {int(path.name[:20])}{path.name[20:]}")


def filled(world: World) -> Log:
    """A log of several small segments, with every record of which but the last few is replaced by a later one."""
    world.root.mkdir(parents=True, exist_ok=True)
    log = world.create()
    for number in range(12):
        write(log, (b"k%d" % (number % 3), b"%d" % number), (b"once%d" % number, b"" if number % 4 else None))
        if number % 3 == 2:
            log.roll(NOW)
    return log


def test_the_order_is_kafkas(tmp_path: Path) -> None:
    files = Recording()
    log = filled(World(tmp_path, WIDE, files))
    files.steps.clear()
    compact(log)
    assert files.steps == [
        "0.log.cleaned > .log.swap",
        "0.log > .log.deleted",
        "6.log > .log.deleted",
        "12.log > .log.deleted",
        "18.log > .log.deleted",
        "0.log.swap > .log",
    ]


def renames_of_a_swap(tmp_path: Path) -> int:
    files = FaultyFiles()
    log = filled(World(tmp_path / "count", WIDE, files))
    files.calls.clear()
    compact(log)
    return files.calls.count("rename")


@pytest.mark.parametrize("clean", [False, True], ids=["unclean", "clean"])
def test_a_kill_at_any_rename_leaves_the_old_or_the_new(tmp_path: Path, clean: bool) -> None:
    for spared in range(renames_of_a_swap(tmp_path)):
        files = FaultyFiles()
        world = World(tmp_path / f"{clean}-{spared}", WIDE, files)
        log = filled(world)
        before = records_of(log)
        files.fail("rename", after=spared)
        with pytest.raises(StorageError):
            compact(log)
        world.crash(log)
        files.failures.clear()
        log = world.open(clean=clean)
        log.set_high_watermark(log.log_end_offset)
        found = records_of(log)
        assert latest(found) == latest(before), spared
        assert set(found) <= set(before)
        assert log.log_end_offset == 24
        assert everything(log) == [(record.offset, record.value) for record in found]
        assert not [name for name in world.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert append(log, b"next").base_offset == 24
        world.crash(log)


def test_a_kill_of_the_start_that_finishes_a_swap_loses_nothing_either(tmp_path: Path) -> None:
    for call in ("rename", "unlink"):
        for first in range(renames_of_a_swap(tmp_path / call)):
            for second in (0, 1, 4):
                files = FaultyFiles()
                world = World(tmp_path / f"{call}-{first}-{second}", WIDE, files)
                log = filled(world)
                before = latest(records_of(log))
                files.fail("rename", after=first)
                with pytest.raises(StorageError):
                    compact(log)
                world.crash(log)
                files.failures.clear()
                files.fail(call, after=second)
                with contextlib.suppress(StorageError):
                    world.crash(world.open())
                files.failures.clear()
                log = world.open()
                assert latest(records_of(log)) == before, (call, first, second)
                world.crash(log)


def test_leftovers_of_a_round_that_nobody_ended_are_no_danger(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = filled(world)
    before = latest(records_of(log))
    stray = world.directory / f"{0:020d}.index.cleaned"
    log.roll(NOW)
    compact(log, before_take=lambda: (world.directory / f"{5:020d}.log.cleaned").write_bytes(b"half"))
    assert not stray.exists()
    assert not world.paths(".cleaned")
    assert latest(records_of(log)) == before


def test_a_reader_in_the_middle_keeps_the_bytes_that_it_was_promised(tmp_path: Path) -> None:
    log = filled(World(tmp_path, WIDE))
    read = log.read(0, bytes_max=10_000, min_one_batch=True, upper_bound=100)
    descriptor = read.segment.pin()
    promised = read.segment.read_bytes(read.position, read.length)
    compact(log)
    assert os.pread(descriptor, read.length, read.position) == promised
    assert log.segments[0].generation != read.segment.generation
    read.segment.unpin()


def test_old_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = filled(world)
    compact(log)
    assert [path.name for path in world.paths(".snapshot")] == [f"{24:020d}.snapshot"]
    log.close()


def test_a_flush_under_way_ends_well(tmp_path: Path) -> None:
    log = filled(World(tmp_path, WIDE))
    pending = log.prepare_flush()
    compact(log)
    pending.run()
    log.finish_flush(pending)
    assert log.recovery_point == 24


def test_a_log_that_failed_takes_nothing(tmp_path: Path) -> None:
    log = filled(World(tmp_path, WIDE))
    before = records_of(log)
    compact(log, before_take=lambda: log.fence(OSError(5, "broken")))
    assert records_of(log) == before
    assert log.cleaner_checkpoint is None


def test_segments_of_a_compacted_log_roll_in_time_for_the_largest_lag(tmp_path: Path) -> None:
    world = World(tmp_path, replace(WIDE, max_compaction_lag_ms=1000))
    log = world.create()
    write(log, (b"a", b"1"))
    write(log, (b"a", b"2"), timestamp=NOW + 1000)
    assert len(log.segments) == 1
    write(log, (b"a", b"3"), timestamp=NOW + 1001)
    assert len(log.segments) == 2


def test_too_many_open_files_are_no_fault_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(World(tmp_path, WIDE))
    before = records_of(log)

    def refuse(_path: Path) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files")

    compact(log, before_take=lambda: monkeypatch.setattr(os, "listdir", refuse))
    monkeypatch.undo()
    assert log.failure is None
    assert records_of(log) == before


def test_a_directory_that_cannot_be_read_fences_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(World(tmp_path, WIDE))

    def refuse(_path: Path) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(StorageError, match="cannot replace segments of"):
        compact(log, before_take=lambda: monkeypatch.setattr(os, "listdir", refuse))
    monkeypatch.undo()
    assert log.failure is not None
