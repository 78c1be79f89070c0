"""The steps of a record between a connector and Kafka: transforms with their predicates, and converters.

Made of a connector's configuration; each task has its own, used by its thread alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar

from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.connector_config import ConnectorSettings
from pkafka.connect.converters import ByteArrayConverter, Converter, HeaderConverter
from pkafka.connect.data.headers import Header, Headers
from pkafka.connect.data.records import (
    NO_TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    ConnectRecord,
    SinkRecord,
    SourceRecord,
)
from pkafka.connect.data.schema import SchemaAndValue
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import Class, Plugins, name_of, prefixed
from pkafka.connect.tolerance import ErrorHandling, Stage
from pkafka.connect.transforms import Predicate, Transformation
from pkafka.connect.worker_config import WorkerConfig

RecordT = TypeVar("RecordT", bound=ConnectRecord)


class _Step(NamedTuple):
    transform: Transformation
    name: str
    predicate: Predicate | None
    negate: bool

    def apply(self, record: RecordT) -> RecordT | None:
        """Transform a record, if the predicate says so. What the predicate raises is a failure of the transform."""
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        return self.transform.apply(record)


class Transforms:
    """Passes records through a connector's transforms, in their order.

    Args:
        steps: the transforms, configured.
        handling: says what becomes of a record that one fails on.
    """

    def __init__(self, steps: Sequence[_Step], handling: ErrorHandling) -> None:
        self._steps = steps
        self._handling = handling

    @classmethod
    def of(cls, settings: ConnectorSettings, plugins: Plugins, handling: ErrorHandling) -> Self:
        """Make those of a connector.

        Raises:
            ConfigError: one is refused.
            ConnectError: a transform names a predicate that there is not.
        """
        configs = settings.configs
        predicates: dict[str, Predicate] = {}
        for alias in settings.parsed["predicates"]:
            own = prefixed(configs, f"predicates.{alias}.")
            predicate = predicates[alias] = settings.parsed[f"predicates.{alias}.type"]()
            predicate.configure({name: value for name, value in own.items() if name != "type"})
        steps = []
        for alias in settings.parsed["transforms"]:
            own = prefixed(configs, f"transforms.{alias}.")
            transform = settings.parsed[f"transforms.{alias}.type"]()
            transform.configure({name: value for name, value in own.items() if name not in _OWN})
            named = settings.parsed.get(f"transforms.{alias}.predicate")
            if named is not None and named not in predicates:
                raise ConnectError(
                    f"The transform {alias} names the predicate {named}, which is not in predicates"
                )
            negate = bool(settings.parsed.get(f"transforms.{alias}.negate"))
            steps.append(_Step(transform, name_of(type(transform)), predicates.get(named or ""), negate))
        return cls(steps, handling)

    @property
    def is_empty(self) -> bool:
        """Whether records stay as they are."""
        return not self._steps

    def apply(self, raw: ConsumerRecord | SourceRecord, record: RecordT) -> RecordT | None:
        """Pass one record through.

        Args:
            raw: the same record as it came, for reports.

        Returns:
            What is left; None: a transform dropped it, or one failed and the record is left out.

        Raises:
            ConnectError: a transform failed, and that is not tolerated.
        """
        current: RecordT | None = record
        for step in self._steps:
            assert current is not None
            apply = partial(step.apply, current)
            current = self._handling.run(raw, Stage.TRANSFORMATION, step.name, apply)
            if current is None:
                return None
        return current

    def close(self) -> None:
        """Let go of what transforms and predicates hold."""
        for step in self._steps:
            step.transform.close()
            if step.predicate is not None:
                step.predicate.close()


_OWN: Final = frozenset({"type", "predicate", "negate"})


class _Stages(NamedTuple):
    key: tuple[Converter, str]
    value: tuple[Converter, str]
    header: tuple[HeaderConverter, str]


class Encoded(NamedTuple):
    """A record as the producer takes it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: list[tuple[str, bytes | None]]


class Converters:
    """Makes values of bytes and bytes of values.

    Args:
        stages: the three converters, with their names.
        handling: says what becomes of a record that one fails on.
    """

    def __init__(self, stages: _Stages, handling: ErrorHandling) -> None:
        self._key, self._key_name = stages.key
        self._value, self._value_name = stages.value
        self._header, self._header_name = stages.header
        self._handling = handling

    @classmethod
    def of(cls, worker: WorkerConfig, settings: ConnectorSettings, handling: ErrorHandling) -> Self:
        """Make those of a connector: its own where it names some, else the worker's.

        Raises:
            ConfigError: a setting of one is refused.
        """

        def made(name: str, used_for: str) -> tuple[Any, str]:
            implementation: Class | None = settings.parsed.get(name)
            configs = prefixed(settings.configs, f"{name}.")
            if implementation is None:
                implementation, configs = worker.converter(name)
            assert implementation is not None
            converter = implementation()
            converter.configure({**configs, "converter.type": used_for}, is_key=used_for == "key")
            return converter, name_of(implementation)

        return cls(
            _Stages(
                made("key.converter", "key"),
                made("value.converter", "value"),
                made("header.converter", "header"),
            ),
            handling,
        )

    @property
    def leave_bytes(self) -> bool:
        """Whether keys, values and headers are bytes, and stay as they are."""
        return all(type(each) is ByteArrayConverter for each in (self._key, self._value, self._header))

    def encode(self, raw: SourceRecord, record: SourceRecord) -> Encoded | None:
        """Make bytes of a record; None: it failed, and is left out.

        Raises:
            ConnectError: it failed, and that is not tolerated.
        """
        topic, headers = record.topic or "", record.headers
        try:
            # Nearly all records pass here. One that fails goes through the steps again, one by one.
            return Encoded(
                topic,
                record.partition,
                self._key.from_connect(topic, headers, record.key_schema, record.key),
                self._value.from_connect(topic, headers, record.value_schema, record.value),
                record.timestamp,
                self._encoded_headers(topic, headers) if len(headers) else [],
            )
        except Exception:  # noqa: BLE001 - told by the steps
            return self._encode_in_steps(raw, record, topic, headers)

    def _encode_in_steps(
        self, raw: SourceRecord, record: SourceRecord, topic: str, headers: Headers
    ) -> Encoded | None:
        run, left_out = self._handling.run, self._handling.skipped
        named = run(
            raw, Stage.HEADER_CONVERTER, self._header_name, lambda: self._encoded_headers(topic, headers)
        )
        if self._handling.skipped != left_out:
            return None
        key = run(
            raw,
            Stage.KEY_CONVERTER,
            self._key_name,
            lambda: self._key.from_connect(topic, headers, record.key_schema, record.key),
        )
        if self._handling.skipped != left_out:
            return None
        value = run(
            raw,
            Stage.VALUE_CONVERTER,
            self._value_name,
            lambda: self._value.from_connect(topic, headers, record.value_schema, record.value),
        )
        if self._handling.skipped != left_out:
            return None
        return Encoded(topic, record.partition, key, value, record.timestamp, named or [])

    def _encoded_headers(self, topic: str, headers: Headers) -> list[tuple[str, bytes | None]]:
        return [
            (each.key, self._header.from_connect_header(topic, each.key, each.schema, each.value))
            for each in headers
        ]

    def decode(self, raw: ConsumerRecord) -> SinkRecord | None:
        """Make a record of bytes; None: it failed, and is left out.

        Raises:
            ConnectError: it failed, and that is not tolerated.
        """
        headers = Headers()
        try:
            # As for records that are written.
            key = self._key.to_connect(raw.topic, headers, raw.key)
            value = self._value.to_connect(raw.topic, headers, raw.value)
            return _sink_record(raw, key, value, self._decoded_headers(raw) if raw.headers else headers)
        except Exception:  # noqa: BLE001 - told by the steps
            return self._decode_in_steps(raw, headers)

    def _decode_in_steps(self, raw: ConsumerRecord, headers: Headers) -> SinkRecord | None:
        run = self._handling.run
        key = run(
            raw,
            Stage.KEY_CONVERTER,
            self._key_name,
            lambda: self._key.to_connect(raw.topic, headers, raw.key),
        )
        if key is None:
            return None
        value = run(
            raw,
            Stage.VALUE_CONVERTER,
            self._value_name,
            lambda: self._value.to_connect(raw.topic, headers, raw.value),
        )
        if value is None:
            return None
        if raw.headers:
            found = run(raw, Stage.HEADER_CONVERTER, self._header_name, lambda: self._decoded_headers(raw))
            if found is None:
                return None
            headers = found
        return _sink_record(raw, key, value, headers)

    def _decoded_headers(self, raw: ConsumerRecord) -> Headers:
        headers = Headers()
        for name, data in raw.headers:
            found: SchemaAndValue = self._header.to_connect_header(raw.topic, name, data)
            headers.add_header(Header(name, found.value, found.schema))
        return headers

    def close(self) -> None:
        """Let go of what the converters hold."""
        for converter in (self._key, self._value, self._header):
            converter.close()


def _sink_record(
    raw: ConsumerRecord, key: SchemaAndValue, value: SchemaAndValue, headers: Headers
) -> SinkRecord:
    has_time = raw.timestamp >= 0
    return SinkRecord(
        raw.topic,
        raw.partition,
        key.schema,
        key.value,
        value.schema,
        value.value,
        raw.timestamp if has_time else None,
        headers,
        raw.offset,
        TIMESTAMP_TYPES.get(raw.timestamp_type, NO_TIMESTAMP_TYPE) if has_time else NO_TIMESTAMP_TYPE,
    )


def class_mapping(configs: Mapping[str, str]) -> str:
    """The class that a connector's configuration names.

    Raises:
        ConnectError: it names none.
    """
    named = configs.get("connector.class")
    if named is None:
        shown = ", ".join(f"{name}={value}" for name, value in configs.items())
        raise ConnectError(f"Connector config {{{shown}}} contains no connector type")
    return named
