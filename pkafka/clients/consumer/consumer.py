"""The consumer client: ``subscribe`` or ``assign``, ``poll``, ``commit``, ``close``.

Not thread-safe, like Kafka's: a call from a second thread is refused. ``wakeup()`` is the exception. Requests are sent
and answers taken in while a call is under way; beside that a thread of the consumer's own sends heartbeats.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from pkafka.clients.cluster import Cluster, TopicView
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.config.options import INT_MAX
from pkafka.clients.connection import Address
from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.distances import Distances
from pkafka.clients.consumer.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    RecordDeserializationError,
)
from pkafka.clients.consumer.fetched import Fetched
from pkafka.clients.consumer.fetcher import Fetcher
from pkafka.clients.consumer.interceptors import Interceptors
from pkafka.clients.consumer.metrics import make_metrics
from pkafka.clients.consumer.network import ConsumerNetwork
from pkafka.clients.consumer.one_caller import OneCaller
from pkafka.clients.consumer.polling import Rounds
from pkafka.clients.consumer.positions import Positions
from pkafka.clients.consumer.records import ConsumerRecord, ConsumerRecords, RecordReader
from pkafka.clients.consumer.subscription import ConsumerRebalanceListener, Mode, Subscription
from pkafka.clients.consumer.topic_names import checked_names
from pkafka.clients.errors import ClientTimeoutError, IllegalArgumentError, Stage
from pkafka.clients.metrics import Metric, MetricName
from pkafka.clients.network_metrics import NetworkMetrics
from pkafka.clients.offsets import ConsumerGroupMetadata, ListedOffset, OffsetAndMetadata, offsets_to_store
from pkafka.clients.raw_batch import RawBatch
from pkafka.clock import Clock, SystemClock
from pkafka.model import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.consumer.group import Group

_CLOSE_MS: Final = 30_000
_ITERATION_MS: Final = 1_000

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], None]


class Consumer:
    """A client that reads records: by itself, or as a member of a group.

    Args:
        config: Kafka's consumer keys (dotted), or the typed form.
        clock: for time-outs.
        fail_fast: raise at once when no bootstrap server can be reached, also from :meth:`poll`; otherwise a warning
            is logged.

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
        originals = self.config.originals
        self._reader = RecordReader.load(
            self.config.key_deserializer, self.config.value_deserializer, originals
        )
        self._interceptors = Interceptors.load(self.config.interceptor_classes, originals)
        self._metrics = make_metrics(self.config, self._clock)
        self._cluster = Cluster(self.config, clock=self._clock, fail_fast=fail_fast)
        self._cluster.network.measure(NetworkMetrics(self._metrics.registry, "consumer", self._node_of))
        self._net = ConsumerNetwork(self._cluster)
        self._subscription = Subscription()
        self._fetcher = Fetcher(self._cluster, self.config, self._subscription, self._metrics)
        self._group = self._make_group()
        self._positions = Positions(
            self._net,
            self.config,
            self._subscription,
            None if self._group is None else self._group.commits,
            lambda: self._need_group().is_coordinator_known(),
        )
        self._metrics.watch_assignment(lambda: len(self._subscription.partitions))
        self._record_error: RecordDeserializationError | None = None
        committed = self.config.isolation_level == "read_committed"
        self._distances = Distances(self._subscription, self._metrics, read_committed=committed)
        self._rounds = Rounds(
            self._net,
            self.config,
            self._subscription,
            self._fetcher,
            self._positions,
            self._distances,
            self._group,
            self._metrics,
            fail_fast=fail_fast,
        )
        self._net.background = self._rounds.background
        self._caller = OneCaller(self._net.gate)

    # -- what to read -------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read what the group gives of these topics, or of all whose whole name matches; replaces what was before.

        Args:
            topics: their names; none is the same as :meth:`unsubscribe`.
            pattern: a regular expression; topics that come to match are read, those that go are left.
            listener: told when partitions are revoked, assigned or lost.

        Raises:
            InvalidGroupIdError: there is no ``group.id``.
            IllegalStateError: :meth:`assign`, or the other form of this call, is in force.
            IllegalArgumentError: both or neither of topics and pattern are given, or a name is empty.
        """
        with self._caller.call():
            self._need_group()
            if (topics is None) == (pattern is None):
                raise IllegalArgumentError("either topics or a pattern must be given")
            if pattern is not None:
                if not (pattern.pattern if isinstance(pattern, re.Pattern) else pattern):
                    raise IllegalArgumentError("Topic pattern to subscribe to cannot be empty")
                self._subscription.subscribe_pattern(re.compile(pattern), listener)
                self._cluster.want_refresh()
                return
            wanted = checked_names(() if topics is None else topics)
            if not wanted:
                self._unsubscribe()
                return
            self._subscription.subscribe(wanted, listener)
            self._drop_unless(lambda partition: partition.topic in self._subscription.wanted_topics)
            self._want_topics()

    def unsubscribe(self) -> None:
        """Read nothing more; leaves the group, unless the member is static.

        Raises:
            Exception: what the listener raised.
        """
        with self._caller.call():
            self._unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, without a group; positions of those that stay are kept.

        Args:
            partitions: none is the same as :meth:`unsubscribe`.

        Raises:
            IllegalStateError: :meth:`subscribe` is in force.
            IllegalArgumentError: a topic has no name.
        """
        with self._caller.call():
            wanted = [TopicPartition(*each) for each in partitions]
            if any(not each.topic or not each.topic.strip() for each in wanted):
                raise IllegalArgumentError("Topic partitions to assign to cannot have null or empty topic")
            if not wanted:
                self._unsubscribe()
                return
            # No rebalance follows that would commit what is given up.
            if self._group is not None and self._subscription.mode is Mode.ASSIGNED:
                self._group.commits.auto_commit(self._net.now_ms)
            self._subscription.assign(wanted)
            self._drop_unless(lambda partition: self._subscription.get(partition) is not None)
            self._want_topics()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._subscription.partitions

    def subscription(self) -> frozenset[str]:
        """The topics subscribed; for a pattern those that match now."""
        return self._subscription.wanted_topics

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read on from an offset.

        Args:
            offset: with a leader epoch, the log is first compared with what that epoch had written (KIP-320).

        Raises:
            IllegalStateError: the partition is not assigned.
            IllegalArgumentError: the offset is negative.
        """
        at = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if at.offset < 0:
            raise IllegalArgumentError("seek offset must not be a negative number")
        with self._caller.call():
            self._positions.seek(partition, at)
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
        """Stop returning records of these partitions, keeping their positions and the membership of the group."""
        with self._caller.call():
            for partition in partitions:
                self._subscription.state(partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        with self._caller.call():
            for partition in partitions:
                self._subscription.state(partition).paused = False

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        subscription = self._subscription
        return [each for each in subscription.partitions if subscription.state(each).paused]

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record that poll will return; looked up when it is not known yet.

        Args:
            timeout_ms: for the lookup; ``default.api.timeout.ms`` when left out.

        Raises:
            IllegalStateError: the partition is not assigned.
            ClientTimeoutError: the time ran out.
            NoOffsetError: there is nothing committed, and ``auto.offset.reset=none``.
            ApiError: it cannot be looked up.
        """
        with self._caller.call():
            if self._subscription.get(partition) is None:
                raise IllegalStateError(
                    "You can only check the position for partitions assigned to this consumer."
                )
            wait_ms = self._timeout_ms(timeout_ms)
            return self._positions.wait_for(partition, self._net.now_ms + wait_ms, wait_ms)

    # -- reading ------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int) -> ConsumerRecords:
        """Records that were not returned yet, at most ``max.poll.records``.

        A group's member joins and rebalances in here, and is put out of the group when it does not come back within
        ``max.poll.interval.ms``.

        Args:
            timeout_ms: how long to wait for the first record.

        Raises:
            WakeupError: another thread called :meth:`wakeup`.
            RecordDeserializationError: the next record of a partition cannot be read; seek behind it.
            NoOffsetError: a partition has no position, and ``auto.offset.reset=none``.
            ApiError, ClientError: something that waiting does not cure.
            IllegalStateError: nothing is subscribed or assigned.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        with self._polling():
            while True:
                error, self._record_error = self._record_error, None
                if error is not None and self._rounds.is_at(error.partition, error.offset):
                    raise error
                chunks = self._rounds.fetch(deadline_ms, self.config.max_poll_records)
                with self._rounds.or_give_back(chunks):
                    records, errors = self._reader.read(chunks)
                    for each in errors:
                        self._rounds.stop_before(each)
                    if errors:
                        self._record_error = errors[0]
                        if not records:
                            continue
                    if records and self._interceptors:
                        with self._net.gate.outside():
                            return self._interceptors.on_consume(records)
                    return records

    def poll_chunks(self, timeout_ms: int, *, records_max: int | None = None) -> list[Chunk]:
        """As :meth:`poll`, without an object per record beyond the decoded one: the fast way to read much.

        Neither deserializers nor interceptors see these records.
        """
        limit = self.config.max_poll_records if records_max is None else records_max
        with self._polling():
            return self._rounds.fetch(self._net.now_ms + timeout_ms, limit)

    def poll_batches(self, timeout_ms: int, *, records_max: int = INT_MAX) -> list[RawBatch]:
        """As :meth:`poll_chunks`, as bytes for ``send_raw_batch()``; the last batch may exceed ``records_max``."""
        with self._polling():
            return self._rounds.fetch_by(Fetched.take_batch, self._net.now_ms + timeout_ms, records_max)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records for ever; ends when the consumer is closed."""
        while not self._caller.is_closed:
            yield from self.poll(_ITERATION_MS)

    def wakeup(self) -> None:
        """Make the call under way, or the next one that waits, raise ``WakeupError``; callable from any thread."""
        self._net.wakeup()

    # -- offsets of the group -----------------------------------------------------------------------------

    def commit_sync(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Store offsets for the group, and wait until they are.

        Args:
            offsets: of the next record to read, per partition; the positions of all when left out.
            timeout_ms: ``default.api.timeout.ms`` when left out.

        Raises:
            InvalidGroupIdError: there is no ``group.id``.
            CommitFailedError: the partitions belong to another member by now.
            ApiError: REBALANCE_IN_PROGRESS: poll, then commit again; FENCED_INSTANCE_ID; no permission.
            ClientTimeoutError: the time ran out.
            WakeupError: another thread called :meth:`wakeup`.
        """
        with self._caller.call():
            commits = self._need_group().commits
            wanted = self._offsets(offsets)
            wait_ms = self._timeout_ms(timeout_ms)
            with self._metrics.commit_sync_call():
                done = commits.commit_sync(wanted, self._net.now_ms + wait_ms)
            if not done:
                raise ClientTimeoutError(
                    Stage.REQUEST,
                    f"Timeout of {wait_ms}ms expired before successfully committing offsets {dict(wanted)}",
                )

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Store offsets for the group, without waiting; commits are stored in the order of the calls.

        Args:
            offsets: as for :meth:`commit_sync`.
            callback: gets the offsets and what went wrong, in a later call of this consumer. A failure is not tried
                again.

        Raises:
            InvalidGroupIdError: there is no ``group.id``.
            ApiError: an earlier one failed with FENCED_INSTANCE_ID.
        """
        with self._caller.call():
            self._need_group().commits.commit_async(self._offsets(offsets), callback)

    def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has stored, through any of its members; None where there is nothing.

        Raises:
            InvalidGroupIdError: there is no ``group.id``.
            ClientTimeoutError: the time ran out.
            ApiError: the coordinator refuses.
            WakeupError: another thread called :meth:`wakeup`.
        """
        with self._caller.call():
            commits = self._need_group().commits
            wait_ms = self._timeout_ms(timeout_ms)
            with self._metrics.committed_call():
                return commits.committed(list(partitions), self._net.now_ms + wait_ms, wait_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity that this consumer got its partitions with, for ``Producer.send_offsets_to_transaction()``.

        It stays when the group has dropped this consumer since: the coordinator refuses such a zombie's offsets then.

        Raises:
            InvalidGroupIdError: there is no ``group.id``.
        """
        with self._caller.call():
            group = self._need_group()
            generation = group.membership.joined
            return ConsumerGroupMetadata(
                group.id, generation.id, generation.member_id, self.config.group_instance_id
            )

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make the group rebalance, at the next poll (KIP-568).

        Args:
            reason: for the coordinator's log.

        Raises:
            IllegalStateError: there is no group.
        """
        with self._caller.call():
            if self._group is None:
                raise IllegalStateError("Tried to force a rebalance but consumer does not have a group.")
            self._group.coordinator.enforce_rebalance(reason)

    # -- looking around -----------------------------------------------------------------------------------

    def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> TopicView:
        """A topic as the cluster knows it now; ``error`` of it says whether it exists.

        As in Kafka, asking lets the broker create it, unless ``allow.auto.create.topics`` is false; it is there a
        little later then.
        """
        with self._caller.call():
            view = self._cluster.refresh(
                [topic], allow_auto_create=self.config.allow_auto_create_topics, timeout_ms=timeout_ms
            )
            return view.topics[topic]

    def topics(self, *, timeout_ms: int | None = None) -> dict[str, TopicView]:
        """All topics that this client may see."""
        with self._caller.call():
            return dict(self._cluster.refresh(None, timeout_ms=timeout_ms).topics)

    def list_topics(self, *, timeout_ms: int | None = None) -> dict[str, TopicView]:
        """The same as :meth:`topics`, by Kafka's name."""
        return self.topics(timeout_ms=timeout_ms)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at or after a time per partition; offset -1 where there is none.

        Raises:
            ApiError: a partition cannot be asked.
            ClientTimeoutError: the time ran out.
            IllegalArgumentError: a time is negative.
        """
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise IllegalArgumentError(
                    f"The target time for partition {partition} is {timestamp}. The target time cannot be negative."
                )
        return self._look_up(timestamps, timeout_ms)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of every partition."""
        found = self._look_up(dict.fromkeys(partitions, EARLIEST), timeout_ms)
        return {each: at.offset for each, at in found.items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The end of every partition as this consumer's isolation level sees it."""
        found = self._look_up(dict.fromkeys(partitions, LATEST), timeout_ms)
        return {each: at.offset for each, at in found.items()}

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end that was last seen; None where none was seen yet.

        Then it is asked for, so that a later call knows.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        with self._caller.call():
            lag = self._distances.lag(partition)
            if lag is None:
                self._positions.ask_for_end(partition)
                self._net.poll_now()
            return lag

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end seen by the last fetch; None before one."""
        return self._distances.lag(partition)

    def metrics(self) -> dict[MetricName, Metric]:
        """What this consumer counts, under Kafka's names."""
        return self._metrics.registry.metrics()

    def close(self, timeout_ms: int = _CLOSE_MS) -> None:
        """Commit if that is automatic, leave the group unless the member is static, close every connection.

        Args:
            timeout_ms: at most so long for what needs an answer.

        Raises:
            Exception: what a callback of the user's raised; the consumer is closed nevertheless.
        """
        if self._caller.is_closed:
            return
        with self._caller.call():
            deadline_ms = self._net.now_ms + max(0, timeout_ms)
            try:
                if self._group is not None:
                    self._group.coordinator.close(deadline_ms)
                with self._net.without_wakeup():
                    self._fetcher.close(max(0, deadline_ms - self._net.now_ms))
            finally:
                self._caller.is_closed = True
                self._interceptors.close()
                self._reader.close()
                self._metrics.close()
                self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _polling(self) -> Iterator[None]:
        with self._caller.call():
            if self._subscription.mode is Mode.NONE:
                raise IllegalStateError("Consumer is not subscribed to any topics or assigned any partitions")
            self._metrics.poll_begins(self._net.now_ms)
            try:
                yield
            finally:
                self._metrics.poll_ends(self._net.now_ms)

    # -- inside -------------------------------------------------------------------------------------------

    def _make_group(self) -> "Group | None":
        if self.config.group_id is None:
            return None
        # The protocol of groups is not loaded by tools that read partitions by themselves.
        from pkafka.clients.consumer.group import make_group

        return make_group(
            self.config.group_id,
            self._net,
            self.config,
            self._subscription,
            self._interceptors,
            self._metrics,
            self._forget,
        )

    def _node_of(self, address: Address) -> int:
        node = self._cluster.node_of(address._replace(lane=""))
        # As Kafka's consumer calls the connection to a coordinator, which is not that to the same broker.
        return INT_MAX - node if address.lane else node

    def _need_group(self) -> "Group":
        if self._group is None:
            raise InvalidGroupIdError
        return self._group

    def _unsubscribe(self) -> None:
        try:
            if self._group is not None:
                self._group.coordinator.leave("the consumer unsubscribed from all topics")
        finally:
            self._forget(self._subscription.partitions)
            self._subscription.unsubscribe()

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._fetcher.drop(partition)

    def _drop_unless(self, wanted: Callable[[TopicPartition], bool]) -> None:
        self._forget([each for each in self._subscription.partitions if not wanted(each)])

    def _want_topics(self) -> None:
        if not self._subscription.topics() <= self._cluster.view.topics.keys():
            self._cluster.want_refresh()

    def _seek_to(self, to: int, partitions: Iterable[TopicPartition] | None) -> None:
        with self._caller.call():
            for partition in self._subscription.partitions if partitions is None else partitions:
                self._subscription.reset(partition, to)
                self._fetcher.drop(partition)

    def _offsets(
        self, given: Mapping[TopicPartition, int | OffsetAndMetadata] | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._subscription.all_consumed() if given is None else offsets_to_store(given)

    def _look_up(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, ListedOffset]:
        with self._caller.call():
            wait_ms = self._timeout_ms(timeout_ms)
            return self._positions.look_up(timestamps, self._net.now_ms + wait_ms, wait_ms)

    def _timeout_ms(self, given: int | None) -> int:
        return self.config.default_api_timeout_ms if given is None else given
