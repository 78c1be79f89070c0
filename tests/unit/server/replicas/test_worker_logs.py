"""The life of a worker's logs: what ends while something else is under way is no failure of the disk."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.records.builder import build_batch
from pkafka.server.handlers import produce_append
from pkafka.server.processes.worker import Worker
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from tests.unit.server.workers import Family, append_as_producer, lead_replicas, until, with_family


def append(worker: Worker, topic: str = "t", partition: int = 0) -> produce_append.Row:
    return append_as_producer(worker, topic, partition, build_batch([(1, None, b"v", [])]), 1)


async def led(family: Family) -> tuple[Worker, Log]:
    await family.lead("t", [0])
    (worker,) = family.workers
    assert append(worker)[2] == 0
    return worker, worker.partitions.led["t", 0].log


def test_a_topic_deleted_while_its_log_is_flushed(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker, log = await led(family)
        disk = threading.Event()
        for _ in range(4):
            worker.flushers.submit(disk.wait, 30)
        log.roll(1)
        flushing = list(worker.tasks.running)
        await asyncio.sleep(0)
        del worker.partitions.led["t", 0], worker.partitions.hosted["t", 0]
        worker.logs.delete(log)
        disk.set()
        _ended, left = await asyncio.wait(flushing, timeout=20)
        assert not left
        assert not worker.disks.is_offline(str(tmp_path))

    with_family(tmp_path, body, workers=1)


def test_a_slow_disk_gets_no_segment_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if name.endswith(".log"):
            flushed.append(name)
        fsync(descriptor)

    monkeypatch.setattr(OsFiles, "fsync", staticmethod(note))

    async def body(family: Family) -> None:
        worker, log = await led(family)
        disk = threading.Event()
        for _ in range(4):
            worker.flushers.submit(disk.wait, 30)
        for number in range(5):
            log.roll(1)
            await asyncio.sleep(0)
            assert append(worker)[3] == number + 1
        disk.set()
        await until(lambda: log.recovery_point == 5)
        assert flushed == [f"{number:020}.log" for number in range(5)]

    with_family(tmp_path, body, workers=1)


def test_a_topic_deleted_during_a_round_over_all_logs(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker, log = await led(family)
        seen: list[Log] = []
        del worker.partitions.led["t", 0], worker.partitions.hosted["t", 0]
        worker.logs.delete(log)
        worker.partitions.unclaimed["t", 0] = log
        await worker.logs._each(seen.append)
        assert not seen
        del worker.partitions.unclaimed["t", 0]

    with_family(tmp_path, body, workers=1)


def test_what_comes_after_the_logs_are_closed_is_refused_and_no_failure(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker, _log = await led(family)
        worker._opened.set()
        worker._stop()
        await until(worker._life.ended.done)
        assert worker._life.ended.result() == 0
        assert append(worker)[2] in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await family.lead("t", [0, 1])
        assert not worker.partitions.led
        assert not (tmp_path / "t-1").exists()
        assert not worker.disks.is_offline(str(tmp_path))

    with_family(tmp_path, body, workers=1)


def test_the_tasks_of_the_log_manager_begin_after_their_delay(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker, log = await led(family)
        log.roll(1)
        worker.logs.set_topic_configs({"t": {"retention.ms": "1"}})
        began = asyncio.get_running_loop().time()
        worker.logs.start()
        async with asyncio.timeout(60):
            while log.log_start_offset == 0:  # noqa: ASYNC110 - what it waits for sets no event
                await asyncio.sleep(0.005)
        assert asyncio.get_running_loop().time() - began >= 0.3

    settings = {"log.initial.task.delay.ms": "300", "log.retention.check.interval.ms": "20"}
    with_family(tmp_path, body, workers=1, settings=settings)


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_a_task_without_an_interval_runs_once(tmp_path: Path, interval_ms: int) -> None:
    async def body(family: Family) -> None:
        done: list[int] = []

        async def work() -> None:
            done.append(1)

        async with asyncio.timeout(60):
            await family.workers[0].logs._every(interval_ms, work, first_ms=interval_ms)
        assert done == [1]

    with_family(tmp_path, body, workers=1)


def test_topics_inherit_how_many_replicas_must_be_in_sync(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker, _log = await led(family)
        lead_replicas(worker.partitions.led["t", 0], [0, 1], [0])
        codes = []
        for overrides in ({}, {"min.insync.replicas": "1"}):
            worker.logs.set_topic_configs({"t": overrides})
            row = append_as_producer(worker, "t", 0, build_batch([(1, None, b"v", [])]), -1)
            codes.append(row[2])
        assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]

    with_family(tmp_path, body, workers=1, settings={"min.insync.replicas": "2"})


def test_settings_that_a_new_control_process_does_not_know_are_gone(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker, log = await led(family)
        await family.lead("u", [0])
        other = worker.partitions.led["u", 0].log
        serve = worker._table()
        peer, blob = worker._life.line, memoryview(b"")
        serve["every_topic_config"](peer, {"t": {"retention.ms": "1"}, "u": {"retention.ms": "2"}}, blob, [])
        assert (log.config.retention_ms, other.config.retention_ms) == (1, 2)
        serve["topic_configs"](peer, {"t": {"retention.ms": "3"}}, blob, [])
        assert (log.config.retention_ms, other.config.retention_ms) == (3, 2)
        # Taken back while there was no control process to hear of it.
        serve["every_topic_config"](peer, {"t": {"retention.ms": "3"}}, blob, [])
        assert (log.config.retention_ms, other.config.retention_ms) == (3, 604_800_000)

    with_family(tmp_path, body, workers=1)
