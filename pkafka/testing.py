"""A pytest plugin: the fixture ``pkafka_broker`` gives any test a real broker, for any client, in well under a second.

It is loaded by every pytest run in an environment that has pkafka, so it imports nothing heavy and starts nothing
before a test asks. The broker is the program that users run, as a process of its own on a port chosen by the kernel,
with its data in a temporary directory; not a fake.
"""

from collections.abc import Iterator

import pytest

from pkafka.tools.servers.local_broker import Broker, BrokerStartError, running_broker

__all__ = ["Broker", "BrokerStartError", "pkafka_broker", "pkafka_broker_overrides", "running_broker"]


@pytest.fixture(scope="session")
def pkafka_broker_overrides() -> dict[str, object]:
    """Configuration of ``pkafka_broker``; a project defines a fixture of this name to set keys of its own."""
    return {}


@pytest.fixture(scope="session")
def pkafka_broker(
    pkafka_broker_overrides: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """One broker for the whole run; tests keep apart by the names of their topics."""
    with running_broker(tmp_path_factory.mktemp("pkafka"), pkafka_broker_overrides) as broker:
        yield broker
