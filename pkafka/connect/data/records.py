"""Records as connectors make them (sources) and get them (sinks). They are values: a change makes another record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Self

from pkafka.connect.data.headers import Headers
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.types import Value

_UNCHANGED: Final[Value] = object()
NO_TIMESTAMP_TYPE: Final = "NoTimestampType"
TIMESTAMP_TYPES: Final[Mapping[int, str]] = {0: "CreateTime", 1: "LogAppendTime"}
"""The names of what Kafka's consumers have as numbers."""


@dataclass(slots=True, eq=True, repr=False, unsafe_hash=False)
class ConnectRecord:
    """``ConnectRecord``: what sources and sinks have in common.

    Nothing changes a record, though nothing forbids it: checks would cost more than the rest of most transforms.

    Args:
        topic: it is for, or from.
        partition: of the topic; None: the producer decides.
        key_schema: of the key; None: unknown.
        key: of the record.
        value_schema: of the value; None: unknown.
        value: of the record; None: a tombstone.
        timestamp: in milliseconds since 1970; None: of the producer.
        headers: of the record.
    """

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.connector.ConnectRecord"

    topic: str | None
    partition: int | None
    key_schema: Schema | None
    key: Value
    value_schema: Schema | None
    value: Value
    timestamp: int | None = None
    headers: Headers = field(default_factory=Headers)

    def new_record(
        self,
        *,
        topic: str | None = _UNCHANGED,
        partition: int | None = _UNCHANGED,
        key_schema: Schema | None = _UNCHANGED,
        key: Value = _UNCHANGED,
        value_schema: Schema | None = _UNCHANGED,
        value: Value = _UNCHANGED,
        timestamp: int | None = _UNCHANGED,
        headers: Headers = _UNCHANGED,
    ) -> Self:
        """The same record, but for what is given.

        Headers that are not given are copied, so that neither record changes the other's.
        """
        return self.__class__(
            self.topic if topic is _UNCHANGED else topic,
            self.partition if partition is _UNCHANGED else partition,
            self.key_schema if key_schema is _UNCHANGED else key_schema,
            self.key if key is _UNCHANGED else key,
            self.value_schema if value_schema is _UNCHANGED else value_schema,
            self.value if value is _UNCHANGED else value,
            self.timestamp if timestamp is _UNCHANGED else timestamp,
            self.headers.duplicate() if headers is _UNCHANGED else headers,
            *self._own(),
        )

    def _own(self) -> tuple[Value, ...]:
        return ()

    def _text(self) -> str:
        pairs = {
            "topic": f"'{java_text(self.topic)}'",
            "kafkaPartition": self.partition,
            "key": java_text(self.key, self.key_schema),
            "keySchema": self.key_schema,
            "value": java_text(self.value, self.value_schema),
            "valueSchema": self.value_schema,
            "timestamp": self.timestamp,
            "headers": self.headers,
        }
        return f"ConnectRecord{{{', '.join(f'{name}={java_text(value)}' for name, value in pairs.items())}}}"

    def __str__(self) -> str:
        return self._text()

    __repr__ = __str__


@dataclass(slots=True, eq=True, repr=False, unsafe_hash=False)
class SourceRecord(ConnectRecord):
    """``SourceRecord``: a record on its way to Kafka.

    Args:
        source_partition: where in the source it comes from.
        source_offset: from where on the source is read when this record is in Kafka.
    """

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.source.SourceRecord"

    source_partition: Mapping[str, Value] | None = None
    source_offset: Mapping[str, Value] | None = None

    def _own(self) -> tuple[Value, ...]:
        return self.source_partition, self.source_offset

    def __str__(self) -> str:
        places = f"sourcePartition={java_text(self.source_partition)}, sourceOffset={java_text(self.source_offset)}"
        return f"SourceRecord{{{places}}} {self._text()}"

    __repr__ = __str__


@dataclass(slots=True, eq=True, repr=False, unsafe_hash=False)
class SinkRecord(ConnectRecord):
    """``SinkRecord``: a record from Kafka.

    Args:
        offset: of the record.
        timestamp_type: ``NoTimestampType``, ``CreateTime`` or ``LogAppendTime``.
        original_topic: that it was read from, before transforms (KIP-793); not given: ``topic``.
        original_partition: that it was read from; not given: ``partition``.
        original_offset: that it was read at; not given: ``offset``.
    """

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.sink.SinkRecord"

    offset: int = 0
    timestamp_type: str = "NoTimestampType"
    original_topic: str | None = _UNCHANGED
    original_partition: int | None = _UNCHANGED
    original_offset: int = _UNCHANGED

    def __post_init__(self) -> None:
        if self.original_topic is _UNCHANGED:
            self.original_topic = self.topic
        if self.original_partition is _UNCHANGED:
            self.original_partition = self.partition
        if self.original_offset is _UNCHANGED:
            self.original_offset = self.offset

    def _own(self) -> tuple[Value, ...]:
        original = (self.original_topic, self.original_partition, self.original_offset)
        return (self.offset, self.timestamp_type, *original)

    def __str__(self) -> str:
        original = (
            f"originalTopic={java_text(self.original_topic)}, "
            f"originalKafkaPartition={java_text(self.original_partition)}, originalKafkaOffset={self.original_offset}"
        )
        at = f"kafkaOffset={self.offset}, timestampType={self.timestamp_type}"
        return f"SinkRecord{{{at}, {original}}} {self._text()}"

    __repr__ = __str__
