"""RemoveRaftVoter (key 81, v0): removes a KRaft controller from its quorum (KIP-853).

Only clients of other clusters send it.
"""

from pkafka.protocol.schema import Message, int16, int32, string, uuid


class RemoveRaftVoterRequest(Message, key=81, versions="0", flexible="0+"):
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Message, key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)
