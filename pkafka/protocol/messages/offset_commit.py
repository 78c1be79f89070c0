"""OffsetCommit (key 8, v0-9): a group's member stores positions.

v1 generation and member · v2-4 retention time · v5 without it (KIP-211) · v6 leader epochs (KIP-320) · v7
static members (KIP-345) · v8 flexible · v9 the epochs of KIP-848
"""

from pkafka.protocol.schema import Message, array, int16, int32, int64, string


class OffsetCommitRequestPartition(Message):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class OffsetCommitRequestTopic(Message):
    name: str = string()
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Message, key=8, versions="0-9", flexible="8+"):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", default=None, nullable="7+")
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Message):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Message):
    name: str = string()
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Message, key=8, versions="0-9", flexible="8+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
