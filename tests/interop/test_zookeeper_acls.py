"""Nodes in ZooKeeper that others may not write: the rights that Apache Kafka gives, and those that pkafka gives."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from pkafka.testing import Broker, BrokerStartError
from tests.forked_commands import commands
from tests.interop.kafka import KafkaBroker, jars
from tests.interop.side_by_side import pk
from tests.zookeeper_with_users import DIGEST, rights, write_jaas, zookeeper_with_users

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("puresasl") is None, reason="pip install 'pkafka[zookeeper-sasl]'"),
]

SETTINGS: Final = {
    "zookeeper.set.acl": "true",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "delegation.token.secret.key": "of-the-tests",
}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``KAFKA_OPTS`` for servers of ZooKeeper, and for brokers and commands that log in there."""
    value = write_jaas(tmp_path_factory.mktemp("acls") / "jaas.conf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_OPTS", value)
        yield value


@pytest.fixture(scope="module")
def zookeeper(kafka_classpath: str, options: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that knows one user."""
    with zookeeper_with_users(tmp_path_factory.mktemp("zookeeper"), kafka_classpath) as connect:
        yield connect


@pytest.fixture(scope="module")
def clusters(
    zookeeper: str, options: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[KafkaBroker | Broker]]:
    """Brokers of both kinds, each with a chroot of its own."""
    directory = tmp_path_factory.mktemp("clusters")
    kafka = KafkaBroker(
        jars("kafka"),
        f"{zookeeper}/kafka",
        directory / "kafka",
        overrides=SETTINGS,
        jvm_flags=options.split(),
    )
    pkafka = Broker(
        directory / "pkafka", {**SETTINGS, "zookeeper.connect": f"{zookeeper}/pkafka", "broker.id": 0}
    )
    try:
        for broker in (kafka, pkafka):
            broker.start()
            server = ("--bootstrap-server", broker.bootstrap)
            pk("topics", *server, "--create", "--topic", "t")
            pk("configs", *server, "--alter", "--topic", "t", "--add-config", "retention.ms=1000000")
            pk("configs", *server, "--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[password=x]")
            pk(
                "configs",
                *server,
                "--alter",
                "--entity-type",
                "brokers",
                "--entity-name",
                "0",
                "--add-config",
                "log.cleaner.threads=2",
            )
        yield kafka, pkafka
    finally:
        for broker in (kafka, pkafka):
            broker.kill()


def test_nodes_are_protected_as_by_kafka(clusters: Sequence[KafkaBroker | Broker], zookeeper: str) -> None:
    theirs, ours = rights(zookeeper, "kafka"), rights(zookeeper, "pkafka")
    common = theirs.keys() & ours.keys()
    assert {path: ours[path] for path in common} == {path: theirs[path] for path in common}
    own = (31, "sasl", "kafka")
    assert ours["/brokers/topics/t/partitions/0/state"] == {own, (1, "world", "anyone")}
    assert ours["/config/users"] == ours["/config/brokers"] == {own}
    assert {frozenset(each) for each in ours.values()} == {frozenset(each) for each in theirs.values()}


def test_a_command_writes_as_the_files_user(clusters: Sequence[KafkaBroker | Broker], zookeeper: str) -> None:
    words = ("--alter", "--user", "bob", "--add-config", "SCRAM-SHA-256=[password=x]")
    for chroot in ("kafka", "pkafka"):
        pk("configs", "--zookeeper", f"{zookeeper}/{chroot}", *words)
        assert rights(zookeeper, chroot)["/config/users/bob"] == {(31, "sasl", "kafka")}


def test_what_stops_the_start(zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**SETTINGS, "zookeeper.connect": f"{zookeeper}/other", "broker.id": 0}
    monkeypatch.delenv("KAFKA_OPTS")
    with pytest.raises(BrokerStartError, match=r"zookeeper.set.acl.*needs a login at ZooKeeper"):
        Broker(tmp_path / "one", settings).start()
    file = tmp_path / "jaas.conf"
    file.write_text(f'Client {{ {DIGEST} username="kafka" password="wrong"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    with pytest.raises(BrokerStartError, match="ZooKeeper refuses the name or the password"):
        Broker(tmp_path / "two", settings).start()
    done = commands.run("configs", ["--zookeeper", zookeeper, "--describe", "--entity-type", "users"])
    assert done.returncode == 1, done
    assert "ZooKeeper refuses the name or the password" in done.stderr
