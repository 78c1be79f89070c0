"""Records of __consumer_offsets: what the group coordinator knows of classic groups and their offsets."""

from pkafka.protocol.schema import Message, array, binary, int32, int64, string


class GroupMetadataKey(Message, versions="2"):
    group: str = string("2")


class MemberMetadata(Message):
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string("0-1")
    topic: str = string("0-1")
    partition: int = int32("0-1")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
