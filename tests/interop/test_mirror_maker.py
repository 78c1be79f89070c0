"""pk-mirror-maker beside kafka-mirror-maker.sh 3.9.1, from Apache Kafka to pkafka and back."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.clients.consumer import Consumer, ConsumerRecord
from pkafka.clients.producer import Producer, ProducerRecord
from pkafka.clients.producer.partitioner import partition_of_key
from pkafka.model import TopicPartition
from tests.interop.conftest import EITHER, System
from tests.interop.kafka import java_program
from tests.talk import talking, wait_for

PARTITIONS = 3
COUNT = 3_000
FOR_EVER = {"retention_ms": -1}
"""The records have old timestamps, which brokers would delete as soon as they look."""
JAVA = "kafka.tools.MirrorMaker"
OURS = "pkafka.cli.mirror_maker"


class Clusters(NamedTuple):
    source: System
    target: System


class Handler:
    """Leaves out every second record, and marks the others with the argument."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def handle(self, record: ConsumerRecord) -> list[ProducerRecord]:
        if record.offset % 2:
            return []
        headers = (*record.headers, ("mark", self.mark.encode()))
        return [ProducerRecord(record.topic, record.value, record.key, headers=headers)]


@pytest.fixture(params=EITHER)
def clusters(request: pytest.FixtureRequest, kafka: System | None, pkafka: System | None) -> Clusters:
    """From Apache Kafka to pkafka, or from pkafka to Apache Kafka."""
    if kafka is None or pkafka is None:
        pytest.skip("it takes both systems")
    return Clusters(kafka, pkafka) if request.param == "kafka" else Clusters(pkafka, kafka)


def fill(clusters: Clusters, topic: str, *, keyed: bool, target_partitions: int = PARTITIONS) -> None:
    for system, count in ((clusters.source, PARTITIONS), (clusters.target, target_partitions)):
        with talking(system.bootstrap) as talk:
            talk.create(topic, partitions=count, **FOR_EVER)
    settings = {
        "bootstrap.servers": clusters.source.bootstrap,
        "compression.type": "lz4",
        "batch.size": 4_000,
    }
    with Producer(settings) as producer:
        for number in range(COUNT):
            producer.send(
                topic,
                None if number % 7 == 0 else b"value %d" % number,
                b"key %d" % (number % 50) if keyed else None,
                partition=None if keyed else number % PARTITIONS,
                timestamp_ms=1_700_000_000_000 + number,
                headers=(("number", b"%d" % number), ("none", None)),
            )


def settings_of(clusters: Clusters, group: str, directory: Path) -> list[str]:
    directory.mkdir(exist_ok=True)
    consumer, producer = directory / "consumer.properties", directory / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={clusters.source.bootstrap}\ngroup.id={group}\nauto.offset.reset=earliest\n"
    )
    producer.write_text(f"bootstrap.servers={clusters.target.bootstrap}\n")
    return ["--consumer.config", str(consumer), "--producer.config", str(producer)]


@contextmanager
def mirroring(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ours(*args: str) -> list[str]:
    return [sys.executable, "-m", OURS, *args]


def theirs(class_path: str, *args: str) -> list[str]:
    return [java_program("java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path, JAVA, *args]


def stopped(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, err
    return out


def wait_until_copied(system: System, topic: str, count: int, process: subprocess.Popen[str]) -> None:
    partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    with Consumer({"bootstrap.servers": system.bootstrap}) as consumer:

        def is_there() -> bool:
            assert process.poll() is None, process.communicate()
            there = [
                each for each in partitions if each.partition < len(consumer.partitions_for(topic).partitions)
            ]
            return sum(consumer.end_offsets(there).values()) >= count

        wait_for(is_there, timeout_s=60)


def records(system: System, topic: str, partitions: int = PARTITIONS) -> list[list[tuple[object, ...]]]:
    """Of every partition: key, value, timestamp and headers of its records."""
    wanted = [TopicPartition(topic, each) for each in range(partitions)]
    found: list[list[tuple[object, ...]]] = [[] for _ in wanted]
    with Consumer({"bootstrap.servers": system.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        ends = consumer.end_offsets(wanted)
        consumer.assign(wanted)
        while any(consumer.position(each) < ends[each] for each in wanted):
            for each in consumer.poll(10_000):
                found[each.partition].append((each.key, each.value, each.timestamp, each.headers))
    return found


@pytest.mark.parametrize("way", ["ours", "ours, two streams", "theirs"])
def test_a_copy_has_the_same_records_in_the_same_places(
    clusters: Clusters, kafka_classpath: str, topic: str, way: str, tmp_path: Path
) -> None:
    """Keys lead to the same partition on both sides, so partitions and their order are the same."""
    fill(clusters, topic, keyed=True)
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic]
    command = theirs(kafka_classpath, *args) if way == "theirs" else ours(*args, "--output", "json")
    with mirroring([*command, *(["--num.streams", "2"] if way.endswith("streams") else [])]) as process:
        wait_until_copied(clusters.target, topic, COUNT, process)
        out = stopped(process)
    assert records(clusters.target, topic) == records(clusters.source, topic)
    with Consumer({"bootstrap.servers": clusters.source.bootstrap, "group.id": f"g-{topic}"}) as consumer:
        partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        committed = consumer.committed(partitions)
        assert {each: found.offset for each, found in committed.items() if found} == consumer.end_offsets(
            partitions
        )
    if way != "theirs":
        document = json.loads(out)
        assert (document["records"], document["dropped"]) == (COUNT, 0)


@pytest.mark.parametrize("way", ["ours", "theirs"])
def test_another_number_of_partitions_gets_the_records_by_their_keys(
    clusters: Clusters, kafka_classpath: str, topic: str, way: str, tmp_path: Path
) -> None:
    fill(clusters, topic, keyed=True, target_partitions=2)
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic]
    with mirroring(theirs(kafka_classpath, *args) if way == "theirs" else ours(*args)) as process:
        wait_until_copied(clusters.target, topic, COUNT, process)
        stopped(process)
    wanted: list[dict[object, list[object]]] = [{}, {}]
    for key, *rest in (each for partition in records(clusters.source, topic) for each in partition):
        assert isinstance(key, bytes)
        wanted[partition_of_key(key, 2)].setdefault(key, []).append(rest)
    found: list[dict[object, list[object]]] = [{}, {}]
    for number, partition in enumerate(records(clusters.target, topic, 2)):
        for key, *rest in partition:
            found[number].setdefault(key, []).append(rest)
    assert found == wanted


def test_partitions_are_kept_as_whole_batches(clusters: Clusters, topic: str, tmp_path: Path) -> None:
    fill(clusters, topic, keyed=False)
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic, "--keep-partitions"]
    with mirroring(ours(*args, "--output", "json")) as process:
        wait_until_copied(clusters.target, topic, COUNT, process)
        document = json.loads(stopped(process))
    assert records(clusters.target, topic) == records(clusters.source, topic)
    assert document["raw_records"] > COUNT / 2
    assert verified(clusters, topic) == (0, COUNT)
    with Producer({"bootstrap.servers": clusters.target.bootstrap}) as producer:
        producer.send(topic, b"not of the source", partition=1)
    assert verified(clusters, topic) == (1, COUNT)


def test_too_few_partitions_to_keep_them_are_refused(clusters: Clusters, topic: str, tmp_path: Path) -> None:
    fill(clusters, topic, keyed=False, target_partitions=1)
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic, "--keep-partitions"]
    done = subprocess.run(ours(*args), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "1 partition(s) on the target" in done.stderr


def test_a_handler_makes_records_of_records(clusters: Clusters, topic: str, tmp_path: Path) -> None:
    fill(clusters, topic, keyed=True)
    handler = f"{__name__}.Handler"
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic, "--message.handler", handler]
    wanted = [each[0::2] for each in records(clusters.source, topic)]
    with mirroring(ours(*args, "--message.handler.args", "seen")) as process:
        wait_until_copied(clusters.target, topic, sum(map(len, wanted)), process)
        stopped(process)
    for found, one in zip(records(clusters.target, topic), wanted, strict=True):
        assert [each[:2] for each in found] == [each[:2] for each in one]
        assert all(each[3][-1] == ("mark", b"seen") for each in found)  # type: ignore[index]


def test_nothing_is_lost_when_it_is_killed_again_and_again(
    clusters: Clusters, topic: str, tmp_path: Path
) -> None:
    """Each run commits every 10 ms, and is killed as soon as more has arrived than before."""
    fill(clusters, topic, keyed=True)
    slow = settings_of(clusters, f"g-{topic}", tmp_path)
    with (tmp_path / "consumer.properties").open("a") as file:
        # A static member: the next run takes its place at once.
        file.write("max.partition.fetch.bytes=2000\ngroup.instance.id=one\n")
    args = [*slow, "--include", topic, "--offset.commit.interval.ms", "10"]
    for part in (1, 500, 1_000):
        with mirroring(ours(*args)) as process:
            wait_until_copied(clusters.target, topic, part, process)
            process.kill()
    with talking(clusters.source.bootstrap) as here:
        for partition in range(PARTITIONS):
            here.send(topic, b"the last", partition=partition)
    with mirroring(ours(*args)) as process:
        wait_until_all_are_there(clusters, topic, process)
        stopped(process)
    for one, other in zip(records(clusters.source, topic), records(clusters.target, topic), strict=True):
        assert list(dict.fromkeys(other)) == one  # some came twice, none is missing, firsts are in order
    assert verified(clusters, topic) == (0, COUNT + PARTITIONS)


def verified(clusters: Clusters, topic: str) -> tuple[int, int]:
    """What pk-mirror verify says: its status, and how many records are the same."""
    words = ["--source", clusters.source.bootstrap, "--target", clusters.target.bootstrap, "--include", topic]
    command = [sys.executable, "-m", "pkafka.cli.mirror", "verify", *words, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(done.stdout)
    assert "error" not in document, document
    return done.returncode, document["same"]


def wait_until_all_are_there(clusters: Clusters, topic: str, process: subprocess.Popen[str]) -> None:
    last = [each[-1] for each in records(clusters.source, topic)]

    def are_there() -> bool:
        assert process.poll() is None, process.communicate()
        return all(one in found for one, found in zip(last, records(clusters.target, topic), strict=True))

    wait_for(are_there, timeout_s=60)


def with_a_large_record(clusters: Clusters, topic: str) -> list[bytes]:
    """Fill a topic with records of which the target refuses one; returns the others."""
    with talking(clusters.source.bootstrap) as here, talking(clusters.target.bootstrap) as there:
        here.create(topic, **FOR_EVER)
        there.create(topic, max_message_bytes=5_000, **FOR_EVER)
        values = [b"%d" % number * 40 for number in range(20)]
        large = bytes(20_000)
        here.send(topic, *values[:10], large, *values[10:])
    return values


@pytest.mark.parametrize("way", ["ours", "theirs"])
def test_a_record_that_the_target_refuses_stops_it(
    clusters: Clusters, kafka_classpath: str, topic: str, way: str, tmp_path: Path
) -> None:
    with_a_large_record(clusters, topic)
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic]
    command = ours(*args) if way == "ours" else theirs(kafka_classpath, *args)
    environment = {**os.environ, "PK_COMPAT": "3.9"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 255, done.stderr
    with Consumer({"bootstrap.servers": clusters.source.bootstrap, "group.id": f"g-{topic}"}) as consumer:
        assert consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): None}


@pytest.mark.parametrize("way", ["ours", "ours, keeping partitions", "theirs"])
def test_a_record_that_the_target_refuses_is_left_out(
    clusters: Clusters, kafka_classpath: str, topic: str, way: str, tmp_path: Path
) -> None:
    values = with_a_large_record(clusters, topic)
    args = [*settings_of(clusters, f"g-{topic}", tmp_path), "--include", topic]
    args += ["--abort.on.send.failure", "false", "--offset.commit.interval.ms", "100"]
    more = ["--keep-partitions"] if way.endswith("partitions") else []
    command = theirs(kafka_classpath, *args) if way == "theirs" else ours(*args, *more, "--output", "json")
    with mirroring(command) as process:
        wait_until_copied(clusters.target, topic, len(values), process)
        out = stopped(process)
    assert [each[1] for each in records(clusters.target, topic, 1)[0]] == values
    if way != "theirs":
        assert json.loads(out)["dropped"] == 1


# What is wrong, and what ends Kafka's tool.
REFUSED = {
    "no arguments": [],
    "no include": ["CONFIGS"],
    "no producer": ["--consumer.config", "CONSUMER", "--include", "x"],
    "a bad expression": ["CONFIGS", "--include", "["],
    "no file": ["--consumer.config", "/none", "--producer.config", "/none", "--include", "x"],
    "no number": ["CONFIGS", "--include", "x", "--num.streams", "q"],
    "no stream": ["CONFIGS", "--include", "x", "--num.streams", "0"],
    "no boolean": ["CONFIGS", "--include", "x", "--abort.on.send.failure", "maybe"],
    "no listener": ["CONFIGS", "--include", "x", "--consumer.rebalance.listener", "no.Such"],
    "no flag": ["CONFIGS", "--include", "x", "--bogus", "1"],
    "no group": ["NO_GROUP", "--include", "x"],
    "help": ["--help"],
    "version": ["--version"],
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refusals_end_as_kafkas(kafka_classpath: str, case: str, tmp_path: Path) -> None:
    consumer, no_group, producer = tmp_path / "consumer", tmp_path / "no-group", tmp_path / "producer"
    consumer.write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=g\n")
    no_group.write_text("bootstrap.servers=127.0.0.1:1\n")
    producer.write_text("bootstrap.servers=127.0.0.1:1\n")
    words: list[str] = []
    for each in REFUSED[case]:
        if each in ("CONFIGS", "NO_GROUP"):
            named = consumer if each == "CONFIGS" else no_group
            words += ["--consumer.config", str(named), "--producer.config", str(producer)]
        else:
            words.append(each.replace("CONSUMER", str(consumer)))
    environment = {**os.environ, "PK_COMPAT": "3.9"}
    found, wanted = (
        subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        for command in (ours(*words), theirs(kafka_classpath, *words))
    )
    assert found.returncode == wanted.returncode, (found.stderr, wanted.stderr)
