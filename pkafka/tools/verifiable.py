"""Clients that tell everything that happens to them: what was sent and acknowledged, read and committed.

For tests that compare what a producer saw with what a consumer saw. Events are mappings in the order of Kafka's
VerifiableProducer and VerifiableConsumer; an ``error`` in them is an exception. Does not print.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count, cycle
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pkafka.clients.errors import WakeupError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.consumer import (
        Consumer,
        ConsumerRebalanceListener,
        ConsumerRecord,
        ConsumerRecords,
    )
    from pkafka.clients.producer import Producer, RecordMetadata

Event: TypeAlias = Mapping[str, object]
Emit: TypeAlias = Callable[[Event], None]

_POLL_MS = 1_000


class Load(NamedTuple):
    """What a verifiable producer sends: counting numbers.

    Args:
        records: how many; negative for ever.
        per_second: at most so many, about; negative without limit.
        value_prefix: stands before every number, with a dot.
        repeating_keys: keys are 0 to this, over and over; no keys when left out.
        create_time: of the first record, in milliseconds since the epoch; the present when left out.
    """

    records: int = -1
    per_second: int = -1
    value_prefix: int | None = None
    repeating_keys: int | None = None
    create_time: int | None = None


class Sent(NamedTuple):
    """How a producer fared."""

    sent: int
    acknowledged: int


def produce(
    producer: "Producer", topic: str, load: Load, emit: Emit, *, is_stopping: Callable[[], bool]
) -> Sent:
    """Send until enough is sent or the caller wants an end, then wait for what is under way.

    Args:
        emit: gets every event; called by the producer's thread as well, one call at a time.
        is_stopping: asked before every record.
    """
    lock = threading.Lock()
    acknowledged = 0

    def tell(name: str, **more: object) -> None:
        with lock:
            emit(_event(name, more))

    def settle(key: str | None, value: str) -> "Callable[[RecordMetadata, Exception | None], None]":
        def settled(metadata: "RecordMetadata", error: Exception | None) -> None:
            nonlocal acknowledged
            if error is not None:
                tell("producer_send_error", topic=topic, key=key, value=value, error=error)
                return
            acknowledged += 1
            at = {"offset": metadata.offset, "topic": metadata.topic, "partition": metadata.partition}
            tell("producer_send_success", key=key, value=value, **at)

        return settled

    tell("startup_complete")
    began = time.monotonic()
    sent = 0
    for number, key, timestamp in zip(_numbers(load.records), _keys(load), _create_times(load), strict=False):
        if is_stopping():
            break
        value = str(number) if load.value_prefix is None else f"{load.value_prefix}.{number}"
        sent += 1
        try:
            producer.send(
                topic,
                value.encode(),
                None if key is None else key.encode(),
                timestamp_ms=timestamp,
                callback=settle(key, value),
            )
        except (PkafkaError, ValueError) as error:
            tell("producer_send_error", topic=topic, key=key, value=value, error=error)
        _keep_pace(began, sent, load.per_second)
    producer.close()
    tell("shutdown_complete")
    passed_s = max(0.001, time.monotonic() - began)
    tell(
        "tool_data",
        sent=sent,
        acked=acknowledged,
        target_throughput=load.per_second,
        avg_throughput=acknowledged / passed_s,
    )
    return Sent(sent, acknowledged)


class VerifiableConsumer:
    """Reads a topic as a member of a group, and commits what it has read after every poll.

    Args:
        consumer: with a group.
        emit: gets every event.
        records: how many to read; negative for ever.
        commits: whether to commit; otherwise the consumer does that by itself.
        verbose: whether every record is an event of its own.
    """

    def __init__(
        self, consumer: "Consumer", emit: Emit, *, records: int, commits: bool, verbose: bool
    ) -> None:
        self._consumer = consumer
        self._emit = emit
        self._left = records if records >= 0 else None
        self._commits = commits
        self._verbose = verbose
        self.failed_commits = 0

    def run(self, topic: str) -> None:
        """Read until enough is read, or another thread or a signal wakes the consumer up; then leave the group.

        Raises:
            ApiError, ClientError: something that waiting does not cure; the consumer is closed before.
        """
        self._tell("startup_complete")
        try:
            self._consumer.subscribe([topic], listener=_listener(self._tell))
            while self._left is None or self._left > 0:
                records = self._consumer.poll(_POLL_MS)
                if not records:
                    continue
                offsets = self._account_for(records)
                if self._commits:
                    self._commit(offsets)
        except WakeupError:
            pass
        finally:
            self._consumer.close()
            self._tell("shutdown_complete")

    def _account_for(self, records: "ConsumerRecords") -> dict[TopicPartition, OffsetAndMetadata]:
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        summaries: list[dict[str, object]] = []
        for (topic, partition), group in records.by_partition().items():
            mine = group if self._left is None else group[: self._left]
            if not mine:
                break
            if self._left is not None:
                self._left -= len(mine)
            if self._verbose:
                for record in mine:
                    self._tell("record_data", **_record(record))
            offsets[TopicPartition(topic, partition)] = OffsetAndMetadata(mine[-1].offset + 1)
            summaries.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "count": len(mine),
                    "minOffset": mine[0].offset,
                    "maxOffset": mine[-1].offset,
                }
            )
        self._tell("records_consumed", count=len(records), partitions=summaries)
        return offsets

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        woken: WakeupError | None = None
        error: PkafkaError | None = None
        while True:
            try:
                self._consumer.commit_sync(offsets)
            except WakeupError as wakeup:
                woken = wakeup  # the program is to end, and does so when this is done
                continue
            except PkafkaError as failure:
                if isinstance(failure, ApiError) and failure.code is ErrorCode.FENCED_INSTANCE_ID:
                    raise
                error = failure
            break
        shown = [
            {"topic": topic, "partition": partition, "offset": at.offset}
            for (topic, partition), at in offsets.items()
        ]
        if error is None:
            self._tell("offsets_committed", offsets=shown, success=True)
        else:
            self.failed_commits += 1
            self._tell("offsets_committed", offsets=shown, error=str(error), success=False)
        if woken is not None:
            raise woken

    def _tell(self, name: str, **more: object) -> None:
        self._emit(_event(name, more))


def _listener(tell: Callable[..., None]) -> "ConsumerRebalanceListener":
    from pkafka.clients.consumer import ConsumerRebalanceListener

    class Telling(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            tell("partitions_assigned", partitions=[each._asdict() for each in partitions])

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            tell("partitions_revoked", partitions=[each._asdict() for each in partitions])

    return Telling()


def _event(name: str, more: Mapping[str, object]) -> Event:
    return {"timestamp": time.time_ns() // 1_000_000, "name": name, **more}


def _record(record: "ConsumerRecord") -> dict[str, object]:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", errors="replace")


def _numbers(records: int) -> Iterable[int]:
    return range(records) if records >= 0 else count()


def _keys(load: Load) -> Iterable[str | None]:
    return cycle([None] if not load.repeating_keys else map(str, range(load.repeating_keys)))


def _create_times(load: Load) -> Iterator[int | None]:
    """Each later than the one before by all the time that has passed, as Kafka's tool has it."""
    began_ms = time.monotonic_ns() // 1_000_000
    moment = load.create_time
    while True:
        yield moment
        if moment is not None:
            moment += time.monotonic_ns() // 1_000_000 - began_ms


def _keep_pace(began: float, sent: int, per_second: int) -> None:
    if per_second > 0:
        ahead_s = sent / per_second - (time.monotonic() - began)
        if ahead_s > 0:
            time.sleep(ahead_s)
