"""Producers that wait for all in sync, and leaders that change while they do."""

import asyncio
from pathlib import Path

from pkafka.errors import ErrorCode
from pkafka.server.handlers.produce import _NO_ROW, Row, _when_safe
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
