"""``interceptor.classes``: objects of the user's that see records before poll returns them, and commits."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.plugins import close_quietly, load_all
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.consumer.records import ConsumerRecords


class ConsumerInterceptor(Protocol):
    """What an interceptor may have; each method may be missing. What it raises is logged and otherwise ignored."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Look at the consumer's configuration."""

    def on_consume(self, records: "ConsumerRecords") -> "ConsumerRecords":
        """See, change or leave out records that poll is about to return; what it returns goes on."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were stored."""

    def close(self) -> None:
        """The consumer is closed."""


class Interceptors:
    """The interceptors of one consumer, in their order."""

    def __init__(self, made: Iterable[Any]) -> None:
        self._all = list(made)

    @classmethod
    def load(cls, named: object, configs: Mapping[str, object]) -> Self:
        """Those that ``interceptor.classes`` names.

        Raises:
            ConfigError: there is no such class.
        """
        return cls(load_all("interceptor.classes", named, configs) if named else ())

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_consume(self, records: "ConsumerRecords") -> "ConsumerRecords":
        """Pass records through all of them; one that fails is skipped."""
        for each in self._all:
            call = getattr(each, "on_consume", None)
            if call is None:
                continue
            try:
                records = call(records)
            except Exception:
                import logging

                logging.getLogger(__name__).exception("Error executing interceptor onConsume callback")
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell all of them."""
        for each in self._all:
            call = getattr(each, "on_commit", None)
            if call is None:
                continue
            try:
                call(offsets)
            except Exception:
                import logging

                logging.getLogger(__name__).exception("Error executing interceptor onCommit callback")

    def close(self) -> None:
        """Close all of them."""
        for each in self._all:
            close_quietly(each)
