"""What classic consumers tell each other through the coordinator, which does not look inside."""

from pkafka.protocol.schema import Message, array, binary, int32, string


class ConsumerProtocolSubscriptionTopicPartition(Message):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string)
    user_data: bytes | None = binary(default=None, nullable="0+")
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = array(
        ConsumerProtocolSubscriptionTopicPartition, "1+", ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition
    )
    user_data: bytes | None = binary(default=None, nullable="0+")
