"""Heartbeat (key 12, v0-4): keeps a member of a classic group alive.

v1 throttle time · v3 static members (KIP-345) · v4 flexible
"""

from pkafka.protocol.schema import Message, int16, int32, string


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+")


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
