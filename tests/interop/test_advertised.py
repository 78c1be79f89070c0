"""Where clients are sent when a listener has no host: the same name as Kafka gives on this machine."""

from pathlib import Path

from pkafka.clients.admin import Admin
from pkafka.testing import running_broker
from tests.interop.kafka import running_kafka

EVERYWHERE = {"listeners": "PLAINTEXT://:0"}


def host_told_by(port: int) -> str:
    with Admin({"bootstrap.servers": f"127.0.0.1:{port}"}) as admin:
        [broker] = admin.describe_cluster().brokers
        assert broker.port == port
        return broker.host


def test_a_listener_without_a_host_is_advertised_under_the_name_of_the_machine(
    kafka_classpath: str, tmp_path: Path
) -> None:
    assert kafka_classpath
    with running_kafka(tmp_path / "kafka", overrides=EVERYWHERE) as kafka:
        theirs = host_told_by(kafka.port)
    with running_broker(tmp_path / "pkafka", EVERYWHERE) as pkafka:
        assert host_told_by(int(pkafka.bootstrap.rpartition(":")[2])) == theirs
