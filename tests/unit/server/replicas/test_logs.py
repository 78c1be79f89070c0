"""Log directories of a worker: where new logs go, what a failing one takes with it, and who is told."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from pkafka.server.handlers import produce
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.processes.worker import Worker
from pkafka.storage.log_values import PendingFlush
from tests.unit.server.workers import Family, until

TOPIC_ID = b"i" * 16


def with_directories(root: Path, body: Callable[[Family], Awaitable[None]], *, count: int = 2) -> None:
    async def run() -> None:
        homes = ",".join(str(root / f"home-{number}") for number in range(count))
        family = Family(root, workers=1, settings={"log.dirs": homes})
        try:
            await body(family)
        finally:
            family.close()

    asyncio.run(run())


def append(worker: Worker, partition: int) -> int:
    row = produce.append(worker, "t", partition, build_batch([(1, None, b"v", [])]), 9, 1, None, None)
    return row[2]


def told(family: Family) -> list[str]:
    """The failed directories that the supervisor heard of."""
    (line,) = family.lines.values()
    return [Path(payload).name for word, payload in line.read() if word == lifeline.DIRECTORY_FAILED]


def homes_of(family: Family, partitions: range) -> list[str]:
    (worker,) = family.workers
    return [worker.partitions.hosted["t", index].log.directory.parent.name for index in partitions]


def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(6))
        assert sorted(homes_of(family, range(6))) == ["home-0"] * 3 + ["home-1"] * 3

    with_directories(tmp_path, body)


def test_a_failed_directory_takes_its_partitions_and_no_other(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        await family.lead("t", range(4))
        homes = homes_of(family, range(4))
        worker.disks.directory_failed(tmp_path / "home-1")
        worker.disks.directory_failed(tmp_path / "home-1")
        codes = [append(worker, partition) for partition in range(4)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR if home == "home-1" else 0 for home in homes]
        assert told(family) == ["home-1"]
        # Whatever the controller says of them, they stay offline.
        await family.lead("t", range(4))
        assert [append(worker, partition) for partition in range(4)] == codes
        assert worker.disks.is_offline(str(tmp_path / "home-1"))
        assert not worker.disks.is_offline(str(tmp_path / "home-0"))

    with_directories(tmp_path, body)


def test_what_a_refused_write_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        await family.lead("t", range(2))
        log = worker.partitions.led["t", 0].log

        def refuse(*_arguments: object, **_named: object) -> None:
            raise StorageError("the disk is full")

        monkeypatch.setattr(type(log), "append_as_leader", refuse)
        assert append(worker, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert worker.disks.is_offline(str(log.directory.parent))
        assert told(family) == [log.directory.parent.name]

    with_directories(tmp_path, body)


def test_with_a_directory_offline_only_new_partitions_get_a_log(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        key = TopicPartition("t", 0)
        worker.logs.create(key, TOPIC_ID, is_new=False).close()
        worker.disks.directory_failed(tmp_path / "home-0")
        with pytest.raises(ApiError) as refused:
            worker.logs.create(TopicPartition("t", 1), TOPIC_ID, is_new=False)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        created = worker.logs.create(TopicPartition("t", 1), TOPIC_ID, is_new=True)
        assert created.directory.parent.name == "home-1"
        created.close()

    with_directories(tmp_path, body)


def test_a_directory_that_refuses_a_new_log_is_offline_from_then_on(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        for home in ("home-0", "home-1"):
            (tmp_path / home / "t-0").write_text("a file where the directory of the log should be")
        with pytest.raises(ApiError) as refused:
            worker.logs.create(TopicPartition("t", 0), TOPIC_ID, is_new=True)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert told(family) == ["home-0"]

    with_directories(tmp_path, body)


def test_the_last_directory_takes_the_broker_with_it(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        worker.disks.directory_failed(tmp_path / "home-0")
        assert not worker._life.ended.done()
        worker.disks.directory_failed(tmp_path / "home-1")
        await until(worker._life.ended.done)
        assert worker._life.ended.result() == ChildExit.CANNOT_BOOT

    with_directories(tmp_path, body)


def test_a_directory_that_cannot_be_read_at_start_is_offline(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        (tmp_path / "home-1").rmdir()
        assert await worker.logs.open_all({}) == ({}, {})
        assert told(family) == ["home-1"]
        assert worker.disks.is_offline(str(tmp_path / "home-1"))

    with_directories(tmp_path, body)


def test_others_have_their_turn_while_dirty_logs_are_closed(tmp_path: Path) -> None:
    """The sign of life among them: a stop with thousands of logs on a slow disk takes longer than a hang may."""

    async def body(family: Family) -> None:
        (worker,) = family.workers
        await family.lead("t", range(6))
        for partition in range(6):
            assert append(worker, partition) == ErrorCode.NONE
        logs = list(worker.partitions.logs())
        seen: set[int] = set()

        async def look() -> None:
            while True:
                seen.add(sum(log.is_closed for log in logs))
                await asyncio.sleep(0)

        watcher = asyncio.create_task(look())
        await worker.logs.close(None)
        watcher.cancel()
        assert seen >= set(range(6))
        assert all(log.is_closed and log.recovery_point == log.log_end_offset == 1 for log in logs)

    with_directories(tmp_path, body)


def test_a_log_that_cannot_be_flushed_at_the_end_is_told_and_the_others_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        await family.lead("t", range(3))
        for partition in range(3):
            assert append(worker, partition) == ErrorCode.NONE
        logs = [worker.partitions.led["t", partition].log for partition in range(3)]
        run = PendingFlush.run

        def refuse(pending: PendingFlush) -> None:
            run(pending)
            if pending.directory == logs[1].directory:
                raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(PendingFlush, "run", refuse)
        with pytest.raises(StorageError, match="t-1: Input/output error"):
            await worker.logs.close(None)
        assert [log.recovery_point for log in logs] == [1, 0, 1]
        assert logs[1].failure is not None

    with_directories(tmp_path, body)


def test_every_segment_that_is_recovered_is_a_sign_of_life(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        (worker,) = family.workers
        await family.lead("t", [0])
        log = worker.partitions.led["t", 0].log
        for _ in range(9):
            append(worker, 0)
            log.roll(1)
        (line,) = family.lines.values()
        line.read()
        (again,) = (await worker.logs.open_all({})).current.values()
        again.close()
        assert sum(word == lifeline.BEAT for word, _ in line.read()) >= 10

    with_directories(tmp_path, body, count=1)
