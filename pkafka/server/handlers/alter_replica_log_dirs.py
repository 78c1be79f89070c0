"""AlterReplicaLogDirs (key 34, v0-2): move replicas of this broker to other log directories (KIP-113).

v1 no change · v2 flexible

The answer says whether a move has begun; DescribeLogDirs shows how far it is.
"""

from typing import Final, NamedTuple, Protocol

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from pkafka.security.acl import Operation
from pkafka.server.ipc.peer import Handler
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.replication.directory_moves import DirectoryMoves
from pkafka.server.security.rights import may_in_cluster
from pkafka.server.serving import by_owner
from pkafka.server.serving.context import RequestContext


class Port(by_owner.Owner, Authorized, Protocol):
    """What AlterReplicaLogDirs asks of its worker."""

    @property
    def moves(self) -> DirectoryMoves: ...


class Move(NamedTuple):
    """Asks for one replica in another log directory."""

    topic: str
    partition: int
    path: str


class Begun(NamedTuple):
    """Tells whether a move has begun."""

    error_code: int


async def handle(
    context: RequestContext[Port], request: AlterReplicaLogDirsRequest, _version: int
) -> AlterReplicaLogDirsResponse:
    """Ask the owners of all partitions."""
    # When the request names a partition twice, the last directory counts, as in Kafka.
    paths = {
        (topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    if may_in_cluster(rights_in(context), Operation.ALTER):
        answers = await QUESTION.ask(context.worker, [Move(*key, path) for key, path in paths.items()])
    else:
        answers = [Begun(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * len(paths)
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (name, partition), answer in zip(paths, answers, strict=True):
        results.setdefault(name, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=answer.error_code)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def local(worker: Port, move: Move) -> Begun:
    """Begin to move a partition of this worker."""
    try:
        worker.moves.move_to(*move)
    except ApiError as error:
        return Begun(int(error.code))
    return Begun(ErrorCode.NONE)


QUESTION: Final = by_owner.Question(
    "alter_replica_log_dirs",
    Move,
    Begun,
    local,
    led_only=False,
    away=ErrorCode.REPLICA_NOT_AVAILABLE,
)


def operations(worker: Port) -> dict[str, Handler]:
    """What other workers may ask of this one."""
    return QUESTION.operations(worker)
