"""DescribeTopicPartitions (key 75, v0): topics page by page (KIP-966); Kafka 3.9 serves it with KRaft only."""

from pkafka.protocol.schema import Message, array, boolean, int16, int32, string, struct, uuid


class TopicRequest(Message):
    name: str = string()


class DescribeTopicPartitionsRequestCursor(Message):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = struct(
        DescribeTopicPartitionsRequestCursor, default=None, nullable="0+"
    )


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, default=None, nullable="0+")
    last_known_elr: list[int] | None = array(int32, default=None, nullable="0+")
    offline_replicas: list[int] = array(int32, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsResponseCursor(Message):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: DescribeTopicPartitionsResponseCursor | None = struct(
        DescribeTopicPartitionsResponseCursor, default=None, nullable="0+"
    )
