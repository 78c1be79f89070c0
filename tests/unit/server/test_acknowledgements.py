"""Producers that wait for all in sync, and leaders that change while they do."""

import asyncio
from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.builder import build_batch
from pkafka.server.handlers import produce
from pkafka.server.handlers.produce import _NO_ROW, Row, _when_safe
from pkafka.server.isr_changes import _counts
from tests.unit.server.workers import Family, lead_replicas, with_family


def test_records_of_an_epoch_that_ended_while_they_were_flushed_are_not_acknowledged(tmp_path: Path) -> None:
    """They may have been cut off, and others committed in their place."""

    async def body(family: Family) -> list[Row]:
        [worker] = family.workers
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1])
        worker.logs.flushes_due.append(partition)
        worker.acks_due.append((partition, 0))
        rows: list[Row] = [("t", 0, 0, *_NO_ROW[3:])]
        answered = asyncio.Event()
        _when_safe(worker, rows, 10_000, answered.set)
        lead_replicas(partition, [0, 1, 2], [0])  # the next epoch, in which all up to there is committed
        await asyncio.wait_for(answered.wait(), 10)
        return rows

    [row] = with_family(tmp_path, body, workers=1)
    assert row[2] is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_on_a_disk_that_fails_are_answered_at_once_and_their_partition_asks_for_no_other_isr(
    tmp_path: Path,
) -> None:
    """Their leader is gone with the directory, so those in sync may have them or not."""

    async def body(family: Family) -> list[Row]:
        [worker] = family.workers
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1])
        rows = [produce.append(worker, "t", 0, build_batch([(1, None, b"v", [])]), 9, -1, None, None)]
        assert rows[0][2] == ErrorCode.NONE
        answered = asyncio.Event()
        _when_safe(worker, rows, 60_000, answered.set)
        worker.follower_fetched(partition, 2, 1, 0)
        assert not answered.is_set()
        worker.logs.directory_failed(partition.log.directory.parent)
        assert answered.is_set()
        assert [one for one in worker.isr_changes._waiting.values() if _counts(*one)] == []
        end = partition.log.log_end_offset
        with pytest.raises(ApiError) as refused:
            partition.log.append_as_follower(build_batch([(1, None, b"w", [])]))
        assert (refused.value.code, partition.log.log_end_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, end)
        partition.log.close()
        return rows

    [row] = with_family(tmp_path, body, workers=1)
    assert row[2] == ErrorCode.KAFKA_STORAGE_ERROR
