"""SyncGroup (key 14, v0-5): the leader of the group sends the assignment, every member gets its share.

v1 throttle time · v3 static members (KIP-345) · v4 flexible · v5 protocol type and name (KIP-559)
"""

from collections.abc import Awaitable
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.effects import SyncResult
from pkafka.server.groups.events import SyncRequest
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext

_PROTOCOL_VERSION: Final = 5


def handle(context: RequestContext[GroupPort], request: SyncGroupRequest, _version: int) -> Routed:
    """Take the request to the group's coordinator."""
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(
    groups: Groups, caller: Caller, request: SyncGroupRequest, version: int
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Serve a member of a group of this worker; the answer comes when the leader's assignment is stored."""
    if version >= _PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not groups.rights(caller).may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    syncing = SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: one.assignment for one in request.assignments},
    )
    result = groups.coordinator.sync(request.group_id, syncing)
    if isinstance(result, SyncResult):
        return _response(result)

    async def later(waiting: Awaitable[SyncResult]) -> SyncGroupResponse:
        return _response(await waiting)

    return later(result)


def _response(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def refused(_request: SyncGroupRequest, _version: int, error: ErrorCode) -> SyncGroupResponse:
    """Make the answer for a coordinator that is out of reach."""
    return SyncGroupResponse(error_code=error)
