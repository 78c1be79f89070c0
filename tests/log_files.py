"""Files of a log as brokers leave them, and with damage: what dumps and checks are tested on."""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pkafka.protocol.codec import encode
from pkafka.protocol.messages.records import (
    cluster_metadata,
    control,
    group_metadata,
    remote_log,
    transaction_log,
)
from pkafka.protocol.primitives import uvarint
from pkafka.protocol.schema import Message, version_range
from pkafka.records.batch import ATTRIBUTE_DELETE_HORIZON, BATCH_OVERHEAD, HEADER, LOG_OVERHEAD, write_crc
from pkafka.records.builder import build_batch
from pkafka.records.checksum import crc32c
from pkafka.records.compression import Codec
from pkafka.records.control import ControlType, build_control_batch, build_end_marker
from pkafka.records.legacy import build_message_set

RECORDS: Final = [
    (1000, b"k", b"v", (("h", b"x"), ("a,b", None))),
    (1001, None, b"payload\xff\xfe", ()),
    (999, b"gone", None, ()),
    (1002, b"", b"", ()),
    (1003, "käse".encode(), "\U0001f600".encode(), ()),
]
OLD_RECORDS: Final = [(1000, None, b"v0"), (1001, b"k1", b"v1"), (1002, b"k2", None)]
OLD_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
ID: Final = bytes(range(16))
OTHER_ID: Final = bytes(range(200, 216))


def name_of(offset: int, suffix: str = ".log") -> str:
    """The name of a segment's file."""
    return f"{offset:020}{suffix}"


class SegmentFile:
    """A segment that grows batch by batch; ``places`` are (first offset, last offset, position) of each."""

    def __init__(self, base: int = 0) -> None:
        self.data = bytearray()
        self.base = self.next_offset = base
        self.places: list[tuple[int, int, int]] = []

    def add(self, batch: bytes | bytearray, count: int) -> None:
        """Append a batch that takes so many offsets, from ``next_offset`` on."""
        self.places.append((self.next_offset, self.next_offset + count - 1, len(self.data)))
        self.data += batch
        self.next_offset += count

    def records(
        self, records: Sequence[tuple[int, bytes | None, bytes | None, tuple[()]]], **how: object
    ) -> None:
        """Append a batch of records; see ``build_batch``."""
        self.add(build_batch(records, base_offset=self.next_offset, **how), len(records))  # type: ignore[arg-type] # its keywords

    def write(self, directory: Path) -> Path:
        """Write the segment, with an index of every batch but the first."""
        path = directory / name_of(self.base)
        path.write_bytes(self.data)
        entries = [(last - self.base, position) for _, last, position in self.places[1:]]
        path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in entries))
        return path


def offset_record(
    group: str, topic: str, partition: int, offset: int | None, timestamp: int = 1_000, version: int = 3
) -> tuple[int, bytes, bytes | None, tuple[()]]:
    """A record of ``__consumer_offsets`` in which a group stores an offset, or takes it back."""
    key = group_metadata.OffsetCommitKey(group=group, topic=topic, partition=partition)
    stored = group_metadata.OffsetCommitValue(offset=offset or 0, commit_timestamp=timestamp)
    value = None if offset is None else struct.pack(">h", version) + encode(stored, version)
    return timestamp, struct.pack(">h", 1) + encode(key, 1), value, ()


def offsets_segment(stored: Iterable[tuple[str, str, int, int | None]]) -> SegmentFile:
    """A segment of ``__consumer_offsets`` with these offsets of groups, one after the other."""
    segment = SegmentFile()
    for each in stored:
        segment.records([offset_record(*each)])
    return segment


def rich_segment() -> SegmentFile:
    """Every codec, kind of timestamp, producer and control record; a delete horizon; a batch without records."""
    segment = SegmentFile()
    records = RECORDS
    for codec in Codec:
        segment.records(records, codec=codec, leader_epoch=3)  # type: ignore[arg-type] # with headers
    segment.records(records, leader_epoch=3, timestamp_type=1)  # type: ignore[arg-type]
    segment.records(records, leader_epoch=4, producer_id=77, producer_epoch=2, base_sequence=2**31 - 3)  # type: ignore[arg-type]
    for sequence, committed in enumerate((True, False)):
        segment.records(
            records[:1],  # type: ignore[arg-type]
            leader_epoch=4,
            producer_id=78,
            producer_epoch=2,
            base_sequence=sequence,
            transactional=True,
        )
        marker = build_end_marker(
            committed=committed,
            producer_id=78,
            producer_epoch=2,
            coordinator_epoch=9,
            timestamp_ms=2000 + sequence,
            base_offset=segment.next_offset,
            leader_epoch=4,
        )
        segment.add(marker, 1)
    segment.add(
        _with_delete_horizon(build_batch(records[:2], base_offset=segment.next_offset, leader_epoch=4)), 2
    )
    segment.add(empty_batch(segment.next_offset, 4, leader_epoch=4, producer_id=79), 4)
    kraft: list[tuple[ControlType, Message]] = [
        (ControlType.LEADER_CHANGE, control.LeaderChangeMessage(leader_id=3)),
        *kraft_control_records(),
    ]
    for kind, message in kraft:
        add_control(segment, kind, message)
    return segment


def kraft_control_records() -> list[tuple[ControlType, Message]]:
    """What a snapshot of a KRaft log begins and ends with."""
    endpoint = control.Endpoint(name="C", host="h", port=9093)
    voter = control.VotersRecordVoter(voter_id=1, voter_directory_id=ID, endpoints=[endpoint])
    return [
        (ControlType.SNAPSHOT_HEADER, control.SnapshotHeaderRecord(last_contained_log_timestamp=12)),
        (ControlType.SNAPSHOT_FOOTER, control.SnapshotFooterRecord()),
        (ControlType.KRAFT_VERSION, control.KRaftVersionRecord(k_raft_version=1)),
        (ControlType.KRAFT_VOTERS, control.VotersRecord(voters=[voter])),
    ]


def add_control(segment: SegmentFile, kind: ControlType, message: Message) -> None:
    """Append a control batch of a KRaft log."""
    value = encode(message, 0)
    batch = build_control_batch(
        kind, value, timestamp_ms=3000, base_offset=segment.next_offset, leader_epoch=5
    )
    segment.add(batch, 1)


def empty_batch(offset: int, count: int, *, leader_epoch: int, producer_id: int) -> bytearray:
    """What compaction leaves of the last batch of a producer."""
    batch = bytearray(BATCH_OVERHEAD)
    length = BATCH_OVERHEAD - LOG_OVERHEAD
    HEADER.pack_into(batch, 0, offset, length, leader_epoch, 2, 0, 0, count - 1, 5, 6, producer_id, 1, 7, 0)
    write_crc(batch, 0, len(batch))
    return batch


def _with_delete_horizon(batch: bytearray) -> bytearray:
    fields = list(HEADER.unpack_from(batch))
    fields[5] |= ATTRIBUTE_DELETE_HORIZON
    HEADER.pack_into(batch, 0, *fields)
    write_crc(batch, 0, len(batch))
    return batch


def old_segment(base: int = 100) -> SegmentFile:
    """Messages of magic 0 and 1 with every codec that they know."""
    segment = SegmentFile(base)
    for magic in (0, 1):
        for codec in OLD_CODECS:
            for timestamp_type in range(magic + 1):
                rows = [(segment.next_offset + index, *record) for index, record in enumerate(OLD_RECORDS)]
                data = build_message_set(rows, magic=magic, codec=codec, timestamp_type=timestamp_type)
                segment.add(data, len(rows))
    return segment


def snapshot_of(*entries: tuple[int, ...]) -> bytes:
    """A producer snapshot; each entry in the order of the file's fields."""
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *each) for each in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def write_rich_files(directory: Path) -> None:
    """A directory with a file of every kind."""
    segment = rich_segment()
    path = segment.write(directory)
    marker = segment.places[8][1]
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qiqi", 1003, 4, 2000, marker))
    path.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 78, 37, 38, 39))
    (directory / name_of(50, ".snapshot")).write_bytes(
        snapshot_of((9, 0, 1, 6, 2, 77, -1, -1), (10, 1, -1, -1, 0, 78, 3, 55))
    )
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n3 0\n4 30\n5 45\n")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    snapshot = SegmentFile(10)
    for kind, message in kraft_control_records():
        add_control(snapshot, kind, message)
    for name in (f"{10:020}-{1:010}.checkpoint", "bootstrap.checkpoint"):
        (directory / name).write_bytes(snapshot.data)
    old_segment().write(directory)


# -- records of internal topics ---------------------------------------------------------------------------


def segment_of_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> bytes:
    """One batch of keys and values."""
    return bytes(build_batch([(1, key, value, ()) for key, value in records]))


def transaction_records() -> list[tuple[bytes | None, bytes | None]]:
    """Records of __transaction_state: every state, few and many partitions, both versions, a tombstone."""

    def key(transactional_id: str) -> bytes:
        return struct.pack(">h", 0) + encode(
            transaction_log.TransactionLogKey(transactional_id=transactional_id), 0
        )

    def value(
        count: int | None, *, version: int = 0, state: int = 1, topics: tuple[str, ...] = ("foo",)
    ) -> bytes:
        partitions = [
            transaction_log.PartitionsSchema(topic=topic, partition_ids=list(range(count or 0)))
            for topic in topics
        ]
        message = transaction_log.TransactionLogValue(
            producer_id=5,
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            transaction_status=state,
            transaction_partitions=None if count is None else partitions,
            transaction_last_update_timestamp_ms=7,
            transaction_start_timestamp_ms=8,
        )
        return struct.pack(">h", version) + encode(message, version)

    found = [(key(f"t{count}"), value(count)) for count in (0, 1, 5, 11, 12, 13, 23, 24, 60, 100)]
    found.append((key("käse"), value(3, version=1, topics=("a-topic", "other.topic", "üü"))))
    states = [(key(f"s{state}"), value(None if state == 0 else 1, state=state)) for state in range(8)]
    return [*found, (key("gone"), None), (struct.pack(">h", 5) + b"abc", b"x"), *states]


def framed(message: Message, version: int) -> bytes:
    """A record of a KRaft log or of __remote_log_metadata."""
    assert message.__api_key__ is not None
    return uvarint(1) + uvarint(message.__api_key__) + uvarint(version) + encode(message, version)


def metadata_records() -> list[tuple[bytes | None, bytes | None]]:
    """Records of __cluster_metadata: each at every version, some with everything in them, and damaged ones."""
    m = cluster_metadata
    messages: list[tuple[Message, int]] = [
        (cls(), version)
        for cls in vars(m).values()
        if isinstance(cls, type) and issubclass(cls, Message) and cls.__api_key__ is not None
        for version in version_range(cls.__versions__)
    ]
    endpoint = m.BrokerEndpoint(name="P", host="h", port=65535, security_protocol=0)
    feature = m.BrokerFeature(name="metadata.version", min_supported_version=1, max_supported_version=21)
    messages += [
        (
            m.RegisterBrokerRecord(
                incarnation_id=ID, end_points=[endpoint], features=[feature], log_dirs=[OTHER_ID]
            ),
            3,
        ),
        (
            m.PartitionRecord(
                topic_id=ID, isr=[1], leader_recovery_state=1, directories=[ID], last_known_elr=[]
            ),
            2,
        ),
        (m.PartitionChangeRecord(topic_id=ID, isr=[], leader=-1, directories=[OTHER_ID]), 1),
        (m.UserScramCredentialRecord(name='ü"\\\n\x01/', salt=b"\1\2\xff", server_key=b"x" * 20), 0),
        (m.ConfigRecord(resource_type=2, resource_name="t", name="a", value=None), 0),
    ]
    entity = m.EntityData(entity_type="user", entity_name=None)
    for number in (1234567.5, 1e21, 1e8, 0.0001, -2.5e-9, 0.001):
        messages.append((m.ClientQuotaRecord(entity=[entity], key="x", value=number), 0))
    topic = framed(m.TopicRecord(name="abc", topic_id=ID), 0)
    damaged = [None, b"\1\x63\0", b"\1\2\x63", topic[:-2], topic + b"zz", b"\1\2", b"\2\2\2"]
    values = [*(framed(message, version) for message, version in messages), *damaged]
    return [(None, value) for value in values]


def remote_log_records() -> list[tuple[bytes | None, bytes | None]]:
    """Records of __remote_log_metadata: each kind, every state, with and without what may be left out."""
    r = remote_log
    segment = r.RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry(
        topic_id_partition=r.RemoteLogSegmentMetadataRecordTopicIdPartitionEntry(
            name="top", id=ID, partition=3
        ),
        id=OTHER_ID,
    )
    update = r.RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry(
        topic_id_partition=r.RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry(
            name="top", id=ID, partition=3
        ),
        id=OTHER_ID,
    )
    epochs = [
        r.RemoteLogSegmentMetadataRecordSegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
        for epoch, offset in ((2, 5), (0, 1))
    ]
    messages: list[Message] = [
        r.RemoteLogSegmentMetadataRecord(
            remote_log_segment_id=segment,
            start_offset=1,
            end_offset=9,
            segment_leader_epochs=epochs,
            custom_metadata=custom,
            remote_log_segment_state=1,
        )
        for custom in (None, b"abc")
    ]
    for state in range(5):
        messages.append(
            r.RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=update,
                broker_id=4,
                custom_metadata=b"x",
                remote_log_segment_state=state,
            )
        )
    where = r.RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry(name="top", id=ID, partition=3)
    for state in range(4):
        messages.append(
            r.RemotePartitionDeleteMetadataRecord(
                topic_id_partition=where,
                broker_id=1,
                event_timestamp_ms=2,
                remote_partition_delete_state=state,
            )
        )
    epoch = r.RemoteLogSegmentMetadataSnapshotRecordSegmentLeaderEpochEntry(leader_epoch=0, offset=1)
    messages.append(
        r.RemoteLogSegmentMetadataSnapshotRecord(
            segment_id=ID,
            start_offset=1,
            end_offset=2,
            segment_leader_epochs=[epoch],
            remote_log_segment_state=1,
        )
    )
    return [(None, value) for value in (*(framed(each, 0) for each in messages), b"\1\x63\0", b"\2\2\2", b"")]
