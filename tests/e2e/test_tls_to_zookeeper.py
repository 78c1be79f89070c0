"""A broker that talks to ZooKeeper over TLS, and shows its certificate there."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pkafka.errors import ConfigError
from pkafka.security.zookeeper_tls import zookeeper_tls
from pkafka.testing import Broker, BrokerStartError
from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, server_command
from tests.certificates import Authority
from tests.faults.family import family
from tests.sockets import free_port
from tests.talk import talking, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PASSWORD: Final = "secret-of-stores"


class Secured(NamedTuple):
    """A ZooKeeper that only takes clients with certificates, and the keys for one."""

    port: int
    directory: Path

    def keys(self, name: str = "client") -> dict[str, object]:
        return {
            "zookeeper.connect": f"localhost:{self.port}/{name}",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": self.directory / f"{name}.p12",
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.truststore.location": self.directory / "ca.pem",
            "zookeeper.ssl.truststore.password": PASSWORD,
        }


@pytest.fixture(scope="module")
def zookeeper_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("zookeeper")
    authority, stranger = Authority(), Authority("Stranger")
    server = authority.signed("zookeeper", ["localhost", "127.0.0.1"])
    (directory / "ca.pem").write_bytes(authority.pem)
    (directory / "server.pem").write_bytes(server.key_pem() + server.chain_pem)
    (directory / "client.p12").write_bytes(authority.signed("broker").pkcs12(PASSWORD))
    (directory / "stranger.p12").write_bytes(stranger.signed("broker").pkcs12(PASSWORD))
    port = free_port()
    settings = {
        "dataDir": directory / "data",
        "tickTime": 500,
        "secureClientPort": port,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.clientAuth": "need",
        "ssl.keyStore.location": directory / "server.pem",
        "ssl.trustStore.location": directory / "ca.pem",
        "admin.enableServer": "false",
    }
    properties = directory / "zookeeper.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    try:
        command = server_command(properties)
    except ZooKeeperUnavailableError as missing:
        pytest.skip(str(missing))
    with (directory / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=directory)
        try:
            wait_for(lambda: _listens(port))
            yield Secured(port, directory)
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def test_topics_are_made_also_after_the_control_process_was_killed(
    zookeeper_keys: Secured, tmp_path: Path
) -> None:
    broker = Broker(tmp_path, {**zookeeper_keys.keys(), "pkafka.workers": 1})
    broker.start()
    try:
        with talking(broker.bootstrap) as talk:
            talk.create("before", 20)
            family(broker)["control"].kill()
            talk.create("after", 20)
        broker.stop()
        broker.start()
        with talking(broker.bootstrap) as talk:
            assert talk.topic_id("before")
            assert talk.topic_id("after")
    finally:
        broker.kill()


def test_a_certificate_that_zookeeper_does_not_trust_stops_the_start(
    zookeeper_keys: Secured, tmp_path: Path
) -> None:
    settings = {**zookeeper_keys.keys("stranger"), "zookeeper.connection.timeout.ms": 2_000}
    broker = Broker(tmp_path, settings)
    with pytest.raises(BrokerStartError, match="no ZooKeeper server of localhost:"):
        broker.start()  # it ends by itself: of one that is waited for in vain other words are told


def test_a_zookeeper_that_is_not_trusted_is_told_with_the_reason(
    zookeeper_keys: Secured, tmp_path: Path
) -> None:
    (tmp_path / "other.pem").write_bytes(Authority("Other").pem)
    settings = {
        **zookeeper_keys.keys(),
        "zookeeper.ssl.truststore.location": tmp_path / "other.pem",
        "zookeeper.connection.timeout.ms": 2_000,
    }
    with pytest.raises(BrokerStartError, match="certificate verify failed"):
        Broker(tmp_path / "broker", settings).start()


@pytest.mark.parametrize(
    ("key", "value", "blamed"),
    [
        ("zookeeper.ssl.keystore.location", "/none.p12", "zookeeper.ssl.keystore.location"),
        ("zookeeper.ssl.keystore.password", "wrong", "zookeeper.ssl.keystore.password"),
        ("zookeeper.ssl.truststore.location", "", "zookeeper.ssl.truststore.password"),
        ("zookeeper.ssl.protocol", "SSLv3", "zookeeper.ssl.enabled.protocols"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "some", "zookeeper.ssl.endpoint"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(
    zookeeper_keys: Secured, key: str, value: str, blamed: str
) -> None:
    settings = {name: str(text) for name, text in zookeeper_keys.keys().items()}
    with pytest.raises(ConfigError) as refused:
        zookeeper_tls({**settings, key: value})
    assert refused.value.key.startswith(blamed)
