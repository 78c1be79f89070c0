"""Partitions: offsets by time, deletion of records, producers, log directories."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from pkafka.clients.admin.leaders import at_leaders, by_topic
from pkafka.clients.admin.results import LogDir, Outcome, ProducerState, ReplicaOnDisk
from pkafka.clients.cluster import Cluster
from pkafka.clients.errors import ClientError
from pkafka.clients.offsets import ListedOffset
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST as EARLIEST  # as the others, for applications
from pkafka.model import EARLIEST_LOCAL as EARLIEST_LOCAL
from pkafka.model import LATEST as LATEST
from pkafka.model import LATEST_TIERED as LATEST_TIERED
from pkafka.model import MAX_TIMESTAMP as MAX_TIMESTAMP
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
    from pkafka.protocol.messages.describe_producers import ProducerState as WireProducerState
    from pkafka.protocol.messages.list_offsets import ListOffsetsRequest


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

        return at_leaders(
            self.cluster, timestamps, wire.ListOffsetsResponse, ask, read, timeout_ms=timeout_ms
        )

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

        return at_leaders(self.cluster, offsets, wire.DeleteRecordsResponse, ask, read, timeout_ms=timeout_ms)

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Outcome[list[ProducerState]]]:
        """The producers that write to partitions, as their leaders remember them, by producer id (KIP-664).

        Args:
            broker: the id of a broker with replicas of them that is asked in place of the leaders. A partition of
                which it has no replica is a NOT_LEADER_OR_FOLLOWER outcome.

        Raises:
            UnsupportedApiError: the broker is too old.
            ApiError: the cluster has no such broker.
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

        wanted = list(partitions)
        if broker is not None:
            response = self.cluster.request(
                ask(wanted), wire.DescribeProducersResponse, to=broker, timeout_ms=timeout_ms
            )
            return read(response)
        return at_leaders(
            self.cluster, wanted, wire.DescribeProducersResponse, ask, read, timeout_ms=timeout_ms
        )

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


def _producer_state(one: "WireProducerState") -> ProducerState:
    return ProducerState(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        last_sequence=one.last_sequence,
        last_timestamp=one.last_timestamp,
        coordinator_epoch=None if one.coordinator_epoch < 0 else one.coordinator_epoch,
        transaction_start_offset=None if one.current_txn_start_offset < 0 else one.current_txn_start_offset,
    )


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
