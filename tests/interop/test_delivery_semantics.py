"""What a consumer that is killed loses or repeats follows from when it commits, on both systems."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from tests.interop.conftest import JavaTool, System
from tests.talk import Talk, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

MEMBER = Path(__file__).with_name("delivering_member.py")
COPIER = Path(__file__).with_name("copying_member.py")
LIBRDKAFKA_COPIER = Path(__file__).with_name("confluent_copying_member.py")
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
    return subprocess.run(command, timeout=100, check=False).returncode


# -- from topic to topic, by transactions -------------------------------------------------------------------------


@pytest.mark.nightly  # Java's takes most of a minute; librdkafka's and those of tests/faults are killed in each change
@pytest.mark.parametrize("kills", [1, 10])
def test_exactly_once_by_transactions(system: System, topic: str, java_tool: JavaTool, kills: int) -> None:
    """A member that is killed several times, anywhere, leaves every record once in the other topic, and in order."""
    sent = written(system, topic)
    chance = random.Random(topic)
    for kill in range(kills):
        # Half of them die at a step of the program, half while the producer's thread is at anything.
        at = chance.randrange(1, 80) if kill % 2 else -1
        after_ms = -1 if kill % 2 else chance.randrange(600)
        assert copied(COPIER, system, topic, die_at=at, die_after_ms=after_ms) == -signal.SIGKILL
    assert copied(COPIER, system, topic, die_at=-1, die_after_ms=-1) == 0
    target = f"{topic}-copied"
    assert read_committed(system, target, 3) == sent
    arguments = ("--bootstrap-server", system.bootstrap, "--topic", target, "--from-beginning")
    # That there are no more than these was seen just before; how long the tool takes to begin depends on the machine.
    committed = ("--isolation-level", "read_committed", "--max-messages", 600, "--timeout-ms", 50_000)
    shown = java_tool(CONSOLE_CONSUMER, *arguments, *committed).stdout.split()
    assert sorted(shown) == sorted(value for values in sent.values() for value in values)


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_exactly_once_by_transactions_of_librdkafka(system: System, topic: str, kills: int) -> None:
    sent = written(system, topic)
    chance = random.Random(topic)
    for _ in range(kills):
        code = copied(LIBRDKAFKA_COPIER, system, topic, die_after_ms=chance.randrange(150))
        assert code == -signal.SIGKILL
    assert copied(LIBRDKAFKA_COPIER, system, topic, die_after_ms=-1) == 0
    assert read_committed(system, f"{topic}-copied", 3) == sent


def written(system: System, topic: str) -> dict[int, list[str]]:
    """Make a topic with records, by partition, and a topic for their copies."""
    sent = {partition: [f"{partition}-{number}" for number in range(200)] for partition in range(3)}
    with talking(system.bootstrap) as talk:
        for name in (topic, f"{topic}-copied"):
            talk.create(name, 3)
    with Producer({"bootstrap.servers": system.bootstrap}) as producer:
        for partition, values in sent.items():
            producer.send_batch(topic, [value.encode() for value in values], partition=partition)
    return sent


def copied(program: Path, system: System, source: str, **death: int) -> int:
    """How a member that copies from topic to topic ended."""
    told = {
        "bootstrap": system.bootstrap,
        "source": source,
        "target": f"{source}-copied",
        "group": f"copiers-of-{source}",
        **death,
    }
    command = [sys.executable, str(program), json.dumps(told)]
    return subprocess.run(command, timeout=100, check=False).returncode


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
