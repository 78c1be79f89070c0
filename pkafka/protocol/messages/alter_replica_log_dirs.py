"""AlterReplicaLogDirs (key 34, v0-2): moves replicas between data directories (KIP-113).

v2 flexible
"""

from pkafka.protocol.schema import Message, array, int16, int32, string


class AlterReplicaLogDirTopic(Message):
    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Message):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Message, key=34, versions="0-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Message, key=34, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
