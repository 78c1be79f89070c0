"""OffsetFetch (key 9, v0-9): reads a group's positions.

v2 null for all topics, error code of the whole group · v3 throttle time · v5 leader epochs (KIP-320) · v6 flexible ·
v7 stable offsets only (KIP-447) · v8 several groups (KIP-709) · v9 member epochs (KIP-848), which classic groups lack

Version 0 reads the coordination store, as OffsetCommit v0 writes it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from pkafka.errors import ErrorCode
from pkafka.model import NO_EPOCH, NO_OFFSET
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.groups.records import CommittedOffset
from pkafka.server.groups.routing import Groups
from pkafka.server.ipc import words
from pkafka.server.ipc.words import StoreFetch
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.ports.groups import GroupPort
from pkafka.server.security.rights import Rights
from pkafka.server.serving.context import Caller, RequestContext
from pkafka.server.serving.control_line import ControlLine

_GROUP_ERROR_VERSION: Final = 2
_BATCHED_VERSION: Final = 8

_Topic = TypeVar("_Topic", OffsetFetchResponseTopic, OffsetFetchResponseTopics)

Found: TypeAlias = Mapping[PartitionKey, CommittedOffset | ErrorCode | None]


class Port(GroupPort, Authorized, Protocol):
    """What OffsetFetch asks of its worker."""

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def control_line(self) -> ControlLine: ...


def handle(context: RequestContext[Port], request: OffsetFetchRequest, version: int) -> Routed:
    """Take the request to the groups' coordinators, or to the coordination store."""
    if version == 0:
        return _from_store(context.worker, rights_in(context), request)
    if version < _BATCHED_VERSION:
        return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)
    if len(request.groups) == 1:
        return context.worker.routing.to_owner(context, request.groups[0].group_id, request, serve, refused)
    places = context.worker.routing.by_owner([group.group_id for group in request.groups])
    parts = {
        owner: OffsetFetchRequest(
            groups=[request.groups[place] for place in numbers], require_stable=request.require_stable
        )
        for owner, numbers in places.items()
    }

    def merged(responses: Sequence[OffsetFetchResponse]) -> OffsetFetchResponse:
        groups: dict[int, OffsetFetchResponseGroup] = {}
        for numbers, response in zip(places.values(), responses, strict=True):
            groups.update(zip(numbers, response.groups, strict=True))
        return OffsetFetchResponse(groups=[groups[place] for place in range(len(request.groups))])

    return context.worker.routing.to_owners(context, parts, serve, refused, merged)


def serve(groups: Groups, caller: Caller, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """Read offsets of groups of this worker."""
    rights = groups.rights(caller)
    if version < _BATCHED_VERSION:
        keys = _keys(request)
        error, found = _committed(groups, rights, request.group_id, keys, request)
        if error is not ErrorCode.NONE:
            return refused(request, version, error)
        return _response(found)
    answers = []
    for group in request.groups:
        wanted = (
            None
            if group.topics is None
            else [(topic.name, index) for topic in group.topics for index in topic.partition_indexes]
        )
        error, found = _committed(groups, rights, group.group_id, wanted, request)
        answers.append(
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                error_code=error,
                topics=_topics(found, OffsetFetchResponseTopics, OffsetFetchResponsePartitions),
            )
        )
    return OffsetFetchResponse(groups=answers)


def _committed(
    groups: Groups,
    rights: Rights,
    group_id: str,
    wanted: Sequence[PartitionKey] | None,
    request: OffsetFetchRequest,
) -> tuple[ErrorCode, Found]:
    """What a group has committed, as far as the client may know: of all topics it sees those that it may describe."""
    if not rights.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
    denied: Found = {} if wanted is None else _denied(rights, wanted)
    visible = None if wanted is None else [key for key in wanted if key not in denied]
    error, found = groups.offsets.committed(group_id, visible, require_stable=request.require_stable)
    if wanted is None:
        found = {
            key: one
            for key, one in found.items()
            if rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, key[0])
        }
    return error, {**found, **denied}


def _denied(rights: Rights, keys: Sequence[PartitionKey]) -> dict[PartitionKey, ErrorCode]:
    hidden = {
        topic
        for topic in {topic for topic, _ in keys}
        if not rights.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)
    }
    return {key: ErrorCode.TOPIC_AUTHORIZATION_FAILED for key in keys if key[0] in hidden}


def _keys(request: OffsetFetchRequest) -> list[PartitionKey] | None:
    if request.topics is None:
        return None
    return [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]


def _topics(found: Found, topic: Callable[..., _Topic], partition: Callable[..., Message]) -> list[_Topic]:
    """Put what was found, in order, into the structures that a version has for it."""
    answers: dict[str, list[Message]] = {}
    for key in sorted(found):
        answers.setdefault(key[0], []).append(_answered(partition, key[1], found[key]))
    return [topic(name=name, partitions=partitions) for name, partitions in answers.items()]


def _answered(
    partition: Callable[..., Message], index: int, one: CommittedOffset | ErrorCode | None
) -> Message:
    if isinstance(one, CommittedOffset):
        return partition(
            partition_index=index,
            committed_offset=one.offset,
            committed_leader_epoch=one.leader_epoch,
            metadata=one.metadata,
        )
    return partition(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_EPOCH,
        metadata="",
        error_code=one or ErrorCode.NONE,
    )


def _response(found: Found) -> OffsetFetchResponse:
    return OffsetFetchResponse(topics=_topics(found, OffsetFetchResponseTopic, OffsetFetchResponsePartition))


async def _from_store(worker: Port, rights: Rights, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if not rights.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return refused(request, 0, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    keys = _keys(request) or []
    found: dict[PartitionKey, CommittedOffset | ErrorCode | None] = {**_denied(rights, keys)}
    unknown = [key for key in keys if key not in found and worker.metadata.partition(*key) is None]
    found.update(dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    known = [key for key in keys if key not in found]
    if known:
        rows = await worker.control_line.ask(words.FETCH_FROM_STORE, StoreFetch(request.group_id, known))
        for key, (code, offset) in zip(known, rows, strict=True):
            found[key] = ErrorCode(code) if code else CommittedOffset(offset, commit_timestamp=0)
    return _response(found)


def refused(request: OffsetFetchRequest, version: int, error: ErrorCode) -> OffsetFetchResponse:
    """Make the answer for a request of which no group can be read."""
    if version >= _BATCHED_VERSION:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=one.group_id, error_code=error) for one in request.groups
            ]
        )
    if version >= _GROUP_ERROR_VERSION:
        return OffsetFetchResponse(error_code=error)
    return _response(dict.fromkeys(_keys(request) or (), error))
