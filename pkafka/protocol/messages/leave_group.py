"""LeaveGroup (key 13, v0-5): members leave a classic group.

v3 several at once, static members (KIP-345) · v4 flexible · v5 reason (KIP-800)
"""

from pkafka.protocol.schema import Message, array, int16, int32, string


class MemberIdentity(Message):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    reason: str | None = string("5+", default=None, nullable="5+", ignorable=True)


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Message):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
