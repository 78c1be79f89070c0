"""Control records: the markers that end transactions, and the types that KRaft logs hold.

A control batch is one record whose key says what it is: version i16 | type i16. The value of a transaction's marker
is version i16 | coordinator epoch i32; the values of the other types are messages of their own that
begin with their version, and stay bytes here.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from pkafka.records.batch import (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_SEQUENCE,
    Buffer,
    write_crc,
)
from pkafka.records.builder import build_batch
from pkafka.records.errors import invalid

_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")
_VERSION: Final = Struct(">h")
# A batch of one marker has one size, and the same bytes but for its numbers: its header (batch.py), the start of its
# record, key, the length of the value, value, no headers.
_END_BATCH: Final = Struct(">qiibIhiqqqhii5shhBhiB")
_COUNT_POSITION: Final = BATCH_OVERHEAD - 4
_COUNT_AND_RECORD: Final = Struct(">i5shhBhiB")
_RECORD_START: Final = b"\x20\x00\x00\x00\x08"
"""Lengths are zigzag varints: a record of 16 bytes, its attributes, deltas of time and offset, a key of 4 bytes."""
_VALUE_LENGTH: Final = 12
_FORM: Final = (1, _RECORD_START, 0, _VALUE_LENGTH, 0, 0)
"""What :func:`end_marker_in` insists on: the count, and all of the record but type and epoch."""
_END_ATTRIBUTES: Final = ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL


class ControlType(IntEnum):
    """What a control record means; a type that is not known is UNKNOWN and to be ignored."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_ENDS: Final = {int(each): each for each in (ControlType.ABORT, ControlType.COMMIT)}
"""Found faster than by the call of the enumeration."""


class EndTransactionMarker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    control_type: ControlType
    coordinator_epoch: int


_KNOWN: Final = {int(each): each for each in ControlType if each is not ControlType.UNKNOWN}


def encode_key(control_type: ControlType, *, version: int = 0) -> bytes:
    """The key of a control record."""
    return _KEY.pack(version, control_type)


def decode_key(key: bytes | None) -> ControlType:
    """What the control record with this key is.

    Raises:
        RecordError: INVALID_RECORD, the key is missing, too short or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise invalid("a control record needs a key of at least 4 bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise invalid(f"a control record of version {version}")
    return _KNOWN.get(number, ControlType.UNKNOWN)


def decode_value_version(value: bytes | None) -> int:
    """The version in front of the value of any control record.

    Raises:
        RecordError: INVALID_RECORD, there is none or it is negative.
    """
    if value is None or len(value) < _VERSION.size:
        raise invalid("a control record needs a value of at least 2 bytes")
    version: int = _VERSION.unpack_from(value)[0]
    if version < 0:
        raise invalid(f"the value of a control record of version {version}")
    return version


def decode_end_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """The marker in a COMMIT or ABORT record; fields that later versions append are ignored.

    Raises:
        RecordError: INVALID_RECORD, it is neither or damaged.
    """
    control_type = decode_key(key)
    if control_type not in (ControlType.COMMIT, ControlType.ABORT):
        raise invalid(f"a control record of type {control_type.name} does not end a transaction")
    decode_value_version(value)
    if value is None or len(value) < _MARKER.size:
        raise invalid("the end of a transaction needs a value of at least 6 bytes")
    return EndTransactionMarker(control_type, _MARKER.unpack_from(value)[1])


def build_control_batch(
    control_type: ControlType,
    value: bytes,
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytearray:
    """A batch of one control record."""
    return build_batch(
        [(timestamp_ms, encode_key(control_type), value, ())],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def build_end_marker(
    *,
    committed: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a producer's transaction in a partition."""
    batch = bytearray(_END_BATCH.size)
    _END_BATCH.pack_into(
        batch,
        0,
        *(base_offset, _END_BATCH.size - LOG_OVERHEAD, leader_epoch, 2, 0, _END_ATTRIBUTES, 0),
        *(timestamp_ms, timestamp_ms, producer_id, producer_epoch, NO_SEQUENCE, 1),
        *(_RECORD_START, 0, ControlType.COMMIT if committed else ControlType.ABORT),
        *(_VALUE_LENGTH, 0, coordinator_epoch, 0),
    )
    write_crc(batch, 0, len(batch))
    return batch


def end_marker_in(batch: Buffer) -> EndTransactionMarker | None:
    """The marker in a batch of the form that :func:`build_end_marker` and Apache Kafka write.

    Returns:
        None for a batch of another form, which may hold a marker all the same.
    """
    if len(batch) != _END_BATCH.size or batch[MAGIC_POSITION] != 2:
        return None
    if batch[ATTRIBUTES_POSITION + 1] & ATTRIBUTE_CODEC:
        return None
    count, start, key_version, kind, length, version, epoch, headers = _COUNT_AND_RECORD.unpack_from(
        batch, _COUNT_POSITION
    )
    ends = _ENDS.get(kind)
    if ends is None or (count, start, key_version, length, version, headers) != _FORM:
        return None
    return EndTransactionMarker(ends, epoch)
