"""Classes of a user's own that take part in copying: what becomes of a record, and what happens at a rebalance.

They are named as a configuration names serializers (``clients/plugins.py``), and are called with the argument of the
command line where there is one, as kafka-mirror-maker.sh calls them.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from pkafka.clients import plugins
from pkafka.clients.consumer import ConsumerRebalanceListener, ConsumerRecord
from pkafka.clients.producer import ProducerRecord
from pkafka.errors import PkafkaError


class MessageHandler(Protocol):
    """Decides what is written of a record that was read; Kafka's ``MirrorMakerMessageHandler``."""

    def handle(self, record: ConsumerRecord) -> Iterable[ProducerRecord]:
        """The records to write in its place, in order; none leaves it out.

        It is called by the thread of each stream, so with ``--num.streams`` by several at a time.

        Args:
            record: as it was read; key and value are bytes or None.
        """


class HandlerError(PkafkaError):
    """The user's message handler raised an exception; copying stops, so that the record is not lost."""


def load_handler(name: str, argument: str | None) -> MessageHandler:
    """The handler of a class.

    Args:
        name: of the class, ``package.module.Class``.
        argument: what it is called with; None: with nothing.

    Raises:
        ConfigError: there is no such class, it cannot be made, or it has no ``handle``.
    """
    handler: MessageHandler = plugins.load(
        "message.handler", name, methods=("handle",), arguments=_arguments(argument)
    )
    return handler


def load_listener(name: str, argument: str | None) -> ConsumerRebalanceListener:
    """The rebalance listener of a class; it is told after the offsets of what is taken away are committed.

    Args:
        name, argument: as for :func:`load_handler`.

    Raises:
        ConfigError: as :func:`load_handler`, for ``on_partitions_revoked`` and ``on_partitions_assigned``.
    """
    listener: Any = plugins.load(
        "consumer.rebalance.listener",
        name,
        methods=("on_partitions_revoked", "on_partitions_assigned"),
        arguments=_arguments(argument),
    )
    return listener  # type: ignore[no-any-return]


def handled(handler: MessageHandler, record: ConsumerRecord) -> Iterable[ProducerRecord]:
    """What a handler makes of a record.

    Raises:
        HandlerError: it raised an exception.
    """
    try:
        return list(handler.handle(record))
    except Exception as error:
        name = type(handler).__qualname__
        raise HandlerError(
            f"{name}: {type(error).__name__}: {error} (at offset {record.offset} of {record.topic}-{record.partition})"
        ) from error


def _arguments(argument: str | None) -> tuple[str, ...]:
    return () if argument is None else (argument,)
