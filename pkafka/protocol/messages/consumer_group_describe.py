"""ConsumerGroupDescribe (key 69, v0): state and members of server-assigned groups (KIP-848)."""

from pkafka.protocol.schema import Message, array, boolean, int16, int32, string, struct, uuid


class ConsumerGroupDescribeRequest(Message, key=69, versions="0", flexible="0+"):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Message):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Message):
    member_id: str = string()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(default=None, nullable="0+")
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)


class DescribedGroup(Message):
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(Message, key=69, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
