"""Fixtures: a store of either kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.store import Store
from tests.unit.coordination.worlds import Coordination, EmbeddedCoordination, ZooKeeperCoordination


@pytest.fixture(params=["embedded", "zookeeper"])
def coordination(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Coordination]:
    world: Coordination
    if request.param == "embedded":
        world = EmbeddedCoordination(tmp_path)
    else:
        world = ZooKeeperCoordination(request.getfixturevalue("zookeeper"))
    yield world
    world.close()


@pytest.fixture
def store(coordination: Coordination) -> Store:
    return coordination.open()
