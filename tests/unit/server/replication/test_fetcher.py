"""A follower's fetchers while the controller changes its mind: what a leader answers late touches nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pkafka.server.replication.fetcher import _Ends, _Fetcher, _Followed
from pkafka.server.worker import Worker
from tests.unit.server.workers import Family, with_family

TOPIC_ID = b"t" * 16
LEADER = 5


async def follow(worker: Worker, index: int, *, leader: int = LEADER, epoch: int) -> None:
    state = LeaderAndIsrPartitionState(
        partition_index=index,
        leader=leader,
        leader_epoch=epoch,
        isr=[0, leader],
        replicas=[0, leader],
        adding_replicas=[0],
        partition_epoch=epoch,
        is_new=True,
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    await worker.partitions.leader_and_isr(
        LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[topic])
    )


def following(worker: Worker, index: int) -> tuple[_Fetcher, _Followed]:
    fetcher = worker.fetchers._fetchers[LEADER]
    return fetcher, fetcher._followed[TOPIC_ID, index]


def with_worker(root: Path, body: Callable[[Worker], Awaitable[None]]) -> None:
    async def run(family: Family) -> None:
        [worker] = family.workers
        try:
            await body(worker)
        finally:
            worker.fetchers.close()
            await asyncio.sleep(0)

    with_family(root, run, workers=1)


def test_a_partition_whose_leader_knows_better_is_followed_again_when_the_controller_says_so(
    tmp_path: Path,
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await follow(worker, 1, epoch=1)
        fetcher, fenced = following(worker, 0)
        fetcher._rest(fenced, ErrorCode.FENCED_LEADER_EPOCH)
        # Nothing is left of that leader's, and its fetcher ends.
        await follow(worker, 1, leader=6, epoch=2)
        assert LEADER not in worker.fetchers._fetchers
        await follow(worker, 0, epoch=2)
        assert following(worker, 0)[1].leader_epoch == 2

    with_worker(tmp_path, body)


def test_where_a_log_begins_and_ends_counts_for_the_epoch_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        fetcher, asked = following(worker, 0)
        log = asked.partition.log
        log.truncate_fully_and_start_at(100)

        async def ends_late(_followed: _Followed) -> _Ends:
            await follow(worker, 0, epoch=2)
            return _Ends(0, 10)

        monkeypatch.setattr(fetcher, "_ends", ends_late)
        await fetcher._find_place(asked)
        assert log.log_end_offset == 100
        await fetcher._find_place(following(worker, 0)[1])
        assert log.log_end_offset == 10

    with_worker(tmp_path, body)


def test_records_that_a_replica_misses_are_told_once_its_leader_has_answered(tmp_path: Path) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await follow(worker, 1, epoch=1)
        assert worker.fetchers.lags() == []
        following(worker, 1)[1].lag = 7
        assert worker.fetchers.lags() == [(LEADER, "t", 1, 7)]
        assert worker.partitions.hosted["t", 1].is_reassigning

    with_worker(tmp_path, body)
