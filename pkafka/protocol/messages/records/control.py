"""Control records of a KRaft metadata log: read by the dump tool, never written by pkafka."""

from pkafka.protocol.schema import Message, array, int16, int32, int64, string, struct, uint16, uuid


class LeaderChangeMessageVoter(Message):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)
    granting_voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    k_raft_version: int = int16()


class Endpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Message):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class VotersRecordVoter(Message):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class VotersRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    voters: list[VotersRecordVoter] = array(VotersRecordVoter)
