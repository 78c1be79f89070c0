"""Workers of one broker on one event loop, joined by socket pairs as the supervisor would join their processes."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.handlers import produce_append
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import Birth, worker_name
from pkafka.server.ipc.lifeline import Lifeline
from pkafka.server.ipc.peer import Blob
from pkafka.server.limits.connection_limits import LimitSettings, SharedCounts
from pkafka.server.limits.replication_quota import SharedReplicationRates
from pkafka.server.processes.worker import Worker
from pkafka.server.processes.worker_setup import WorkerSetup
from pkafka.server.replicas.partition import Partition
from pkafka.storage.files import OsFiles
from pkafka.storage.log_directory import LogDirectory

T = TypeVar("T")


class Family:
    """Some workers with their lines; the test is their supervisor."""

    def __init__(self, root: Path, *, workers: int = 2, settings: Mapping[str, str] | None = None) -> None:
        self.root = root
        overrides = {"log.dirs": str(root), "listeners": "PLAINTEXT://localhost:0", "broker.id": "0"}
        self.config = BrokerConfig.load(None, {**overrides, **(settings or {})})
        self.directories = [LogDirectory(path, files=OsFiles()) for path in self.config.log_dirs]
        self.counts = SharedCounts(workers=workers, listeners=["PLAINTEXT"])
        self.replication_rates = SharedReplicationRates()
        self.size = workers
        self.lines: dict[Worker, Lifeline] = {}
        self.workers = [self.start(index) for index in range(workers)]

    def start(self, index: int) -> Worker:
        """One more worker, a successor of the one with that index where there is one."""
        setup = WorkerSetup(
            config=self.config,
            index=index,
            workers=self.size,
            listeners=(),
            connection_counts=self.counts,
            limits=LimitSettings(),
            directories=self.directories,
            unusable=(),
            clean={},
            replication_rates=self.replication_rates,
            start="ab",
        )
        ours, theirs = socket.socketpair()
        worker = Worker(setup, Birth(theirs, worker_name(index), first=True, session=None))
        self.lines[worker] = Lifeline(ours)
        return worker

    def introduce(self, one: Worker, other: Worker) -> None:
        """Give each the channel to the other."""
        ends = socket.socketpair()
        self.lines[one].note(lifeline.PEER, worker_name(other.index), [ends[0].fileno()])
        self.lines[other].note(lifeline.PEER, worker_name(one.index), [ends[1].fileno()])
        for end in ends:
            end.close()

    async def joined(self) -> None:
        """All know each other."""
        for place, one in enumerate(self.workers):
            for other in self.workers[place + 1 :]:
                self.introduce(one, other)
        await until(lambda: all(len(one.peers.others) == self.size - 1 for one in self.workers))

    async def lead(self, topic: str, partitions: Sequence[int], *, epoch: int = 0) -> None:
        """Every partition is led by the worker that owns it."""
        for worker in self.workers:
            states = [
                LeaderAndIsrPartitionState(
                    partition_index=index,
                    leader=0,
                    leader_epoch=epoch,
                    partition_epoch=epoch,
                    isr=[0],
                    replicas=[0],
                    is_new=not epoch,
                )
                for index in partitions
                if worker.partitions.owner(topic, index) == worker.index
            ]
            named = LeaderAndIsrTopicState(topic_name=topic, topic_id=b"i" * 16, partition_states=states)
            await worker.decisions.leader_and_isr(
                LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[named])
            )

    def close(self) -> None:
        """Let go of all descriptors."""
        for worker in self.lines:
            worker.moves.close()
            for peer in worker.peers.others.values():
                peer.close()
            worker._life.line.close()
            for index in range(self.size):
                worker.files.forget_peer(index)
            worker.threads.shutdown()
            worker.flushers.shutdown()
            for log in (*worker.partitions.logs(), *worker.moving.logs()):
                log.close()
        for line in self.lines.values():
            line.close()


def lead_replicas(
    partition: Partition, replicas: list[int], isr: list[int], *, adding: Sequence[int] = ()
) -> None:
    """Broker 0 leads a partition of several replicas from now on."""
    partition.lead(
        LeaderAndIsrPartitionState(
            partition_index=partition.index,
            leader=0,
            leader_epoch=partition.leader_epoch + 1,
            isr=isr,
            replicas=replicas,
            adding_replicas=list(adding),
            partition_epoch=partition.partition_epoch + 1,
        )
    )


async def follow(family: Family, topic: str, partitions: Sequence[int], *, leader: int, epoch: int) -> None:
    """Another broker leads these partitions from now on: replicas hear it, and the metadata do not say so yet."""
    for worker in family.workers:
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index, leader=leader, leader_epoch=epoch, isr=[leader], replicas=[0, leader]
            )
            for index in partitions
            if worker.partitions.owner(topic, index) == worker.index
        ]
        named = LeaderAndIsrTopicState(topic_name=topic, topic_id=b"i" * 16, partition_states=states)
        await worker.decisions.leader_and_isr(
            LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[named])
        )


def know_brokers(family: Family, topic: str, partitions: Sequence[int], *, leader: int, epoch: int) -> None:
    """The metadata of all workers: broker 1 in rack r on two listeners, broker 2 elsewhere, and a topic's leader."""
    endpoints = [
        UpdateMetadataEndpoint(host="one", port=9092, listener="PLAINTEXT"),
        UpdateMetadataEndpoint(host="inside", port=9093, listener="INTERNAL"),
    ]
    states = [
        UpdateMetadataPartitionState(partition_index=index, leader=leader, leader_epoch=epoch)
        for index in partitions
    ]
    for worker in family.workers:
        worker.metadata.apply(
            UpdateMetadataRequest(
                controller_epoch=1,
                topic_states=[
                    UpdateMetadataTopicState(topic_name=topic, topic_id=b"i" * 16, partition_states=states)
                ],
                live_brokers=[
                    UpdateMetadataBroker(id=1, endpoints=endpoints, rack="r"),
                    UpdateMetadataBroker(
                        id=2, endpoints=[UpdateMetadataEndpoint(host="two", port=1, listener="INTERNAL")]
                    ),
                ],
            )
        )


def append_as_producer(
    worker: Worker,
    topic: str,
    partition: int,
    data: Blob,
    acks: int = 1,
    *,
    version: int = 9,
    client_id: str | None = None,
) -> produce_append.Row:
    """Append one record set of a producer; its row of the answer, whether or not the records are safe yet."""
    row, _unsafe = produce_append.append(worker.for_produce, topic, partition, data, version, acks, client_id)
    return row


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop, and the threads that work for it, run until something holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0)


def with_family(
    root: Path,
    body: Callable[[Family], Awaitable[T]],
    *,
    workers: int = 2,
    settings: Mapping[str, str] | None = None,
) -> T:
    """Run a test's body with workers that know each other."""

    async def run() -> T:
        family = Family(root, workers=workers, settings=settings)
        try:
            await family.joined()
            return await body(family)
        finally:
            family.close()

    return asyncio.run(run())
