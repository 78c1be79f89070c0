"""DescribeLogDirs (key 35, v0-4): sizes of replicas by data directory (KIP-113).

v2 flexible · v3 an error for the whole · v4 total and usable bytes (KIP-827)
"""

from pkafka.protocol.schema import Message, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Message):
    topic: str = string()
    partitions: list[int] = array(int32)


class DescribeLogDirsRequest(Message, key=35, versions="0-4", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class DescribeLogDirsPartition(Message):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Message):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Message):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)


class DescribeLogDirsResponse(Message, key=35, versions="0-4", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
