"""ElectLeaders (key 43, v0-2): elects preferred, from v1 also unclean leaders (KIP-460).

v2 flexible
"""

from pkafka.protocol.schema import Message, array, int8, int16, int32, string


class TopicPartitions(Message):
    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


class PartitionResult(Message):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Message):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
