"""``SimpleHeaderConverter``: values of headers as text, read as what they seem to be (KIP-145)."""

from collections.abc import Mapping
from typing import ClassVar

from pkafka.connect.config_def import ConfigDef
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue
from pkafka.connect.data.types import Value
from pkafka.connect.data.values import parse_string, to_text
from pkafka.connect.errors import ConnectError


class SimpleHeaderConverter:
    """Converts headers."""

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    CONFIG: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, configs: Mapping[str, Value], *, is_key: bool = False) -> None:
        """There are no settings."""

    def from_connect_header(
        self, _topic: str, _key: str, schema: Schema | None, value: Value
    ) -> bytes | None:
        """The text of a header's value.

        Raises:
            DataError: it is of no class of Connect.
        """
        return None if value is None else to_text(value, schema).encode("utf-8", "replace")

    def to_connect_header(self, _topic: str, _key: str, data: bytes | None) -> SchemaAndValue:
        """What a header's text seems to be; what cannot be said stays bytes."""
        if data is None:
            return NULL
        try:
            return parse_string(data.decode("utf-8", "replace"))
        except ConnectError:
            return SchemaAndValue(Schema.BYTES, data)

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:
        """Nothing is held."""
