"""Where brokers are to be reached: two cannot be at one address, and who lacks the listener of the others is told."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.tools.servers.local_broker import BrokerStartError
from tests.cluster import KINDS, Cluster, ClusterBroker
from tests.sockets import free_port
from tests.talk import good, talking, wait_for
from tests.zookeeper import ZooKeeper

MAP: Final = "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"
# The first broker, then the one that comes to it.
PAIRS: Final = [
    pytest.param("kk", marks=[pytest.mark.oracle]),
    pytest.param("pk", marks=[pytest.mark.oracle]),
    "pp",
    "kp",
]


@contextmanager
def two_brokers(
    directory: Path, zookeeper: ZooKeeper, kinds: str, settings: Callable[[int], Mapping[str, object]]
) -> Iterator[Cluster]:
    """Neither is started."""
    # Nobody dies here, and a busy machine takes longer than the two seconds of other tests.
    patient = {"zookeeper.session.timeout.ms": 18_000}
    cluster = Cluster(directory, zookeeper.connect, overrides=patient, overrides_of=settings, kinds=kinds)
    try:
        yield cluster
    finally:
        for broker in cluster.brokers:
            broker.kill()


def refusal(broker: ClusterBroker) -> str:
    """What a broker says that does not start."""
    with pytest.raises((RuntimeError, BrokerStartError)) as caught:
        broker.start()
    return str(caught.value)


def said(broker: ClusterBroker) -> str:
    return broker.log_file.read_text(errors="replace")


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", PAIRS)
def test_a_broker_that_advertises_the_address_of_another_one_is_refused(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str
) -> None:
    address = f"127.0.0.1:{free_port()}"

    def settings(number: int) -> Mapping[str, object]:
        key = "advertised.listeners" if number else "listeners"
        return {key: f"PLAINTEXT://{address}"}

    with two_brokers(tmp_path, zookeeper, kinds, settings) as cluster:
        first, second = cluster.brokers
        first.start()
        taken = f"Configured end points {address} in advertised listeners are already registered by broker 0"
        assert taken in refusal(second)
        with ZooKeeperStore(cluster.zookeeper_connect) as store:
            assert store.children("/brokers/ids") == ["0"]
            first.stop()
            wait_for(lambda: not store.children("/brokers/ids"))
            # The address is free when whoever had it is gone.
            heir = cluster.make_broker(
                KINDS[kinds[1]],
                tmp_path / "heir",
                {
                    "zookeeper.connect": cluster.zookeeper_connect,
                    "broker.id": 1,
                    "listeners": f"PLAINTEXT://{address}",
                },
            )
            try:
                heir.start()
                assert store.children("/brokers/ids") == ["1"]
            finally:
                heir.kill()


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", PAIRS)
def test_an_address_of_another_broker_is_not_taken_while_it_runs(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str
) -> None:
    """The change is stored, and not carried out: the broker says so, and is found where it was."""
    with two_brokers(tmp_path, zookeeper, kinds, lambda _number: {}) as cluster:
        first, second = cluster.brokers
        first.start()
        second.start()
        resource = ConfigResource(ResourceType.BROKER, "1")
        theirs, ours = first.bootstrap, second.bootstrap
        with ZooKeeperStore(cluster.zookeeper_connect) as store, talking(theirs, broker_id=1) as talk:

            def addresses() -> list[str]:
                node = BrokerRegistration.decode(store.get(BrokerRegistration.path(1))[0])
                return [f"{one.host}:{one.port}" for one in node.endpoints]

            def advertise(address: str) -> None:
                change = ConfigChange("advertised.listeners", AlterOp.SET, f"PLAINTEXT://{address}")
                good(talk.admin.alter_configs({resource: [change]})[resource])

            advertise(theirs)
            wanted = (
                f"Configured end points {theirs} in advertised listeners are already registered by broker 0"
            )
            wait_for(
                lambda: (
                    wanted in said(second) and "Per-broker configs of 1 could not be applied" in said(second)
                )
            )
            assert addresses() == [ours]
            other = f"localhost:{ours.rpartition(':')[2]}"
            advertise(other)
            wait_for(lambda: addresses() == [other])
            advertise(theirs)
            wait_for(lambda: said(second).count("Per-broker configs of 1 could not be applied") >= 2)
            assert addresses() == [other]


@pytest.mark.nightly
@pytest.mark.parametrize("kinds", ["pp", "kp", "pk"])
def test_a_broker_without_the_listener_of_the_others_says_why_it_is_never_ready(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str
) -> None:
    """Kafka's starts all the same, and never serves; the controller says what it misses."""
    ports = [free_port() for _ in range(3)]

    def settings(number: int) -> Mapping[str, object]:
        if number:
            return {"listeners": f"PLAINTEXT://127.0.0.1:{ports[2]}"}
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},INTERNAL://127.0.0.1:{ports[1]}",
            "listener.security.protocol.map": MAP,
            "inter.broker.listener.name": "INTERNAL",
        }

    with two_brokers(tmp_path, zookeeper, kinds, settings) as cluster:
        first, second = cluster.brokers
        first.start()
        starting = threading.Thread(target=refusal, args=[second], daemon=True)
        starting.start()
        missing = "End point with listener name INTERNAL not found for broker 1"
        wait_for(lambda: missing in said(first), timeout_s=60, what="the controller's word")
        if kinds[1] == "p":
            why = (
                "The controller, broker 0, has the listeners PLAINTEXT, INTERNAL, and this broker has the listener"
                " PLAINTEXT:"
            )
            wait_for(lambda: why in said(second), timeout_s=60, what="the broker's word")
            assert "it is not ready until then" in said(second)
        os.kill(second.pid, signal.SIGKILL)
        starting.join(30)


@pytest.mark.nightly
def test_a_broker_that_would_speak_by_a_listener_that_others_lack_says_so(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    ports = [free_port() for _ in range(2)]

    def settings(number: int) -> Mapping[str, object]:
        if not number:
            return {}
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},INTERNAL://127.0.0.1:{ports[1]}",
            "listener.security.protocol.map": MAP,
            "inter.broker.listener.name": "INTERNAL",
        }

    with two_brokers(tmp_path, zookeeper, "pp", settings) as cluster:
        for broker in cluster.brokers:
            broker.start()
        missing = (
            "End point with listener name INTERNAL not found for broker 0, which has the listener PLAINTEXT"
        )
        wait_for(lambda: missing in said(cluster.brokers[1]))
