"""FindCoordinator (key 10, v0-6): the broker that coordinates a group or a transactional id.

v1 key types, throttle time, error message · v3 flexible · v4 several keys (KIP-699) · v5 and v6 more errors, key types

The metadata suffice for the answer: the coordinator is the leader of the name's partition of the internal topic.
"""

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.coordinator.keyed_topic import KeyedTopic
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.serving.context import RequestContext

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_BATCHED_VERSION: Final = 4
_DENIALS: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""What the client has to be allowed to describe, and the code where it is not."""
_SHARE_VERSION: Final = 6


class Port(Authorized, Protocol):
    """What FindCoordinator asks of its worker."""

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def offsets_topic(self) -> KeyedTopic: ...

    @property
    def state_topic(self) -> KeyedTopic: ...


def handle(
    context: RequestContext[Port], request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Name the coordinators, after the topic was created where it does not exist yet."""
    topic = _topic(context.worker, request.key_type)
    if topic is not None and topic.is_missing and _may_know_any(context, request, version):
        return _create_first(topic, context, request, version)
    return _response(context, request, version)


def _topic(worker: Port, key_type: int) -> KeyedTopic | None:
    if key_type == GROUP:
        return worker.offsets_topic
    return worker.state_topic if key_type == TRANSACTION else None


async def _create_first(
    topic: KeyedTopic, context: RequestContext[Port], request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse:
    await topic.create()
    return _response(context, request, version)


def _keys(request: FindCoordinatorRequest, version: int) -> Sequence[str]:
    return request.coordinator_keys if version >= _BATCHED_VERSION else [request.key]


def _may_know_any(context: RequestContext[Port], request: FindCoordinatorRequest, version: int) -> bool:
    """Whether there is a coordinator that the client may know."""
    kind, _code = _DENIALS[request.key_type]
    rights = rights_in(context)
    return any(rights.sees(Operation.DESCRIBE, kind, key) for key in _keys(request, version))


def _response(
    context: RequestContext[Port], request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse:
    found = [_find(context, request.key_type, key, version) for key in _keys(request, version)]
    if version >= _BATCHED_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    [one] = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        # Only the old versions send a text, and they send one without an error, too.
        error_message=ErrorCode(one.error_code).message if one.error_code else "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(context: RequestContext[Port], key_type: int, key: str, version: int) -> Coordinator:
    worker = context.worker
    if key_type not in (GROUP, TRANSACTION, SHARE):
        error = ErrorCode.INVALID_REQUEST
        return _none(key, error, error.message)
    if key_type == SHARE and version < _SHARE_VERSION:
        return _none(key, ErrorCode.INVALID_REQUEST)
    if key_type in _DENIALS:
        kind, code = _DENIALS[key_type]
        if not rights_in(context).may(Operation.DESCRIBE, kind, key):
            return _none(key, code)
    topic = _topic(worker, key_type)
    if topic is None:
        # Share groups are only a preview of what Kafka 4 has.
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = worker.metadata.leader_of(topic.topic, topic.partition_of(key))
    endpoint = worker.metadata.endpoint(leader, context.listener_name)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_message="")


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
