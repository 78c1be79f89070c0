"""Records of __remote_log_metadata (KIP-405); ``key`` is the record type that precedes each."""

from pkafka.protocol.schema import Message, array, binary, int8, int32, int64, string, struct, uuid


class RemoteLogSegmentMetadataRecordTopicIdPartitionEntry(Message):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry(Message):
    topic_id_partition: RemoteLogSegmentMetadataRecordTopicIdPartitionEntry = struct(
        RemoteLogSegmentMetadataRecordTopicIdPartitionEntry
    )
    id: bytes = uuid()


class RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry(Message):
    leader_epoch: int = int32()
    offset: int = int64()


class RemoteLogSegmentMetadataRecord(Message, key=0, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry = struct(
        RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry
    )
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry] = array(
        RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry
    )
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = binary(default=None, nullable="0+")
    remote_log_segment_state: int = int8()


class RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry(Message):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry(Message):
    topic_id_partition: RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry = struct(
        RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry
    )
    id: bytes = uuid()


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry = struct(
        RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry
    )
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: bytes | None = binary(default=None, nullable="0+")
    remote_log_segment_state: int = int8()


class RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry(Message):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions="0", flexible="0+"):
    topic_id_partition: RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry = struct(
        RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry
    )
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()


class RemoteLogSegmentMetadataSnapshotRecordSegmentLeaderEpochEntry(Message):
    leader_epoch: int = int32()
    offset: int = int64()


class RemoteLogSegmentMetadataSnapshotRecord(Message, key=3, versions="0", flexible="0+"):
    segment_id: bytes = uuid()
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecordSegmentLeaderEpochEntry] = array(
        RemoteLogSegmentMetadataSnapshotRecordSegmentLeaderEpochEntry
    )
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = binary(default=None, nullable="0+")
    remote_log_segment_state: int = int8()
