"""A member of a consumer group as a program: reads, commits what it read, and tells everything on standard output.

``python group_member.py '{"client": "confluent", "bootstrap": ..., "group": ..., "topic": ..., "assignor": "range",
"session_ms": 10000}'``; leaves when standard input ends. One JSON object a line, with ``at`` in ms of the machine's
monotonic clock: ``assigned``, ``revoked`` and ``lost`` (``partitions``), ``consumed`` (partition to first and last
offset), ``committed`` (partition to offset), ``failed`` (a commit), ``closed``. The same in Java: GroupMember.java.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

POLL_S = 0.2
HEARTBEATS_PER_SESSION = 5
HEARTBEAT_MAX_MS = 2_000


class Settings(NamedTuple):
    """What the program is told."""

    client: str
    bootstrap: str
    group: str
    topic: str
    assignor: str
    session_ms: int

    @property
    def heartbeat_ms(self) -> int:
        return min(self.session_ms // HEARTBEATS_PER_SESSION, HEARTBEAT_MAX_MS)


_printing = threading.Lock()


def tell(event: str, **more: object) -> None:
    with _printing:
        print(json.dumps({"event": event, "at": time.monotonic_ns() // 1_000_000, **more}), flush=True)


def tell_partitions(event: str, partitions: Iterable[Any]) -> None:
    tell(event, partitions=sorted(each.partition for each in partitions))


def leaving() -> threading.Event:
    """Set when standard input ends."""
    asked = threading.Event()

    def wait() -> None:
        while os.read(0, 100):  # not by sys.stdin, whose lock a thread may hold when the program ends
            pass
        asked.set()

    threading.Thread(target=wait, daemon=True).start()
    return asked


class Uncommitted:
    """What was read and is not known to be committed: after every poll, and once more before partitions go.

    A commit is refused while a rebalance is under way; in a cooperative one reading goes on meanwhile.
    """

    def __init__(
        self,
        commit: Callable[[dict[int, int]], None],
        refusals: type[Exception] | tuple[type[Exception], ...],
    ) -> None:
        self._commit = commit
        self._refusals = refusals
        self.ends: dict[int, int] = {}

    def read(self, offsets: Mapping[int, Sequence[int]]) -> None:
        if offsets:
            tell("consumed", offsets={partition: [each[0], each[-1]] for partition, each in offsets.items()})
            self.ends.update((partition, each[-1] + 1) for partition, each in offsets.items())

    def commit(self) -> None:
        if not self.ends:
            return
        ends = dict(self.ends)
        try:
            self._commit(ends)
        except self._refusals as error:
            tell("failed", error=repr(error))
        else:
            self.committed(ends)

    def committed(self, ends: Mapping[int, int]) -> None:
        tell("committed", offsets=dict(ends))
        self.ends = {number: end for number, end in self.ends.items() if ends.get(number) != end}

    def forget(self, partitions: Iterable[Any]) -> None:
        for each in partitions:
            self.ends.pop(each.partition, None)


def listener(kind: Any, uncommitted: Uncommitted) -> Any:
    """A client's ConsumerRebalanceListener of that kind, for those clients that all call it by the same names."""

    class Listener(kind):  # type: ignore[misc]
        def on_partitions_revoked(self, partitions: Any) -> None:
            uncommitted.commit()
            uncommitted.forget(partitions)
            tell_partitions("revoked", partitions)

        def on_partitions_assigned(self, partitions: Any) -> None:
            tell_partitions("assigned", partitions)

        def on_partitions_lost(self, partitions: Any) -> None:
            uncommitted.forget(partitions)
            tell_partitions("lost", partitions)

    return Listener()


def run_kafka_python(settings: Settings) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    def commit(ends: dict[int, int]) -> None:
        consumer.commit(
            {
                TopicPartition(settings.topic, number): OffsetAndMetadata(end, "", -1)
                for number, end in ends.items()
            }
        )

    assert settings.assignor == "range"
    asked = leaving()
    uncommitted = Uncommitted(commit, KafkaError)
    consumer = KafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        client_id=settings.client,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=settings.session_ms,
        heartbeat_interval_ms=settings.heartbeat_ms,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    consumer.subscribe([settings.topic], listener=listener(ConsumerRebalanceListener, uncommitted))
    while not asked.is_set():
        batches = consumer.poll(timeout_ms=int(POLL_S * 1000))
        uncommitted.read(
            {key.partition: [each.offset for each in records] for key, records in batches.items()}
        )
        uncommitted.commit()
    consumer.close(autocommit=False)


def run_aiokafka(settings: Settings) -> None:
    asyncio.run(_run_aiokafka(settings))


async def _run_aiokafka(settings: Settings) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    # Rebalances happen behind the application's back: they wait until what was read is committed.
    working = asyncio.Lock()

    async def commit() -> None:
        ends = dict(uncommitted.ends)
        if not ends:
            return
        try:
            await consumer.commit(
                {TopicPartition(settings.topic, number): end for number, end in ends.items()}
            )
        except KafkaError as error:
            tell("failed", error=repr(error))
        else:
            uncommitted.committed(ends)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            async with working:
                await commit()
                uncommitted.forget(revoked)
                tell_partitions("revoked", revoked)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell_partitions("assigned", assigned)

    assert settings.assignor == "range"
    asked = leaving()
    uncommitted = Uncommitted(lambda _: None, ())
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        client_id=settings.client,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=settings.session_ms,
        heartbeat_interval_ms=settings.heartbeat_ms,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    consumer.subscribe([settings.topic], listener=Listener())
    await consumer.start()
    while not asked.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        async with working:  # free, or with a rebalance that had not begun when the records were handed out
            uncommitted.read(
                {key.partition: [each.offset for each in records] for key, records in batches.items()}
            )
            await commit()
    await consumer.stop()


def run_confluent(settings: Settings) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    def commit(ends: dict[int, int]) -> None:
        rows = [TopicPartition(settings.topic, number, end) for number, end in ends.items()]
        for each in consumer.commit(offsets=rows, asynchronous=False):
            if each.error is not None:
                raise KafkaException(each.error)

    def finish() -> None:
        uncommitted.read(taken)
        taken.clear()
        uncommitted.commit()

    def on_assign(_: Any, partitions: Any) -> None:
        tell_partitions("assigned", partitions)

    def on_revoke(_: Any, partitions: Any) -> None:
        finish()
        uncommitted.forget(partitions)
        tell_partitions("revoked", partitions)

    def on_lost(_: Any, partitions: Any) -> None:
        uncommitted.read(taken)
        taken.clear()
        uncommitted.forget(partitions)
        tell_partitions("lost", partitions)

    asked = leaving()
    taken: dict[int, list[int]] = {}
    uncommitted = Uncommitted(commit, KafkaException)
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "client.id": settings.client,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": settings.session_ms,
            "heartbeat.interval.ms": settings.heartbeat_ms,
            "partition.assignment.strategy": settings.assignor,
            "log_level": 2,
        }
    )
    consumer.subscribe([settings.topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not asked.is_set():
        wait_s = POLL_S
        for _ in range(100):
            message = consumer.poll(wait_s)
            if message is None:
                break
            number, offset = message.partition(), message.offset()
            if message.error() is None and number is not None and offset is not None:
                taken.setdefault(number, []).append(offset)
            wait_s = 0
        finish()
    consumer.close()


def run_pkafka(settings: Settings) -> None:
    from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
    from pkafka.clients.errors import ClientError
    from pkafka.errors import ApiError
    from pkafka.model import TopicPartition

    def commit(ends: dict[int, int]) -> None:
        consumer.commit_sync({TopicPartition(settings.topic, number): end for number, end in ends.items()})

    assignors = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
    asked = leaving()
    uncommitted = Uncommitted(commit, (ApiError, ClientError))
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group,
            "client.id": settings.client,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": settings.session_ms,
            "heartbeat.interval.ms": settings.heartbeat_ms,
            "partition.assignment.strategy": assignors[settings.assignor],
        }
    )
    consumer.subscribe([settings.topic], listener=listener(ConsumerRebalanceListener, uncommitted))
    while not asked.is_set():
        offsets: dict[int, list[int]] = {}
        for record in consumer.poll(int(POLL_S * 1000)):
            offsets.setdefault(record.partition, []).append(record.offset)
        uncommitted.read(offsets)
        uncommitted.commit()
    consumer.close()


CLIENTS = {
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
    "confluent": run_confluent,
    "pkafka": run_pkafka,
}

if __name__ == "__main__":
    told = Settings(**json.loads(sys.argv[1]))
    CLIENTS[told.client](told)
    tell("closed")
