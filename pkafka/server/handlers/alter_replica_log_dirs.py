"""AlterReplicaLogDirs (key 34, v0-2): move replicas of this broker to other log directories (KIP-113).

v1 no change · v2 flexible

The answer says whether a move has begun; DescribeLogDirs shows how far it is.
"""

from typing import TYPE_CHECKING

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from pkafka.server.serving.by_owner import Row, ask_owners
from pkafka.server.serving.dispatch import RequestContext

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker


async def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest, _version: int
) -> AlterReplicaLogDirsResponse:
    """Ask the owners of all partitions."""
    # When the request names a partition twice, the last directory counts, as in Kafka.
    paths = {
        (topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    rows: list[Row] = [[*key, path] for key, path in paths.items()]
    answers = await ask_owners(
        context.worker,
        "alter_replica_log_dirs",
        rows,
        local,
        led_only=False,
        away=ErrorCode.REPLICA_NOT_AVAILABLE,
    )
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (name, partition), answer in zip(paths, answers, strict=True):
        results.setdefault(name, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=answer[0])
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def local(worker: "Worker", row: Row) -> Row:
    """Answer for a partition of this worker: the error code."""
    try:
        worker.moves.move_to(*row)
    except ApiError as error:
        return [int(error.code)]
    return [0]
