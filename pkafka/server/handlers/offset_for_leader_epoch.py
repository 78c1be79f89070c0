"""OffsetForLeaderEpoch (key 23, v0-4): where the records of a leader epoch end (KIP-101, KIP-279, KIP-320).

v1 the epoch found · v2 current leader epoch · v3 replica id · v4 flexible
"""

from itertools import groupby
from typing import TYPE_CHECKING

from pkafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from pkafka.server.serving.by_owner import Row, ask_owners
from pkafka.server.serving.dispatch import RequestContext

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker


async def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest, _version: int
) -> OffsetForLeaderEpochResponse:
    """Ask the owners of all partitions."""
    rows: list[Row] = [
        [topic.topic, partition.partition, partition.current_leader_epoch, partition.leader_epoch]
        for topic in request.topics
        for partition in topic.partitions
    ]
    answers = await ask_owners(context.worker, "offset_for_leader_epoch", rows, local, led_only=False)
    topics = []
    for name, group in groupby(zip(rows, answers, strict=True), key=lambda pair: pair[0][0]):
        partitions = [
            EpochEndOffset(partition=row[1], error_code=answer[0])
            if answer[0]
            else EpochEndOffset(partition=row[1], leader_epoch=answer[1], end_offset=answer[2])
            for row, answer in group
        ]
        topics.append(OffsetForLeaderTopicResult(topic=name, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def local(worker: "Worker", row: Row) -> Row:
    """Answer for a partition of this worker: code, epoch, end offset.

    Raises:
        ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, or another broker leads the partition.
    """
    partition = worker.lookup.replica_at(row[0], row[1], row[2], led_only=True)
    return [0, *partition.log.end_offset_for_epoch(row[3])]
