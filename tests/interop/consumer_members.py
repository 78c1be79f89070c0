"""Members of one group: pkafka's consumers on threads and in processes, and consumers of other clients."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
from pkafka.clients.consumer.membership import Membership
from pkafka.model import TopicPartition
from tests.interop import kafka as oracle
from tests.interop.conftest import System

QUICK: Final = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300, "auto.offset.reset": "earliest"}
COOPERATIVE: Final = {"partition.assignment.strategy": "CooperativeStickyAssignor"}


class Member(ConsumerRebalanceListener):
    """A consumer that polls on a thread of its own and notes what it is told and what it reads."""

    def __init__(self, system: System, group: str, topics: Collection[str], **keys: object) -> None:
        self.events: list[tuple[str, list[int]]] = []
        self.values: list[bytes] = []
        self.errors: list[Exception] = []
        self.paused = threading.Event()
        self.idle = threading.Event()
        self._stopped = threading.Event()
        dotted = {key.replace("_", "."): value for key, value in keys.items()}
        properties = {"bootstrap.servers": system.bootstrap, "group.id": group, **QUICK, **dotted}
        self.consumer = Consumer(properties)
        self.consumer.subscribe(topics, listener=self)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(each.partition for each in partitions)))

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("assigned", sorted(each.partition for each in partitions)))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("lost", sorted(each.partition for each in partitions)))

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.consumer.assignment())

    def hold(self) -> None:
        """Do not poll until told to go on."""
        self.paused.set()
        assert self.idle.wait(60)

    def go_on(self) -> None:
        self.idle.clear()
        self.paused.clear()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert not self.errors, self.errors

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self.paused.is_set():
                    self.idle.set()
                    time.sleep(0.02)
                    continue
                self.values += [each.value for each in self.consumer.poll(50)]
        except Exception as error:  # noqa: BLE001 - the thread that closes the member raises it
            self.errors.append(error)
        finally:
            self.consumer.close()


Join = Callable[..., Member]


def alone(system: System, group: str | None = None, **keys: object) -> Consumer:
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    properties = {"bootstrap.servers": system.bootstrap, **QUICK, **dotted}
    return Consumer(properties if group is None else {**properties, "group.id": group})


def read(consumer: Consumer, count: int, timeout_s: float = 60.0) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(200)
    return found


def partitions(topic: str, count: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in range(count)}


def share_all(members: Collection[Any], wanted: set[TopicPartition]) -> Callable[[], bool]:
    """A condition: each partition is owned by exactly one of the members, and each member owns some."""

    def is_so() -> bool:
        owned = [each.owned for each in members]
        return set().union(*owned) == wanted and sum(map(len, owned)) == len(wanted) and all(owned)

    return is_so


def numbers(begin: int, end: int) -> set[bytes]:
    return {b"%d" % number for number in range(begin, end)}


def membership_of(member: Member) -> Membership:
    group = member.consumer._group
    assert group is not None
    return group.membership


def kafka_python_member(system: System, group: str, topic: str) -> "Other":
    return Other(
        KafkaConsumer(
            topic,
            bootstrap_servers=system.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )
    )


def confluent_member(system: System, group: str, topic: str, strategy: str) -> "Other":
    names = {"RangeAssignor": "range", "CooperativeStickyAssignor": "cooperative-sticky"}
    properties = {
        "bootstrap.servers": system.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 300,
        "partition.assignment.strategy": names[strategy],
    }
    return Other(ConfluentConsumer(properties), topic)


class Other:
    """A member of kafka-python or confluent-kafka, polled by a thread."""

    def __init__(self, consumer: Any, topic: str | None = None) -> None:
        self.values: set[bytes] = set()
        self.owned: set[TopicPartition] = set()
        self._consumer = consumer
        self._stopped = threading.Event()
        if topic is not None:
            consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(30)

    def _run(self) -> None:
        is_python = isinstance(self._consumer, KafkaConsumer)
        while not self._stopped.is_set():
            if is_python:
                for records in self._consumer.poll(timeout_ms=50).values():
                    self.values |= {each.value for each in records}
            else:
                message = self._consumer.poll(0.05)
                if message is not None and not message.error():
                    self.values.add(message.value())
            self.owned = {TopicPartition(each.topic, each.partition) for each in self._consumer.assignment()}
        self._consumer.close()
        self.owned = set()


class ProcessMember:
    """A member in a process of its own, which says on its output what it is assigned and what it reads.

    As Kafka's VerifiableConsumer does, which is one; ``consumer_process.py`` is the other.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.values: set[bytes] = set()
        self.owned: set[TopicPartition] = set()
        self.events: list[str] = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def assignments(self) -> int:
        """How many there were."""
        return self.events.count("partitions_assigned")

    @property
    def shape(self) -> list[str]:
        """What it was told, without which partitions."""
        return [each for each in self.events if each.startswith("partitions_")]

    def kill(self) -> None:
        """A crash: no word to the group."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        self._thread.join(20)

    def _run(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                event = json.loads(line)
                named = [
                    TopicPartition(each["topic"], each["partition"]) for each in event.get("partitions", [])
                ]
                if event["name"] != "record_data":
                    self.events.append(event["name"])
                if event["name"] == "partitions_assigned":
                    self.owned |= set(named)
                elif event["name"] in ("partitions_revoked", "partitions_lost"):
                    self.owned -= set(named)
                elif event["name"] == "record_data":
                    self.values.add(event["value"].encode())


def java_member(class_path: str, system: System, group: str, topic: str, **more: str) -> ProcessMember:
    options = {
        "--bootstrap-server": system.bootstrap,
        "--group-id": group,
        "--topic": topic,
        "--session-timeout": "6000",
        "--reset-policy": "earliest",
        **more,
    }
    java = [oracle.java_program("java"), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path]
    words = [word for option in options.items() for word in option]
    return ProcessMember([*java, "org.apache.kafka.tools.VerifiableConsumer", *words, "--verbose"])


def process_member(system: System, group: str, topic: str, **keys: object) -> ProcessMember:
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    properties = {"bootstrap.servers": system.bootstrap, "group.id": group, **QUICK, **dotted}
    return ProcessMember(
        [sys.executable, str(Path(__file__).with_name("consumer_process.py")), json.dumps(properties), topic]
    )
