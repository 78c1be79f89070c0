"""A real ZooKeeper for tests. Only tests/conftest.py imports its fixture: each import would be a server more."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, find_jars, find_java, running_server
from tests.network import Host


class ZooKeeper(NamedTuple):
    """A server that runs."""

    connect: str
    """``host:port``, for ``zookeeper.connect``."""
    port: int
    pid: int


@contextmanager
def running_zookeeper(*, tick_time_ms: int = 500, host: Host | None = None) -> Iterator[ZooKeeper]:
    """A ZooKeeper of its own, sessions of 2 to 20 ticks; skips the test where Java or the jars are missing.

    Args:
        host: where it runs, if not on this machine.
    """
    try:
        find_java()
        find_jars()
    except ZooKeeperUnavailableError as missing:
        pytest.skip(str(missing))
    directory = Path(tempfile.mkdtemp(prefix="pkafka-zookeeper-"))
    try:
        address = "127.0.0.1" if host is None else "0.0.0.0"
        with contextlib.ExitStack() as running:
            with host.entered() if host is not None else contextlib.nullcontext():
                process, port = running.enter_context(
                    running_server(directory, tick_time_ms=tick_time_ms, timeout_s=120, address=address)
                )
            yield ZooKeeper(f"{host.address if host else address}:{port}", port, process.pid)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """One server for all tests of a run (of a worker, with xdist): give each test a chroot of its own."""
    with running_zookeeper() as server:
        yield server
