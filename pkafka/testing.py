"""A pytest plugin: the fixture ``pkafka_broker`` gives any test a real broker, for any client, in well under a second.

``pkafka_secured_broker`` is one with certificates, users and ACLs.

It is loaded by every pytest run in an environment that has pkafka, so it imports nothing heavy and starts nothing
before a test asks. A broker is the program that users run, as a process of its own on a port chosen by the kernel,
with its data in a temporary directory; not a fake.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pkafka.tools.servers.local_broker import Broker, BrokerStartError, running_broker

if TYPE_CHECKING:
    from pkafka.tools.servers.secured_broker import SecuredBroker

__all__ = [
    "Broker",
    "BrokerStartError",
    "pkafka_broker",
    "pkafka_broker_overrides",
    "pkafka_secured_broker",
    "pkafka_security",
    "running_broker",
    "running_secured_broker",
]


@pytest.fixture(scope="session")
def pkafka_broker_overrides() -> dict[str, object]:
    """Configuration of the plugin's brokers; a project defines a fixture of this name to set keys of its own."""
    return {}


@pytest.fixture(scope="session")
def pkafka_broker(
    pkafka_broker_overrides: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """One broker for the whole run; tests keep apart by the names of their topics."""
    with running_broker(tmp_path_factory.mktemp("pkafka"), pkafka_broker_overrides) as broker:
        yield broker


@pytest.fixture(scope="session")
def pkafka_security() -> str:
    """The way into ``pkafka_secured_broker``: ssl, sasl_plaintext or sasl_ssl; a project defines its own to choose."""
    return "sasl_ssl"


@pytest.fixture(scope="session")
def pkafka_secured_broker(
    pkafka_broker_overrides: dict[str, object], pkafka_security: str, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[SecuredBroker]":
    """One secured broker for the whole run, with users ``admin``, ``alice`` and ``bob``.

    ``client_config(user)`` is what a client is made of, ``client_properties(user)`` a file for commands. ``admin`` may
    do everything, the others what the tests allow them.
    """
    directory = tmp_path_factory.mktemp("pkafka-secured")
    with running_secured_broker(directory, pkafka_broker_overrides, security=pkafka_security) as broker:
        yield broker


def running_secured_broker(
    directory: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    security: str = "sasl_ssl",
    passwords: Mapping[str, str] | None = None,
) -> "AbstractContextManager[SecuredBroker]":
    """A secured broker for a while: see :func:`pkafka.tools.servers.secured_broker.running_secured_broker`."""
    from pkafka.tools.servers import secured_broker

    return secured_broker.running_secured_broker(directory, overrides, security=security, passwords=passwords)
