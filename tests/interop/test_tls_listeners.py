"""Listeners of pkafka with TLS: the clients and tools of others come in by them, and Apache Kafka's brokers do."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiokafka
import aiokafka.helpers
import kafka as kafka_python
import pytest

from pkafka.model import TopicPartition
from pkafka.testing import Broker, running_broker
from tests.certificates import Authority
from tests.cluster import Cluster, Load, check
from tests.interop.conftest import JavaTool
from tests.interop.kafka import java_program
from tests.raw_client import new_topic_name
from tests.sockets import free_port
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

AUTHORITY: Final = Authority()
PASSWORD: Final = "secret-of-stores"
SERVER: Final = "--bootstrap-server"


class Stores(NamedTuple):
    """Files that all in these tests have, and keys that name them."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def own(self) -> Path:
        return self.directory / "own.pem"

    def keys(self, prefix: str = "", *, java: bool = False) -> dict[str, object]:
        """Settings of a broker or a client: PEM, or what keytool makes."""
        if java:
            keys = {
                "ssl.keystore.location": self.directory / "own.p12",
                "ssl.keystore.password": PASSWORD,
                "ssl.key.password": PASSWORD,
                "ssl.truststore.location": self.directory / "trust.jks",
                "ssl.truststore.password": PASSWORD,
            }
        else:
            keys = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.own,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.authority,
            }
        return {prefix + key: value for key, value in keys.items()}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    directory = tmp_path_factory.mktemp("stores")
    made = Stores(directory)
    made.authority.write_bytes(AUTHORITY.pem)
    signed = AUTHORITY.signed("both ends", ["127.0.0.1"])
    made.own.write_bytes(signed.key_pem() + signed.chain_pem)
    (directory / "own.p12").write_bytes(signed.pkcs12(PASSWORD))
    words = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(made.authority), "-storetype", "JKS"]
    words += ["-keystore", str(directory / "trust.jks"), "-storepass", PASSWORD]
    subprocess.run([java_program("keytool"), *words], check=True, capture_output=True)
    return made


class Listeners(NamedTuple):
    """A broker with a listener that wants no certificate, and one that does."""

    broker: Broker
    ssl: str
    mtls: str


@pytest.fixture(scope="module")
def pkafka(stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    ports = [free_port() for _ in range(3)]
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:{},SSL://127.0.0.1:{},MTLS://127.0.0.1:{}".format(*ports),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MTLS:SSL",
        "listener.name.mtls.ssl.client.auth": "required",
        "pkafka.workers": 2,
        **stores.keys(java=True),
    }
    with running_broker(tmp_path_factory.mktemp("tls") / "broker", settings) as broker:
        yield Listeners(broker, f"127.0.0.1:{ports[1]}", f"127.0.0.1:{ports[2]}")


def properties(path: Path, keys: Mapping[str, object]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return path


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("listener", ["ssl", "mtls"])
def test_javas_tools_come_in(
    pkafka: Listeners, stores: Stores, java_tool: JavaTool, tmp_path: Path, listener: str, version: str
) -> None:
    keys = {
        "security.protocol": "SSL",
        "ssl.enabled.protocols": version,
        **stores.keys(java=listener == "mtls"),
    }
    file = properties(tmp_path / "client.properties", keys)
    server, topic = (SERVER, getattr(pkafka, listener)), new_topic_name()
    made = java_tool(
        "org.apache.kafka.tools.TopicCommand", *server, "--command-config", file, "--create", "--topic", topic
    )
    assert made.returncode == 0, made
    lines = "".join(f"{number} {'x' * 3_000}\n" for number in range(300))
    sent = java_tool(
        "kafka.tools.ConsoleProducer", *server, "--producer.config", file, "--topic", topic, stdin=lines
    )
    assert sent.returncode == 0, sent
    read = java_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *server,
        *("--consumer.config", file, "--topic", topic, "--from-beginning", "--max-messages", 300),
    )
    assert read.stdout == lines


def test_a_tool_without_a_certificate_is_refused_where_one_is_wanted(
    pkafka: Listeners, stores: Stores, java_tool: JavaTool, tmp_path: Path
) -> None:
    keys = {key: value for key, value in stores.keys().items() if "keystore" not in key}
    file = properties(tmp_path / "client.properties", {"security.protocol": "SSL", **keys})
    refused = java_tool(
        "org.apache.kafka.tools.TopicCommand", SERVER, pkafka.mtls, "--command-config", file, "--list"
    )
    assert refused.returncode != 0
    assert "SslAuthenticationException" in refused.stdout + refused.stderr
    log = pkafka.broker.log_file
    wait_for(lambda: "SSL handshake failed): peer did not return a certificate" in log.read_text())


def test_a_plain_tool_fails_and_its_jvm_does_not(
    pkafka: Listeners, java_tool: JavaTool, tmp_path: Path
) -> None:
    """What is no answer of Kafka's it would take for one of 352 MB."""
    file = properties(
        tmp_path / "client.properties", {"request.timeout.ms": 1000, "default.api.timeout.ms": 2000}
    )
    refused = java_tool(
        "org.apache.kafka.tools.TopicCommand", SERVER, pkafka.ssl, "--command-config", file, "--list"
    )
    assert refused.returncode != 0
    assert "OutOfMemoryError" not in refused.stdout + refused.stderr
    assert "thread has exited" not in refused.stdout + refused.stderr


def test_kafka_python_and_aiokafka_come_in(pkafka: Listeners, stores: Stores) -> None:
    topic = new_topic_name()
    secured: dict[str, Any] = {
        "bootstrap_servers": pkafka.mtls,
        "security_protocol": "SSL",
        "ssl_cafile": str(stores.authority),
        "ssl_certfile": str(stores.own),
        "ssl_keyfile": str(stores.own),
    }
    producer = kafka_python.KafkaProducer(**secured)
    for number in range(100):
        producer.send(topic, b"%d" % number)
    producer.flush(30)
    producer.close()

    async def read() -> list[bytes | None]:
        context = aiokafka.helpers.create_ssl_context(
            cafile=str(stores.authority), certfile=str(stores.own), keyfile=str(stores.own)
        )
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=pkafka.mtls,
            security_protocol="SSL",
            ssl_context=context,
            auto_offset_reset="earliest",
            group_id=topic,
        )
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(100)]
        finally:
            await consumer.stop()

    assert sorted(asyncio.run(read()), key=lambda value: int(value or b"")) == [
        b"%d" % number for number in range(100)
    ]


@pytest.mark.nightly
def test_brokers_of_both_kinds_talk_over_tls_while_partitions_and_the_controller_move(
    zookeeper: ZooKeeper, stores: Stores, kafka_classpath: str, tmp_path: Path
) -> None:
    def own(number: int) -> Mapping[str, object]:
        plain = free_port() if number else 0  # the one that Apache Kafka names first in its log
        return {"listeners": f"PLAINTEXT://127.0.0.1:{plain},BROKERS://127.0.0.1:{free_port()}"}

    shared = {
        "inter.broker.protocol.version": "3.9",
        "default.replication.factor": 2,
        "pkafka.workers": 2,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
        "inter.broker.listener.name": "BROKERS",
        "listener.name.brokers.ssl.client.auth": "required",
        "zookeeper.session.timeout.ms": 6000,
        **stores.keys("listener.name.brokers."),
    }
    with Cluster(tmp_path, zookeeper.connect, overrides=shared, overrides_of=own, kinds="kpp") as cluster:
        cluster.create_topic("t", assignment={0: (0, 1)})
        with Load(cluster, "t") as load, cluster.admin() as admin:
            for target in ([1, 2], [2, 0], [0, 1]):
                partition = TopicPartition("t", 0)
                good(admin.alter_partition_reassignments({partition: target})[partition])
                wait_for(lambda: not admin.list_partition_reassignments(), what="the end of the move")
                wait_for(
                    lambda target=target: sorted(cluster.state("t").isr) == sorted(target)  # type: ignore[misc]
                )
            for _ in range(3):
                controller = cluster.controller()
                cluster.brokers[controller].stop()
                wait_for(lambda gone=controller: cluster.controller() not in (gone, -1))  # type: ignore[misc]
                load.goes_on()
                cluster.brokers[controller].start()
                wait_for(lambda: sorted(cluster.state("t").isr) == [0, 1], what="both in sync")
        check(cluster, load, "t")
        wait_for(lambda: cluster.same_logs("t"))
