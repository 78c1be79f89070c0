"""TxnOffsetCommit (key 28, v0-4): a group's member stores positions as part of a producer's transaction.

v2 leader epochs (KIP-320), COORDINATOR_LOAD_IN_PROGRESS · v3 flexible; member, generation and static members (KIP-447)
· v4 TRANSACTION_ABORTABLE (KIP-890)

The coordinator of the transaction is asked first whether the transaction has the group's partition of
__consumer_offsets, unless the log has the transaction already: an offset of a transaction that has ended would keep the
partition's readers waiting for a marker that never comes.
"""

from collections.abc import Awaitable, Mapping
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.coordinator.topic_log import TransactionalProducer
from pkafka.server.groups.commits import Outcomes
from pkafka.server.groups.named_partitions import codes_by_topic, known_partitions, unreadable_partitions
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.groups.records import CommittedOffset
from pkafka.server.groups.routing import Groups
from pkafka.server.groups.transactional_offsets import Committing
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.transactions.errors import abortable_as

_FIRST_VERSION_WITH_LOADING: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 4


def handle(context: RequestContext[GroupPort], request: TxnOffsetCommitRequest, _version: int) -> Routed:
    """Take the request to the group's coordinator."""
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(
    groups: Groups, caller: Caller, request: TxnOffsetCommitRequest, version: int
) -> Message | Awaitable[Message]:
    """Store offsets of a group of this worker, in a transaction."""
    rights = groups.rights(caller)
    if not rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return refused(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not rights.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = unreadable_partitions(rights, request.topics)
    now_ms = groups.clock.now_ms()
    commits = {
        key: CommittedOffset(
            one.committed_offset, now_ms, one.committed_leader_epoch, one.committed_metadata or ""
        )
        for key, one in known_partitions(groups.metadata, request.topics, denied).items()
    }
    if not commits:
        return _response(request, version, denied)
    committing = Committing(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        request.transactional_id,
        TransactionalProducer(request.producer_id, request.producer_epoch),
    )
    outcomes = groups.transactional_offsets.commit(committing, commits)
    if isinstance(outcomes, dict):
        return _response(request, version, {**outcomes, **denied})

    async def later(waiting: Awaitable[Outcomes]) -> Message:
        return _response(request, version, {**await waiting, **denied})

    return later(outcomes)


def _response(
    request: TxnOffsetCommitRequest, version: int, outcomes: Mapping[PartitionKey, ErrorCode]
) -> TxnOffsetCommitResponse:
    codes = codes_by_topic(request.topics, outcomes)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=index, error_code=_as_known(code, version)
                    )
                    for index, code in of_topic.items()
                ],
            )
            for name, of_topic in codes.items()
        ]
    )


def _as_known(error: ErrorCode, version: int) -> ErrorCode:
    """Return the error by which clients of a version know what to do."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_VERSION_WITH_LOADING:
        return (
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        )  # clients of these versions may end at the other (KAFKA-7296)
    return abortable_as(error, is_known=version >= _FIRST_VERSION_WITH_ABORTABLE)


def refused(request: TxnOffsetCommitRequest, version: int, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Make the answer for a coordinator that is out of reach."""
    named = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    return _response(request, version, dict.fromkeys(named, error))
