"""Records of __consumer_offsets: consumer groups whose partitions the coordinator assigns (KIP-848)."""

from pkafka.protocol.schema import Message, array, binary, int8, int32, string, struct, uuid


class ConsumerGroupMetadataKey(Message, versions="3"):
    group_id: str = string("3")


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()


class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    group_id: str = string("4")


class PartitionMetadata(Message):
    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Message):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    group_id: str = string("5")
    member_id: str = string("5")


class ClassicProtocol(Message):
    name: str = string()
    metadata: bytes = binary()


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, default=None, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    group_id: str = string("6")


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    group_id: str = string("7")
    member_id: str = string("7")


class TopicPartition(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    group_id: str = string("8")
    member_id: str = string("8")


class TopicPartitions(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
