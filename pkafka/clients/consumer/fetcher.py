"""Fetches from the leaders of the assigned partitions and keeps what came until the consumer takes it.

At most one fetch per broker is under way, for the partitions that have nothing buffered; so reading and
fetching overlap. Driven by the consumer's thread.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.connection import Pending
from pkafka.clients.consumer.sessions import FetchPosition, FetchSession
from pkafka.clients.consumer.subscription import EARLIEST, LATEST, Subscription
from pkafka.clients.consumer.transactions import committed_only
from pkafka.clients.errors import NoOffsetError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pkafka.records.reading import Record, read_batches

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


class Chunk(NamedTuple):
    """Records of one partition that were fetched together, in order."""

    partition: TopicPartition
    records: list[Record]
    timestamp_type: int
    leader_epoch: int


class _Fetched:
    """One partition's part of an answer, decoded batch by batch as it is taken."""

    def __init__(
        self, partition: TopicPartition, data: PartitionData, config: ConsumerConfig, offset: int
    ) -> None:
        self.partition = partition
        self.next_offset = offset
        self._chunks = self._decode(data, config)
        self._rest: Chunk | None = None

    def take(self, records_max: int) -> Chunk | None:
        """At most so many of the records that are left; None when there are no more."""
        chunk = self._rest if self._rest is not None else next(self._chunks, None)
        self._rest = None
        if chunk is not None and len(chunk.records) > records_max:
            self._rest = chunk._replace(records=chunk.records[records_max:])
            chunk = chunk._replace(records=chunk.records[:records_max])
        if chunk is not None and chunk.records:
            # Behind a rest the position is the next record; behind a whole batch the generator has set it.
            after = self._rest.records[0].offset if self._rest is not None else chunk.records[-1].offset + 1
            self.next_offset = after if self._rest is not None else max(self.next_offset, after)
        return chunk

    def _decode(self, data: PartitionData, config: ConsumerConfig) -> Iterator[Chunk]:
        start = self.next_offset
        batches = read_batches(data.records or b"", check_crc=config.check_crcs, from_offset=start)
        if config.isolation_level == "read_committed" and data.aborted_transactions:
            batches = committed_only(batches, data.aborted_transactions)
        for header, records in batches:
            kept = records
            if header.is_control:
                kept = []
            elif header.base_offset < start:
                kept = [each for each in records if each.offset >= start]
            if kept:
                self.next_offset = kept[0].offset
                yield Chunk(self.partition, kept, header.timestamp_type, header.partition_leader_epoch)
            self.next_offset = max(self.next_offset, header.last_offset + 1)


class Fetcher:
    """See the module."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, subscription: Subscription) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, tuple[Pending, dict[TopicPartition, FetchPosition]]] = {}
        self._ready: deque[_Fetched] = deque()
        self._errors: deque[Exception] = deque()

    @property
    def has_data(self) -> bool:
        """Whether :meth:`take` has something to give or to raise."""
        return bool(self._ready or self._errors)

    def send_fetches(self) -> None:
        """Ask the leaders for what is not buffered; never waits."""
        now_ms = self._cluster.clock.monotonic_ms()
        buffered = {each.partition for each in self._ready}
        groups: dict[Broker, dict[TopicPartition, FetchPosition]] = {}
        for partition in self._subscription.fetchable(now_ms):
            if partition in buffered:
                continue
            leader = self._cluster.view.leader(partition)
            view = self._cluster.view.partition(partition)
            if leader is None or view is None:
                self._cluster.want_refresh()
                continue
            state = self._subscription.state(partition)
            assert state.position is not None
            topic_id = self._cluster.view.topics[partition.topic].topic_id
            groups.setdefault(leader, {})[partition] = FetchPosition(
                topic_id, state.position, view.leader_epoch, self._config.max_partition_fetch_bytes
            )
        for leader, wanted in groups.items():
            if leader.id not in self._under_way and self._cluster.network.can_send(
                leader.address, in_flight_max=2
            ):
                self._send(leader, wanted)

    def take(self, records_max: int) -> list[Chunk]:
        """Buffered records, at most so many; moves the positions of their partitions.

        Raises:
            ApiError: a partition cannot be read: no permission, damaged data.
            NoOffsetError: the position is out of range and ``auto.offset.reset=none``.
        """
        chunks: list[Chunk] = []
        left = records_max
        while self._ready and left > 0:
            fetched = self._ready[0]
            state = self._subscription.get(fetched.partition)
            if state is None or not self._subscription.is_fetchable(fetched.partition):
                self._ready.popleft()
                continue
            try:
                chunk = fetched.take(left)
            except ApiError as error:
                self._ready.popleft()
                if chunks:
                    self._errors.append(error)
                    break
                raise
            epoch = state.position_epoch if chunk is None else chunk.leader_epoch
            self._subscription.advance(fetched.partition, fetched.next_offset, epoch)
            if chunk is None:
                self._ready.popleft()
                continue
            left -= len(chunk.records)
            chunks.append(chunk)
        if not chunks and self._errors:
            raise self._errors.popleft()
        return chunks

    def drop(self, partition: TopicPartition) -> None:
        """Forget what is buffered of a partition, because its position was moved."""
        self._ready = deque(each for each in self._ready if each.partition != partition)

    def _send(self, leader: Broker, wanted: dict[TopicPartition, FetchPosition]) -> None:
        config = self._config
        session = self._sessions.setdefault(leader.id, FetchSession())
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.isolation_level == "read_committed"),
            rack_id=config.client_rack,
        )
        version_max = session.fill(request, wanted)
        pending = self._cluster.network.send(
            leader.address, request, max_version=version_max, on_done=lambda each: self._on_done(leader, each)
        )
        if not pending.done:
            self._under_way[leader.id] = (pending, wanted)

    def _on_done(self, leader: Broker, pending: Pending) -> None:
        _, wanted = self._under_way.pop(leader.id, (pending, {}))
        session = self._sessions[leader.id]
        response = pending.response
        if not isinstance(response, FetchResponse):
            session.reset()
            self._cluster.want_refresh()
            if pending.error is not None and not pending.error.retriable:
                self._errors.append(pending.error)
            return
        session.answered(response)
        if response.error_code:
            # The session is gone or out of step, and begins anew; other codes come again per partition.
            self._cluster.want_refresh()
            return
        for topic in response.responses:
            name = session.topic_name(topic.topic, topic.topic_id)
            for data in topic.partitions:
                if name is not None:
                    self._settle(TopicPartition(name, data.partition_index), data, wanted)

    def _settle(
        self, partition: TopicPartition, data: PartitionData, wanted: dict[TopicPartition, FetchPosition]
    ) -> None:
        state = self._subscription.get(partition)
        asked = wanted.get(partition)
        if state is None or asked is None or state.position != asked.offset:
            return  # unassigned or moved meanwhile
        code = ErrorCode(data.error_code)
        if code is ErrorCode.NONE:
            state.high_watermark = data.high_watermark
            state.last_stable_offset = data.last_stable_offset
            state.log_start_offset = data.log_start_offset
            if data.records:
                self._ready.append(_Fetched(partition, data, self._config, asked.offset))
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(partition, asked.offset)
        elif code in _STALE_METADATA:
            state.retry_at_ms = self._cluster.clock.monotonic_ms() + self._config.retry_backoff_ms
            self._cluster.want_refresh()
        else:
            self._errors.append(ApiError(code))

    def _reset(self, partition: TopicPartition, offset: int) -> None:
        policy = self._config.auto_offset_reset
        if policy == "none":
            text = f"Fetch position {offset} is out of range for partition {partition} and there is no reset policy"
            self._errors.append(NoOffsetError(text))
            return
        self._subscription.reset(partition, EARLIEST if policy == "earliest" else LATEST)
