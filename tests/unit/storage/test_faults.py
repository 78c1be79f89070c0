"""A disk that refuses: nothing that was acknowledged is lost, and nothing is written behind a failure."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.storage.log import Log
from tests.unit.storage.makers import NOW, SMALL, FaultyFiles, World, append, batch, everything, stored


def reopened(world: World, log: Log) -> Log:
    world.crash(log)
    log = world.open()
    log.set_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_fences_the_log_and_recovery_cuts_its_rest(
    faulty: World, files: FaultyFiles, code: int
) -> None:
    log = faulty.create()
    append(log, b"a", pid=1, epoch=0, sequence=0)
    files.fail("pwrite", code)
    with pytest.raises(StorageError, match="cannot append to"):
        append(log, b"b", pid=1, epoch=0, sequence=1)
    files.failures.clear()
    with pytest.raises(ApiError) as refused:
        append(log, b"b", pid=1, epoch=0, sequence=1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    # Half of the batch is in the file, but no reader sees it.
    assert everything(log) == [(0, b"a")]
    log = reopened(faulty, log)
    assert everything(log) == [(0, b"a")]
    assert append(log, b"b", pid=1, epoch=0, sequence=1).base_offset == 1


def test_an_index_without_what_could_not_be_written_is_whole(faulty: World, files: FaultyFiles) -> None:
    faulty.config = replace(SMALL, segment_bytes=10_000)
    log = faulty.create()
    sent = [bytes(stored(batch([b"x" * 60]), place)) for place in range(7)]
    log.append_as_follower(sent[0])
    files.fail("pwrite", errno.ENOSPC, after=1)  # the batches are written, their index entries are not
    with pytest.raises(StorageError, match="cannot append to"):
        log.append_as_follower(b"".join(sent[1:]))
    files.failures.clear()
    assert log.failure is not None
    assert log.segments[0].offset_index.entries == 0
    log = reopened(faulty, log)
    assert [offset for offset, _ in everything(log)] == list(range(7))
    assert log.append_as_follower(stored(batch([b"y"]), 7)).base_offset == 7


def test_short_writes_are_continued(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    files.short = 7
    append(log, b"x" * 100)
    append(log, b"y" * 100)
    files.short = 0
    assert everything(log) == [(0, b"x" * 100), (1, b"y" * 100)]


def test_a_failed_fsync_fences_and_leaves_the_recovery_point(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    append(log, b"a")
    files.fail("fsync")
    with pytest.raises(StorageError):
        log.flush()
    files.failures.clear()
    # The kernel may have dropped the pages: a second fsync that succeeds proves nothing.
    with pytest.raises(ApiError):
        append(log, b"b")
    assert log.recovery_point == 0
    log.close()
    assert log.recovery_point == 0


def test_a_failed_background_flush_fences(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    for _ in range(10):
        append(log, b"x" * 100)
    pending = log.prepare_flush()
    files.fail("fsync")
    with pytest.raises(OSError, match="Input/output"):
        pending.run()
    assert isinstance(log.fence(OSError(errno.EIO, "Input/output error")), StorageError)
    with pytest.raises(ApiError):
        append(log, b"y")


def test_a_failure_at_close_is_told(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    append(log, b"a")
    files.fail("fsync")
    with pytest.raises(StorageError):
        log.close()


def test_a_failed_deletion_fences(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    for _ in range(30):
        append(log, b"x" * 50)
    files.fail("rename")
    with pytest.raises(StorageError):
        log.delete_old_segments(NOW + log.config.retention_ms * 2)
    files.failures.clear()
    with pytest.raises(ApiError):
        append(log, b"y")
    assert reopened(faulty, log).log_end_offset == 30


@pytest.mark.parametrize("renames", [1, 4, 7, 11])
def test_a_failed_truncation_leaves_a_log_without_a_hole(
    faulty: World, files: FaultyFiles, renames: int
) -> None:
    log = faulty.create()
    for _ in range(30):
        append(log, b"x" * 50)
    files.fail("rename", after=renames)
    with pytest.raises(StorageError):
        log.truncate_to(2)
    files.failures.clear()
    log = reopened(faulty, log)
    assert 2 < log.log_end_offset <= 30
    assert [offset for offset, _ in everything(log)] == list(range(log.log_end_offset))


def test_a_failed_roll_fences(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    append(log, b"x" * 500)
    files.fail("truncate", errno.ENOSPC)
    with pytest.raises(StorageError):
        append(log, b"y" * 500)
    files.failures.clear()
    assert everything(reopened(faulty, log)) == [(0, b"x" * 500)]


def test_a_failed_checkpoint_of_an_epoch_does_not_acknowledge(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    append(log, b"a", leader_epoch=0)
    files.fail("rename")
    with pytest.raises(StorageError):
        append(log, b"b", leader_epoch=1)
    files.failures.clear()
    assert everything(reopened(faulty, log)) == [(0, b"a")]


def test_a_disk_that_fails_at_the_start_is_a_storage_error(faulty: World, files: FaultyFiles) -> None:
    log = faulty.create()
    append(log, b"a")
    faulty.crash(log)
    files.fail("truncate")
    with pytest.raises(StorageError):
        faulty.open()


def test_files_are_synced_when_kafka_syncs_them(faulty: World, files: FaultyFiles) -> None:
    faulty.config = replace(SMALL, segment_bytes=1 << 20)
    log = faulty.create()
    append(log, b"a")
    files.calls.clear()
    for _ in range(20):
        append(log, b"x" * 50)
    assert "fsync" not in files.calls
    log.close()
    assert files.calls.count("fsync") >= 3
    assert "fsync_directory" in files.calls


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_the_flush_after_a_roll_takes_the_snapshot_along(
    faulty: World, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch, in_a_thread: bool
) -> None:
    """Else a power cut leaves an empty one, and the next start reads the log from an older one on."""
    flushed: list[str] = []

    def noted(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(files, "fsync", noted)
    log = faulty.create()
    append(log, b"a", pid=7, epoch=0, sequence=0)
    log.roll(NOW)
    append(log, b"b", pid=7, epoch=0, sequence=1)
    assert flushed == []
    if in_a_thread:
        pending = log.prepare_flush()
        pending.run()
        log.finish_flush(pending)
    else:
        log.flush(1)
    base, following = f"{0:020d}", f"{1:020d}"
    assert sorted(flushed) == [f"{base}.index", f"{base}.log", f"{base}.timeindex", f"{following}.snapshot"]
    assert log.recovery_point == 1
    flushed.clear()
    log.flush()
    assert sorted(flushed) == [f"{following}.index", f"{following}.log", f"{following}.timeindex"]
