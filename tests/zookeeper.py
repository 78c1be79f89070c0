"""A real ZooKeeper for tests. Only tests/conftest.py imports its fixture: each import would be a server more."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.tools.zookeeper_server import ZooKeeperUnavailableError, find_jars, find_java, running_server


class ZooKeeper(NamedTuple):
    """A server that runs."""

    connect: str
    """``host:port``, for ``zookeeper.connect``."""
    port: int
    pid: int


@contextmanager
def running_zookeeper(*, tick_time_ms: int = 500) -> Iterator[ZooKeeper]:
    """A ZooKeeper of its own, sessions of 2 to 20 ticks; skips the test where Java or the jars are missing."""
    try:
        find_java()
        find_jars()
    except ZooKeeperUnavailableError as missing:
        pytest.skip(str(missing))
    directory = Path(tempfile.mkdtemp(prefix="pkafka-zookeeper-"))
    try:
        with running_server(directory, tick_time_ms=tick_time_ms) as (process, port):
            yield ZooKeeper(f"127.0.0.1:{port}", port, process.pid)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """One server for all tests of a run (of a worker, with xdist): give each test a chroot of its own."""
    with running_zookeeper() as server:
        yield server
