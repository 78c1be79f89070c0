"""SimpleConsumer: one connection to one broker, no state, no retries beyond one reconnect.

Finding the leader, following it and choosing offsets is the caller's job; so data can be read again at will. Offsets
may be stored for a group in ZooKeeper, by way of the broker (version 0), or in the cluster (version 1).
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self, TypeVar

from pkafka.clients.cluster import TopicView, topic_view
from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import Address
from pkafka.clients.errors import ClientTimeoutError, ClosedError, DisconnectedError, Stage
from pkafka.clients.network import Network
from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST as EARLIEST  # as the others, for applications
from pkafka.model import LATEST as LATEST
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from pkafka.protocol.schema import Message
from pkafka.records.reading import Record, read_records

R = TypeVar("R", bound=Message)

STORED_IN_ZOOKEEPER: Final = 0
STORED_IN_KAFKA: Final = 1

# The last version that names topics: SimpleConsumer knows no topic ids, and no sessions.
_FETCH_VERSION_MAX: Final = 12
_POLL_MS: Final = 1_000


class FetchedPartition(NamedTuple):
    """What a fetch brought of one partition: the code says whether the rest means anything."""

    error: ErrorCode
    high_watermark: int
    data: Buffer
    fetch_offset: int

    def messages(self) -> list[Record]:
        """The messages from the offset asked for on.

        Raises:
            ApiError: ``error`` is set, or the records are damaged.
        """
        if self.error:
            raise ApiError(self.error)
        return list(read_records(self.data, from_offset=self.fetch_offset))


class StoredOffset(NamedTuple):
    """A group's offset as a broker tells it; -1 where none is stored."""

    offset: int
    metadata: str
    error: ErrorCode


class SimpleConsumer:
    """Fetches from one broker. Calls from several threads wait for each other.

    Args:
        host, port: the broker.
        so_timeout_ms: how long to wait for an answer.
        buffer_bytes: of the socket, for receiving; -1 leaves the system's.
        client_id: what the broker logs as this client's name.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        so_timeout_ms: int = 30_000,
        buffer_bytes: int = 65_536,
        client_id: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.address = Address(host, port)
        self._timeout_ms = so_timeout_ms
        self._clock = clock or SystemClock()
        config = ClientConfig.from_properties(
            {
                "bootstrap.servers": str(self.address),
                "client.id": client_id,
                "request.timeout.ms": so_timeout_ms,
                "receive.buffer.bytes": buffer_bytes,
            }
        )
        self._network = Network(config, self._clock)
        self._network.enable_wakeup()
        self._lock = threading.Lock()
        self._interrupted = False

    def close(self) -> None:
        """Close the connection; a call that waits in another thread ends with ``ClosedError``."""
        self.interrupt()
        with self._lock:
            self._network.close()

    def interrupt(self) -> None:
        """Make the call that another thread waits in, and every later one, fail with ``ClosedError``."""
        self._interrupted = True
        self._network.wakeup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- messages and offsets -----------------------------------------------------------------------------

    def fetch(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        bytes_max: int = 1_048_576,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Read from named offsets on.

        Args:
            offsets: where to begin, per partition that this broker leads.
            bytes_max: how much of each partition; a first batch that is larger comes whole.
            max_wait_ms: how long the broker may wait for ``min_bytes``.

        Raises:
            ClientError: the broker cannot be reached, or did not answer in time.
        """
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        for topic, partitions in _by_topic(offsets).items():
            row = FetchTopic(topic=topic)
            row.partitions = [
                FetchPartition(
                    partition=each.partition, fetch_offset=offsets[each], partition_max_bytes=bytes_max
                )
                for each in partitions
            ]
            request.topics.append(row)
        response = self._request(request, FetchResponse, version_max=_FETCH_VERSION_MAX)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code))
        found = {}
        for topic_row in response.responses:
            for data in topic_row.partitions:
                key = TopicPartition(topic_row.topic, data.partition_index)
                found[key] = FetchedPartition(
                    ErrorCode(data.error_code), data.high_watermark, data.records or b"", offsets[key]
                )
        return found

    def offsets_before(
        self, times: Mapping[TopicPartition, int], *, offsets_max: int = 1
    ) -> dict[TopicPartition, list[int] | ApiError]:
        """First offsets of segments older than a time, newest first (ListOffsets v0).

        Args:
            times: ms since the epoch, :data:`EARLIEST` or :data:`LATEST`, per partition that this broker leads.
            offsets_max: how many per partition.
        """
        request = ListOffsetsRequest(replica_id=-1)
        for topic, partitions in _by_topic(times).items():
            row = ListOffsetsTopic(name=topic)
            row.partitions = [
                ListOffsetsPartition(
                    partition_index=each.partition, timestamp=times[each], max_num_offsets=offsets_max
                )
                for each in partitions
            ]
            request.topics.append(row)
        response = self._request(request, ListOffsetsResponse, version_max=0)
        return {
            TopicPartition(topic_row.name, each.partition_index): (
                ApiError(ErrorCode(each.error_code)) if each.error_code else list(each.old_style_offsets)
            )
            for topic_row in response.topics
            for each in topic_row.partitions
        }

    def earliest_or_latest_offset(self, partition: TopicPartition, time: int) -> int:
        """The first offset of a partition, or its end.

        Args:
            time: :data:`EARLIEST` or :data:`LATEST`.

        Raises:
            ApiError: the broker does not lead the partition, or cannot tell.
        """
        found = self.offsets_before({partition: time})[partition]
        if isinstance(found, ApiError):
            raise found
        return found[0]

    def topic_metadata(self, topics: Iterable[str]) -> tuple[dict[str, TopicView], dict[int, Address]]:
        """Partitions and leaders of topics as this broker knows them, and where the brokers are.

        As in Kafka 0.8, asking for a topic that does not exist lets the broker create it.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
        request.allow_auto_topic_creation = True
        response = self._request(request, MetadataResponse)
        brokers = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        return {view.name: view for view in map(topic_view, response.topics)}, brokers

    # -- a group's offsets --------------------------------------------------------------------------------

    def find_coordinator(self, group: str) -> Address | None:
        """Where the group's coordinator is; None while there is none."""
        answer = self._request(FindCoordinatorRequest(key=group), FindCoordinatorResponse, version_max=0)
        return None if answer.error_code else Address(answer.host, answer.port)

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        metadata: str = "",
        version: int = STORED_IN_KAFKA,
    ) -> dict[TopicPartition, ErrorCode]:
        """Store offsets for a group, without being its member.

        Args:
            version: :data:`STORED_IN_ZOOKEEPER` (any broker of a cluster with ZooKeeper) or :data:`STORED_IN_KAFKA`
                (the group's coordinator).
        """
        request = OffsetCommitRequest(group_id=group)
        for topic, partitions in _by_topic(offsets).items():
            row = OffsetCommitRequestTopic(name=topic)
            row.partitions = [
                OffsetCommitRequestPartition(
                    partition_index=each.partition,
                    committed_offset=offsets[each],
                    committed_metadata=metadata,
                )
                for each in partitions
            ]
            request.topics.append(row)
        response = self._request(request, OffsetCommitResponse, version_max=version)
        return {
            TopicPartition(topic_row.name, each.partition_index): ErrorCode(each.error_code)
            for topic_row in response.topics
            for each in topic_row.partitions
        }

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, version: int = STORED_IN_KAFKA
    ) -> dict[TopicPartition, StoredOffset]:
        """What is stored for a group; ``version`` as for :meth:`commit_offsets`."""
        request = OffsetFetchRequest(group_id=group, topics=[])
        assert request.topics is not None
        for topic, keys in _by_topic(partitions).items():
            row = OffsetFetchRequestTopic(name=topic)
            row.partition_indexes = [each.partition for each in keys]
            request.topics.append(row)
        response = self._request(request, OffsetFetchResponse, version_max=version)
        return {
            TopicPartition(topic_row.name, each.partition_index): StoredOffset(
                each.committed_offset, each.metadata or "", ErrorCode(each.error_code)
            )
            for topic_row in response.topics
            for each in topic_row.partitions
        }

    # -- inside -------------------------------------------------------------------------------------------

    def _request(self, message: Message, response_type: type[R], *, version_max: int | None = None) -> R:
        with self._lock:
            try:
                return self._attempt(message, response_type, version_max)
            except DisconnectedError:
                # The broker may have closed a connection that was idle; more than once is the caller's matter.
                return self._attempt(message, response_type, version_max)

    def _attempt(self, message: Message, response_type: type[R], version_max: int | None) -> R:
        if self._interrupted:
            raise ClosedError("the consumer is closed")
        pending = self._network.send(self.address, message, max_version=version_max)
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        while not pending.done:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if self._interrupted or left_ms <= 0:
                self._network.disconnect(self.address)
                if self._interrupted:
                    raise ClosedError("the consumer is closed")
                raise ClientTimeoutError(Stage.REQUEST, f"{self.address} did not answer in time")
            self._network.poll(min(left_ms, _POLL_MS))
        if pending.error is not None:
            raise pending.error
        assert isinstance(pending.response, response_type)
        return pending.response


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        grouped.setdefault(each.topic, []).append(each)
    return grouped
