"""DescribeLogDirs (key 35, v0-4): what each log directory holds, with the replicas that move there (KIP-113).

v1 no change · v2 flexible · v3 error code of the whole answer · v4 total and usable bytes (KIP-827)
"""

import shutil
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from pkafka.security.acl import Operation
from pkafka.server.ipc.peer import Handler, PeerGone
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.moving import Moving
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.security.rights import may_in_cluster
from pkafka.server.serving.context import RequestContext
from pkafka.server.serving.peers import Peers
from pkafka.storage.log import Log

_OPERATION: Final = "describe_log_dirs"
_NO_LAG: Final = -1


class Port(Authorized, Protocol):
    """What DescribeLogDirs asks of its worker."""

    @property
    def partitions(self) -> Partitions: ...

    @property
    def moving(self) -> Moving: ...

    @property
    def disks(self) -> Disks: ...

    @property
    def peers(self) -> Peers: ...


class Described(NamedTuple):
    """Describes one log."""

    directory: str
    topic: str
    partition: int
    is_future: bool
    """Whether it moves to this directory, and the replica that serves is in another one."""
    size_bytes: int
    lag: int


async def handle(
    context: RequestContext[Port], request: DescribeLogDirsRequest, _version: int
) -> DescribeLogDirsResponse:
    """Collect the sizes from all workers."""
    worker = context.worker
    if not may_in_cluster(rights_in(context), Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    rows = local(worker)
    for peer in list(worker.peers.others.values()):
        try:
            rows += [Described(*row) for row in (await peer.call(_OPERATION))[0]]
        except (PeerGone, ApiError):
            # The worker died and its successor is opening the logs: this answer lacks them, as during a start.
            continue
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    found: dict[str, dict[str, list[DescribeLogDirsPartition]]] = {
        str(path): {} for path in worker.disks.log_dirs
    }
    for row in sorted(rows):
        if wanted is None or (row.topic, row.partition) in wanted:
            found.setdefault(row.directory, {}).setdefault(row.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=row.partition,
                    partition_size=row.size_bytes,
                    offset_lag=row.lag,
                    is_future_key=row.is_future,
                )
            )
    return DescribeLogDirsResponse(
        results=[_result(worker.disks, path, topics) for path, topics in found.items()]
    )


def _result(
    disks: Disks, path: str, topics: Mapping[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if disks.is_offline(path):
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
        total_bytes=usage.total,
        usable_bytes=usage.free,
    )


def local(worker: Port) -> list[Described]:
    """Describe the logs of this worker."""
    partitions = worker.partitions
    return [
        Described(
            str(log.directory.parent),
            *log.topic_partition,
            log.is_future,
            log.size_bytes,
            _lag(partitions, log),
        )
        for log in (*partitions.logs(), *worker.moving.logs())
    ]


def operations(worker: Port) -> dict[str, Handler]:
    """What other workers may ask of this one."""
    return {_OPERATION: lambda _peer, _payload, _blob, _fds: local(worker)}


def _lag(partitions: Partitions, log: Log) -> int:
    """How many offsets a log is behind.

    Returns:
        For a future replica its distance to the current one, -1 when there is no current one. For the current replica
        0: Kafka counts from its high watermark, which is never above its end.
    """
    partition = partitions.hosted.get((log.topic_partition.topic, log.topic_partition.partition))
    if partition is None:
        return _NO_LAG
    return partition.log.log_end_offset - log.log_end_offset if log.is_future else 0
