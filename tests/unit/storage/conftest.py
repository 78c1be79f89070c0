"""A world with one partition, in a temporary directory."""

from pathlib import Path

import pytest

from tests.unit.storage.makers import FaultyFiles, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def faulty(tmp_path: Path, files: FaultyFiles) -> World:
    return World(tmp_path, files=files)
