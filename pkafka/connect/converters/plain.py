"""Converters of single values without JSON: text, bytes, numbers and truth values."""

import codecs
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance, Width
from pkafka.connect.converters.settings import converter_config, with_type
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.java_classes import class_name
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.schema import Schema, SchemaAndValue
from pkafka.connect.data.types import Type, Value
from pkafka.connect.data.validation import fits_type
from pkafka.connect.errors import DataError, SerializationError


class _Plain(ABC):
    """What these have in common: headers are converted as values are."""

    JAVA_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigDef] = converter_config()

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
        """
        self._take(self.CONFIG.parse(with_type(configs, is_key=is_key)))

    def _take(self, parsed: Mapping[str, Value]) -> None:  # noqa: B027 - most have no settings
        """Nothing more is set."""

    @abstractmethod
    def from_connect(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes of a value.

        Raises:
            DataError: it is of another type.
        """

    @abstractmethod
    def to_connect(self, topic: str, headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """The value of bytes.

        Raises:
            DataError: they are none of such a value.
        """

    def from_connect_header(self, topic: str, _key: str, schema: Schema | None, value: Value) -> bytes | None:
        """The bytes of a header's value.

        Raises:
            DataError: it is of another type.
        """
        return self.from_connect(topic, None, schema, value)

    def to_connect_header(self, topic: str, _key: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header.

        Raises:
            DataError: its bytes are none of such a value.
        """
        return self.to_connect(topic, None, data)

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:  # noqa: B027 - as above
        """Nothing is held."""


class StringConverter(_Plain):
    """``StringConverter``: the text that Java prints of a value; text is read as text."""

    JAVA_NAME = "org.apache.kafka.connect.storage.StringConverter"
    CONFIG = converter_config().define(
        "converter.encoding",
        ConfigType.STRING,
        "UTF-8",
        None,
        Importance.HIGH,
        "The name of the Java character set to use for encoding strings as byte arrays.",
        width=Width.MEDIUM,
        display_name="Encoding",
    )

    def __init__(self) -> None:
        self._codec = "utf-8"
        self._mark = b""

    def _take(self, parsed: Mapping[str, Value]) -> None:
        name = parsed["converter.encoding"]
        try:
            codec = codecs.lookup(name).name
            "a".encode(codec)  # there are codecs of no text
        except LookupError as error:
            raise SerializationError(f"Unsupported encoding {name}") from error
        # Java puts the larger byte first, and a mark before UTF-16.
        self._codec = f"{codec}-be" if codec in ("utf-16", "utf-32") else codec
        self._mark = codecs.BOM_UTF16_BE if codec == "utf-16" else b""

    def from_connect(
        self, _topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The text of a value; what the encoding has not becomes ``?``."""
        if value is None:
            return None
        text = value if value.__class__ is str else java_text(value, schema)
        return self._mark + text.encode(self._codec, "replace") if text else b""

    def to_connect(self, _topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """A text; what is none of the encoding becomes U+FFFD."""
        if data is None:
            return SchemaAndValue(Schema.OPTIONAL_STRING, None)
        marked = self._mark and data[:2] in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
        return SchemaAndValue(
            Schema.OPTIONAL_STRING, data.decode("utf-16" if marked else self._codec, "replace")
        )


class ByteArrayConverter(_Plain):
    """``ByteArrayConverter``: bytes as they are."""

    JAVA_NAME = "org.apache.kafka.connect.converters.ByteArrayConverter"

    def from_connect(
        self, _topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes.

        Raises:
            DataError: it is something else.
        """
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is None or value.__class__ is bytes:
            return value
        if not fits_type(Type.BYTES, value):
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type class {class_name(value)}"
            )
        return bytes(value)

    def to_connect(self, _topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """The bytes."""
        return SchemaAndValue(Schema.OPTIONAL_BYTES, data)


class BooleanConverter(_Plain):
    """``BooleanConverter``: one byte, 1 or 0 (KIP-1017)."""

    JAVA_NAME = "org.apache.kafka.connect.converters.BooleanConverter"

    def from_connect(
        self, _topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """One byte.

        Raises:
            DataError: it is no truth value.
        """
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(
                f"BooleanConverter is not compatible with objects of type class {class_name(value)}"
            )
        return b"\x01" if value else b"\x00"

    def to_connect(self, _topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """A truth value.

        Raises:
            DataError: it is not one byte, 1 or 0.
        """
        if data is None:
            return SchemaAndValue(Schema.OPTIONAL_BOOLEAN, None)
        if len(data) != 1:
            problem = "Size of data received by BooleanDeserializer is not 1"
        elif data[0] > 1:
            problem = f"Unexpected byte received by BooleanDeserializer: {int.from_bytes(data, signed=True)}"
        else:
            return SchemaAndValue(Schema.OPTIONAL_BOOLEAN, data == b"\x01")
        raise DataError("Failed to deserialize boolean: ") from SerializationError(problem)


class _NumberConverter(_Plain):
    """``NumberConverter``: numbers of one width, big end first."""

    NAME: ClassVar[str]
    TYPE: ClassVar[Type]
    FORMAT: ClassVar[struct.Struct]
    READER: ClassVar[str]

    def __init__(self) -> None:
        self._schema: Final = Schema(self.TYPE, optional=True)

    def from_connect(
        self, _topic: str, _headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes of a number.

        Raises:
            DataError: it is none of that class.
        """
        if value is None:
            return None
        # A plain number is of the class that its schema says, or the widest.
        if class_name(value, None if schema is None else schema.type) != class_name(
            value, self.TYPE
        ) or not fits_type(self.TYPE, value):
            name = class_name(value, None if schema is None else schema.type)
            raise DataError(f"Failed to serialize to {self.NAME} (was class {name}): ")
        return self.FORMAT.pack(value)

    def to_connect(self, _topic: str, _headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """A number.

        Raises:
            DataError: there are more bytes, or fewer.
        """
        if data is None:
            return SchemaAndValue(self._schema, None)
        if len(data) != self.FORMAT.size:
            problem = f"Size of data received by {self.READER} is not {self.FORMAT.size}"
            raise DataError(f"Failed to deserialize {self.NAME}: ") from SerializationError(problem)
        return SchemaAndValue(self._schema, self.FORMAT.unpack(data)[0])


class ShortConverter(_NumberConverter):
    """``ShortConverter``: 16 bits."""

    JAVA_NAME = "org.apache.kafka.connect.converters.ShortConverter"
    NAME, TYPE, FORMAT, READER = "short", Type.INT16, struct.Struct(">h"), "ShortDeserializer"


class IntegerConverter(_NumberConverter):
    """``IntegerConverter``: 32 bits."""

    JAVA_NAME = "org.apache.kafka.connect.converters.IntegerConverter"
    NAME, TYPE, FORMAT, READER = "integer", Type.INT32, struct.Struct(">i"), "IntegerDeserializer"


class LongConverter(_NumberConverter):
    """``LongConverter``: 64 bits."""

    JAVA_NAME = "org.apache.kafka.connect.converters.LongConverter"
    NAME, TYPE, FORMAT, READER = "long", Type.INT64, struct.Struct(">q"), "LongDeserializer"


class FloatConverter(_NumberConverter):
    """``FloatConverter``: floats of 32 bits."""

    JAVA_NAME = "org.apache.kafka.connect.converters.FloatConverter"
    NAME, TYPE, FORMAT, READER = "float", Type.FLOAT32, struct.Struct(">f"), "FloatDeserializer"


class DoubleConverter(_NumberConverter):
    """``DoubleConverter``: floats of 64 bits."""

    JAVA_NAME = "org.apache.kafka.connect.converters.DoubleConverter"
    NAME, TYPE, FORMAT, READER = "double", Type.FLOAT64, struct.Struct(">d"), "Deserializer"
