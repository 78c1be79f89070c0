"""What an append still waits for, and what its producer hears in the end."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.records.builder import build_batch
from pkafka.records.validation import validate
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas.appending import Appended
from pkafka.server.replicas.partition import PartitionKey
from tests.unit.server.workers import Family, follow, lead_replicas, until, with_family

KEY = ("t", 0)
FLUSHED = {"log.flush.interval.messages": "1"}
DATA = build_batch([(1, None, b"v", ())])
IDEMPOTENT = build_batch([(1, None, b"v", ())], producer_id=7, producer_epoch=0, base_sequence=0)


def append(worker: Worker, data: bytes | bytearray = DATA, *, needs_all: bool = True) -> Appended:
    partition = worker.partitions.led[KEY]
    records = validate(bytearray(data), partition.rules(9), now_ms=1)
    return worker.appending.append(partition, records, needs_all=needs_all, now_ms=1)


async def outcome(worker: Worker, appended: Appended) -> Mapping[PartitionKey, ErrorCode]:
    """What the producer hears."""
    _result, unsafe = appended
    assert unsafe is not None
    heard: asyncio.Future[Mapping[PartitionKey, ErrorCode]] = asyncio.get_running_loop().create_future()
    worker.appending.when_safe([unsafe], heard.set_result, timeout_ms=20)
    return await heard


def test_records_wait_for_followers_only_where_their_producer_wants_it(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        assert append(worker)[1] is None
        lead_replicas(worker.partitions.led[KEY], [0, 1], [0, 1])
        assert append(worker, needs_all=False)[1] is None
        assert await outcome(worker, append(worker)) == {KEY: ErrorCode.REQUEST_TIMED_OUT}

    with_family(tmp_path, body, workers=1)


@pytest.mark.parametrize("needs_all", [False, True])
def test_records_are_flushed_before_they_are_read(tmp_path: Path, needs_all: bool) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        log = worker.partitions.led[KEY].log
        appended = append(worker, needs_all=needs_all)
        assert (log.high_watermark, log.recovery_point) == (0, 0)
        codes = await outcome(worker, appended)
        assert codes.get(KEY, ErrorCode.NONE) is ErrorCode.NONE
        assert (log.high_watermark, log.recovery_point) == (1, 1)

    with_family(tmp_path, body, workers=1, settings=FLUSHED)


def test_a_repetition_waits_for_the_flush_of_the_original(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        append(worker, IDEMPOTENT)
        result, unsafe = append(worker, IDEMPOTENT)
        assert result.duplicate
        assert unsafe is not None
        assert unsafe.flush_to == 1
        assert worker.partitions.led[KEY].log.log_end_offset == 1

    with_family(tmp_path, body, workers=1, settings=FLUSHED)


def test_a_leader_that_moved_during_the_flush_does_not_vouch_for_the_records(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        disk = threading.Event()
        for _ in range(4):
            worker.flushers.submit(disk.wait, 30)
        heard = asyncio.ensure_future(outcome(worker, append(worker)))
        await asyncio.sleep(0)
        await follow(family, "t", [0], leader=1, epoch=4)
        disk.set()
        assert await heard == {KEY: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    with_family(tmp_path, body, workers=1, settings=FLUSHED)


def test_a_disk_that_refuses_to_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        log = worker.partitions.led[KEY].log

        def refuse(_up_to: int) -> None:
            raise OSError(5, "the disk says no")

        monkeypatch.setattr(log, "prepare_flush", refuse)
        assert await outcome(worker, append(worker)) == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
        await until(lambda: worker.disks.is_offline(str(tmp_path)))

    with_family(tmp_path, body, workers=1, settings=FLUSHED)
