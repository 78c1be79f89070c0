"""Three brokers that talk to each other over TLS, and show each other their certificates."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.consumer import Consumer
from tests.certificates import Authority
from tests.cluster import Cluster, Load, check, kill_all_processes
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

AUTHORITY: Final = Authority()


def write_store(path: Path, authority: Authority = AUTHORITY, *, days: int = 10) -> None:
    """A broker's key and certificate, for the address at which all of them are."""
    signed = authority.signed("broker", ["127.0.0.1"], days=days)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(signed.key_pem() + signed.chain_pem)
    fresh.rename(path)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    (directory / "ca.pem").write_bytes(AUTHORITY.pem)
    for number in range(3):
        write_store(directory / f"{number}.pem")
    return directory


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeper, stores: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    def own(number: int) -> Mapping[str, object]:
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},BROKERS://127.0.0.1:{free_port()}",
            "listener.name.brokers.ssl.keystore.location": stores / f"{number}.pem",
        }

    shared: Mapping[str, object] = {
        "pkafka.workers": 2,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
        "inter.broker.listener.name": "BROKERS",
        "listener.name.brokers.ssl.client.auth": "required",
        "listener.name.brokers.ssl.keystore.type": "PEM",
        "listener.name.brokers.ssl.truststore.type": "PEM",
        "listener.name.brokers.ssl.truststore.location": stores / "ca.pem",
    }
    with Cluster(
        tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=shared, overrides_of=own
    ) as started:
        yield started


def test_records_are_replicated_and_transactions_end_on_every_broker(cluster: Cluster) -> None:
    cluster.create_topic("same", 3, assignment={0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)})
    with cluster.producer(**{"transactional.id": "t"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(300):
            producer.send("same", b"%d" % number * 1_000, partition=number % 3)
        producer.commit_transaction()
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    with Consumer(settings) as consumer:
        consumer.subscribe(["same"])
        found = 0
        while found < 300:
            found += len(consumer.poll(1_000))
    for partition in range(3):
        wait_for(lambda partition=partition: cluster.same_logs("same", partition))  # type: ignore[misc]


def test_records_flow_on_when_a_leader_dies_and_certificates_are_exchanged(
    cluster: Cluster, stores: Path
) -> None:
    cluster.create_topic("kept", assignment={0: (1, 0, 2)})
    with Load(cluster, "kept") as load:
        for number in range(3):
            write_store(stores / f"{number}.pem")
        kill_all_processes(cluster.brokers[1])
        load.goes_on()
        cluster.brokers[1].start()
        wait_for(lambda: sorted(cluster.state("kept").isr) == [0, 1, 2], what="all in sync")
        load.goes_on()
    check(cluster, load, "kept")
    wait_for(lambda: cluster.same_logs("kept"))
    wait_for(lambda: "uses the stores that have changed" in cluster.brokers[0].log_file.read_text())
