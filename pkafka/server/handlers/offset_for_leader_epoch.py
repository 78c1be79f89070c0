"""OffsetForLeaderEpoch (key 23, v0-4): where the records of a leader epoch end (KIP-101, KIP-279, KIP-320).

v1 the epoch found · v2 current leader epoch · v3 replica id · v4 flexible
"""

from itertools import groupby
from typing import Final, NamedTuple, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from pkafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from pkafka.security.acl import CLUSTER_NAME, Operation, ResourceType
from pkafka.server.ipc.peer import Handler
from pkafka.server.ports.authorized import Authorized, by_right, rights_in
from pkafka.server.serving.by_owner import Owner, Question
from pkafka.server.serving.context import RequestContext


class Port(Owner, Authorized, Protocol):
    """What OffsetForLeaderEpoch asks of its worker."""


class Wanted(NamedTuple):
    """Asks for the end of one epoch of one partition."""

    topic: str
    partition: int
    current_leader_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


class Found(NamedTuple):
    """Tells the largest epoch up to the one that was asked for, and where its records end."""

    error_code: int
    leader_epoch: LeaderEpoch = NO_EPOCH
    end_offset: Offset = NO_OFFSET


async def handle(
    context: RequestContext[Port], request: OffsetForLeaderEpochRequest, _version: int
) -> OffsetForLeaderEpochResponse:
    """Ask the owners of all partitions."""
    rights = rights_in(context)
    described, hidden = request.topics, list[OffsetForLeaderTopic]()
    # Followers ask this, too; they have a right of their own.
    if not rights.sees(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        described, hidden = by_right(rights, Operation.DESCRIBE, request.topics, lambda topic: topic.topic)
    rows = [
        Wanted(topic.topic, partition.partition, partition.current_leader_epoch, partition.leader_epoch)
        for topic in described
        for partition in topic.partitions
    ]
    answers = await QUESTION.ask(context.worker, rows)
    topics = []
    for name, group in groupby(zip(rows, answers, strict=True), key=lambda pair: pair[0].topic):
        partitions = [
            EpochEndOffset(
                partition=row.partition,
                error_code=found.error_code,
                leader_epoch=found.leader_epoch,
                end_offset=found.end_offset,
            )
            for row, found in group
        ]
        topics.append(OffsetForLeaderTopicResult(topic=name, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics + [_refused(topic) for topic in hidden])


def _refused(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            EpochEndOffset(partition=one.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for one in topic.partitions
        ],
    )


def local(worker: Owner, row: Wanted) -> Found:
    """Answer for a partition of this worker.

    Raises:
        ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, or another broker leads the partition.
    """
    partition = worker.lookup.replica_at(row.topic, row.partition, row.current_leader_epoch, led_only=True)
    return Found(ErrorCode.NONE, *partition.log.end_offset_for_epoch(row.leader_epoch))


QUESTION: Final = Question("offset_for_leader_epoch", Wanted, Found, local, led_only=False)


def operations(worker: Owner) -> dict[str, Handler]:
    """What other workers may ask of this one."""
    return QUESTION.operations(worker)
