"""What converters are: bytes of Kafka's records to values of Connect, and back."""

from collections.abc import Mapping
from typing import ClassVar, Protocol, runtime_checkable

from pkafka.connect.config_def import ConfigDef
from pkafka.connect.data.headers import Headers
from pkafka.connect.data.schema import Schema, SchemaAndValue
from pkafka.connect.data.types import Value


@runtime_checkable
class Converter(Protocol):
    """``Converter``: of keys, or of values."""

    JAVA_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigDef]

    def configure(self, configs: Mapping[str, Value], *, is_key: bool) -> None:
        """Take the settings; called once, first.

        Args:
            configs: by their names without the converter's prefix.
            is_key: whether it is for keys.

        Raises:
            ConfigError: a setting is refused.
        """

    def from_connect(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The bytes of a value.

        Args:
            topic: that the record is for.
            headers: of the record, where they are known.

        Raises:
            DataError: it cannot be written.
        """

    def to_connect(self, topic: str, headers: Headers | None, data: bytes | None) -> SchemaAndValue:
        """The value of bytes.

        Raises:
            DataError: they cannot be read.
        """

    def config(self) -> ConfigDef:
        """The settings that it knows."""

    def close(self) -> None:
        """Let go of what it holds."""


@runtime_checkable
class HeaderConverter(Protocol):
    """``HeaderConverter``: of the values of headers."""

    JAVA_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigDef]

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """Take the settings; called once, first.

        Raises:
            ConfigError: a setting is refused.
        """

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Value) -> bytes | None:
        """The bytes of a header's value.

        Raises:
            DataError: it cannot be written.
        """

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """The value of a header.

        Raises:
            DataError: it cannot be read.
        """

    def config(self) -> ConfigDef:
        """The settings that it knows."""

    def close(self) -> None:
        """Let go of what it holds."""
