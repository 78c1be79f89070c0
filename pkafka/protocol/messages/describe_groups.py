"""DescribeGroups (key 15, v0-5): state and members of classic groups.

v3 authorized operations (KIP-430) · v4 static members (KIP-345) · v5 flexible
"""

from pkafka.protocol.schema import Message, array, binary, boolean, int16, int32, string


class DescribeGroupsRequest(Message, key=15, versions="0-5", flexible="5+"):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Message):
    member_id: str = string()
    group_instance_id: str | None = string("4+", default=None, nullable="4+", ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


class DescribedGroup(Message):
    error_code: int = int16()
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, key=15, versions="0-5", flexible="5+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
