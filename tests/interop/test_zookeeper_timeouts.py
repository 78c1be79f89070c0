"""The time-outs of ZooKeeper: how long a dead broker counts as alive, and how long a start waits."""

import socket
import time
from pathlib import Path

import pytest

from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.testing import Broker
from pkafka.tools.local_broker import BrokerStartError
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@pytest.mark.parametrize("session_ms", [1_500, 5_000])
def test_the_node_of_a_killed_broker_goes_when_its_session_is_over(
    zookeeper: ZooKeeper, tmp_path: Path, session_ms: int
) -> None:
    connect = f"{zookeeper.connect}/t{time.monotonic_ns()}"
    settings = {
        "pkafka.workers": 1,
        "broker.id": 0,
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": session_ms,
    }
    broker = Broker(tmp_path, settings)
    broker.start()
    try:
        with ZooKeeperStore(connect, 10_000) as store:
            broker.kill()
            killed = time.monotonic()
            assert store.exists("/brokers/ids/0") is not None
            wait_for(lambda: store.exists("/brokers/ids/0") is None)
            # The session counts from the last sign of life, and ends at a tick.
            assert 0.5 * session_ms < 1000 * (time.monotonic() - killed) < session_ms + 2_000
    finally:
        broker.kill()


@pytest.mark.parametrize("own", [True, False])
def test_a_start_waits_for_the_first_connection_as_long_as_it_is_told(tmp_path: Path, own: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings: dict[str, object] = {
            "pkafka.workers": 1,
            "zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}",
            # Without a time-out of its own the connection has that of the session.
            "zookeeper.session.timeout.ms": 9_000 if own else 2_000,
        }
        if own:
            settings["zookeeper.connection.timeout.ms"] = 2_000
        began = time.monotonic()
        with pytest.raises(BrokerStartError, match="exit code 1"):
            Broker(tmp_path, settings).start()
        assert 2 <= time.monotonic() - began < 6
