"""What a Singer tap writes, as records: pure. The messages are those of Singer's specification 0.3.

A tap's STATE covers all records before it, so it is the source offset of the last one. That one is held until the next
message says whether there is a STATE for it.
"""

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pkafka.connect.connectors.singer_schemas import StreamSchemas, stream_schemas, struct_of
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.errors import ConnectError, DataError

log = logging.getLogger(__name__)

TAP: Final = "tap"
STATE: Final = "state"
_SHOWN_MAX: Final = 200
_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")


class _Stream:
    """What is known of a stream."""

    def __init__(self, key_properties: list[str], schemas: StreamSchemas | None) -> None:
        self.key_properties = key_properties
        self.schemas = schemas


class TapOutput:
    """Makes records of the lines that a tap writes.

    Args:
        tap: its name, which is the source partition.
        topic_prefix: before the name of a stream.
        has_schemas: whether records have schemas of Connect; else they are as JSON has them.
        state: as JSON, where the tap begins; None: at its beginning.
    """

    def __init__(self, tap: str, topic_prefix: str, *, has_schemas: bool, state: str | None) -> None:
        self.state = state
        """As JSON: what the tap said last."""
        self._prefix = topic_prefix
        self._has_schemas = has_schemas
        self._partition = {TAP: tap}
        self._streams: dict[str, _Stream] = {}
        self._held: SourceRecord | None = None
        self._ready: list[SourceRecord] = []

    def begin(self) -> None:
        """A run of the tap begins, which tells its schemas anew."""
        self._streams.clear()

    def take(self, line: bytes) -> None:
        """Read a line.

        Raises:
            ConnectError: it is no message of Singer, or not one that may come here.
            DataError: a record is not as its schema says.
        """
        message = _parsed(line)
        kind = message.get("type")
        if kind == "RECORD":
            self._take_record(message)
        elif kind == "STATE":
            self._take_state(message)
        elif kind == "SCHEMA":
            self._take_schema(message)
        elif kind == "ACTIVATE_VERSION":
            log.debug("The tap begins version %s of %s", message.get("version"), message.get("stream"))
        elif kind == "BATCH":
            raise ConnectError("The tap writes files of records (BATCH), which it has to be told not to do")
        else:
            raise ConnectError(f"The tap wrote a message of a type that Singer does not have: {_shown(line)}")

    def take_ready(self) -> list[SourceRecord]:
        """The records whose offsets are settled; they are not given again."""
        ready, self._ready = self._ready, []
        return ready

    def end(self) -> None:
        """No STATE comes for the last record any more."""
        if self._held is not None:
            self._ready.append(self._held)
            self._held = None

    def _take_schema(self, message: Mapping[str, Any]) -> None:
        name, schema = _text(message, "stream"), message.get("schema")
        keys = message.get("key_properties")
        if not isinstance(schema, dict) or not (keys is None or isinstance(keys, list)):
            raise ConnectError(f"The tap's SCHEMA of {name} lacks the schema or key_properties")
        key_properties = [str(each) for each in keys or ()]
        try:
            schemas = stream_schemas(schema, key_properties) if self._has_schemas else None
        except DataError as error:
            raise ConnectError(f"The tap's SCHEMA of {name} cannot be used: {error}") from error
        self._streams[name] = _Stream(key_properties, schemas)

    def _take_record(self, message: Mapping[str, Any]) -> None:
        name, record = _text(message, "stream"), message.get("record")
        if not isinstance(record, dict):
            raise ConnectError(f"The tap wrote a RECORD of {name} without a record")
        stream = self._streams.get(name)
        if stream is None:
            raise ConnectError(f"The tap wrote a RECORD of {name} before the SCHEMA of that stream")
        self.end()
        try:
            self._held = self._made(name, stream, record, message)
        except DataError as error:
            raise DataError(f"A RECORD of {name} is not as its SCHEMA says: {error}") from error

    def _made(
        self, name: str, stream: _Stream, record: dict[str, Any], message: Mapping[str, Any]
    ) -> SourceRecord:
        schemas = stream.schemas
        key: Any = None
        if schemas is None:
            value: Any = record
            if stream.key_properties:
                key = {each: record.get(each) for each in stream.key_properties}
        else:
            value = struct_of(schemas.value, record)
            key = None if schemas.key is None else struct_of(schemas.key, record)
        return SourceRecord(
            self._prefix + _NOT_IN_TOPICS.sub("_", name),
            None,
            None if schemas is None else schemas.key,
            key,
            None if schemas is None else schemas.value,
            value,
            _millis(message.get("time_extracted")),
            source_partition=self._partition,
            source_offset=self._offset(),
        )

    def _take_state(self, message: Mapping[str, Any]) -> None:
        if "value" not in message:
            raise ConnectError("The tap wrote a STATE without a value")
        self.state = json.dumps(message["value"], ensure_ascii=False, separators=(",", ":"))
        if self._held is not None:
            self._held.source_offset = self._offset()

    def _offset(self) -> dict[str, str] | None:
        return None if self.state is None else {STATE: self.state}


def _parsed(line: bytes) -> Mapping[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ConnectError(f"The tap wrote what is no message of Singer: {_shown(line)}") from error
    if not isinstance(message, dict):
        raise ConnectError(f"The tap wrote what is no message of Singer: {_shown(line)}")
    return message


def _text(message: Mapping[str, Any], name: str) -> str:
    found = message.get(name)
    if not isinstance(found, str) or not found:
        raise ConnectError(f"The tap wrote a {message['type']} without the name of a {name}")
    return found


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]} ..."


def _millis(time: object) -> int | None:
    """When a record was read, in milliseconds since 1970; None: the tap does not say so, or not in RFC 3339."""
    if not isinstance(time, str):
        return None
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0, round(at.timestamp() * 1000))
