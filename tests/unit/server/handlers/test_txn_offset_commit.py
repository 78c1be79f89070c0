"""TxnOffsetCommit: what clients of each version hear of coordinators, of other partitions and of transactions."""

import asyncio
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from pkafka.server.groups.routing import Groups
from pkafka.server.groups.transactional_offsets import TransactionalOffsets
from pkafka.server.handlers import txn_offset_commit
from pkafka.server.processes.worker import Worker
from pkafka.server.serving.context import NO_CALLER
from tests.unit.server.workers import Family, know_brokers, until, with_family

VERSIONS = registry.versions(ApiKey.TXN_OFFSET_COMMIT)
GROUP = "g"


def request(*partitions: int, topic: str = "t") -> TxnOffsetCommitRequest:
    ones = [
        TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=5 + place, committed_metadata=""
        )
        for place, index in enumerate(partitions)
    ]
    topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=ones)]
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id=GROUP, producer_id=1, producer_epoch=0, topics=topics
    )


def codes(response: Any) -> dict[tuple[str, int], ErrorCode]:
    assert isinstance(response, TxnOffsetCommitResponse)
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }


def groups_of(worker: Worker, answer: ErrorCode = ErrorCode.NONE) -> Groups:
    """The groups of a worker, for which all transactions are verified with the same outcome."""
    verified = TransactionalOffsets(
        worker.groups, lambda _transactional_id, _producer, _partition, done: done(answer)
    )
    return Groups(worker.groups, worker.offsets, verified, worker.metadata, worker.clock)


async def ask(
    worker: Worker, version: int, asked: TxnOffsetCommitRequest, answer: ErrorCode = ErrorCode.NONE
) -> dict[tuple[str, int], ErrorCode]:
    response = txn_offset_commit.serve(groups_of(worker, answer), NO_CALLER, asked, version)
    return codes(await response if isinstance(response, Awaitable) else response)


async def lead(family: Family) -> Worker:
    """Lead all partitions of the groups' topic, and wait until they are loaded."""
    [worker] = family.workers
    know_brokers(family, "t", range(2), leader=1, epoch=0)
    count = worker.config.offsets_topic_num_partitions
    await family.lead(CONSUMER_OFFSETS_TOPIC, range(count))
    await until(lambda: worker.groups.look_up(GROUP)[0] is ErrorCode.NONE)
    return worker


def on_worker(root: Path, body: Any) -> None:
    with_family(root, body, workers=1, settings={"offsets.topic.num.partitions": "3"})


def test_offsets_of_known_partitions_are_stored_and_the_last_one_counts(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker = await lead(family)
        for version in VERSIONS:
            assert await ask(worker, version, request(0, 9, 0)) == {
                ("t", 0): ErrorCode.NONE,
                ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert await ask(worker, version, request(0, topic="missing")) == {
                ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            }
            assert await ask(worker, version, request()) == {}
        worker.groups.complete_transaction(worker.groups.partition_of(GROUP), 1, is_commit=True)
        _error, found = worker.offsets.committed(GROUP, [("t", 0)], require_stable=True)
        [offset] = found.values()
        assert not isinstance(offset, ErrorCode)
        assert offset is not None
        assert offset.offset == 7

    on_worker(tmp_path, body)


def test_a_coordinator_that_loads_is_not_there_for_the_first_versions(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker = await lead(family)
        partition = worker.groups.partition_of(GROUP)
        worker.groups.end(partition)
        for version in VERSIONS:
            assert await ask(worker, version, request(0)) == {("t", 0): ErrorCode.NOT_COORDINATOR}
        worker.groups.begin(partition)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for version in VERSIONS:
            told = ErrorCode.COORDINATOR_NOT_AVAILABLE if version < 2 else loading
            assert await ask(worker, version, request(0)) == {("t", 0): told}
        await until(lambda: worker.groups.look_up(GROUP)[0] is ErrorCode.NONE)

    on_worker(tmp_path, body)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            [ErrorCode.INVALID_TXN_STATE] * 4 + [ErrorCode.TRANSACTION_ABORTABLE],
        ),
        (ErrorCode.INVALID_TXN_STATE, [ErrorCode.INVALID_TXN_STATE] * 5),
        (
            ErrorCode.NETWORK_EXCEPTION,
            [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2 + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3,
        ),
        (ErrorCode.INVALID_PRODUCER_EPOCH, [ErrorCode.INVALID_PRODUCER_EPOCH] * 5),
    ],
)
def test_each_version_has_its_errors_of_a_verification(
    tmp_path: Path, outcome: ErrorCode, told: list[ErrorCode]
) -> None:
    async def body(family: Family) -> None:
        worker = await lead(family)
        for version in VERSIONS:
            assert await ask(worker, version, request(0), outcome) == {("t", 0): told[version]}

    on_worker(tmp_path, body)


def test_a_worker_that_is_gone_is_a_coordinator_to_look_for() -> None:
    for version in VERSIONS:
        refused = txn_offset_commit.refused(request(0, 1), version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert set(codes(refused).values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_the_answer_waits_for_the_coordinator_of_the_transaction(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker = await lead(family)
        waiting: list[Any] = []

        def verify(_transactional_id: str, _producer: Any, _partition: int, done: Any) -> None:
            waiting.append(done)

        groups = groups_of(worker)._replace(transactional_offsets=TransactionalOffsets(worker.groups, verify))
        answer = txn_offset_commit.serve(groups, NO_CALLER, request(0), 3)
        assert isinstance(answer, Coroutine)
        task = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        assert not task.done()
        waiting.pop()(ErrorCode.NONE)
        assert codes(await task) == {("t", 0): ErrorCode.NONE}

    on_worker(tmp_path, body)
