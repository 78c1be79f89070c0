"""What storage's tests are made of: batches, logs, and a disk that fails on command."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from pkafka.clock import ManualClock
from pkafka.model import TopicPartition
from pkafka.records.batch import stamp
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.reading import read_records
from pkafka.records.validation import ProduceRules, ValidatedBatch, ValidatedRecords, validate
from pkafka.storage.config import LogConfig
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from pkafka.storage.log_values import AppendResult, DeletedFiles, LogHooks
from pkafka.storage.recovery import LogEnvironment, create_log, open_log

TP = TopicPartition("orders", 0)
NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100, segment_index_bytes=4096)
END = 2**62


class FaultyFiles(OsFiles):
    """The real disk, but the next calls of a kind fail; ``short`` makes every write take at most so many bytes."""

    def __init__(self) -> None:
        self.failures: dict[str, OSError] = {}
        self.calls: list[str] = []
        self.short = 0
        self.spared: dict[str, int] = {}

    def fail(self, call: str, code: int = errno.EIO, *, after: int = 0) -> None:
        """Let the calls of a kind fail, the first ``after`` of them excepted."""
        self.failures[call] = OSError(code, os.strerror(code))
        self.spared[call] = after

    def _maybe_fail(self, call: str) -> None:
        self.calls.append(call)
        self.spared[call] = self.spared.get(call, 0) - 1
        if call in self.failures and self.spared[call] < 0:
            raise self.failures[call]

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        if self.short:
            data = memoryview(data)[: self.short]
        if "pwrite" in self.failures:
            os.pwrite(descriptor, memoryview(data)[: len(data) // 2], position)
        self._maybe_fail("pwrite")
        return os.pwrite(descriptor, data, position)

    def fsync(self, descriptor: int) -> None:  # type: ignore[override]
        self._maybe_fail("fsync")
        os.fsync(descriptor)

    def truncate(self, descriptor: int, length: int) -> None:
        self._maybe_fail("truncate")
        os.ftruncate(descriptor, length)

    def rename(self, source: Path, target: Path) -> None:
        self._maybe_fail("rename")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._maybe_fail("unlink")
        super().unlink(path)

    def fsync_directory(self, path: Path) -> None:
        self._maybe_fail("fsync_directory")
        super().fsync_directory(path)


class World:
    """One partition's directory, opened, closed and crashed at will."""

    def __init__(self, root: Path, config: LogConfig = SMALL, files: OsFiles | None = None) -> None:
        self.root = root
        self.directory = root / str(TP)
        self.config = config
        self.clock = ManualClock(now_ms=NOW)
        self.deleted: list[tuple[DeletedFiles, int]] = []
        self.rolled = 0
        self.files = files or OsFiles()
        self.environment = LogEnvironment(
            files=self.files,
            clock=self.clock,
            hooks=LogHooks(
                on_deleted=lambda deleted, delay: self.deleted.append((deleted, delay)),
                on_rolled=lambda _: self._count_roll(),
            ),
        )

    def _count_roll(self) -> None:
        self.rolled += 1

    def create(self) -> Log:
        return create_log(self.directory, TP, self.config, self.environment, topic_id=bytes(range(16)))

    def open(self, *, clean: bool = False, start: int = 0, recovery_point: int = 0) -> Log:
        return open_log(
            self.directory,
            TP,
            self.config,
            self.environment,
            had_clean_shutdown=clean,
            log_start_offset=start,
            recovery_point=recovery_point,
        )

    def crash(self, log: Log) -> None:
        """The process is gone; what it wrote is in the page cache."""
        for segment in log.segments:
            segment.release_files()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())

    def paths(self, suffix: str) -> list[Path]:
        return sorted(self.directory.glob(f"*{suffix}"))


def batch(
    values: Iterable[bytes],
    *,
    timestamp: int = NOW,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    return build_batch(
        [(timestamp + place, None, value, ()) for place, value in enumerate(values)],
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(
    log: Log,
    *values: bytes,
    now: int = NOW,
    timestamp: int = NOW,
    leader_epoch: int = 0,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> AppendResult:
    data = batch(
        values, timestamp=timestamp, pid=pid, epoch=epoch, sequence=sequence, transactional=transactional
    )
    result = log.append_as_leader(
        validate(data, ProduceRules(), now_ms=now), leader_epoch=leader_epoch, now_ms=now
    )
    log.set_high_watermark(log.log_end_offset)
    return result


def end_transaction(
    log: Log, pid: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0, high_watermark: int = END
) -> AppendResult:
    data = build_end_marker(
        committed=committed,
        producer_id=pid,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW,
    )
    marker = ValidatedBatch(0, len(data), 0, 1, NOW, 0, pid, epoch, -1, True, True)
    result = log.append_as_leader(
        ValidatedRecords(data, [marker], Codec.NONE, -1), leader_epoch=0, now_ms=NOW
    )
    log.set_high_watermark(high_watermark)
    return result


def stored(data: bytearray, offset: int, leader_epoch: int = 0) -> bytearray:
    """A batch as a leader sends it."""
    stamp(data, 0, len(data), base_offset=offset, leader_epoch=leader_epoch)
    return data


def everything(log: Log, start: int | None = None, upper_bound: int = END) -> list[tuple[int, bytes | None]]:
    """All records from ``start`` on, read as a consumer does."""
    offset = log.log_start_offset if start is None else start
    found: list[tuple[int, bytes | None]] = []
    while True:
        read = log.read(offset, bytes_max=300, min_one_batch=True, upper_bound=upper_bound)
        if read.length == 0:
            return found
        data = os.pread(read.segment.fileno(), read.length, read.position)
        assert len(data) == read.length
        fresh = [(record.offset, record.value) for record in read_records(data, from_offset=offset)]
        assert fresh, (offset, read)
        found += fresh
        offset = fresh[-1][0] + 1
