"""What commands with a producer or a consumer share: flags, and the signals that end a consumer."""

import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pkafka.cli.kit.options import parse_assignments, settle

if TYPE_CHECKING:
    from pkafka.clients.config import ConsumerConfig, ProducerConfig
    from pkafka.clients.consumer import Consumer

F = TypeVar("F", bound=Callable[..., Any])

broker_list_option: Final = click.option("--broker-list", metavar="HOST:PORT,...", hidden=True)


def one_server_flag(flags: Mapping[str, object]) -> object:
    """The brokers of a tool that takes ``--bootstrap-server`` or ``--broker-list`` and not both; None without either.

    Raises:
        click.UsageError: both are given.
    """
    if flags["bootstrap_server"] and flags["broker_list"]:
        raise click.UsageError("--broker-list: not allowed with --bootstrap-server")
    return flags["bootstrap_server"] or flags["broker_list"]


def config_option(client: str, text: str = "Properties file.") -> Callable[[F], F]:
    """Add ``--CLIENT.config``, which arrives as ``CLIENT_config``, with the name that KIP-1147 gives it."""
    return click.option(
        f"--{client}.config", "--command-config", f"{client}_config", metavar="FILE", help=text
    )


def property_option(client: str) -> Callable[[F], F]:
    """Add ``--CLIENT-property``, likewise."""
    return click.option(
        f"--{client}-property",
        "--command-property",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting that counts more than the file's.",
    )


def plugin_properties(file: object, pairs: object) -> dict[str, str]:
    """The properties of a reader or a formatter: ``--property`` over its file.

    Raises:
        ConfigError: the file cannot be read.
        click.UsageError: a pair has no ``=``.
    """
    from pkafka.java.properties import load_properties

    assert isinstance(pairs, tuple)
    return {**(load_properties(str(file)) if file else {}), **parse_assignments(pairs, option="--property")}


def settle_consumer(properties: Mapping[str, object]) -> None:
    """:func:`pkafka.cli.kit.options.settle` of a consumer's settings."""
    settle(properties, _consumer_config)


def settle_producer(properties: Mapping[str, object]) -> None:
    """:func:`pkafka.cli.kit.options.settle` of a producer's settings."""
    settle(properties, _producer_config)


def _consumer_config() -> "type[ConsumerConfig]":
    from pkafka.clients.config import ConsumerConfig

    return ConsumerConfig


def _producer_config() -> "type[ProducerConfig]":
    from pkafka.clients.config import ProducerConfig

    return ProducerConfig


class ConsumerStop:
    """Lets SIGINT and SIGTERM wake a consumer up, and keeps the status that shells expect then; 0 without a signal."""

    def __init__(self, consumer: "Consumer") -> None:
        self.status = 0
        self._consumer = consumer
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.status = 128 + number
        self._consumer.wakeup()
