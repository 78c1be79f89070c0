"""Brokers of both kinds that log in at each other over TLS: partitions move, and certificates are exchanged."""

import socket
import ssl
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from tests.certificates import Authority
from tests.cluster import Load, check
from tests.interop.side_by_side import pk
from tests.secured_cluster import SecuredCluster
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

PROTOCOL = "SASL_SSL"
LISTENER = f"listener.name.{PROTOCOL.lower()}"


class Certificate:
    """The one that all brokers show, in files of theirs, and its exchange."""

    def __init__(self, directory: Path) -> None:
        self.old, self.new = Authority("Old CA"), Authority("New CA")
        self.own, self.trusted = directory / "own.pem", directory / "trusted.pem"
        self.trusted.write_bytes(self.old.pem + self.new.pem)
        self.serial = self.exchange(self.old)

    def exchange(self, authority: Authority) -> int:
        """Put another one into the file, for the same names; gives its serial number."""
        signed = authority.signed("broker", ["127.0.0.1"])
        fresh = self.own.with_suffix(".fresh")
        fresh.write_bytes(signed.key_pem() + signed.chain_pem)
        fresh.replace(self.own)
        self.serial = signed.certificate.serial_number
        return self.serial

    def settings(self) -> dict[str, object]:
        return {
            f"{LISTENER}.ssl.keystore.type": "PEM",
            f"{LISTENER}.ssl.keystore.location": self.own,
            f"{LISTENER}.ssl.truststore.type": "PEM",
            f"{LISTENER}.ssl.truststore.location": self.trusted,
        }

    def is_shown_at(self, port: int) -> bool:
        context = ssl.create_default_context(cafile=str(self.trusted))
        with (
            socket.create_connection(("127.0.0.1", port), 10) as client,
            context.wrap_socket(client, server_hostname="127.0.0.1") as encrypted,
        ):
            found = encrypted.getpeercert()
        assert found
        return int(str(found["serialNumber"]), 16) == self.serial


@pytest.mark.nightly
def test_nothing_is_lost_while_partitions_move_and_certificates_are_exchanged(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path
) -> None:
    certificate = Certificate(tmp_path)
    more = {
        **certificate.settings(),
        "default.replication.factor": 2,
        "pkafka.workers": 2,
        "inter.broker.protocol.version": "3.9",
    }
    with SecuredCluster(
        tmp_path, zookeeper.connect, "SCRAM-SHA-512", "kpp", more, protocol=PROTOCOL
    ) as cluster:
        cluster.create_topic("t", assignment={0: (0, 1)})
        with Load(cluster, "t") as load:
            move(cluster, [1, 2], [2, 0])
            certificate.exchange(certificate.new)
            for number in range(len(cluster.brokers)):
                # Apache Kafka reads the file again when its place is altered, to the same; pkafka by itself, too.
                value = f"{LISTENER}.ssl.keystore.location={certificate.own}"
                server = ("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "brokers")
                pk("configs", *server, "--entity-name", number, "--add-config", value)
            ports = [cluster.secured_port(number) for number in range(len(cluster.brokers))]
            wait_for(lambda: all(map(certificate.is_shown_at, ports)), what="the new certificate")
            load.goes_on()
            # Replicas are fetched by connections that begin with the new one.
            move(cluster, [0, 1], [1, 2], [2, 0], [0, 1])
            for number in (0, 1):
                cluster.brokers[number].stop()
                load.goes_on()
                cluster.brokers[number].start()
                wait_for(lambda: sorted(cluster.state("t").isr) == [0, 1], what="both in sync", timeout_s=60)
        check(cluster, load, "t")
        wait_for(lambda: cluster.same_logs("t"), what="the same logs")


def move(cluster: SecuredCluster, *targets: list[int]) -> None:
    """Move the partition from replicas to replicas."""
    partition = TopicPartition("t", 0)
    with cluster.admin() as admin:
        for target in targets:
            good(admin.alter_partition_reassignments({partition: target})[partition])
            wait_for(lambda: not admin.list_partition_reassignments(), what="the end of the move")
            wait_for(
                lambda target=target: sorted(cluster.state("t").isr) == sorted(target),  # type: ignore[misc]
                what="all in sync",
            )
