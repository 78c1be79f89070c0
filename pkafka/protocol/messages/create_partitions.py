"""CreatePartitions (key 37, v0-3): adds partitions to topics (KIP-195).

v2 flexible · v3 throttling errors (KIP-599)
"""

from pkafka.protocol.schema import Message, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Message):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Message):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
