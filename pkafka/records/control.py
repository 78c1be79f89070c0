"""Control records: the markers that end transactions, and the types that KRaft logs hold.

A control batch is one record whose key says what it is: version i16 | type i16. The value of a transaction's marker
is version i16 | coordinator epoch i32; the values of the other types are messages of their own that
begin with their version, and stay bytes here.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from pkafka.records.builder import build_batch
from pkafka.records.errors import invalid

_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")
_VERSION: Final = Struct(">h")


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
    return build_control_batch(
        ControlType.COMMIT if committed else ControlType.ABORT,
        _MARKER.pack(0, coordinator_epoch),
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )
