"""A transaction coordinator of its own on the logs of a worker, with markers and a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pkafka.clock import ManualClock
from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.coordinator.topic_log import Committed, TopicLog
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions.coordinator import TransactionCoordinator
from pkafka.server.transactions.debts import OwedMarkers
from pkafka.server.transactions.hosted import CoordinatorSettings, Entry, Marker, state_log_settings
from pkafka.server.transactions.records import decode_key, decode_value
from pkafka.server.transactions.transaction import Facts, PartitionKey, Producer
from tests.unit.server.workers import Family, until, with_family

PARTITIONS = 4
T0, T1 = ("t", 0), ("t", 1)
MINUTE_MS = 60_000


class StateLog(TopicLog):
    """The log of transactional ids of a worker."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(
            TRANSACTION_STATE_TOPIC,
            state_log_settings(worker.config),
            partitions=worker.partitions,
            appending=worker.appending,
            disks=worker.disks,
            clock=worker.clock,
        )


class SlowLog(StateLog):
    """Appends are committed when the test says so, or refused."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.waiting: list[tuple[Committed, ErrorCode, int]] = []

    def append(self, partition: int, records: Any, committed: Committed, **options: Any) -> None:
        super().append(
            partition,
            records,
            lambda error, offset: self.waiting.append((committed, error, offset)),
            **options,
        )

    def commit(self, error: ErrorCode | None = None) -> None:
        """Let all that waits have an outcome."""
        waiting, self.waiting = self.waiting, []
        for committed, outcome, offset in waiting:
            committed(error or outcome, -1 if error else offset)


class HandMarkers:
    """Keeps what is owed; the test says when it is written."""

    def __init__(self) -> None:
        self.owed: list[OwedMarkers] = []

    def owe(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: Sequence[PartitionKey],
        paid: Callable[[], None],
    ) -> OwedMarkers:
        """Keep it."""
        debt = OwedMarkers(transactional_id, marker, partitions, paid)
        self.owed.append(debt)
        return debt

    def pay(self) -> list[Marker]:
        """Everything is written that is not cancelled; returns the markers."""
        owed, self.owed = [one for one in self.owed if not one.is_cancelled], []
        for debt in owed:
            for key in list(debt.partitions):
                debt.settle(key)
        return [debt.marker for debt in owed]


class Bench:
    """A coordinator on the logs of a worker that owns all of them."""

    def __init__(
        self, worker: Worker, *, state_log: StateLog | None = None, settings: Mapping[str, int] | None = None
    ) -> None:
        self.worker = worker
        self.clock = ManualClock()
        self.markers = HandMarkers()
        self.next_id: int | None = 100
        self.coordinator = TransactionCoordinator(
            CoordinatorSettings(
                **{"max_timeout_ms": MINUTE_MS, "expiration_ms": 10 * MINUTE_MS, **(settings or {})}
            ),
            state_log=state_log or StateLog(worker),
            partition_of=lambda name: partition_of(name, PARTITIONS),
            leader_epoch_of=lambda index: worker.partitions.led[TRANSACTION_STATE_TOPIC, index].leader_epoch,
            markers=self.markers,
            new_producer_id=self._new_id,
            timer=worker.timer,
            clock=self.clock,
            spawn=worker.tasks.spawn,
        )

    async def _new_id(self) -> int | None:
        if self.next_id is None:
            return None
        self.next_id += 1
        return self.next_id

    async def load(self) -> "Bench":
        """Coordinate all partitions."""
        for partition in range(PARTITIONS):
            self.coordinator.begin(partition)
        await until(lambda: not any(self.coordinator.look_up(f"{number}")[0] for number in range(30)))
        return self

    async def producer(self, name: str = "x", *, timeout_ms: int = 1_000) -> Producer:
        """The identity that a producer of that transactional id is given."""
        result = await self.coordinator.init(name, timeout_ms, None)
        assert result.error is ErrorCode.NONE, result
        return result.producer

    async def add(self, producer: Producer, *keys: PartitionKey, name: str = "x") -> ErrorCode:
        """The outcome of AddPartitionsToTxn."""
        return await now(self.coordinator.add(name, producer, keys))

    async def end(self, producer: Producer, *, commit: bool = True, name: str = "x") -> ErrorCode:
        """The outcome of EndTxn."""
        return await now(self.coordinator.end(name, producer, is_commit=commit))

    def entry(self, name: str = "x") -> Entry:
        """What the coordinator has of an id."""
        error, entry = self.coordinator.look_up(name)
        assert error is ErrorCode.NONE
        assert entry is not None
        return entry

    def facts(self, name: str = "x") -> Facts:
        """What the coordinator knows of an id."""
        return self.entry(name).transaction.facts

    async def records(self, name: str = "x") -> list[Facts | None]:
        """What the log has of an id, in order; None for a tombstone."""
        return [
            None if record.value is None else decode_value(record.value)
            async for _header, records in StateLog(self.worker).read(partition_of(name, PARTITIONS))
            for record in records
            if decode_key(record.key or b"") == name
        ]


async def now(outcome: "ErrorCode | asyncio.Future[ErrorCode]") -> ErrorCode:
    """An outcome, waited for where it has to be."""
    return await outcome if isinstance(outcome, asyncio.Future) else outcome


def on_bench(root: Path, body: Callable[[Bench], Awaitable[None]], **settings: int) -> None:
    """Run a test on a new worker's logs."""

    async def run(family: Family) -> None:
        await family.lead(TRANSACTION_STATE_TOPIC, range(PARTITIONS), epoch=5)
        await body(await Bench(family.workers[0], settings=settings).load())

    with_family(root, run, workers=1)
