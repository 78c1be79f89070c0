"""AlterPartitionReassignments (key 45, v0): moves replicas to other brokers, or stops that (KIP-455)."""

from pkafka.protocol.schema import Message, array, int16, int32, string


class ReassignablePartition(Message):
    partition_index: int = int32()
    replicas: list[int] | None = array(int32, default=None, nullable="0+")


class ReassignableTopic(Message):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Message):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Message, key=45, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
