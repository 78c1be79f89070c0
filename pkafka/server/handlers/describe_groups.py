"""DescribeGroups (key 15, v0-5): state and members of groups.

v1 throttle time · v3 authorized operations (KIP-430) · v4 static members (KIP-345) · v5 flexible
"""

from collections.abc import Awaitable, Sequence

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from pkafka.protocol.schema import Message
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.groups.routing import Groups
from pkafka.server.ports.groups import GroupPort
from pkafka.server.security.rights import Rights, operations_of
from pkafka.server.serving.context import Caller, RequestContext


def handle(
    context: RequestContext[GroupPort], request: DescribeGroupsRequest, _version: int
) -> Message | Awaitable[Message]:
    """Ask the coordinators of all groups."""
    places = context.worker.routing.by_owner(request.groups)
    parts = {
        owner: DescribeGroupsRequest(
            groups=[request.groups[place] for place in numbers],
            include_authorized_operations=request.include_authorized_operations,
        )
        for owner, numbers in places.items()
    }

    def merged(responses: Sequence[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        groups: dict[int, DescribedGroup] = {}
        for numbers, response in zip(places.values(), responses, strict=True):
            groups.update(zip(numbers, response.groups, strict=True))
        return DescribeGroupsResponse(groups=[groups[place] for place in range(len(request.groups))])

    return context.worker.routing.to_owners(context, parts, serve, refused, merged)


def serve(
    groups: Groups, caller: Caller, request: DescribeGroupsRequest, _version: int
) -> DescribeGroupsResponse:
    """Describe groups of this worker."""
    rights = groups.rights(caller)
    return DescribeGroupsResponse(
        groups=[
            _described(groups, rights, group_id, with_operations=request.include_authorized_operations)
            for group_id in request.groups
        ]
    )


def _described(groups: Groups, rights: Rights, group_id: str, *, with_operations: bool) -> DescribedGroup:
    if not rights.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    found = groups.coordinator.describe(group_id)
    if isinstance(found, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=found)
    group = DescribedGroup(
        group_id=group_id,
        group_state=found.state.value,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=[
            DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in found.members
        ],
    )
    if with_operations:
        group.authorized_operations = operations_of(rights, ResourceType.GROUP, group_id)
    return group


def refused(request: DescribeGroupsRequest, _version: int, error: ErrorCode) -> DescribeGroupsResponse:
    """Make the answer for a coordinator that is out of reach."""
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error) for group_id in request.groups]
    )
