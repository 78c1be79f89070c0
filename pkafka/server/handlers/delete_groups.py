"""DeleteGroups (key 42, v0-2): removes groups without members.

v2 flexible
"""

from collections.abc import Awaitable, Sequence

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext


def handle(
    context: RequestContext[GroupPort], request: DeleteGroupsRequest, _version: int
) -> Message | Awaitable[Message]:
    """Ask the coordinators of all groups; a group that is named twice is asked for once."""
    names = list(dict.fromkeys(request.groups_names))
    parts = {
        owner: DeleteGroupsRequest(groups_names=[names[place] for place in numbers])
        for owner, numbers in context.worker.routing.by_owner(names).items()
    }

    def merged(responses: Sequence[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[result for one in responses for result in one.results])

    return context.worker.routing.to_owners(context, parts, serve, refused, merged)


def serve(
    groups: Groups, caller: Caller, request: DeleteGroupsRequest, _version: int
) -> DeleteGroupsResponse:
    """Delete groups of this worker."""
    rights = groups.rights(caller)

    def outcome(name: str) -> ErrorCode:
        if not rights.may(Operation.DELETE, ResourceType.GROUP, name):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        return groups.offsets.delete_group(name)

    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=outcome(name)) for name in request.groups_names
        ]
    )


def refused(request: DeleteGroupsRequest, _version: int, error: ErrorCode) -> DeleteGroupsResponse:
    """Make the answer for a coordinator that is out of reach."""
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=error) for name in request.groups_names]
    )
