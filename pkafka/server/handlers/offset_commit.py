"""OffsetCommit (key 8, v0-9): a group's member stores positions.

v1 generation and member · v2 to v4 retention time · v3 throttle time · v5 without retention time (KIP-211) ·
v6 leader epochs (KIP-320) · v7 static members (KIP-345) · v8 flexible · v9 new errors only (KIP-848)

Version 0 writes to the coordination store, as in Kafka's ZooKeeper mode; any broker serves it.
"""

from collections.abc import Awaitable, Mapping
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import NO_TIMESTAMP
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.commits import Outcomes, java_length
from pkafka.server.groups.named_partitions import codes_by_topic, known_partitions, unreadable_partitions
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.groups.records import NO_EXPIRY, CommittedOffset
from pkafka.server.groups.routing import Groups
from pkafka.server.ipc import words
from pkafka.server.ipc.words import StoreCommit
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.ports.groups import GroupPort
from pkafka.server.security.rights import Rights
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.serving.control_line import ControlLine

_NO_RETENTION: Final = -1


class Port(GroupPort, Authorized, Protocol):
    """What OffsetCommit asks of its worker."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def control_line(self) -> ControlLine: ...


def handle(context: RequestContext[Port], request: OffsetCommitRequest, version: int) -> Routed:
    """Take the request to the group's coordinator, or to the coordination store."""
    if version == 0:
        return _to_store(context.worker, rights_in(context), request)
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(
    groups: Groups, caller: Caller, request: OffsetCommitRequest, version: int
) -> Message | Awaitable[Message]:
    """Store offsets of a group of this worker."""
    rights = groups.rights(caller)
    if not rights.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = unreadable_partitions(rights, request.topics)
    now_ms = groups.clock.now_ms()
    expires_ms = (
        NO_EXPIRY if request.retention_time_ms == _NO_RETENTION else now_ms + request.retention_time_ms
    )
    commits = {
        key: CommittedOffset(
            one.committed_offset,
            now_ms if one.commit_timestamp == NO_TIMESTAMP else one.commit_timestamp,
            one.committed_leader_epoch,
            one.committed_metadata or "",
            expires_ms,
        )
        for key, one in known_partitions(groups.metadata, request.topics, denied).items()
    }
    if not commits:
        return _response(request, denied)
    outcomes = groups.offsets.commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        commits,
    )
    if isinstance(outcomes, dict):
        return _response(request, {**outcomes, **denied})

    async def later(waiting: Awaitable[Outcomes]) -> Message:
        return _response(request, {**await waiting, **denied})

    return later(outcomes)


def _response(
    request: OffsetCommitRequest, outcomes: Mapping[PartitionKey, ErrorCode]
) -> OffsetCommitResponse:
    codes = codes_by_topic(request.topics, outcomes)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in of_topic.items()
                ],
            )
            for name, of_topic in codes.items()
        ]
    )


async def _to_store(worker: Port, rights: Rights, request: OffsetCommitRequest) -> OffsetCommitResponse:
    if not rights.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, 0, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = unreadable_partitions(rights, request.topics)
    known = known_partitions(worker.metadata, request.topics, denied)
    outcomes = {**denied, **dict.fromkeys(known, ErrorCode.OFFSET_METADATA_TOO_LARGE)}
    chars_max = worker.config.offset_metadata_max_bytes
    rows = [
        (*key, one.committed_offset)
        for key, one in known.items()
        if java_length(one.committed_metadata or "") <= chars_max
    ]
    if rows:
        codes = await worker.control_line.ask(words.COMMIT_TO_STORE, StoreCommit(request.group_id, rows))
        for row, code in zip(rows, codes, strict=True):
            outcomes[row[0], row[1]] = ErrorCode(code)
    return _response(request, outcomes)


def refused(request: OffsetCommitRequest, _version: int, error: ErrorCode) -> OffsetCommitResponse:
    """Make the answer for a coordinator that is out of reach."""
    named = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    return _response(request, dict.fromkeys(named, error))
