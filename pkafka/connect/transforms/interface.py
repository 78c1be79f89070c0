"""What transforms and predicates are: records to records, one by one."""

from collections.abc import Mapping
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from pkafka.connect.config_def import ConfigDef
from pkafka.connect.data.records import ConnectRecord
from pkafka.connect.data.types import Value

R = TypeVar("R", bound=ConnectRecord)


@runtime_checkable
class Transformation(Protocol):
    """``Transformation``: makes another record of a record, or none."""

    JAVA_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigDef]

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Take the settings; called once, first.

        Raises:
            ConfigError: a setting is refused.
        """

    def apply(self, record: R) -> R | None:
        """The record that goes on; None: it is dropped.

        Raises:
            DataError: the record cannot be transformed.
        """

    def config(self) -> ConfigDef:
        """The settings that it knows."""

    def close(self) -> None:
        """Let go of what it holds."""


@runtime_checkable
class Predicate(Protocol):
    """``Predicate``: says whether a transform is for a record (KIP-585)."""

    JAVA_NAME: ClassVar[str]
    CONFIG: ClassVar[ConfigDef]

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Take the settings; called once, first.

        Raises:
            ConfigError: a setting is refused.
        """

    def test(self, record: ConnectRecord) -> bool:
        """Whether it is true of the record."""

    def config(self) -> ConfigDef:
        """The settings that it knows."""

    def close(self) -> None:
        """Let go of what it holds."""
