"""Heartbeat (key 12, v0-4): a member tells its group that it is alive.

v1 throttle time · v3 static members (KIP-345) · v4 flexible
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.coordinator.routing import Routed
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext


def handle(context: RequestContext[GroupPort], request: HeartbeatRequest, _version: int) -> Routed:
    """Take the request to the group's coordinator."""
    return context.worker.routing.to_owner(context, request.group_id, request, serve, refused)


def serve(groups: Groups, caller: Caller, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
    """Serve a member of a group of this worker."""
    if not groups.rights(caller).may(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = groups.coordinator.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)


def refused(_request: HeartbeatRequest, _version: int, error: ErrorCode) -> HeartbeatResponse:
    """Make the answer for a coordinator that is out of reach."""
    return HeartbeatResponse(error_code=error)
