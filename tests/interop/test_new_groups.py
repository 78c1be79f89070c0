"""Groups whose partitions the coordinator assigns (KIP-848): Apache Kafka in KRaft mode has them, pkafka does not.

What is tested is that pkafka's tool sees such groups of a cluster as Kafka's own does.
"""

import base64
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import GroupDescription, GroupState, GroupType
from pkafka.clients.errors import ClientError
from tests.differences import first_difference
from tests.interop import kafka as oracle
from tests.interop.conftest import JavaTool
from tests.interop.side_by_side import pk
from tests.sockets import free_port
from tests.talk import talking, wait_for

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


def java(class_path: str, main_class: str, *arguments: str) -> list[str]:
    log = f"-Dlog4j.configuration=file:{oracle.JAVA_SOURCES / 'log4j.properties'}"
    flags = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return [oracle.java_program("java"), *flags, log, "-cp", class_path, main_class, *arguments]


@pytest.fixture
def kraft(kafka_classpath: str, tmp_path: Path) -> Iterator[str]:
    """The address of an Apache Kafka 3.9.1 that is its own controller and knows the newer groups."""
    broker, controller = free_port(), free_port()
    properties = tmp_path / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": tmp_path / "data",
        "offsets.topic.replication.factor": 1,
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "unstable.api.versions.enable": "true",
        "unstable.feature.versions.enable": "true",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    format_it = java(
        kafka_classpath, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)
    )
    subprocess.run(format_it, check=True, capture_output=True, timeout=60)
    with (tmp_path / "server.log").open("wb") as log:
        run = java(kafka_classpath, "kafka.Kafka", str(properties))
        process = subprocess.Popen(run, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    bootstrap = f"127.0.0.1:{broker}"
    try:
        deadline = time.monotonic() + oracle.START_TIMEOUT_S
        while not _answers(bootstrap):
            assert process.poll() is None, (tmp_path / "server.log").read_text()[-2_000:]
            assert time.monotonic() < deadline
        yield bootstrap
    finally:
        process.kill()
        process.wait()


def _answers(bootstrap: str) -> bool:
    try:
        with Admin({"bootstrap.servers": bootstrap}, fail_fast=True) as admin:
            return bool(admin.cluster.refresh(timeout_ms=1_000).brokers)
    except ClientError:
        time.sleep(0.2)
        return False


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_new_groups_are_shown_alike(
    kraft: str, kafka_classpath: str, java_tool: JavaTool, topic: str
) -> None:
    group = f"g-{topic}"
    server = ("--bootstrap-server", kraft)
    with talking(kraft, broker_id=1) as talk:
        talk.create(topic, 2)

        def described() -> GroupDescription:
            found = talk.admin.describe_groups([group])[group]
            assert isinstance(found, GroupDescription), found
            return found

        wanted = ("--topic", topic, "--group-id", group, "--group-protocol", "CONSUMER")
        reading = subprocess.Popen(
            java(kafka_classpath, CONSUMER, *server, *wanted),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: described().state is GroupState.STABLE, timeout_s=60, what="the member")
            assert described().type is GroupType.CONSUMER
            for flags in (
                ("--describe", "--group", group),
                ("--describe", "--group", group, "--members", "--verbose"),
                ("--describe", "--group", group, "--state"),
                ("--list", "--state", "--type"),
                ("--list", "--type", "consumer"),
            ):
                ours = pk("consumer_groups", *server, *flags)
                theirs = java_tool(GROUPS, *server, "--timeout", "30000", *flags).stdout
                assert not first_difference(sorted(ours.splitlines()), sorted(theirs.splitlines())), flags
        finally:
            reading.kill()
            reading.wait()
