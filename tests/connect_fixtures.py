"""What tests of Connect stand on, for modules that import it; brokers and ``talk`` are those of their folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.testing import Broker, running_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.raw_client import new_topic_name
from tests.talk import Talk


@pytest.fixture(name="topic")
def new_topic(talk: Talk) -> str:
    """A topic of one partition."""
    name = new_topic_name()
    talk.create(name)
    return name


@pytest.fixture(name="topic")
def table_topic(talk: Talk) -> str:
    """A topic of one partition whose name a table may have."""
    name = new_topic_name().replace("-", "_")
    talk.create(name)
    return name


@pytest.fixture(name="worker")
def waiting_worker(broker: Broker, tmp_path: Path) -> Iterator[ConnectWorker]:
    """A standalone worker that the test starts."""
    with standalone(tmp_path / "worker", broker.bootstrap, starts=False) as worker:
        yield worker


@pytest.fixture(scope="module", name="worker")
def module_worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    """A standalone worker for all tests of a module."""
    with standalone(tmp_path_factory.mktemp("connect"), broker.bootstrap) as worker:
        yield worker


@pytest.fixture(scope="module", name="source")
def source_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The cluster that is copied; ``broker`` is where to."""
    with running_broker(tmp_path_factory.mktemp("source"), {"broker.id": 0}) as broker:
        yield broker
