"""ListOffsets (key 2, v0-9): finds offsets by time, and the ends of a log.

v0 several offsets per partition · v1 one · v2 isolation level · v4 leader epochs (KIP-320) · v6 flexible ·
v7 the record of the greatest time (-3, KIP-734) · v8 local start (-4, KIP-405) · v9 last tiered offset (-5,
KIP-1005)
"""

from pkafka.protocol.schema import Message, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Message):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Message):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message, key=2, versions="0-9", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)


class ListOffsetsPartitionResponse(Message):
    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(int64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Message):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message, key=2, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
