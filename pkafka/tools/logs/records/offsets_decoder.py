"""Records of __consumer_offsets as kafka-dump-log shows them with --offsets-decoder: as JSON."""

from base64 import b64decode
from contextlib import suppress
from json import dumps
from typing import Any, Final, NamedTuple

from pkafka.errors import ProtocolError
from pkafka.protocol.codec import decode_prefix
from pkafka.protocol.messages.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pkafka.protocol.messages.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pkafka.protocol.schema import Message, version_range
from pkafka.records.reading import Record
from pkafka.tools.logs.records.internal_topics import document

_VERSION_BYTES: Final = 2
_KINDS: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
}
_OF_CONSUMERS: Final[dict[str, type[Message]]] = {
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}
_DELETED: Final = "<DELETE>"


class DecodedRecord(NamedTuple):
    """What is shown of a record; ``payload`` None where there is nothing to show."""

    key: str
    payload: str | None


def decode_offsets_record(record: Record) -> DecodedRecord:
    """The key and payload of a record, or a sentence why they cannot be shown."""
    try:
        if record.key is None:
            raise ProtocolError("it has no key")
        kind = _version_of(record.key)
        if kind not in _KINDS:
            return DecodedRecord(f"Unknown record type {kind} at offset {record.offset}, skipping.", None)
        key = _json({"type": str(kind), "data": _document(_KINDS[kind][0], record.key)})
        if record.value is None:
            return DecodedRecord(key, _DELETED)
        value = _document(_KINDS[kind][1], record.value)
        for member in value.get("members", ()):
            # What members tell each other is theirs; where it is no consumer's, the bytes are shown.
            for name, cls in _OF_CONSUMERS.items():
                with suppress(ProtocolError):
                    member[name] = _document(cls, b64decode(member[name]))
        payload = {"version": str(_version_of(record.value)), "data": value}
        return DecodedRecord(key, _json(payload))
    except ProtocolError as error:
        return DecodedRecord(f"Error at offset {record.offset}, skipping. {error}", None)


def _json(value: object) -> str:
    return dumps(value, ensure_ascii=False, separators=(",", ":"))


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes cannot hold a version")
    return int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)


def _document(cls: type[Message], data: bytes) -> dict[str, Any]:
    version = _version_of(data)
    if version not in version_range(cls.__versions__):
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return document(decode_prefix(cls, version, data, _VERSION_BYTES)[0], version)
