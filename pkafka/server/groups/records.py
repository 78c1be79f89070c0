"""The keys and values of __consumer_offsets.

Every key and value begins with its version, an i16. pkafka writes the versions that Kafka 3.9 writes with its own
inter.broker.protocol.version, and reads every version that Kafka 3.9 reads.
"""

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import ProtocolError
from pkafka.model import NO_EPOCH
from pkafka.protocol.codec import decode_prefix, encode
from pkafka.protocol.messages.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pkafka.protocol.schema import version_range

_VERSION: Final = Struct(">h")
_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_OFFSET_VALUE_VERSION: Final = 3
_EXPIRING_OFFSET_VALUE_VERSION: Final = 1
"""The only version with a time of expiry; it has no leader epoch."""
_GROUP_VALUE_VERSION: Final = 3

# The records of commits are packed here, several times as fast as by the codec; a test compares both.
# Key: version | group (i16 size, bytes) | topic (likewise) | partition i32
# Value: version | offset i64 | leader epoch i32 | metadata (i16 size, bytes) | commit timestamp i64
_VERSION_AND_SIZE: Final = Struct(">hh")
_SIZE: Final = Struct(">h")
_PARTITION: Final = Struct(">i")
_OFFSET_VALUE_START: Final = Struct(">hqih")
_TIMESTAMP: Final = Struct(">q")

NO_EXPIRY: Final = -1


class OffsetKey(NamedTuple):
    """Names the key of a committed offset."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Names the key of a group's state."""

    group: str


class UnknownKey(NamedTuple):
    """Names a key of a later Kafka, or of another kind of group."""

    version: int


Key: TypeAlias = OffsetKey | GroupKey | UnknownKey


class CommittedOffset(NamedTuple):
    """Holds what a group committed for one partition; times are in ms since the epoch."""

    offset: int
    commit_timestamp: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    expire_timestamp: int = NO_EXPIRY
    """Only from clients that give the retention time themselves (OffsetCommit v2 to v4)."""


def encode_offset_key(group: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return b"".join(
        (
            _VERSION_AND_SIZE.pack(_OFFSET_KEY_VERSION, len(group_bytes)),
            group_bytes,
            _SIZE.pack(len(topic_bytes)),
            topic_bytes,
            _PARTITION.pack(partition),
        )
    )


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """The value of a committed offset."""
    offset, commit_timestamp, leader_epoch, text, expire_timestamp = committed
    if expire_timestamp == NO_EXPIRY:
        metadata = text.encode()
        start = _OFFSET_VALUE_START.pack(_OFFSET_VALUE_VERSION, offset, leader_epoch, len(metadata))
        return start + metadata + _TIMESTAMP.pack(commit_timestamp)
    message = OffsetCommitValue(
        offset=offset,
        metadata=text,
        commit_timestamp=commit_timestamp,
        expire_timestamp=expire_timestamp,
    )
    version = _EXPIRING_OFFSET_VALUE_VERSION
    return _VERSION.pack(version) + encode(message, version)


def encode_group_key(group: str) -> bytes:
    """The key of a group's state."""
    return _VERSION.pack(_GROUP_KEY_VERSION) + encode(GroupMetadataKey(group=group), _GROUP_KEY_VERSION)


def encode_group_value(value: GroupMetadataValue) -> bytes:
    """The value of a group's state."""
    return _VERSION.pack(_GROUP_VALUE_VERSION) + encode(value, _GROUP_VALUE_VERSION)


def decode_key(data: bytes) -> Key:
    """Decode the key of a record.

    Raises:
        ProtocolError: the bytes are no key.
    """
    version = _version_of(data)
    if version in version_range(OffsetCommitKey.__versions__):
        key = decode_prefix(OffsetCommitKey, version, data, _VERSION.size)[0]
        return OffsetKey(key.group, key.topic, key.partition)
    if version == _GROUP_KEY_VERSION:
        return GroupKey(decode_prefix(GroupMetadataKey, version, data, _VERSION.size)[0].group)
    return UnknownKey(version)


def decode_offset_value(data: bytes) -> CommittedOffset:
    """Decode the value of a committed offset.

    Raises:
        ProtocolError: the bytes are no such value, or have a version that Kafka 3.9 does not know.
    """
    version = _version_of(data)
    if version not in version_range(OffsetCommitValue.__versions__):
        raise ProtocolError(f"version {version} of a committed offset is not known")
    value = decode_prefix(OffsetCommitValue, version, data, _VERSION.size)[0]
    return CommittedOffset(
        value.offset, value.commit_timestamp, value.leader_epoch, value.metadata, value.expire_timestamp
    )


def decode_group_value(data: bytes) -> GroupMetadataValue:
    """Decode the value of a group's state.

    Raises:
        ProtocolError: the bytes are no such value, or have a version that Kafka 3.9 does not know.
    """
    version = _version_of(data)
    if version not in version_range(GroupMetadataValue.__versions__):
        raise ProtocolError(f"version {version} of a group's state is not known")
    return decode_prefix(GroupMetadataValue, version, data, _VERSION.size)[0]


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes cannot hold a version")
    version: int = _VERSION.unpack_from(data)[0]
    return version
