"""``--zookeeper`` of commands that read or write nodes of a cluster, beside or in place of asking its brokers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError

if TYPE_CHECKING:
    from pkafka.coordination.store import Store

F = TypeVar("F", bound=Callable[..., Any])

DEPRECATED: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.",
    "Use --bootstrap-server instead to specify a broker to connect to.",
)
"""What Kafka's tools print before they do anything there."""


def zookeeper_option(text: str) -> Callable[[F], F]:
    """Add ``--zookeeper``.

    Args:
        text: what the command does with it.
    """
    return click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help=text)


@contextmanager
def opened_store(connect: str, timeout_ms: int, *, tls_file: str | None = None) -> "Iterator[Store]":
    """The nodes of a cluster for the length of a ``with`` block.

    Args:
        connect: as in ``zookeeper.connect``.
        timeout_ms: how long to wait for a server, and for each answer.
        tls_file: the properties file of ``--zk-tls-config-file``.

    Raises:
        CommandError: no server answers, or the cluster is not there.
        click.UsageError: ``connect`` is no such thing.
    """
    from pkafka.coordination.store import (
        ConnectionLossError,
        NoNodeError,
        SessionExpiredError,
        StoreAccessError,
    )
    from pkafka.coordination.zookeeper import ZooKeeperStore
    from pkafka.security.zookeeper_login import zookeeper_login

    tls = None
    if tls_file is not None:
        from pkafka.java.properties import load_properties
        from pkafka.tools.zookeeper.shell import tls_settings

        tls = tls_settings(load_properties(tls_file), source=tls_file)
    try:
        login = zookeeper_login()
        store = ZooKeeperStore(
            connect,
            timeout_ms,
            connect_timeout_ms=timeout_ms,
            tls=tls,
            login=login,
            protects=login is not None,
        )
    except ValueError as error:
        raise click.UsageError(f"--zookeeper {connect}: {error}") from error
    except ConnectionLossError as error:
        raise _unreachable(error) from error
    except StoreAccessError as error:
        raise CommandError(str(error), hint="see -Djava.security.auth.login.config in KAFKA_OPTS") from error
    except NoNodeError as error:
        raise CommandError(
            f"there is no {error.path} in ZooKeeper",
            hint="the path behind host:port has to be that of the brokers' zookeeper.connect",
        ) from error
    with store:
        try:
            yield store
        except (ConnectionLossError, SessionExpiredError) as error:
            raise _unreachable(error) from error


def _unreachable(error: Exception) -> CommandError:
    return CommandError(
        str(error), hint="is a ZooKeeper server running there?", status=ExitStatus.UNREACHABLE
    )
