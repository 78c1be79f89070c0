"""What a control record means, in the words of Kafka's DumpLogSegments."""

import json
from collections.abc import Mapping
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.protocol.codec import decode
from pkafka.protocol.messages.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from pkafka.protocol.schema import Message
from pkafka.records.control import ControlType, decode_end_marker, decode_key
from pkafka.records.reading import Record
from pkafka.tools.logs.records.internal_topics import document

_MESSAGES: Final[Mapping[ControlType, tuple[str, type[Message]]]] = {
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}


def control_text(record: Record) -> str:
    """The meaning of a control record.

    Raises:
        RecordError: its key or its marker is damaged.
    """
    kind = decode_key(record.key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        marker = decode_end_marker(record.key, record.value)
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {marker.coordinator_epoch}"
    named = _MESSAGES.get(kind)
    if named is not None and record.value is not None:
        name, cls = named
        try:
            shown = document(decode(cls, 0, record.value), 0)
            return f"{name} {json.dumps(shown, ensure_ascii=False, separators=(',', ':'))}"
        except ProtocolError as error:
            return f"{name} that cannot be read: {error}"
    assert record.key is not None
    number = int.from_bytes(record.key[2:4], "big", signed=True)
    return f"controlType: {kind.name}({number})"
