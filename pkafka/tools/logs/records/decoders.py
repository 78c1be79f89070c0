"""Keys and payloads of records made readable, for dumps: by a form, by a class, or as the records of an internal topic.

The texts of the decoders are those of Kafka's DumpLogSegments; as JSON each gives the same facts under Kafka's names.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from pkafka.coordination.znode_json import string_hash
from pkafka.errors import PkafkaError, ProtocolError
from pkafka.java.numbers import double_text
from pkafka.model import topic_id_text
from pkafka.protocol.codec import decode_prefix
from pkafka.protocol.messages.records import cluster_metadata, remote_log
from pkafka.protocol.messages.records.transaction_log import TransactionLogKey, TransactionLogValue
from pkafka.protocol.primitives import read_uvarint
from pkafka.protocol.schema import Message, version_range
from pkafka.records.reading import Record
from pkafka.tools.logs.records.internal_topics import TRANSACTION_STATES, document
from pkafka.tools.logs.records.offsets_decoder import decode_offsets_record
from pkafka.tools.logs.rows import ContentOf, Documents, Texts, plain_content, plain_documents

_VERSION: Final = Struct(">h")
_LONG: Final = Struct(">q")
_INTEGER: Final = Struct(">i")
_FRAME_VERSION: Final = 1
_SCALA_CAPACITY: Final = 16
_DELETED: Final = "<DELETE>"
_JAVA_PACKAGES: Final = ("org.apache.kafka.tools.api.", "kafka.serializer.")


class DecoderError(PkafkaError):
    """Bytes are not what a decoder that was named reads."""


class Content(NamedTuple):
    """How keys and payloads are shown: as text, and as JSON values; ``is_plain`` where that is Kafka's default."""

    texts: ContentOf
    documents: Documents
    is_plain: bool = False


class PayloadForm(Enum):
    """How --payload wants bytes to be shown."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"


class Decoder(Protocol):
    """What --key-decoder-class and --value-decoder-class name: Kafka's interface of that name, in Python's words."""

    def from_bytes(self, data: bytes) -> object:
        """What to show of a key or a value."""


PLAIN: Final = Content(plain_content, plain_documents, is_plain=True)


def content_in(form: PayloadForm) -> Content:
    """Keys and payloads in a form; JSON is shown compactly, and what is none as text."""
    if form is PayloadForm.TEXT:
        return PLAIN
    if form is PayloadForm.JSON:
        return Content(_of_both(_json_text), _of_both(_json_value))
    shown = bytes.hex if form is PayloadForm.HEX else _base64
    return Content(_of_both(shown), _of_both(shown))


def _of_both(shown: Callable[[bytes], Any]) -> Callable[[Record], tuple[Any, Any]]:
    def both(record: Record) -> tuple[Any, Any]:
        return (
            None if record.key is None else shown(record.key),
            None if record.value is None else shown(record.value),
        )

    return both


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _json_value(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return plain_documents(Record(0, 0, None, data, ()))[1]


def _json_text(data: bytes) -> str:
    try:
        return _compact(json.loads(data))
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- classes ----------------------------------------------------------------------------------------------


class _StringDecoder:
    def from_bytes(self, data: bytes) -> object:
        return data.decode(errors="replace")


class _LongDecoder:
    def from_bytes(self, data: bytes) -> object:
        return _number(_LONG, data)


class _IntegerDecoder:
    def from_bytes(self, data: bytes) -> object:
        return _number(_INTEGER, data)


class _DefaultDecoder:
    def from_bytes(self, data: bytes) -> object:
        """In hex; Kafka's shows where the Java object lies, which is of no use."""
        return data.hex()


_BUILT_IN: Final[Mapping[str, type[Decoder]]] = {
    "StringDecoder": _StringDecoder,
    "LongDecoder": _LongDecoder,
    "IntegerDecoder": _IntegerDecoder,
    "DefaultDecoder": _DefaultDecoder,
}


def _number(layout: Struct, data: bytes) -> int:
    if len(data) < layout.size:
        raise DecoderError(f"{len(data)} bytes are too few for a number of {layout.size}")
    number: int = layout.unpack_from(data)[0]
    return number


def decoder(option: str, name: str) -> Decoder:
    """The decoder of a class name: one of Kafka's (with or without its package), or a Python class.

    Raises:
        ConfigError: there is no such class, or it has no ``from_bytes``.
    """
    simple = name
    for package in _JAVA_PACKAGES:
        simple = simple.removeprefix(package)
    found = _BUILT_IN.get(simple)
    if found is not None:
        return found()
    from pkafka.clients import plugins

    made: Decoder = plugins.load(option, name, methods=("from_bytes",))
    return made


def deprecation(name: str) -> str | None:
    """What Kafka's tool says of the older of its names for a class; None of any other."""
    simple = name.removeprefix("kafka.serializer.")
    if simple == name or simple not in _BUILT_IN:
        return None
    return f"{name} is deprecated. Please use org.apache.kafka.tools.api.{simple} instead"


def decoded_by(key: Decoder, value: Decoder) -> Content:
    """Keys and payloads as two decoders show them.

    The functions raise DecoderError where a decoder cannot read its bytes.
    """

    def read(by: Decoder, data: bytes | None, offset: int) -> object:
        if data is None:
            return None
        try:
            return by.from_bytes(data)
        except Exception as error:
            raise DecoderError(f"{type(by).__name__.lstrip('_')} at offset {offset}: {error}") from error

    def documents(record: Record) -> tuple[object, object]:
        return read(key, record.key, record.offset), read(value, record.value, record.offset)

    def texts(record: Record) -> Texts:
        shown = [None if each is None else str(each) for each in documents(record)]
        return shown[0], shown[1]

    plain = isinstance(key, _StringDecoder) and isinstance(value, _StringDecoder)
    return PLAIN if plain else Content(texts, documents)


# -- internal topics --------------------------------------------------------------------------------------


def _parsed(texts: ContentOf) -> Documents:
    """The JSON values behind texts that are JSON, or a sentence why there is none."""

    def documents(record: Record) -> tuple[object, object]:
        key, payload = (
            None if text is None else json.loads(text) if text.startswith("{") else text
            for text in texts(record)
        )
        return key, payload

    return documents


def _transaction(record: Record) -> Texts:
    try:
        key = _versioned(TransactionLogKey, record.key)
    except ProtocolError as error:
        version = _version_of(record.key)
        if version is not None and version not in version_range(TransactionLogKey.__versions__):
            return f"unknown::version={version}", None
        return f"Error at offset {record.offset}, skipping. {error}", None
    shown = f"transaction_metadata::transactionalId={key.transactional_id}"
    if record.value is None:
        return shown, _DELETED
    try:
        value = _versioned(TransactionLogValue, record.value)
    except ProtocolError as error:
        return shown, f"Error at offset {record.offset}, skipping. {error}"
    partitions = [
        (each.topic, number) for each in value.transaction_partitions or () for number in each.partition_ids
    ]
    listed = ",".join(f"{topic}-{number}" for topic, number in in_order_of_scala(partitions))
    return shown, (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},"
        f"state={TRANSACTION_STATES[value.transaction_status]},partitions=[{listed}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _transaction_documents(record: Record) -> tuple[object, object]:
    try:
        key = {"version": _version_of(record.key), "data": _document(TransactionLogKey, record.key)}
        if record.value is None:
            return key, None
        return key, {
            "version": _version_of(record.value),
            "data": _document(TransactionLogValue, record.value),
        }
    except ProtocolError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _metadata(record: Record) -> Texts:
    try:
        message, version = _framed(record.value, _METADATA)
    except ProtocolError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(message).__name__).upper()
    text = _compact({"type": kind, "version": version, "data": document(message, version)})
    if isinstance(message, cluster_metadata.ClientQuotaRecord):
        # The only number with a fraction.
        text = text.replace(
            f'"value":{message.value!r},"remove"', f'"value":{double_text(message.value)},"remove"'
        )
    return None, text


def _remote(record: Record) -> Texts:
    try:
        message, _ = _framed(record.value, _REMOTE)
        return None, _REMOTE_TEXTS[type(message)](message)
    except ProtocolError as error:
        return None, f"Error at offset {record.offset}, skipping. {error}"


def _remote_documents(record: Record) -> tuple[object, object]:
    try:
        message, version = _framed(record.value, _REMOTE)
    except ProtocolError as error:
        return None, f"Error at offset {record.offset}, skipping. {error}"
    kind = type(message).__name__
    return None, {"type": kind, "version": version, "data": document(message, version)}


def _messages_of(module: object) -> dict[int, type[Message]]:
    return {
        each.__api_key__: each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Message) and each is not Message
        if each.__api_key__ is not None
    }


_METADATA: Final = _messages_of(cluster_metadata)
_REMOTE: Final = _messages_of(remote_log)


def _framed(data: bytes | None, kinds: Mapping[int, type[Message]]) -> tuple[Any, int]:
    """The message behind frame version, type and version, three unsigned varints; and its version."""
    frame, position = _uvarint(data or b"", 0, "frame version")
    if frame != _FRAME_VERSION:
        raise ProtocolError(
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            f"(only frame version {_FRAME_VERSION} is supported)"
        )
    assert data is not None
    number, position = _uvarint(data, position, "type")
    version, position = _uvarint(data, position, "version")
    cls = kinds.get(number)
    if cls is None:
        java = "org.apache.kafka.common.errors.UnsupportedVersionException"
        raise ProtocolError(f"{java}: Unknown metadata id {number}")
    try:
        if version not in version_range(cls.__versions__):
            raise ProtocolError(f"{cls.__name__} has no version {version}")
        message, end = decode_prefix(cls, version, data, position)
    except ProtocolError as error:
        raise ProtocolError(f"Failed to deserialize record with type {number}") from error
    if end != len(data):
        raise ProtocolError(f"Found {len(data) - end} byte(s) of garbage after {number}")
    return message, version


def _uvarint(data: bytes, position: int, what: str) -> tuple[int, int]:
    try:
        return read_uvarint(data, position)
    except (ProtocolError, IndexError) as error:
        raise ProtocolError(f"Error while reading {what}") from error


def _version_of(data: bytes | None) -> int | None:
    return None if data is None or len(data) < _VERSION.size else int(_VERSION.unpack_from(data)[0])


def _versioned(cls: type[Message], data: bytes | None) -> Any:  # noqa: ANN401 - an object of cls
    version = _version_of(data)
    if data is None or version is None:
        raise ProtocolError("there is no version in front")
    if version not in version_range(cls.__versions__):
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return decode_prefix(cls, version, data, _VERSION.size)[0]


def _document(cls: type[Message], data: bytes | None) -> dict[str, object]:
    message = _versioned(cls, data)
    version = _version_of(data)
    assert version is not None
    return document(message, version)


# -- the texts of Java objects ----------------------------------------------------------------------------

_SEGMENT_STATES: Final = (
    *("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"),
    *("DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"),
)
_PARTITION_STATES: Final = (
    *("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED"),
)


def _topic_partition_text(at: Any) -> str:  # noqa: ANN401 - of one of three messages
    return f"{topic_id_text(at.id)}:{at.name}-{at.partition}"


def _segment_id_text(at: Any) -> str:  # noqa: ANN401 - of one of two messages
    where = _topic_partition_text(at.topic_id_partition)
    return f"RemoteLogSegmentId{{topicIdPartition={where}, id={topic_id_text(at.id)}}}"


def _segment_text(it: remote_log.RemoteLogSegmentMetadataRecord) -> str:
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id_text(it.remote_log_segment_id)}, "
        f"startOffset={it.start_offset}, endOffset={it.end_offset}, brokerId={it.broker_id}, "
        f"maxTimestampMs={it.max_timestamp_ms}, eventTimestampMs={it.event_timestamp_ms}, "
        f"segmentLeaderEpochs={_epochs_text(it.segment_leader_epochs)}, segmentSizeInBytes={it.segment_size_in_bytes}, "
        f"customMetadata={_custom_text(it.custom_metadata)}, "
        f"state={_state(_SEGMENT_STATES, it.remote_log_segment_state)}}}"
    )


def _update_text(it: remote_log.RemoteLogSegmentMetadataUpdateRecord) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id_text(it.remote_log_segment_id)}, "
        f"customMetadata={_custom_text(it.custom_metadata)}, "
        f"state={_state(_SEGMENT_STATES, it.remote_log_segment_state)}, "
        f"eventTimestampMs={it.event_timestamp_ms}, brokerId={it.broker_id}}}"
    )


def _delete_text(it: remote_log.RemotePartitionDeleteMetadataRecord) -> str:
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_topic_partition_text(it.topic_id_partition)}, "
        f"state={_state(_PARTITION_STATES, it.remote_partition_delete_state)}, "
        f"eventTimestampMs={it.event_timestamp_ms}, brokerId={it.broker_id}}}"
    )


def _snapshot_text(it: remote_log.RemoteLogSegmentMetadataSnapshotRecord) -> str:
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={topic_id_text(it.segment_id)}, "
        f"startOffset={it.start_offset}, endOffset={it.end_offset}, maxTimestampMs={it.max_timestamp_ms}, "
        f"segmentLeaderEpochs={_epochs_text(it.segment_leader_epochs)}, "
        f"segmentSizeInBytes={it.segment_size_in_bytes}, customMetadata={_custom_text(it.custom_metadata)}, "
        f"state={_state(_SEGMENT_STATES, it.remote_log_segment_state)}}}"
    )


def _epochs_text(entries: Any) -> str:  # noqa: ANN401 - of one of two messages
    epochs = {each.leader_epoch: each.offset for each in entries}
    return f"{{{', '.join(f'{epoch}={epochs[epoch]}' for epoch in sorted(epochs))}}}"


def _state(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        # What Kafka's tool shows of its own exceptions.
        raise ProtocolError("state can not be null" if names is _SEGMENT_STATES else "null")
    return names[number]


def _custom_text(data: bytes | None) -> str:
    if data is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(data)} bytes}}]"


_REMOTE_TEXTS: Final[Mapping[type[Message], Callable[[Any], str]]] = {
    remote_log.RemoteLogSegmentMetadataRecord: _segment_text,
    remote_log.RemoteLogSegmentMetadataUpdateRecord: _update_text,
    remote_log.RemotePartitionDeleteMetadataRecord: _delete_text,
    remote_log.RemoteLogSegmentMetadataSnapshotRecord: _snapshot_text,
}


def in_order_of_scala(partitions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Partitions in the order in which a mutable HashSet of Scala 2.13 has them, which Kafka's text shows."""

    capacity = _SCALA_CAPACITY
    while len(partitions) >= capacity * 3 // 4:
        capacity *= 2

    def place(partition: tuple[str, int]) -> tuple[int, int]:
        topic, number = partition
        hashed = (31 * (31 + number) + string_hash(topic)) & 0xFFFFFFFF
        hashed ^= hashed >> 16
        return hashed & capacity - 1, hashed - (1 << 32) if hashed >> 31 else hashed

    return sorted(partitions, key=place)


OFFSETS: Final = Content(decode_offsets_record, _parsed(decode_offsets_record))
TRANSACTIONS: Final = Content(_transaction, _transaction_documents)
CLUSTER_METADATA: Final = Content(_metadata, _parsed(_metadata))
REMOTE_LOG_METADATA: Final = Content(_remote, _remote_documents)
