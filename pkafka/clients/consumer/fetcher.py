"""Fetches from the brokers of the assigned partitions and keeps what came until the consumer takes it.

At most one fetch per broker is under way. A partition is fetched ahead: while what came is handed out, the next answer
is already on its way, so that reading, decoding and the broker's work overlap; at most two answers per partition are
kept, and nothing is fetched ahead while more than ``fetch.max.bytes`` are. What came of a paused partition stays.
Driven by the consumer's thread.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.connection import Pending
from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.errors import OffsetOutOfRangeError
from pkafka.clients.consumer.fetched import Fetched, P, count_of
from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.consumer.sessions import FetchPosition, FetchSession
from pkafka.clients.consumer.subscription import PartitionState, Subscription
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST, LATEST, NO_LEADER, TopicPartition
from pkafka.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

_AHEAD_MAX: Final = 2
"""Answers kept of one partition."""
_NO_REPLICA: Final = -1
_CLOSE_MS_MAX: Final = 1_000
_STALE_METADATA: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class _UnderWay(NamedTuple):
    """A fetch that was sent."""

    wanted: dict[TopicPartition, FetchPosition]
    sent_ms: int


class _Preferred(NamedTuple):
    """A replica nearer than the leader, as the leader said (KIP-392)."""

    node: int
    until_ms: int


class _Answer:
    """What is left to take of one answer, and what was taken.

    Args:
        records: by topic, the records taken; has every topic that the answer says something of.
        parts: how many partitions of it are kept.
    """

    __slots__ = ("parts", "records")

    def __init__(self, records: dict[str, int], parts: int) -> None:
        self.records = records
        self.parts = parts


class Fetcher:
    """Sends fetches, and hands out what they bring.

    Args:
        metrics: where answers are counted.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        metrics: ConsumerMetrics | None = None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._metrics = metrics
        self._is_committed_only = config.isolation_level == "read_committed"
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._ready: deque[Fetched] = deque()
        self._kept: dict[TopicPartition, deque[Fetched]] = {}
        """What is ready, by partition."""
        self._kept_bytes = 0
        self._answers: dict[Fetched, _Answer] = {}
        """Which answer that came of is a part of; counted when all of it is taken."""
        self._preferred: dict[TopicPartition, _Preferred] = {}
        self._errors: deque[Exception] = deque()
        if metrics is not None:
            metrics.preferred_replica = self._preferred_replica

    @property
    def has_data(self) -> bool:
        """Whether :meth:`take` has something to give or to raise."""
        return bool(self._errors) or any(not self._is_paused(each.partition) for each in self._ready)

    def send_fetches(self) -> None:
        """Ask for what is not kept yet; never waits."""
        view = self._cluster.view
        if self._under_way and self._under_way.keys() >= view.brokers.keys():
            return  # no broker is left to ask: with many partitions that is worth knowing before a look at each
        now_ms = self._cluster.clock.monotonic_ms()
        groups: dict[Broker, dict[TopicPartition, FetchPosition]] = {}
        ahead: list[tuple[Broker, TopicPartition, FetchPosition]] = []
        ahead_max = _AHEAD_MAX if self._kept_bytes < self._config.fetch_max_bytes else 1
        for partition in self._subscription.fetchable(now_ms):
            kept = self._kept.get(partition)
            if kept is not None and (len(kept) >= ahead_max or kept[0].error is not None):
                continue
            broker = self._broker(partition, now_ms)
            known = view.partition(partition)
            if broker is None or known is None:
                self._cluster.want_refresh()
                continue
            if broker.id in self._under_way:
                continue
            position = FetchPosition(
                view.topics[partition.topic].topic_id,
                self._wanted_offset(partition, self._subscription.state(partition)),
                known.leader_epoch,
                self._config.max_partition_fetch_bytes,
            )
            if kept is None:
                groups.setdefault(broker, {})[partition] = position
            else:
                ahead.append((broker, partition, position))
        # The broker fills its answer in this order: what the application waits for comes first.
        for broker, partition, position in ahead:
            groups.setdefault(broker, {})[partition] = position
        for broker, wanted in groups.items():
            if self._cluster.network.can_send(broker.address, in_flight_max=2):
                self._send(broker, wanted, now_ms)

    def take(self, records_max: int) -> list[Chunk]:
        """:meth:`take_by`, as columns of records."""
        return self.take_by(Fetched.take, records_max)

    def take_by(self, pull: Callable[[Fetched, int], P | None], records_max: int) -> list[P]:
        """Kept records, at most so many, one answer of a partition after the other; moves their positions.

        Args:
            pull: takes the next piece of an answer, of at most so many records; None when there is no more.
            records_max: as many records are wanted; the last piece may have more.

        Raises:
            ApiError: a partition cannot be read: no permission, damaged data.
            OffsetOutOfRangeError: the position is out of range and ``auto.offset.reset=none``.
        """
        chunks: list[P] = []
        left = records_max
        paused: list[Fetched] = []
        ready = self._ready
        try:
            while ready and left > 0:
                fetched = ready[0]
                partition = fetched.partition
                state = self._subscription.get(partition)
                if state is not None and state.paused and not state.pending_revocation:
                    paused.append(ready.popleft())
                    continue
                if not self._subscription.is_fetchable(partition) or (
                    state is not None and state.position != fetched.next_offset
                ):
                    self._drop_first()
                    continue
                assert state is not None, partition
                before = len(chunks)
                try:
                    is_empty, left = self._take_from(fetched, pull, left, chunks)
                except ApiError:
                    if not chunks:
                        raise
                    break
                finally:
                    epoch = chunks[-1].leader_epoch if len(chunks) > before else state.position_epoch
                    if fetched in self._answers:
                        count = sum(map(count_of, chunks[before:]))
                        self._answers[fetched].records[partition.topic] += count
                    self._subscription.advance(partition, fetched.next_offset, epoch)
                if is_empty:
                    self._drop_first()
        finally:
            ready.extendleft(reversed(paused))
        if not chunks and self._errors:
            raise self._errors.popleft()
        return chunks

    @staticmethod
    def _take_from(
        fetched: Fetched, pull: Callable[[Fetched, int], P | None], left: int, chunks: list[P]
    ) -> tuple[bool, int]:
        """Move pieces of one answer; whether it is empty now, and how many records are wanted still."""
        while left > 0:
            chunk = pull(fetched, left)
            if chunk is None:
                return True, left
            chunks.append(chunk)
            left -= count_of(chunk)
        return fetched.is_drained, left

    def drop(self, partition: TopicPartition) -> None:
        """Forget what is kept of a partition, because its position was moved or it was given up."""
        self._preferred.pop(partition, None)
        dropped = self._kept.pop(partition, None)
        if dropped is not None:
            for each in dropped:
                self._let_go(each)
            self._ready = deque(each for each in self._ready if each.partition != partition)

    def close(self, timeout_ms: int) -> None:
        """Tell brokers that their fetch sessions end, so that they need not keep them; waits a moment at most.

        A broker with a fetch in hand would answer only after that: its session is left to be evicted.
        """
        closing: list[Pending] = []
        for node, session in self._sessions.items():
            broker = self._cluster.view.brokers.get(node)
            if broker is None or node in self._under_way:
                continue
            connection = self._cluster.network.connection(broker.address)
            request = session.closing()
            if request is not None and connection is not None:
                closing.append(self._cluster.network.send(broker.address, request))
        self._sessions.clear()
        deadline_ms = self._cluster.clock.monotonic_ms() + min(timeout_ms, _CLOSE_MS_MAX)
        self._cluster.network.wait(closing, deadline_ms=deadline_ms)

    # -- requests -----------------------------------------------------------------------------------------

    def _broker(self, partition: TopicPartition, now_ms: int) -> Broker | None:
        """The broker to ask for a partition: its leader, or a replica that the leader named and that is still there."""
        preferred = self._preferred.get(partition)
        if preferred is not None:
            broker = self._cluster.view.brokers.get(preferred.node)
            view = self._cluster.view.partition(partition)
            if (
                broker is not None
                and view is not None
                and preferred.node not in view.offline
                and now_ms < preferred.until_ms
            ):
                return broker
            del self._preferred[partition]
            self._cluster.want_refresh()
        return self._cluster.view.leader(partition)

    def _wanted_offset(self, partition: TopicPartition, state: PartitionState) -> int:
        """What the next answer of a partition has to begin with."""
        kept = self._kept.get(partition)
        if kept:
            return kept[-1].end
        assert state.position is not None, partition
        return state.position

    def _send(self, broker: Broker, wanted: dict[TopicPartition, FetchPosition], now_ms: int) -> None:
        config = self._config
        session = self._sessions.setdefault(broker.id, FetchSession())
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(self._is_committed_only),
            rack_id=config.client_rack,
        )
        version_max = session.fill(request, wanted)
        self._under_way[broker.id] = _UnderWay(wanted, now_ms)
        self._cluster.network.send(
            broker.address, request, max_version=version_max, on_done=lambda each: self._on_done(broker, each)
        )

    # -- answers ------------------------------------------------------------------------------------------

    def _on_done(self, broker: Broker, pending: Pending) -> None:
        wanted, sent_ms = self._under_way.pop(broker.id)
        session = self._sessions.get(broker.id)
        if session is None:
            return  # closed meanwhile
        response = pending.response
        if not isinstance(response, FetchResponse):
            session.reset()
            self._forget_preferred(wanted)
            self._cluster.want_refresh()
            if pending.error is not None and not pending.error.retriable:
                self._errors.append(pending.error)
            return
        session.answered(response)
        if response.error_code:
            # The session is gone or out of step, and begins anew; other codes come again per partition.
            self._cluster.want_refresh()
            return
        sizes: dict[str, int] = {}
        known = len(self._ready)
        for topic in response.responses:
            name = session.topic_name(topic.topic, topic.topic_id)
            if name is None:
                continue
            sizes[name] = sum(len(data.records or b"") for data in topic.partitions)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                self._settle(partition, data, wanted, broker)
                if data.current_leader.leader_id != NO_LEADER:
                    self._note_leader(partition, data, response)
        if self._metrics is not None:
            self._metrics.fetched(self._cluster.clock.monotonic_ms() - sent_ms, sizes)
            if sizes:
                self._begin_count(sizes, len(self._ready) - known)

    def _begin_count(self, topics: Iterable[str], parts: int) -> None:
        """Count what will be taken of an answer, whose last parts were put to what is ready just now."""
        answer = _Answer(dict.fromkeys(topics, 0), parts)
        for fetched in itertools.islice(reversed(self._ready), parts):
            self._answers[fetched] = answer
        if not parts and self._metrics is not None:
            self._metrics.taken(answer.records)

    def _settle(
        self,
        partition: TopicPartition,
        data: PartitionData,
        wanted: dict[TopicPartition, FetchPosition],
        broker: Broker,
    ) -> None:
        state = self._subscription.get(partition)
        asked = wanted.get(partition)
        if state is None or state.position is None or asked is None:
            return  # given up or reset meanwhile
        if asked.offset != self._wanted_offset(partition, state):
            return  # sought meanwhile
        code = ErrorCode(data.error_code)
        if code is ErrorCode.NONE:
            self._keep(partition, state, data, asked.offset)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(partition, state, asked.offset, broker)
        elif code in _STALE_METADATA:
            state.retry_at_ms = self._cluster.clock.monotonic_ms() + self._config.retry_backoff_ms
            self._preferred.pop(partition, None)
            self._cluster.want_refresh()
        else:
            self._errors.append(ApiError(code, f"{partition}: {code.message}"))

    def _note_leader(self, partition: TopicPartition, data: PartitionData, response: FetchResponse) -> None:
        """The broker names the new leader (KIP-951): ask there, without waiting."""
        leader = data.current_leader
        brokers = [Broker(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        state = self._subscription.get(partition)
        if (
            self._cluster.note_leader(partition, leader.leader_id, leader.leader_epoch, brokers)
            and state is not None
        ):
            state.retry_at_ms = 0

    def _keep(
        self, partition: TopicPartition, state: PartitionState, data: PartitionData, offset: int
    ) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica != _NO_REPLICA:
            until_ms = self._cluster.clock.monotonic_ms() + self._config.metadata_max_age_ms
            self._preferred[partition] = _Preferred(data.preferred_read_replica, until_ms)
        if not data.records:
            return
        aborted = (data.aborted_transactions or []) if self._is_committed_only else None
        fetched = Fetched(
            partition, data.records, offset, check_crcs=self._config.check_crcs, aborted=aborted
        )
        if fetched.has_nothing:
            state.retry_at_ms = self._cluster.clock.monotonic_ms() + self._config.retry_backoff_ms
            text = (
                f"Failed to make progress reading messages at {partition}={offset}. Received a non-empty fetch "
                "response from the server, but no complete records were found."
            )
            self._errors.append(ApiError(ErrorCode.CORRUPT_MESSAGE, text))
            return
        self._kept_bytes += fetched.size
        self._ready.append(fetched)
        self._kept.setdefault(partition, deque()).append(fetched)

    def _out_of_range(
        self, partition: TopicPartition, state: PartitionState, offset: int, broker: Broker
    ) -> None:
        view = self._cluster.view.partition(partition)
        if self._preferred.pop(partition, None) is not None or (
            view is not None and view.leader != broker.id
        ):
            return  # a follower may lag or have deleted more: the leader decides
        if partition in self._kept:
            # Asked ahead: the position decides, when it is there.
            state.retry_at_ms = self._cluster.clock.monotonic_ms() + self._config.retry_backoff_ms
            return
        policy = self._config.auto_offset_reset
        if policy == "none":
            state.retry_at_ms = self._cluster.clock.monotonic_ms() + self._config.retry_backoff_ms
            self._errors.append(OffsetOutOfRangeError({partition: offset}))
            return
        self._subscription.reset(partition, EARLIEST if policy == "earliest" else LATEST)

    # -- inside -------------------------------------------------------------------------------------------

    def _is_paused(self, partition: TopicPartition) -> bool:
        state = self._subscription.get(partition)
        return state is not None and state.paused

    def _forget_preferred(self, partitions: dict[TopicPartition, FetchPosition]) -> None:
        for partition in partitions:
            self._preferred.pop(partition, None)

    def _preferred_replica(self, partition: TopicPartition) -> int:
        preferred = self._preferred.get(partition)
        return _NO_REPLICA if preferred is None else preferred.node

    def _let_go(self, fetched: Fetched) -> None:
        """Nothing more is taken of it."""
        self._kept_bytes -= fetched.size
        answer = self._answers.pop(fetched, None)
        if answer is not None:
            answer.parts -= 1
            if not answer.parts and self._metrics is not None:
                self._metrics.taken(answer.records)

    def _drop_first(self) -> None:
        fetched = self._ready.popleft()
        self._let_go(fetched)
        kept = self._kept[fetched.partition]
        assert kept[0] is fetched, fetched.partition
        kept.popleft()
        if not kept:
            del self._kept[fetched.partition]
