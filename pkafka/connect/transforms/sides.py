"""Transforms that are for keys or for values: the same transform under two names, ``$Key`` and ``$Value``."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from pkafka.connect.config_def import ConfigDef
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.types import Value
from pkafka.connect.transforms.interface import R

PACKAGE: Final = "org.apache.kafka.connect.transforms."


class Settings:
    """What all transforms and predicates have: settings, and nothing to close."""

    JAVA_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
        """
        self._take(self.CONFIG.parse(configs))

    def _take(self, parsed: Mapping[str, Value]) -> None:
        """Keep what was read of the settings."""

    def config(self) -> ConfigDef:
        """The settings that it knows."""
        return self.CONFIG

    def close(self) -> None:
        """Nothing is held."""


class Sided(Settings, ABC):
    """A transform of keys or of values."""

    @abstractmethod
    def _of(self, record: R) -> tuple[Schema | None, Value]:
        """Schema and value of the side."""

    @abstractmethod
    def _with(self, record: R, schema: Schema | None, value: Value) -> R:
        """The record with another schema and value on the side."""


class OnKey(Sided):
    """The side of keys."""

    def _of(self, record: R) -> tuple[Schema | None, Value]:
        return record.key_schema, record.key

    def _with(self, record: R, schema: Schema | None, value: Value) -> R:
        return record.new_record(key_schema=schema, key=value)


class OnValue(Sided):
    """The side of values."""

    def _of(self, record: R) -> tuple[Schema | None, Value]:
        return record.value_schema, record.value

    def _with(self, record: R, schema: Schema | None, value: Value) -> R:
        return record.new_record(value_schema=schema, value=value)
