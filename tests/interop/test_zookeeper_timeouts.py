"""The time-outs of ZooKeeper: how long a dead broker counts as alive, and how long a start waits."""

import socket
import time
from pathlib import Path

import pytest

from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.testing import Broker
from pkafka.tools.servers.local_broker import BrokerStartError
from tests.cluster import kill_all_processes
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def test_the_node_of_a_killed_broker_goes_when_its_session_is_over(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    root = f"{zookeeper.connect}/t{time.monotonic_ns()}"
    brokers = [
        Broker(
            tmp_path / name,
            {
                "pkafka.workers": 1,
                "broker.id": 0,
                "zookeeper.connect": f"{root}/{name}",
                "zookeeper.session.timeout.ms": session_ms,
            },
        )
        for name, session_ms in (("short", 1_500), ("long", 10_000))
    ]
    try:
        for broker in brokers:
            broker.start()
        with ZooKeeperStore(root, 10_000) as store:

            def alive() -> list[str]:
                return [name for name in ("short", "long") if store.exists(f"/{name}/brokers/ids/0")]

            for broker in brokers:
                kill_all_processes(broker)  # a process that is left would end the session at once
            wait_for(lambda: alive() == [])
            # The transactions in which the nodes went: ZooKeeper counts them.
            gone = [store.get(f"/{name}/brokers/ids")[1].pzxid for name in ("short", "long")]
            assert gone == sorted(gone)
    finally:
        for broker in brokers:
            broker.kill()


@pytest.mark.parametrize("own", [True, False])
def test_a_start_waits_for_the_first_connection_as_long_as_it_is_told(tmp_path: Path, own: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings: dict[str, object] = {
            "pkafka.workers": 1,
            "zookeeper.connect": f"127.0.0.1:{silent.getsockname()[1]}",
            # Without a time-out of its own the connection has that of the session.
            "zookeeper.session.timeout.ms": 120_000 if own else 2_000,
        }
        if own:
            settings["zookeeper.connection.timeout.ms"] = 2_000
        began = time.monotonic()
        with pytest.raises(BrokerStartError, match="exit code 1"):
            Broker(tmp_path, settings).start()
        # No start of a broker is waited for longer than half a minute, which the other setting would take.
        assert time.monotonic() - began >= 2
