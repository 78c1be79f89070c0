"""LeaveGroup (key 13, v0-5): members leave a group.

v1 throttle time · v3 several at once, static members (KIP-345) · v4 flexible · v5 reason (KIP-800)
"""

from typing import Final

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.events import Leaving
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext

_BATCHED_VERSION: Final = 3


def handle(context: RequestContext[GroupPort], request: LeaveGroupRequest, _version: int) -> Routed:
    """Take the request to the group's coordinator."""
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(groups: Groups, caller: Caller, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
    """Serve members of a group of this worker."""
    if not groups.rights(caller).may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if version < _BATCHED_VERSION:
        leaving = [Leaving(member_id=request.member_id)]
    else:
        leaving = [
            Leaving(member_id=one.member_id, instance_id=one.group_instance_id, reason=one.reason)
            for one in request.members
        ]
    error, members = groups.coordinator.leave(request.group_id, leaving)
    if version < _BATCHED_VERSION:
        codes = [error, *(one.error for one in members)]
        return LeaveGroupResponse(error_code=next(filter(None, codes), ErrorCode.NONE))
    return LeaveGroupResponse(
        error_code=error,
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=one.error)
            for one in members
        ],
    )


def refused(_request: LeaveGroupRequest, _version: int, error: ErrorCode) -> LeaveGroupResponse:
    """Make the answer for a coordinator that is out of reach."""
    return LeaveGroupResponse(error_code=error)
