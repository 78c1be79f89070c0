"""ListGroups (key 16, v0-5): the groups that this broker coordinates.

v1 throttle time · v3 flexible · v4 by state (KIP-518) · v5 by type (KIP-848)
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from pkafka.protocol.schema import Message
from pkafka.security.acl import CLUSTER_NAME, Operation, ResourceType
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.serving.context import Caller, RequestContext

CLASSIC: Final = "classic"
"""The type of every group here: groups of KIP-848 are not served."""


def handle(
    context: RequestContext[GroupPort], request: ListGroupsRequest, _version: int
) -> Message | Awaitable[Message]:
    """Ask all workers."""

    def merged(responses: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
        error = next(filter(None, (one.error_code for one in responses)), ErrorCode.NONE)
        return ListGroupsResponse(
            error_code=error, groups=[group for one in responses for group in one.groups]
        )

    return context.worker.routing.to_all(context, request, serve, refused, merged)


def serve(groups: Groups, caller: Caller, request: ListGroupsRequest, _version: int) -> ListGroupsResponse:
    """List the groups of this worker that the client may describe."""
    rights = groups.rights(caller)
    sees_all = rights.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    error, found = groups.coordinator.overview()
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and CLASSIC not in types:
        found = []
    return ListGroupsResponse(
        error_code=error,
        groups=[
            ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type or "",
                group_state=one.state.value,
                group_type=CLASSIC,
            )
            for one in found
            if not states or one.state.value.lower() in states
            if sees_all or rights.sees(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)
        ],
    )


def refused(_request: ListGroupsRequest, _version: int, error: ErrorCode) -> ListGroupsResponse:
    """Make the answer for a worker that is out of reach: an error, as the list is not complete."""
    return ListGroupsResponse(error_code=error)
