"""JoinGroup (key 11, v0-9): a member joins a classic group and waits for its generation.

v1 rebalance timeout · v4 the member id comes first (KIP-394) · v5 static members (KIP-345) · v6 flexible ·
v7 protocol type in the answer (KIP-559) · v8 reason (KIP-800) · v9 whether to skip the assignment (KIP-814)
"""

from pkafka.protocol.schema import Message, array, binary, boolean, int16, int32, string


class JoinGroupRequestProtocol(Message):
    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", default=None, nullable="5+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", default=None, nullable="8+", ignorable=True)


class JoinGroupResponseMember(Message):
    member_id: str = string()
    group_instance_id: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    metadata: bytes = binary()


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", default=None, nullable="7+", ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
