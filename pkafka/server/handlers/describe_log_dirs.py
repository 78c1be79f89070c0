"""DescribeLogDirs (key 35, v0-4): what each log directory holds, with the replicas that move there (KIP-113).

v1 no change · v2 flexible · v3 error code of the whole answer · v4 total and usable bytes (KIP-827)
"""

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.serving.dispatch import RequestContext

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.storage.log import Log

_NO_LAG: Final = -1


async def handle(
    context: RequestContext, request: DescribeLogDirsRequest, _version: int
) -> DescribeLogDirsResponse:
    """Collect the sizes from all workers."""
    worker = context.worker
    rows = local(worker)
    for peer in list(worker.peers.others.values()):
        try:
            rows += (await peer.call("describe_log_dirs"))[0]
        except (PeerGone, ApiError):
            # The worker died and its successor is opening the logs: this answer lacks them, as during a start.
            continue
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    found: dict[str, dict[str, list[DescribeLogDirsPartition]]] = {
        str(path): {} for path in worker.disks.log_dirs
    }
    for directory, topic, partition, is_future, size, lag in sorted(rows):
        if wanted is None or (topic, partition) in wanted:
            found.setdefault(directory, {}).setdefault(topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=partition, partition_size=size, offset_lag=lag, is_future_key=is_future
                )
            )
    return DescribeLogDirsResponse(results=[_result(worker, path, topics) for path, topics in found.items()])


def _result(
    worker: "Worker", path: str, topics: Mapping[str, list[DescribeLogDirsPartition]]
) -> DescribeLogDirsResult:
    if worker.disks.is_offline(path):
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


def local(worker: "Worker") -> list[list[Any]]:
    """Describe the logs of this worker.

    Returns:
        A row a log: directory, topic, partition, whether it is a future replica, bytes, offset lag.
    """
    logs = [*worker.partitions.logs(), *worker.moving.logs()]
    return [
        [str(log.directory.parent), *log.topic_partition, log.is_future, log.size_bytes, _lag(worker, log)]
        for log in logs
    ]


def _lag(worker: "Worker", log: "Log") -> int:
    """How many offsets a log is behind.

    Returns:
        For a future replica its distance to the current one, -1 when there is no current one. For the current replica
        0: Kafka counts from its high watermark, which is never above its end.
    """
    partition = worker.partitions.hosted.get((log.topic_partition.topic, log.topic_partition.partition))
    if partition is None:
        return _NO_LAG
    return partition.log.log_end_offset - log.log_end_offset if log.is_future else 0
