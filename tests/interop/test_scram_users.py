"""Users whose passwords pk-configs sets log in to Apache Kafka: with a broker's help, and before any broker runs."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.tools.zookeeper.server import running_server
from tests.interop.conftest import JavaTool
from tests.interop.kafka import KafkaBroker
from tests.interop.side_by_side import pk
from tests.sockets import free_port

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOPICS = "org.apache.kafka.tools.TopicCommand"


class Secured(NamedTuple):
    """A broker whose own connections log in as a user that was there before it."""

    plain: str
    sasl: str


@pytest.fixture
def secured(kafka_classpath: str, tmp_path: Path) -> Iterator[Secured]:
    port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f'{LOGIN} username="admin" password="a,b=c";',
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{LOGIN};",
    }
    with running_server(tmp_path, jars=Path(kafka_classpath).parent) as (_process, zookeeper):
        credential = "SCRAM-SHA-256=[iterations=5000,password=a,b=c]"
        connect = ("--zookeeper", f"127.0.0.1:{zookeeper}")
        said = pk("configs", *connect, "--alter", "--user", "admin", "--add-config", credential)
        assert said.splitlines()[-1] == "Completed updating config for entity: user-principal 'admin'."
        broker = KafkaBroker(kafka_classpath, connect[1], tmp_path / "broker", overrides=settings)
        # It knows itself in its metadata only when its controller could log in.
        broker.start()
        try:
            yield Secured(broker.bootstrap, f"127.0.0.1:{port}")
        finally:
            broker.kill()


@pytest.mark.nightly  # a broker of its own; test_secured_clients.py logs users in in each change
def test_passwords_of_users(secured: Secured, java_tool: JavaTool, tmp_path: Path) -> None:
    def log_in(user: str, password: str, mechanism: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "client.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={LOGIN} username="{user}" password="{password}";\n',
            encoding="latin-1",  # of Java's properties
        )
        return java_tool(TOPICS, "--bootstrap-server", secured.sasl, "--list", "--command-config", str(file))

    assert log_in("admin", "a,b=c", "SCRAM-SHA-256").returncode == 0
    wrong = log_in("admin", "wrong", "SCRAM-SHA-256")
    assert (wrong.returncode, "Authentication failed" in wrong.stdout) == (1, True)
    server = ("--bootstrap-server", secured.plain)
    for user, password in (("alice", "first"), ("alice", "naïve second"), ("b c/d,e=f", "x")):
        credential = f"SCRAM-SHA-512=[password={password}]"
        pk("configs", *server, "--alter", "--user", user, "--add-config", credential)
    assert log_in("b c/d,e=f", "x", "SCRAM-SHA-512").returncode == 0
    assert log_in("alice", "naïve second", "SCRAM-SHA-512").returncode == 0
    assert log_in("alice", "first", "SCRAM-SHA-512").returncode == 1
    pk("configs", *server, "--alter", "--user", "alice", "--delete-config", "SCRAM-SHA-512")
    assert log_in("alice", "naïve second", "SCRAM-SHA-512").returncode == 1
