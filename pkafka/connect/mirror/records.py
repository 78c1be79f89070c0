"""What MirrorMaker writes into its own topics, byte for byte as Java's does: offset syncs, checkpoints, heartbeats.

Strings are UTF-8 behind their length in 16 bits, numbers are big-endian; nothing is tagged.
"""

import struct
from typing import Final, NamedTuple, Self

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.errors import ConnectError
from pkafka.model import TopicPartition

_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_OFFSETS: Final = struct.Struct(">qq")
_CHECKPOINT: Final = struct.Struct(">hqq")
_HEARTBEAT: Final = struct.Struct(">hq")
_VERSION: Final = 0


class RecordFormatError(ConnectError):
    """A record of MirrorMaker's topics cannot be read; Java's own exception comes through here."""

    JAVA_NAME = "org.apache.kafka.common.protocol.types.SchemaException"


class OffsetSync(NamedTuple):
    """Says that a record is at ``upstream`` of a partition of the source, and at ``downstream`` of its copy."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def __str__(self) -> str:
        topic, number = self.partition
        return (
            f"OffsetSync{{topicPartition={topic}-{number}, upstreamOffset={self.upstream},"
            f" downstreamOffset={self.downstream}}}"
        )

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return _text(self.partition.topic) + _PARTITION.pack(self.partition.partition)

    @property
    def value(self) -> bytes:
        """The value of its record."""
        return _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read a record.

        Raises:
            RecordFormatError: it is no offset sync.
        """
        (upstream, downstream), _ = _numbers(_OFFSETS, value, 0)
        topic, at = _read_text(key, 0)
        (partition,), _ = _numbers(_PARTITION, key, at)
        return cls(TopicPartition(topic, partition), upstream, downstream)


class Checkpoint(NamedTuple):
    """Says that a group at ``upstream`` in the source misses nothing when it reads the copy from ``downstream``.

    Args:
        group: of consumers.
        partition: of the copy.
        metadata: that the group has stored with its offset.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def __str__(self) -> str:
        topic, number = self.partition
        return (
            f"Checkpoint{{consumerGroupId={self.group}, topicPartition={topic}-{number},"
            f" upstreamOffset={self.upstream}, downstreamOffset={self.downstream}, metadata={self.metadata}}}"
        )

    @property
    def position(self) -> OffsetAndMetadata:
        """What the group would commit on the target."""
        return OffsetAndMetadata(self.downstream, self.metadata)

    @property
    def source_partition(self) -> dict[str, str | int]:
        """The name that Connect has for it."""
        return {"group": self.group, "topic": self.partition.topic, "partition": self.partition.partition}

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return _text(self.group) + _text(self.partition.topic) + _PARTITION.pack(self.partition.partition)

    @property
    def value(self) -> bytes:
        """The value of its record."""
        return _CHECKPOINT.pack(_VERSION, self.upstream, self.downstream) + _text(self.metadata)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read a record.

        Raises:
            RecordFormatError: it is no checkpoint.
        """
        (_, upstream, downstream), at = _numbers(_CHECKPOINT, value, 0)
        metadata, _ = _read_text(value, at)
        group, at = _read_text(key, 0)
        topic, at = _read_text(key, at)
        (partition,), _ = _numbers(_PARTITION, key, at)
        return cls(group, TopicPartition(topic, partition), upstream, downstream, metadata)


class Heartbeat(NamedTuple):
    """Says that a flow from one cluster to another was alive.

    Args:
        source, target: aliases.
        timestamp_ms: since 1970.
    """

    source: str
    target: str
    timestamp_ms: int

    def __str__(self) -> str:
        return (
            f"Heartbeat{{sourceClusterAlias={self.source}, targetClusterAlias={self.target},"
            f" timestamp={self.timestamp_ms}}}"
        )

    @property
    def source_partition(self) -> dict[str, str]:
        """The name that Connect has for it."""
        return {"sourceClusterAlias": self.source, "targetClusterAlias": self.target}

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return _text(self.source) + _text(self.target)

    @property
    def value(self) -> bytes:
        """The value of its record."""
        return _HEARTBEAT.pack(_VERSION, self.timestamp_ms)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> Self:
        """Read a record.

        Raises:
            RecordFormatError: it is no heartbeat.
        """
        (_, timestamp_ms), _ = _numbers(_HEARTBEAT, value, 0)
        source, at = _read_text(key, 0)
        target, _ = _read_text(key, at)
        return cls(source, target, timestamp_ms)


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise RecordFormatError(f"String length {len(data)} is larger than the maximum string length.")
    return _LENGTH.pack(len(data)) + data


def _read_text(data: bytes | None, at: int) -> tuple[str, int]:
    (size,), start = _numbers(_LENGTH, data, at)
    assert data is not None
    if size < 0:
        raise RecordFormatError(f"String length {size} cannot be negative")
    if start + size > len(data):
        raise RecordFormatError(
            f"Error reading string of length {size}, only {len(data) - start} bytes available"
        )
    return data[start : start + size].decode("utf-8", "replace"), start + size


def _numbers(format_: struct.Struct, data: bytes | None, at: int) -> tuple[tuple[int, ...], int]:
    """Numbers, and where they end."""
    if data is None or at + format_.size > len(data):
        raise RecordFormatError("the record is too short")
    return format_.unpack_from(data, at), at + format_.size
