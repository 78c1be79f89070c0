"""What a consumer that is killed loses or repeats follows from when it commits (PKG-10), on both systems."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from tests.interop.conftest import SYSTEMS, JavaTool, System
from tests.talk import Talk, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

MEMBER = Path(__file__).with_name("delivering_member.py")
COPIER = Path(__file__).with_name("copying_member.py")
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SENT = [str(number) for number in range(100)]


@pytest.mark.parametrize("way", ["at-most-once", "at-least-once", "exactly-once"])
def test_a_consumer_delivers_as_it_commits(system: System, topic: str, tmp_path: Path, way: str) -> None:
    group = f"group-of-{topic}"
    talk = Talk(system.bootstrap)
    talk.create(topic)
    talk.close()
    with Producer({"bootstrap.servers": system.bootstrap}) as producer:
        for value in SENT:
            producer.send(topic, value=value.encode(), partition=0)
    results = tmp_path / "results"
    for count in (10, 25, 40):
        assert run(system, topic, group, way, results, count) == -signal.SIGKILL
    assert run(system, topic, group, way, results, -1) == 0
    with sqlite3.connect(results) as connection:
        done = [row[0] for row in connection.execute("SELECT value FROM done ORDER BY rowid")]
    connection.close()
    if way == "at-most-once":
        assert len(done) == len(set(done)), "something was done twice"
        assert 0 < len(SENT) - len(done) <= 3 * 7, "what was committed and not done yet is lost"
    elif way == "at-least-once":
        assert set(done) == set(SENT), "something was lost"
        assert len(done) > len(SENT), "what was done and not committed yet comes again"
    else:
        assert done == SENT


def run(system: System, topic: str, group: str, way: str, results: Path, count: int) -> int:
    """How a member that dies after so many records ended."""
    command = [sys.executable, str(MEMBER), system.bootstrap, topic, group, way, str(results), str(count)]
    return subprocess.run(command, timeout=60, check=False).returncode


# -- from topic to topic: transactions, which pkafka does not serve yet -------------------------------------------


@pytest.mark.oracle
@pytest.mark.skipif("kafka" not in SYSTEMS, reason="PKAFKA_INTEROP_SYSTEMS leaves Apache Kafka out")
def test_exactly_once_by_transactions_on_kafka(kafka: System, topic: str, java_tool: JavaTool) -> None:
    """A member that is killed ten times, anywhere, leaves every record once in the other topic, and in order."""
    target = f"{topic}-copied"
    sent = {partition: [f"{partition}-{number}" for number in range(200)] for partition in range(3)}
    talk = Talk(kafka.bootstrap)
    for name in (topic, target):
        talk.create(name, 3)
    talk.close()
    with Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
        for partition, values in sent.items():
            producer.send_batch(topic, [value.encode() for value in values], partition=partition)
    chance = random.Random(topic)
    for kill in range(10):
        # Half of them die at a step of the program, half while the producer's thread is at anything.
        at = chance.randrange(1, 80) if kill % 2 else -1
        after_ms = -1 if kill % 2 else chance.randrange(600)
        assert copied(kafka, topic, target, at, after_ms) == -signal.SIGKILL
    assert copied(kafka, topic, target, -1, -1) == 0
    assert read_committed(kafka, target, 3) == sent
    arguments = ("--bootstrap-server", kafka.bootstrap, "--topic", target, "--from-beginning")
    # That there are no more than these was seen just before; how long the tool takes to begin depends on the machine.
    committed = ("--isolation-level", "read_committed", "--max-messages", 600, "--timeout-ms", 50_000)
    shown = java_tool(CONSOLE_CONSUMER, *arguments, *committed).stdout.split()
    assert sorted(shown) == sorted(value for values in sent.values() for value in values)


@pytest.mark.skipif("pkafka" not in SYSTEMS, reason="PKAFKA_INTEROP_SYSTEMS leaves pkafka out")
def test_transactions_on_pkafka_fail_in_time_and_say_why(pkafka: System, topic: str) -> None:
    keys = {"bootstrap.servers": pkafka.bootstrap, "transactional.id": topic, "max.block.ms": 700}
    with Producer(keys) as producer, pytest.raises(ClientTimeoutError) as failed:
        producer.init_transactions()
    assert str(failed.value) == (
        "Timeout expired after 700ms while awaiting init_transactions: "
        "COORDINATOR_NOT_AVAILABLE: The coordinator is not available."
    )


def copied(system: System, source: str, target: str, die_at: int, die_after_ms: int) -> int:
    """How a member that copies from topic to topic ended."""
    told = {
        "bootstrap": system.bootstrap,
        "source": source,
        "target": target,
        "group": f"copiers-of-{source}",
        "die_at": die_at,
        "die_after_ms": die_after_ms,
    }
    command = [sys.executable, str(COPIER), json.dumps(told)]
    return subprocess.run(command, timeout=60, check=False).returncode


def read_committed(system: System, topic: str, partitions: int) -> dict[int, list[str]]:
    """What is in each partition, without what was aborted."""
    found: dict[int, list[str]] = {number: [] for number in range(partitions)}
    keys = {"bootstrap.servers": system.bootstrap, "isolation.level": "read_committed"}
    with Consumer({**keys, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in found])
        with talking(system.bootstrap) as talk:
            ends = {
                partition: talk.ends(topic, partition.partition)[1] for partition in consumer.assignment()
            }
        # A commit has an answer before its markers are written everywhere.
        wait_for(lambda: consumer.end_offsets(ends) == ends, what="the end of the last transaction")
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(500):
                found[record.partition].append((record.value or b"").decode())
    return found
