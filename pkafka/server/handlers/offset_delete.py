"""OffsetDelete (key 47, v0): removes what a group committed for partitions (KIP-496)."""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.named_partitions import unreadable_partitions
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext


def handle(context: RequestContext[GroupPort], request: OffsetDeleteRequest, _version: int) -> Routed:
    """Take the request to the group's coordinator."""
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(groups: Groups, caller: Caller, request: OffsetDeleteRequest, version: int) -> OffsetDeleteResponse:
    """Delete offsets of a group of this worker."""
    rights = groups.rights(caller)
    if not rights.may(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = unreadable_partitions(rights, request.topics)
    named = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    known = [key for key in named if key not in denied and groups.metadata.partition(*key) is not None]
    error, outcomes = groups.offsets.delete_offsets(request.group_id, known)
    if error is not ErrorCode.NONE:
        return refused(request, version, error)
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for name, index in dict.fromkeys(named):
        code = denied.get((name, index)) or outcomes.get((name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answered = OffsetDeleteResponsePartition(partition_index=index, error_code=code)
        topics.setdefault(name, OffsetDeleteResponseTopic(name=name)).partitions.append(answered)
    return OffsetDeleteResponse(topics=list(topics.values()))


def refused(_request: OffsetDeleteRequest, _version: int, error: ErrorCode) -> OffsetDeleteResponse:
    """Make the answer for a request of which nothing can be done."""
    return OffsetDeleteResponse(error_code=error)
