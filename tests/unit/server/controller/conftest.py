"""An empty cluster for each test; a module whose tests begin with brokers makes its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.server.controller.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()
