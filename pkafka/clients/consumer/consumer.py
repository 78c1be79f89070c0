"""The consumer client for assigned partitions: ``assign``, ``seek``, ``poll``. Groups are a layer above.

Not thread-safe, like Kafka's: a call from a second thread is refused. ``wakeup()`` is the exception.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Self

from pkafka.clients.admin.partitions import PartitionsAdmin
from pkafka.clients.admin.results import ListedOffset
from pkafka.clients.cluster import Cluster, TopicView
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.consumer.fetcher import Chunk, Fetcher
from pkafka.clients.consumer.subscription import EARLIEST, LATEST, Status, Subscription
from pkafka.clients.errors import ClosedError, NoOffsetError, WakeupError
from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError
from pkafka.model import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record with the place it was read from. ``timestamp_type``: 0 = CreateTime, 1 = LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class _Offsets(PartitionsAdmin):
    """ListOffsets over the consumer's own connections."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster


class Consumer:
    """See the module.

    Args:
        config: Kafka's consumer keys (dotted), or the typed form.
        clock: for time-outs.
        fail_fast: raise at once when no bootstrap server can be reached.

    Raises:
        ConfigError: a key has a bad value.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ConsumerConfig,
        *,
        clock: Clock | None = None,
        fail_fast: bool = False,
    ) -> None:
        self.config = config if isinstance(config, ConsumerConfig) else ConsumerConfig.from_properties(config)
        self._clock = clock or SystemClock()
        self._cluster = Cluster(self.config, clock=self._clock, fail_fast=fail_fast)
        self._cluster.network.enable_wakeup()
        self._subscription = Subscription()
        self._fetcher = Fetcher(self._cluster, self.config, self._subscription)
        self._offsets = _Offsets(self._cluster)
        self._owner = threading.Lock()
        self._woken = False
        self._closed = False

    # -- what to read -------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; positions of those that stay are kept."""
        with self._alone():
            before = set(self._subscription.partitions)
            self._subscription.assign(partitions)
            for partition in before - set(self._subscription.partitions):
                self._fetcher.drop(partition)
            if not self._subscription.topics() <= self._cluster.view.topics.keys():
                self._cluster.want_refresh()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._subscription.partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``.

        Raises:
            ValueError: the partition is not assigned, or the offset is negative.
        """
        if offset < 0:
            raise ValueError("seek offset must not be a negative number")
        with self._alone():
            self._subscription.seek(partition, offset)
            self._fetcher.drop(partition)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on from the first record; looked up at the next poll."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on from the end; looked up at the next poll."""
        self._seek_to(LATEST, partitions)

    def seek_to_time(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on from the first record at or after a time; from the end where there is none."""
        self._seek_to(timestamp_ms, partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of these partitions, keeping their positions."""
        for partition in partitions:
            self._subscription.state(partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in partitions:
            self._subscription.state(partition).paused = False

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record that poll will return; looked up when it is not known yet.

        Raises:
            ValueError: the partition is not assigned.
            ApiError: it cannot be looked up.
        """
        with self._alone():
            state = self._subscription.state(partition)
            if state.position is None:
                self._find_positions(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
            if state.position is None:
                raise NoOffsetError(f"the position of {partition} could not be determined")
            return state.position

    # -- reading ------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Records that were not returned yet, at most ``max.poll.records``.

        Args:
            timeout_ms: how long to wait for the first one.

        Raises:
            WakeupError: another thread called :meth:`wakeup`.
            ApiError, ClientError: something that waiting does not cure.
        """
        return [
            ConsumerRecord(
                *chunk.partition,
                record.offset,
                record.timestamp,
                chunk.timestamp_type,
                record.key,
                record.value,
                record.headers,
                chunk.leader_epoch,
            )
            for chunk in self.poll_chunks(timeout_ms)
            for record in chunk.records
        ]

    def poll_chunks(self, timeout_ms: int, *, records_max: int | None = None) -> list[Chunk]:
        """As :meth:`poll`, without an object per record beyond the decoded one: the fast way to read much."""
        limit = self.config.max_poll_records if records_max is None else records_max
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        with self._alone():
            while True:
                if self._woken:
                    self._woken = False
                    raise WakeupError("the consumer was woken up")
                left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
                if self._without_position():
                    self._find_positions(left_ms)
                wait_ms = self._cluster.keep_fresh(
                    self._subscription.topics(), allow_auto_create=self.config.allow_auto_create_topics
                )
                self._fetcher.send_fetches()
                chunks = self._fetcher.take(limit)
                if chunks:
                    self._fetcher.send_fetches()
                    self._cluster.network.poll(0)
                    return chunks
                left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
                if left_ms == 0 and not self._fetcher.has_data:
                    self._cluster.network.poll(0)
                    return self._fetcher.take(limit) if self._fetcher.has_data else []
                self._cluster.network.poll(min(left_ms, wait_ms, self.config.retry_backoff_ms * 10))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records for ever; ends when the consumer is closed."""
        while not self._closed:
            yield from self.poll(1_000)

    def wakeup(self) -> None:
        """Make the poll under way, or the next one, raise ``WakeupError``; callable from any thread."""
        self._woken = True
        self._cluster.network.wakeup()

    # -- looking around -----------------------------------------------------------------------------------

    def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> TopicView:
        """A topic as the cluster knows it now; ``error`` of it says whether it exists.

        As in Kafka, asking lets the broker create it, unless ``allow.auto.create.topics`` is false; it is there a
        little later then.
        """
        with self._alone():
            view = self._cluster.refresh(
                [topic], allow_auto_create=self.config.allow_auto_create_topics, timeout_ms=timeout_ms
            )
            return view.topics[topic]

    def topics(self, *, timeout_ms: int | None = None) -> dict[str, TopicView]:
        """All topics that this client may see."""
        with self._alone():
            return dict(self._cluster.refresh(None, timeout_ms=timeout_ms).topics)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at or after a time per partition; offset -1 where there is none.

        Raises:
            ApiError: a partition cannot be asked.
        """
        return self._look_up(timestamps)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of every partition."""
        return {each: at.offset for each, at in self._look_up(dict.fromkeys(partitions, EARLIEST)).items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of every partition as this consumer's isolation level sees it."""
        return {each: at.offset for each, at in self._look_up(dict.fromkeys(partitions, LATEST)).items()}

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end seen by the last fetch; None before one."""
        state = self._subscription.state(partition)
        committed = self.config.isolation_level == "read_committed"
        end = state.last_stable_offset if committed else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._closed:
            raise ClosedError("This consumer has already been closed.")
        if not self._owner.acquire(blocking=False):
            raise RuntimeError("the consumer is not safe for multi-threaded access")
        try:
            yield
        finally:
            self._owner.release()

    def _seek_to(self, to: int, partitions: Iterable[TopicPartition] | None) -> None:
        with self._alone():
            for partition in self._subscription.partitions if partitions is None else partitions:
                self._subscription.reset(partition, to)
                self._fetcher.drop(partition)

    def _find_positions(self, timeout_ms: int) -> None:
        """Look the offsets of partitions without a position up: what was sought, or the reset policy."""
        policy = self.config.auto_offset_reset
        wanted: dict[TopicPartition, int] = {}
        for partition in self._without_position():
            to = self._subscription.state(partition).reset_to
            if to is None:
                if policy == "none":
                    raise NoOffsetError(f"Undefined offset with no reset policy for partition {partition}")
                to = EARLIEST if policy == "earliest" else LATEST
            wanted[partition] = to
        budget_ms = max(timeout_ms, self.config.request_timeout_ms)
        found = self._look_up(wanted, timeout_ms=budget_ms)
        past_end = [partition for partition, at in found.items() if at.offset < 0]
        if past_end:
            found |= self._look_up(dict.fromkeys(past_end, LATEST), timeout_ms=budget_ms)
        for partition, at in found.items():
            self._subscription.seek(partition, at.offset)

    def _without_position(self) -> list[TopicPartition]:
        return self._subscription.in_status(Status.INITIALIZING) + self._subscription.in_status(
            Status.RESETTING
        )

    def _look_up(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        committed = self.config.isolation_level == "read_committed"
        outcomes = self._offsets.list_offsets(timestamps, read_committed=committed, timeout_ms=timeout_ms)
        found: dict[TopicPartition, ListedOffset] = {}
        for partition, outcome in outcomes.items():
            if isinstance(outcome, ApiError):
                raise ApiError(outcome.code, f"{partition}: {outcome.message}")
            found[partition] = outcome
        return found
