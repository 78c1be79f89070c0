"""FindCoordinator (key 10, v0-6): the broker that coordinates a group.

v1 key types, throttle time, error message · v3 flexible · v4 several keys (KIP-699) · v5 and v6 more errors, key types

The metadata suffice for the answer: the coordinator of a group is the leader of its partition of __consumer_offsets.
"""

from collections.abc import Awaitable
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.serving.context import RequestContext
from pkafka.server.serving.control_line import ControlLine

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_BATCHED_VERSION: Final = 4
_SHARE_VERSION: Final = 6


class Port(Protocol):
    """What FindCoordinator asks of its worker."""

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def control_line(self) -> ControlLine: ...


def handle(
    context: RequestContext[Port], request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Name the coordinators, after the topic was created where it does not exist yet."""
    worker = context.worker
    if request.key_type == GROUP and worker.metadata.topic(CONSUMER_OFFSETS_TOPIC) is None:
        return _create_first(context, request, version)
    return _response(context, request, version)


async def _create_first(
    context: RequestContext[Port], request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse:
    groups = context.worker.groups
    if not groups.is_topic_on_its_way:
        # The topic is created once, however many clients look for a coordinator of a new broker.
        groups.is_topic_on_its_way = True
        try:
            await context.worker.control_line.auto_create([CONSUMER_OFFSETS_TOPIC])
        finally:
            groups.is_topic_on_its_way = False
    return _response(context, request, version)


def _response(
    context: RequestContext[Port], request: FindCoordinatorRequest, version: int
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if version >= _BATCHED_VERSION else [request.key]
    found = [_find(context, request.key_type, key, version) for key in keys]
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
    if key_type != GROUP:
        # Transactions are not served yet, and share groups are only a preview of what Kafka 4 has.
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = worker.metadata.leader_of(CONSUMER_OFFSETS_TOPIC, worker.groups.partition_of(key))
    endpoint = worker.metadata.endpoint(leader, context.listener_name)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_message="")


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
