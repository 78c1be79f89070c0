"""Produce (key 0, v0-12): appends record sets to partitions.

v1 throttle time · v3 v2 batches and transactions (KIP-98) · v5 log start offset · v7 zstd (KIP-110) · v8
errors of single records (KIP-467) · v9 flexible · v10 the new leader in the answer (KIP-951) · v11 nothing
new on the wire · v12 nothing either, but it puts the partitions into the producer's transaction (KIP-890, Kafka 4)
"""

from pkafka.protocol import Buffer
from pkafka.protocol.schema import Message, array, int16, int32, int64, record_set, string, struct


class PartitionProduceData(Message):
    index: int = int32()
    records: Buffer | None = record_set(nullable="0+")


class TopicProduceData(Message):
    name: str = string()
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, key=0, versions="0-12", flexible="9+"):
    transactional_id: str | None = string("3+", default=None, nullable="3+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Message):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", default=None, nullable="8+")


class LeaderIdAndEpoch(Message):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Message):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", default=None, nullable="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Message):
    name: str = string()
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Message):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", default=None, nullable="10+")


class ProduceResponse(Message, key=0, versions="0-12", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
