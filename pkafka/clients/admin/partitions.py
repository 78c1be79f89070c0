"""Partitions: offsets by time, deletion of records, producers, log directories."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from pkafka.clients.admin.results import LogDir, Outcome, ProducerState, ReplicaOnDisk, error_outcome
from pkafka.clients.cluster import Cluster, TopicView
from pkafka.clients.errors import ClientError
from pkafka.clients.offsets import ListedOffset
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST as EARLIEST  # as the others, for applications
from pkafka.model import EARLIEST_LOCAL as EARLIEST_LOCAL
from pkafka.model import LATEST as LATEST
from pkafka.model import LATEST_TIERED as LATEST_TIERED
from pkafka.model import MAX_TIMESTAMP as MAX_TIMESTAMP
from pkafka.model import TopicPartition
from pkafka.protocol.schema import Message

if TYPE_CHECKING:
    from pkafka.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
    from pkafka.protocol.messages.describe_producers import ProducerState as WireProducerState
    from pkafka.protocol.messages.list_offsets import ListOffsetsRequest

R = TypeVar("R", bound=Message)
V = TypeVar("V")

# A leader may be on its way: these pass with fresh metadata.
_MOVING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class PartitionsAdmin:
    """Looks into partitions, and deletes records; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Outcome[ListedOffset]]:
        """Look offsets up.

        Args:
            timestamps: milliseconds since the epoch, or one of the constants of this module, per partition.
            read_committed: LATEST is then the last stable offset.

        Raises:
            UnsupportedApiError: the broker is too old for MAX_TIMESTAMP, EARLIEST_LOCAL or LATEST_TIERED.
        """

        from pkafka.protocol.messages import list_offsets as wire

        def ask(group: list[TopicPartition]) -> wire.ListOffsetsRequest:
            return _list_offsets_request(timestamps, group, read_committed=read_committed)

        def read(response: wire.ListOffsetsResponse) -> dict[TopicPartition, Outcome[ListedOffset]]:
            return {
                TopicPartition(topic.name, each.partition_index): (
                    ApiError(ErrorCode(each.error_code))
                    if each.error_code
                    else ListedOffset(each.offset, each.timestamp, each.leader_epoch)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._at_leaders(timestamps, wire.ListOffsetsResponse, ask, read, timeout_ms)

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Outcome[int]]:
        """Delete all records before an offset.

        Args:
            offsets: per partition the first offset to keep; -1 deletes up to the high watermark.

        Returns:
            The new low watermark per partition.
        """
        from pkafka.protocol.messages import delete_records as wire

        config = self.cluster.config

        def ask(group: list[TopicPartition]) -> wire.DeleteRecordsRequest:
            request = wire.DeleteRecordsRequest()
            request.timeout_ms = min(config.request_timeout_ms, timeout_ms or config.request_timeout_ms)
            for topic, indexes in by_topic(group).items():
                row = wire.DeleteRecordsTopic(name=topic)
                row.partitions = [
                    wire.DeleteRecordsPartition(
                        partition_index=index, offset=offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ]
                request.topics.append(row)
            return request

        def read(response: wire.DeleteRecordsResponse) -> dict[TopicPartition, Outcome[int]]:
            return {
                TopicPartition(topic.name, each.partition_index): (
                    ApiError(ErrorCode(each.error_code)) if each.error_code else each.low_watermark
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._at_leaders(offsets, wire.DeleteRecordsResponse, ask, read, timeout_ms)

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Outcome[list[ProducerState]]]:
        """The producers that write to partitions, as their leaders remember them, by producer id.

        Raises:
            UnsupportedApiError: the broker is too old.
        """
        from pkafka.protocol.messages import describe_producers as wire

        def ask(group: list[TopicPartition]) -> wire.DescribeProducersRequest:
            return wire.DescribeProducersRequest(
                topics=[
                    wire.TopicRequest(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(group).items()
                ]
            )

        def read(
            response: wire.DescribeProducersResponse,
        ) -> dict[TopicPartition, Outcome[list[ProducerState]]]:
            return {
                TopicPartition(topic.name, each.partition_index): (
                    ApiError(ErrorCode(each.error_code), each.error_message)
                    if each.error_code
                    else sorted(_producer_state(one) for one in each.active_producers)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._at_leaders(list(partitions), wire.DescribeProducersResponse, ask, read, timeout_ms)

    def describe_log_dirs(
        self, brokers: Collection[int] | None = None, *, timeout_ms: int | None = None
    ) -> dict[int, list[LogDir] | ApiError | ClientError]:
        """The log directories of brokers with every replica in them.

        Args:
            brokers: their ids; None for all. One that is not alive is a BROKER_NOT_AVAILABLE outcome.
        """
        from pkafka.protocol.messages import describe_log_dirs as wire

        view = self.cluster.known()
        wanted = list(view.brokers if brokers is None else brokers)
        messages = {node: wire.DescribeLogDirsRequest(topics=None) for node in wanted if node in view.brokers}
        answers = self.cluster.request_each(messages, wire.DescribeLogDirsResponse, timeout_ms=timeout_ms)
        found: dict[int, list[LogDir] | ApiError | ClientError] = {}
        for node in wanted:
            answer = answers.get(node)
            if answer is None:
                found[node] = ApiError(
                    ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node} is not part of the cluster"
                )
            else:
                found[node] = answer if isinstance(answer, ClientError) else _log_dirs(answer)
        return found

    def _at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        response_type: type[R],
        ask: Callable[[list[TopicPartition]], Message],
        read: Callable[[R], dict[TopicPartition, Outcome[V]]],
        timeout_ms: int | None,
    ) -> dict[TopicPartition, Outcome[V]]:
        """Ask the leader of every partition, again while leaders move, until the time-out."""
        cluster = self.cluster
        wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = cluster.clock.monotonic_ms() + wait_ms
        left = list(partitions)
        outcomes: dict[TopicPartition, Outcome[V]] = {}
        attempt = 0
        while left:
            left_ms = max(1, deadline_ms - cluster.clock.monotonic_ms())
            view = cluster.refresh({each.topic for each in left}, timeout_ms=left_ms)
            groups: dict[int, list[TopicPartition]] = {}
            for partition in left:
                leader = view.leader(partition)
                if leader is None:
                    outcomes[partition] = _without_leader(view.topics.get(partition.topic), partition)
                else:
                    groups.setdefault(leader.id, []).append(partition)
            messages = {node: ask(group) for node, group in groups.items()}
            answers = cluster.request_each(messages, response_type, timeout_ms=left_ms)
            for node, answer in answers.items():
                if isinstance(answer, ClientError):
                    outcomes.update(dict.fromkeys(groups[node], error_outcome(answer)))
                else:
                    outcomes.update(read(answer))
            left = [each for each in left if _may_pass(outcomes[each])]
            if cluster.clock.monotonic_ms() >= deadline_ms:
                break
            if left:
                cluster.pause(attempt, deadline_ms)
                attempt += 1
        return outcomes


def _producer_state(one: "WireProducerState") -> ProducerState:
    return ProducerState(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        last_sequence=one.last_sequence,
        last_timestamp=one.last_timestamp,
        coordinator_epoch=None if one.coordinator_epoch < 0 else one.coordinator_epoch,
        transaction_start_offset=None if one.current_txn_start_offset < 0 else one.current_txn_start_offset,
    )


def _may_pass(outcome: object) -> bool:
    return isinstance(outcome, ApiError) and (
        outcome.code in _MOVING or outcome.code in (ErrorCode.NETWORK_EXCEPTION,)
    )


def _without_leader(topic: TopicView | None, partition: TopicPartition) -> ApiError:
    """Why a partition has no leader: a topic or partition that does not exist is final, an election is not."""
    if topic is not None and topic.error and topic.error is not ErrorCode.LEADER_NOT_AVAILABLE:
        return ApiError(topic.error)
    if topic is None or all(each.partition != partition.partition for each in topic.partitions):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return ApiError(ErrorCode.LEADER_NOT_AVAILABLE)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def _list_offsets_request(
    timestamps: Mapping[TopicPartition, int], group: list[TopicPartition], *, read_committed: bool
) -> "ListOffsetsRequest":
    from pkafka.protocol.messages import list_offsets as wire

    request = wire.ListOffsetsRequest()
    request.replica_id = -1
    request.isolation_level = int(read_committed)
    for topic, indexes in by_topic(group).items():
        row = wire.ListOffsetsTopic(name=topic)
        row.partitions = [
            wire.ListOffsetsPartition(
                partition_index=index, timestamp=timestamps[TopicPartition(topic, index)]
            )
            for index in indexes
        ]
        request.topics.append(row)
    return request


def _log_dirs(response: "DescribeLogDirsResponse") -> list[LogDir] | ApiError:
    if response.error_code:
        return ApiError(ErrorCode(response.error_code))
    return [
        LogDir(
            each.log_dir,
            ApiError(ErrorCode(each.error_code)) if each.error_code else None,
            tuple(
                ReplicaOnDisk(
                    TopicPartition(topic.name, row.partition_index),
                    row.partition_size,
                    row.offset_lag,
                    row.is_future_key,
                )
                for topic in each.topics
                for row in topic.partitions
            ),
            each.total_bytes,
            each.usable_bytes,
        )
        for each in response.results
    ]
