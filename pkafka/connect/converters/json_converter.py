"""``JsonConverter``: values as JSON, with the schema beside each, or without any."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import ClassVar, Final, Generic, TypeVar

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance, Width
from pkafka.connect.config_validators import one_of_any_case
from pkafka.connect.converters.json_schema import schema_from_json, schema_to_json
from pkafka.connect.converters.json_text import MISSING, decode, read, scan, skip_blanks, text_of, write
from pkafka.connect.converters.json_values import JsonValues
from pkafka.connect.converters.settings import converter_config, with_type
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.java_classes import LONG_MAX, LONG_MIN
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue
from pkafka.connect.data.types import Value
from pkafka.connect.errors import DataError, SerializationError

_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_WRITING: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "
_READING: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_SCALARS: Final = frozenset({str, bool, float, type(None)})
_SCHEMA_BEGINS: Final = '{"schema":'
_PAYLOAD_BEGINS: Final = ',"payload":'


class JsonConverter:
    """Converts keys, values and headers."""

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.json.JsonConverter"
    CONFIG: ClassVar[ConfigDef] = (
        converter_config()
        .define(
            "schemas.enable",
            ConfigType.BOOLEAN,
            True,
            importance=Importance.HIGH,
            documentation="Include schemas within each of the serialized values and keys.",
            group="Schemas",
            order_in_group=0,
            width=Width.MEDIUM,
            display_name="Enable Schemas",
        )
        .define(
            "schemas.cache.size",
            ConfigType.INT,
            1000,
            importance=Importance.HIGH,
            documentation="The maximum number of schemas that can be cached in this converter instance.",
            group="Schemas",
            order_in_group=1,
            width=Width.MEDIUM,
            display_name="Schema Cache Size",
        )
        .define(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            one_of_any_case("NUMERIC", "BASE64"),
            Importance.LOW,
            "Controls which format this converter will serialize decimals in. This value is case insensitive and can "
            "be either 'BASE64' (default) or 'NUMERIC'",
            group="Serialization",
            order_in_group=0,
            width=Width.MEDIUM,
            display_name="Decimal Format",
        )
        .define(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            True,
            importance=Importance.LOW,
            documentation="Whether to replace fields that have a default value and that are null to the default value. "
            "When set to true, the default value is used, otherwise null is used.",
            group="Serialization",
            order_in_group=1,
            width=Width.MEDIUM,
            display_name="Replace null with default",
        )
    )

    def __init__(self) -> None:
        self._schemas_enabled = True
        self._values = JsonValues()
        self._written: _Cache[Schema, str] = _Cache(1000)
        self._read: _Cache[str, Schema | None] = _Cache(1000)
        self._last_prefix = ""

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
        """
        parsed = self.CONFIG.parse(with_type(configs, is_key=is_key))
        self._schemas_enabled = parsed["schemas.enable"]
        self._values = JsonValues(
            replace_null=parsed["replace.null.with.default"],
            numeric_decimals=parsed["decimal.format"].upper() == "NUMERIC",
        )
        self._written = _Cache(parsed["schemas.cache.size"])
        self._read = _Cache(parsed["schemas.cache.size"])

    def from_connect(
        self, _topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The JSON of a value; no bytes for no value without a schema.

        Raises:
            DataError: the value does not fit its schema.
        """
        if schema is None and value is None:
            return None
        try:
            if value.__class__ is str and schema is Schema.STRING and not self._schemas_enabled:
                return write(value)  # as lines of a file
            if self._schemas_enabled:
                return self._with_schema(schema, value).encode()
            node = value if schema is None and _is_plain(value) else self._values.to_json(schema, value)
            return write(node)
        except (SerializationError, UnicodeEncodeError) as error:
            raise DataError(_WRITING) from error

    def _with_schema(self, schema: Schema | None, value: Value) -> str:
        written = "null" if schema is None else self._written.get(schema)
        if written is None:
            assert schema is not None
            written = text_of(schema_to_json(schema, self._values.to_json))
            self._written.put(schema, written)
        payload = text_of(self._values.to_json(schema, value))
        return f"{_SCHEMA_BEGINS}{written}{_PAYLOAD_BEGINS}{payload}}}"

    def to_connect(self, _topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """The value of JSON.

        Raises:
            DataError: it is none, or not of its schema.
        """
        if data is None:
            return NULL
        try:
            text = decode(data)
            if not self._schemas_enabled:
                node = read(text)
                # A negative zero loses its sign.
                is_plain = "-0" not in text and _is_plain(node)
                return SchemaAndValue(None, node if is_plain else self._values.to_connect(None, node))
            schema, payload = self._opened(text)
        except SerializationError as error:
            raise DataError(_READING) from error
        return SchemaAndValue(schema, self._values.to_connect(schema, payload))

    def _opened(self, text: str) -> tuple[Schema | None, Value]:
        """The schema and the payload of an envelope; a schema that was read before is known by its text."""
        exactly = "connect.data.Decimal" in text
        prefix = self._prefix_of(text, exactly=exactly)
        payload = _payload_behind(prefix, text, exactly=exactly) if prefix else MISSING
        if payload is MISSING:
            envelope = read(text, exactly=exactly)
            if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
                raise DataError(_NO_ENVELOPE)
            return schema_from_json(envelope["schema"], self._values.to_connect), envelope["payload"]
        self._last_prefix = prefix
        if not self._read.has(prefix):
            node, _end = scan(text, len(_SCHEMA_BEGINS), exactly=exactly)
            self._read.put(prefix, schema_from_json(node, self._values.to_connect))
        return self._read.get(prefix), payload

    def _prefix_of(self, text: str, *, exactly: bool) -> str:
        """What stands before the payload where the schema comes first and no blanks are about; else nothing."""
        if not text.startswith(_SCHEMA_BEGINS):
            return ""
        if self._last_prefix and text.startswith(self._last_prefix):
            return self._last_prefix
        try:
            _node, end = scan(text, len(_SCHEMA_BEGINS), exactly=exactly)
        except SerializationError:
            return ""
        return text[: end + len(_PAYLOAD_BEGINS)] if text.startswith(_PAYLOAD_BEGINS, end) else ""

    def from_connect_header(self, topic: str, _key: str, schema: Schema | None, value: Value) -> bytes | None:
        """The JSON of a header's value.

        Raises:
            DataError: the value does not fit its schema.
        """
        return self.from_connect(topic, None, schema, value)

    def to_connect_header(self, topic: str, _key: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header.

        Raises:
            DataError: it is no JSON, or not of its schema.
        """
        return self.to_connect(topic, None, data)

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:
        """Nothing is held."""


def _payload_behind(prefix: str, text: str, *, exactly: bool) -> Value:
    """The payload, where nothing but it follows; else ``MISSING``."""
    try:
        payload, end = scan(text, skip_blanks(text, len(prefix)), exactly=exactly)
    except SerializationError:
        return MISSING
    return payload if text.startswith("}", skip_blanks(text, end)) else MISSING


def _is_plain(value: Value) -> bool:
    """Whether a value is, as it is, JSON and what JSON without a schema means."""
    kind = value.__class__
    if kind is dict:
        for key, each in value.items():
            if key.__class__ is not str or not (each.__class__ in _SCALARS or _is_plain(each)):
                return False
        return True
    if kind is int:
        return bool(LONG_MIN <= value <= LONG_MAX)
    if kind is list:
        return all(map(_is_plain, value))
    return kind in _SCALARS


K = TypeVar("K")
V = TypeVar("V")


class _Cache(Generic[K, V]):
    """What was last used, so much of it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[K, V] = OrderedDict()

    def has(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._kept[key] = value
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
