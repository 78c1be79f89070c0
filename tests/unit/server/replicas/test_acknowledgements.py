"""Producers that wait for all in sync, and leaders that change while they do."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TOPIC_ID
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from pkafka.records.builder import build_batch
from pkafka.server.handlers import produce_append
from pkafka.server.handlers.produce import _NO_ROW
from pkafka.server.handlers.produce_answer import when_safe
from pkafka.server.handlers.produce_append import Row
from pkafka.server.ipc.words import IsrAnswer
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas.acknowledgements import Unacknowledged
from pkafka.server.replicas.appending import Unsafe
from pkafka.server.replicas.decisions import by_topic
from pkafka.server.replicas.isr_changes import _counts
from tests.unit.server.workers import Family, follow, lead_replicas, with_family


@pytest.mark.parametrize(
    ("follows_between", "code"), [(False, ErrorCode.NONE), (True, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_an_epoch_that_rises_fails_producers_only_when_another_broker_led(
    tmp_path: Path, follows_between: bool, code: ErrorCode
) -> None:
    """Whoever follows may have had records cut off, and others committed in their place. A follower that dies raises
    the epoch too: its leader has the records still, and they are committed without it."""

    async def body(family: Family) -> list[Row]:
        [worker] = family.workers
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1])
        unsafe = Unsafe(partition, flush_to=0, unacknowledged=Unacknowledged.up_to(partition, 0))
        rows: list[Row] = [("t", 0, 0, *_NO_ROW[3:])]
        answered = asyncio.Event()
        when_safe(worker.for_produce, rows, [unsafe], 60_000, answered.set)
        if follows_between:
            await follow(family, "t", [0], leader=1, epoch=partition.leader_epoch + 1)
        lead_replicas(partition, [0, 1, 2], [0])  # the next epoch, in which all up to there is committed
        await asyncio.wait_for(answered.wait(), 60)
        return rows

    [row] = with_family(tmp_path, body, workers=1)
    assert row[2] == code


def test_records_are_acknowledged_once_the_isr_has_shrunk_though_the_epoch_rose(tmp_path: Path) -> None:
    """All that a producer hears of the death of a follower is that its answer comes late."""

    async def body(family: Family) -> None:
        [worker] = family.workers
        _metadata(worker, [0, 1, 2])
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1, 2])
        row, unsafe = produce_append.append(
            worker.for_produce, "t", 0, build_batch([(1, None, b"v", [])]), 9, -1, None
        )
        assert unsafe is not None
        rows = [row]
        answered = asyncio.Event()
        when_safe(worker.for_produce, rows, [unsafe], 60_000, answered.set)
        worker.progress.follower_fetched(partition, 1, 1, 0)
        assert not answered.is_set()
        epoch = partition.leader_epoch
        state = partition.as_decided()
        assert state is not None
        state.isr, state.leader_epoch, state.partition_epoch = [0, 1], epoch + 1, state.partition_epoch + 1
        topics = by_topic([("t", partition.log.topic_id or NO_TOPIC_ID, state)])
        await worker.decisions.leader_and_isr(LeaderAndIsrRequest(controller_epoch=1, topic_states=topics))
        assert partition.leader_epoch == epoch + 1
        assert answered.is_set()
        assert rows[0][2] == ErrorCode.NONE

    with_family(tmp_path, body, workers=1)


def test_records_on_a_disk_that_fails_are_answered_at_once_and_their_partition_asks_for_no_other_isr(
    tmp_path: Path,
) -> None:
    """Their leader is gone with the directory, so those in sync may have them or not."""

    async def body(family: Family) -> list[Row]:
        [worker] = family.workers
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1])
        row, unsafe = produce_append.append(
            worker.for_produce, "t", 0, build_batch([(1, None, b"v", [])]), 9, -1, None
        )
        assert unsafe is not None
        rows = [row]
        assert rows[0][2] == ErrorCode.NONE
        answered = asyncio.Event()
        when_safe(worker.for_produce, rows, [unsafe], 60_000, answered.set)
        worker.progress.follower_fetched(partition, 2, 1, 0)
        assert not answered.is_set()
        worker.disks.directory_failed(partition.log.directory.parent)
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


def _metadata(worker: Worker, brokers: list[int]) -> None:
    """What control tells a worker when brokers come or go."""
    alive = [
        UpdateMetadataBroker(id=broker, endpoints=[UpdateMetadataEndpoint(host="h", port=1)])
        for broker in brokers
    ]
    update = encode(UpdateMetadataRequest(controller_epoch=1, live_brokers=alive), 8)
    worker._operations["update_metadata"](cast("Any", None), None, memoryview(update), [])


@pytest.mark.parametrize("news", ["it is gone", "it may not join"])
def test_nobody_waits_for_a_follower_that_will_not_be_in_sync(tmp_path: Path, news: str) -> None:
    """A broker that stops still fetches from its successor, and no record comes to be a reason to look again."""

    async def body(family: Family) -> None:
        [worker] = family.workers
        _metadata(worker, [0, 1, 2])
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1])
        worker.progress.follower_fetched(partition, 1, 0, 0)
        worker.progress.follower_fetched(partition, 2, 0, 0)  # it is caught up, and to join
        assert partition.leadership is not None
        proposal = partition.leadership.proposed
        assert proposal is not None
        row, unsafe = produce_append.append(
            worker.for_produce, "t", 0, build_batch([(1, None, b"v", [])]), 9, -1, None
        )
        assert unsafe is not None
        rows = [row]
        answered = asyncio.Event()
        when_safe(worker.for_produce, rows, [unsafe], 60_000, answered.set)
        worker.progress.follower_fetched(partition, 1, 1, 0)
        assert not answered.is_set()
        if news == "it is gone":
            partition.leadership.answered(proposal, ErrorCode.OPERATION_NOT_ATTEMPTED)
            _metadata(worker, [0, 1])
        else:
            assert worker.isr_changes._took(partition, proposal, IsrAnswer(ErrorCode.INELIGIBLE_REPLICA))
        assert answered.is_set()
        assert rows[0][2] == ErrorCode.NONE

    with_family(tmp_path, body, workers=1)
