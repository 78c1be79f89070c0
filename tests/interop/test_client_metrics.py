"""What clients measure and how they let themselves be throttled, beside Apache Kafka's own clients."""

import re
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.metrics import MetricName
from pkafka.clients.producer import Producer
from pkafka.clients.throttling import is_kept
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from tests.interop.conftest import JavaTool, System
from tests.interop.kafka import ToolServer, compile_java
from tests.talk import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

# The clients of pkafka speak PLAINTEXT alone: nobody logs in.
NOT_HERE: Final = re.compile(r"(re)?authentication-(no-reauth-)?(rate|total|latency-\w+)$")
RECORDS: Final = 3


@pytest.fixture(scope="module")
def java(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolServer]:
    """Runs the programs of tests/interop/java that this module needs."""
    classes = tmp_path_factory.mktemp("metrics-java")
    server = ToolServer(compile_java(kafka_classpath, classes, "ToolServer", "MetricNames", "ThrottledApis"))
    yield server
    server.close()


def test_throttles_are_kept_to_for_the_same_versions(java: ToolServer) -> None:
    lines = java.run("ThrottledApis").stdout.splitlines()
    theirs = {ApiKey(api): set(versions) for api, *versions in (map(int, line.split()) for line in lines)}
    ours = {key: {version for version in registry.versions(key) if is_kept(key, version)} for key in theirs}
    assert ours == {key: versions & set(registry.versions(key)) for key, versions in theirs.items()}
    assert sum(map(bool, ours.values())) > 40


def test_what_clients_measure_is_named_as_kafkas_do(java: ToolServer, system: System, topic: str) -> None:
    done = java.run("MetricNames", system.bootstrap, f"java.{topic}", f"java-{topic}")
    assert done.returncode == 0, done
    theirs = {line.replace(f"java.{topic}", "TOPIC") for line in done.stdout.splitlines()}
    theirs = {line.replace(f"java_{topic}", "TO_PIC") for line in theirs}
    missing = {line for line in theirs if NOT_HERE.search(line.split()[2])}
    assert len(missing) == 3 * 11

    config = {"bootstrap.servers": system.bootstrap, "client.id": "me", "auto.offset.reset": "earliest"}
    with (
        Admin(config) as admin,
        Producer(config) as producer,
        Consumer({**config, "group.id": topic}) as consumer,
    ):
        name = f"our.{topic}"
        assert not isinstance(admin.create_topics([NewTopic(name, 1, 1)])[name], Exception)
        for _ in range(RECORDS):
            producer.send(name, bytes(10)).result(30)
        consumer.subscribe([name])
        count = 0
        while count < RECORDS:
            count += len(consumer.poll(10_000))
        consumer.commit_sync()
        ours = {
            *described("admin", admin.metrics()),
            *described("producer", producer.metrics()),
            *described("consumer", consumer.metrics()),
        }
        counted = {
            key.name: metric.value for key, metric in consumer.metrics().items() if not key.tag("topic")
        }
    ours = {line.replace(name, "TOPIC").replace(name.replace(".", "_"), "TO_PIC") for line in ours}
    assert ours == theirs - missing
    assert counted["records-per-request-avg"] <= RECORDS
    assert counted["records-consumed-total"] == RECORDS
    assert counted["count"] == sum(line.startswith("consumer ") for line in ours)
    assert 0 < counted["io-ratio"] + counted["io-wait-ratio"] <= 1


def described(client: str, names: Iterable[MetricName]) -> set[str]:
    """The lines that the program of the same purpose prints."""
    return {
        " ".join([client, name.group, name.name, *(f"{key}={value}" for key, value in sorted(name.tags))])
        for name in names
    }


@pytest.mark.nightly
def test_the_time_of_transactions_is_counted(kafka: System | None, topic: str) -> None:
    if kafka is None:
        pytest.skip("Apache Kafka is left out by PKAFKA_INTEROP_SYSTEMS")
    with Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic}) as producer:

        def counted() -> set[str]:
            found = {key.name: metric.value for key, metric in producer.metrics().items()}
            return {
                name.split("-")[1] for name, value in found.items() if name.startswith("txn-") and value > 0
            }

        assert counted() == set()
        producer.init_transactions()
        assert counted() == {"init"}
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, topic)
        producer.commit_transaction()
        assert counted() == {"init", "begin", "send", "commit"}
        producer.begin_transaction()
        producer.abort_transaction()
        assert counted() == {"init", "begin", "send", "commit", "abort"}


def limit(java_tool: JavaTool, kafka: System, client_id: str, **quotas: int) -> None:
    """Give a client of Kafka quotas."""
    done = java_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type", "clients"),
        *("--entity-name", client_id, "--add-config"),
        ",".join(f"{key}={value}" for key, value in quotas.items()),
    )
    assert done.returncode == 0, done


@pytest.mark.nightly  # two throttles longer than a request; tests/unit/clients/test_throttling.py has short ones
def test_a_consumer_keeps_to_its_quota_without_losing_its_connection(
    java_tool: JavaTool, kafka: System | None, topic: str
) -> None:
    if kafka is None:
        pytest.skip("Apache Kafka is left out by PKAFKA_INTEROP_SYSTEMS")
    quota, size, records = 10_000, 100_000, 3
    limit(java_tool, kafka, topic, consumer_byte_rate=quota)
    with Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
        # What a quota allows in ten windows of a second comes at once, the rest when its time has come.
        for _ in range(records):
            producer.send(topic, bytes(size - 100)).result(30)
    config = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": topic,
        "auto.offset.reset": "earliest",
        "max.partition.fetch.bytes": size,
        "request.timeout.ms": 8_000,
        "fetch.max.wait.ms": 100,
    }
    with Consumer(config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        begun_s = time.monotonic()
        count = 0
        while count < records:
            count += len(consumer.poll(20_000))
        took_s = time.monotonic() - begun_s
        metrics = {
            key.name: metric.value for key, metric in consumer.metrics().items() if not key.tag("node-id")
        }
        longest_ms = metrics["fetch-throttle-time-max"]
        assert longest_ms > 8_000, "more than the time of a request"
        assert took_s > 8, "the last record had to wait"
        assert metrics["connection-creation-total"] == 1
        assert metrics["connection-close-total"] == 0


def test_topics_beyond_a_quota_are_made_when_their_time_has_come(
    java_tool: JavaTool, kafka: System | None, topic: str
) -> None:
    if kafka is None:
        pytest.skip("Apache Kafka is left out by PKAFKA_INTEROP_SYSTEMS")
    limit(java_tool, kafka, topic, controller_mutation_rate=2)
    begun_s = 0.0
    with Admin({"bootstrap.servers": kafka.bootstrap, "client.id": topic}) as admin:

        def refused() -> ApiError | None:
            """The one of two topics that goes beyond; None as long as the broker has not heard of the quota."""
            nonlocal begun_s
            begun_s = time.monotonic()
            pair = [NewTopic(f"{topic}-{uuid.uuid4().hex[:8]}", 25, 1) for _ in range(2)]
            large = admin.create_topics(pair, retry_on_quota_violation=False)
            return next((outcome for outcome in large.values() if isinstance(outcome, ApiError)), None)

        # A quota saves up ten windows of a second; the last topic that it allows may go beyond.
        # It counts from when that topic was allowed, however long the broker took to make it.
        wait_for(lambda: (error := refused()) and error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        small = admin.create_topics([NewTopic(f"{topic}-c", 5, 1), NewTopic(f"{topic}-d", 1, 1)])
        assert not any(isinstance(outcome, Exception) for outcome in small.values())
        assert time.monotonic() - begun_s > 1
