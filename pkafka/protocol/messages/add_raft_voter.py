"""AddRaftVoter (key 80, v0): adds a KRaft controller to its quorum (KIP-853).

Only clients of other clusters send it.
"""

from pkafka.protocol.schema import Message, array, int16, int32, string, uint16, uuid


class Listener(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Message, key=80, versions="0", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)


class AddRaftVoterResponse(Message, key=80, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)
