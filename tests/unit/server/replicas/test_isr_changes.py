"""Proposals of other ISRs between a leader and the controller, whose answers and decisions cross."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pkafka.records.builder import build_batch
from pkafka.server.cluster.control_requests import VERSIONS
from pkafka.server.handlers import produce
from pkafka.server.ipc.peer import Peer
from pkafka.server.ipc.words import ProposedIsr
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas.partition import Partition
from tests.unit.server.workers import Family, lead_replicas, until, with_family


class Proposals:
    """What a worker asks of control, and what the test answers."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.asked: list[tuple[ProposedIsr, asyncio.Future[list[Any]]]] = []

    async def ask(self, operation: str, rows: list[ProposedIsr]) -> list[list[Any]]:
        assert operation == "alter_partition"
        [row] = rows
        answer: asyncio.Future[list[Any]] = self._worker.loop.create_future()
        self.asked.append((row, answer))
        return [await answer]

    def isr(self, place: int) -> list[int]:
        """What was proposed."""
        return [*self.asked[place][0].isr]


def with_leader(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: Callable[[Worker, Partition, Proposals], Awaitable[None]],
) -> None:
    """Broker 0 leads t-0 of replicas 0, 1, 2; alone in its ISR, partition epoch 1."""

    async def run(family: Family) -> None:
        [worker] = family.workers
        proposals = Proposals(worker)
        monkeypatch.setattr(worker.control_line, "ask", proposals.ask)
        monkeypatch.setattr(worker.partitions, "is_alive", lambda _broker: True)
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0])
        sending = asyncio.ensure_future(worker.isr_changes.send_for_ever())
        try:
            await body(worker, partition, proposals)
        finally:
            sending.cancel()

    with_family(root, run, workers=1)


def test_an_answer_does_not_end_a_proposal_that_was_made_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(worker: Worker, partition: Partition, proposals: Proposals) -> None:
        worker.progress.follower_fetched(partition, 1, 0, 0)
        await until(lambda: len(proposals.asked) == 1)
        # It was carried out, and the controller tells it in a LeaderAndIsr first.
        epoch, before = partition.leader_epoch, partition.partition_epoch
        lead_replicas(partition, [0, 1, 2], [0, 1])
        assert partition.leadership is not None
        worker.progress.follower_fetched(partition, 2, 0, 0)
        made_since = partition.leadership.proposed
        assert made_since is not None
        proposals.asked[0][1].set_result([0, partition.leader_epoch, [0, 1], partition.partition_epoch])
        await until(lambda: len(proposals.asked) == 2)
        assert (epoch, before) != (partition.leader_epoch, partition.partition_epoch)
        assert partition.leadership.proposed is made_since
        assert partition.leadership.maximal_isr == (0, 1, 2)

    with_leader(tmp_path, monkeypatch, body)


def test_what_the_controller_has_decided_otherwise_is_not_proposed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(worker: Worker, partition: Partition, proposals: Proposals) -> None:
        worker.progress.follower_fetched(partition, 1, 0, 0)
        await until(lambda: len(proposals.asked) == 1)
        proposals.asked[0][1].set_result([int(ErrorCode.NOT_CONTROLLER)])
        await until(lambda: bool(worker.isr_changes._waiting))
        lead_replicas(partition, [0, 1, 2], [0])
        await until(lambda: not worker.isr_changes._waiting)
        worker.progress.follower_fetched(partition, 2, 0, 0)
        await until(lambda: len(proposals.asked) == 2)
        assert proposals.isr(1) == [0, 2]

    with_leader(tmp_path, monkeypatch, body)


@pytest.mark.parametrize("answer", [[0, 1], [0]], ids=["carried out", "not attempted"])
def test_what_the_worker_before_proposed_is_proposed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: list[int]
) -> None:
    """Whether it was carried out or never will be, that one did not live to hear. Until then both may be true."""

    async def body(worker: Worker, partition: Partition, proposals: Proposals) -> None:
        state = LeaderAndIsrPartitionState(
            partition_index=0, leader=0, leader_epoch=3, isr=[0], replicas=[0, 1, 2], partition_epoch=7
        )
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=b"i" * 16, partition_states=[state])
        request = LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[topic])
        version = VERSIONS[LeaderAndIsrRequest]
        rows = [["t", 0, b"i" * 16, 3, [0, 1], 7], ["t", 5, b"i" * 16, 3, [0, 1], 7]]
        peer = cast("Peer", None)
        await cast(
            "Any", worker._orders._leader_and_isr(peer, rows, memoryview(encode(request, version)), [])
        )
        await until(lambda: len(proposals.asked) == 1)
        row, answered = proposals.asked[0]
        assert row == ProposedIsr("t", 0, b"i" * 16, 3, (0, 1), 7)
        produce.append(worker, "t", 0, build_batch([(1, None, b"x", [])]), 9, 1, None, None)
        worker.progress.appended(partition)
        assert (partition.isr, partition.log.high_watermark) == ([0], 0)
        answered.set_result([0, 3, answer, 8] if 1 in answer else [int(ErrorCode.OPERATION_NOT_ATTEMPTED)])
        await until(lambda: partition.leadership is not None and partition.leadership.proposed is None)
        assert partition.isr == answer

    with_leader(tmp_path, monkeypatch, body)


def test_a_follower_takes_no_high_watermark_from_the_end_of_its_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(worker: Worker, partition: Partition, _proposals: Proposals) -> None:
        partition.leadership = None
        partition.log.log_end_offset += 5
        worker.progress.appended(partition)  # a flush that ended after another leader was elected
        partition.log.log_end_offset -= 5
        assert partition.log.high_watermark == 0

    with_leader(tmp_path, monkeypatch, body)
