"""ConsumerGroupHeartbeat (key 68, v0): all that a member of a server-assigned group says (KIP-848)."""

from pkafka.protocol.schema import Message, array, int16, int32, string, struct, uuid


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, default=None, nullable="0+")
    server_assignor: str | None = string(default=None, nullable="0+")
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = array(
        ConsumerGroupHeartbeatRequestTopicPartitions, default=None, nullable="0+"
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class Assignment(Message):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions
    )


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, default=None, nullable="0+")
