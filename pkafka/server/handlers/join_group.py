"""JoinGroup (key 11, v0-9): a member joins a group and waits for its generation.

v1 rebalance timeout · v2 throttle time · v4 a new member first gets its id (KIP-394) · v5 static members (KIP-345) ·
v6 flexible · v7 protocol type in the answer (KIP-559) · v8 reason (KIP-800) · v9 skipped assignments (KIP-814)
"""

from collections.abc import Awaitable
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.java.addresses import java_text_of
from pkafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.effects import JoinResult
from pkafka.server.groups.events import JoinRequest
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext

_REBALANCE_TIMEOUT_VERSION: Final = 1
_KNOWN_MEMBER_VERSION: Final = 4
_NULLABLE_PROTOCOL_VERSION: Final = 7
_SKIP_ASSIGNMENT_VERSION: Final = 9


def handle(context: RequestContext[GroupPort], request: JoinGroupRequest, _version: int) -> Routed:
    """Take the request to the group's coordinator."""
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(
    groups: Groups, caller: Caller, request: JoinGroupRequest, version: int
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Serve a member of a group of this worker; the answer comes when the group's next generation begins."""
    if not groups.rights(caller).may(Operation.READ, ResourceType.GROUP, request.group_id):
        return _response(JoinResult(error=ErrorCode.GROUP_AUTHORIZATION_FAILED, member_id=""), version)
    has_timeout = version >= _REBALANCE_TIMEOUT_VERSION
    joining = JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id or "",
        client_host=java_text_of(caller.host),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        requires_known_member=version >= _KNOWN_MEMBER_VERSION,
        can_skip_assignment=version >= _SKIP_ASSIGNMENT_VERSION,
        reason=request.reason,
    )
    result = groups.coordinator.join(request.group_id, joining)
    if isinstance(result, JoinResult):
        return _response(result, version)

    async def later(waiting: Awaitable[JoinResult]) -> JoinGroupResponse:
        return _response(await waiting, version)

    return later(result)


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    name = result.protocol_name
    if name is None and version < _NULLABLE_PROTOCOL_VERSION:
        name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=name,
        leader=result.leader,
        skip_assignment=result.skip_assignment and version >= _SKIP_ASSIGNMENT_VERSION,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in result.members
        ],
    )


def refused(request: JoinGroupRequest, version: int, error: ErrorCode) -> JoinGroupResponse:
    """Make the answer for a coordinator that is out of reach."""
    return _response(JoinResult(error=error, member_id=request.member_id), version)
