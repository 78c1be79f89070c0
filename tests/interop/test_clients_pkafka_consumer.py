"""pkafka's consumer in groups, on Apache Kafka and on pkafka, also in one group with other clients."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer

from pkafka.clients.admin.client import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
from pkafka.clients.consumer.errors import CommitFailedError, IllegalStateError, RecordDeserializationError
from pkafka.clients.consumer.membership import Membership
from pkafka.clients.errors import ClientTimeoutError, NoOffsetError, WakeupError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.testing import running_broker
from pkafka.tools.zookeeper.server import running_server
from tests.interop import kafka as oracle
from tests.interop.conftest import EITHER, JavaTool, System
from tests.talk import Talk, good, wait_for

QUICK: Final = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300, "auto.offset.reset": "earliest"}
OFFSETS: Final = "__consumer_offsets"
COOPERATIVE: Final = {"partition.assignment.strategy": "CooperativeStickyAssignor"}


@pytest.fixture
def talk_to_kafka(kafka: System | None) -> Iterator[Talk]:
    if kafka is None:
        pytest.skip("Apache Kafka is left out")
    made = Talk(kafka.bootstrap)
    yield made
    made.close()


@pytest.fixture
def group(topic: str) -> str:
    return f"g{topic}"


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
        assert self.idle.wait(20)

    def go_on(self) -> None:
        self.idle.clear()
        self.paused.clear()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(30)
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
        except Exception as error:  # noqa: BLE001 - shown by whoever closes
            self.errors.append(error)
        finally:
            self.consumer.close()


Join = Callable[..., Member]


@pytest.fixture
def join(system: System, group: str, topic: str) -> Iterator[Join]:
    """``join(**keys)``: another member of the group, on the test's topic."""
    members: list[Member] = []

    def make(*topics: str, **keys: object) -> Member:
        member = Member(system, group, topics or (topic,), **keys)
        members.append(member)
        return member

    yield make
    for member in members:
        member.close()


def alone(system: System, group: str | None = None, **keys: object) -> Consumer:
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    properties = {"bootstrap.servers": system.bootstrap, **QUICK, **dotted}
    return Consumer(properties if group is None else {**properties, "group.id": group})


def read(consumer: Consumer, count: int, timeout_s: float = 20.0) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(200)
    return found


def partitions(topic: str, count: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in range(count)}


def share_all(members: Collection[Any], wanted: set[TopicPartition]) -> Callable[[], bool]:
    """Whether the members have all partitions among them, each one of them once, and everybody has some."""

    def is_so() -> bool:
        owned = [each.owned for each in members]
        return set().union(*owned) == wanted and sum(map(len, owned)) == len(wanted) and all(owned)

    return is_so


# -- one member -------------------------------------------------------------------------------------------


def test_one_member_reads_commits_and_its_successor_goes_on(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 2)
    for partition in range(2):
        talk.send(topic, *(b"%d" % number for number in range(10)), partition=partition)
    with alone(system, group, enable_auto_commit="false") as consumer:
        consumer.subscribe([topic])
        records = read(consumer, 20)
        assert [each.value for each in records if each.partition == 1] == [b"%d" % each for each in range(10)]
        assert consumer.group_metadata().generation_id == 1
        assert consumer.subscription() == {topic}
        consumer.commit_sync({TopicPartition(topic, 0): OffsetAndMetadata(4, "half", 0)})
        consumer.commit_sync({TopicPartition(topic, 1): 10})
    with alone(system, group) as consumer:
        assert consumer.committed(partitions(topic, 2)) == {
            TopicPartition(topic, 0): OffsetAndMetadata(4, "half", 0),
            TopicPartition(topic, 1): OffsetAndMetadata(10, "", None),
        }
        consumer.subscribe([topic])
        assert [(each.partition, each.offset) for each in read(consumer, 6)] == [
            (0, offset) for offset in range(4, 10)
        ]


def test_positions_are_committed_on_their_own_and_at_the_end(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"a", b"b", b"c")
    mine = TopicPartition(topic, 0)
    with alone(system, group, auto_commit_interval_ms=200) as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 3)) == 3

        def is_committed() -> bool:
            consumer.poll(50)
            found = consumer.committed([mine])[mine]
            return found is not None and found.offset == 3

        wait_for(is_committed)
    with alone(system, group, auto_commit_interval_ms=60_000) as consumer:
        consumer.subscribe([topic])
        talk.send(topic, b"d")
        assert [each.value for each in read(consumer, 1)] == [b"d"]
        before = consumer.committed([mine])[mine]
        assert before is not None
        assert before.offset == 3
    with alone(system, group) as consumer:
        after = consumer.committed([mine])[mine]
        assert after is not None
        assert after.offset == 4


def test_asynchronous_commits_call_back_in_order(system: System, talk: Talk, topic: str, group: str) -> None:
    talk.create(topic, 1)
    mine = TopicPartition(topic, 0)
    seen: list[tuple[int, Exception | None]] = []
    with alone(system, group, enable_auto_commit="false") as consumer:
        consumer.assign([mine])
        for offset in range(1, 6):
            consumer.commit_async(
                {mine: offset}, lambda offsets, error: seen.append((offsets[mine].offset, error))
            )
        consumer.commit_sync({mine: 6})
        # Those that were called before have ended before.
        assert seen == [(offset, None) for offset in range(1, 6)]
        assert consumer.committed([mine]) == {mine: OffsetAndMetadata(6)}
        metrics = {name.name: metric.value for name, metric in consumer.metrics().items()}
        assert metrics["commit-total"] == 6
        assert metrics["commit-latency-max"] >= 0


def test_kafkas_tool_shows_what_was_committed(
    system: System, talk: Talk, topic: str, group: str, java_tool: JavaTool, join: Join
) -> None:
    talk.create(topic, 2)
    talk.send(topic, *[b"x"] * 5)
    member = join(client_id="my-client", auto_commit_interval_ms=100)
    wait_for(lambda: len(member.values) == 5)

    def row() -> list[str]:
        done = java_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server",
            system.bootstrap,
            "--describe",
            "--group",
            group,
        )
        assert done.returncode == 0, done
        rows = [line.split() for line in done.stdout.splitlines()]
        return next((each for each in rows if each[1:3] == [topic, "0"]), [])

    wait_for(lambda: row()[3:6] == ["5", "5", "0"])
    assert row()[6].startswith("my-client-")
    assert row()[8] == "my-client"


# -- several members --------------------------------------------------------------------------------------


def test_members_come_go_and_crash_and_every_record_is_read(
    system: System, talk: Talk, topic: str, group: str, join: Join
) -> None:
    talk.create(topic, 6)
    wanted = partitions(topic, 6)
    first, second, crashes = join(), join(), process_member(system, group, topic)
    try:
        wait_for(share_all([first, second, crashes], wanted))
        for number in range(60):
            talk.send(topic, b"%d" % number, partition=number % 6)
        wait_for(lambda: set(first.values) | set(second.values) | crashes.values == numbers(0, 60))
        second.close()
        wait_for(share_all([first, crashes], wanted))
        # Its coordinator notices when the session ends.
        crashes.kill()
        for number in range(60, 120):
            talk.send(topic, b"%d" % number, partition=number % 6)
        wait_for(lambda: first.owned == wanted and numbers(60, 120) <= set(first.values))
    finally:
        crashes.close()


@pytest.mark.parametrize("keys", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_member_that_hung_has_lost_its_partitions_and_comes_back(
    system: System, talk: Talk, topic: str, group: str, join: Join, keys: dict[str, object]
) -> None:
    talk.create(topic, 4)
    wanted = partitions(topic, 4)
    first, hangs = join(**keys), process_member(system, group, topic, **keys)
    try:
        wait_for(share_all([first, hangs], wanted))
        hangs.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: first.owned == wanted)
        before = len(hangs.events)
        hangs.process.send_signal(signal.SIGCONT)
        wait_for(share_all([first, hangs], wanted))
        assert hangs.events[before] == "partitions_lost"
    finally:
        hangs.close()


def numbers(begin: int, end: int) -> set[bytes]:
    return {b"%d" % number for number in range(begin, end)}


def test_an_eager_member_is_told_as_kafka_tells_it(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 2)
    first = join()
    wait_for(lambda: first.events == [("assigned", [0, 1])])
    second = join()
    wait_for(lambda: len(second.events) == 1)
    second.close()
    wait_for(lambda: len(first.events) == 5)
    kept = first.events[2][1]
    assert first.events == [
        ("assigned", [0, 1]),
        ("revoked", [0, 1]),
        ("assigned", kept),
        ("revoked", kept),
        ("assigned", [0, 1]),
    ]
    given = [each for each in (0, 1) if each not in kept]
    assert second.events == [("assigned", given), ("revoked", given)]


def test_a_cooperative_member_gives_up_only_what_moves(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 4)
    first = join(**COOPERATIVE)
    wait_for(lambda: first.events == [("assigned", [0, 1, 2, 3])])
    second = join(**COOPERATIVE)
    wait_for(share_all([first, second], partitions(topic, 4)))
    wait_for(lambda: ("assigned", sorted(each.partition for each in second.owned)) in second.events)
    moved = sorted(each.partition for each in second.owned)
    assert len(moved) == 2
    # Two rounds: the first takes what moves, the second gives it to the other.
    assert first.events[1] == ("revoked", moved)
    assert first.events[2:] in ([("assigned", [])], [("assigned", []), ("assigned", [])])
    assert [each for each in second.events if each[1]] == [("assigned", moved)]
    second.close()
    wait_for(lambda: first.owned == partitions(topic, 4))
    assert first.events[-1] == ("assigned", moved)
    assert second.events[-1] == ("revoked", moved)


@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_a_listener_is_told_what_javas_is_told(
    strategy: str, kafka: System | None, talk_to_kafka: Talk, kafka_classpath: str, topic: str
) -> None:
    """Also of nothing: three members share one partition, come one after the other, and the last one goes."""
    assert kafka is not None
    told = []
    for kind in ("java", "pkafka"):
        name = f"{topic}{kind}"
        talk_to_kafka.create(name, 1)
        members: list[ProcessMember] = []
        try:
            for count in (1, 2, 3):
                if kind == "java":
                    full = f"org.apache.kafka.clients.consumer.{strategy}"
                    member = java_member(
                        kafka_classpath, kafka, name, name, **{"--assignment-strategy": full}
                    )
                else:
                    member = process_member(kafka, name, name, partition_assignment_strategy=strategy)
                members.append(member)
                wait_for(partial(has_seen, members, list(range(count, 0, -1))))
            members.pop().close()
            wait_for(partial(has_seen, members, [4, 3]))
            told.append(sorted(each.shape for each in members))
        finally:
            for member in members:
                member.close()
    # Which of them has the partition is chance: what each is told is compared without it.
    assert told[0] == told[1]


def test_unsubscribing_gives_partitions_up_and_leaves(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    events: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            events.append("assigned")

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            events.append("revoked")
            consumer.commit_sync(dict.fromkeys(partitions, 7))

    with alone(system, group, enable_auto_commit="false") as consumer:
        consumer.subscribe([topic], listener=Listener())
        wait_for(lambda: not consumer.poll(50) and events == ["assigned"])
        consumer.unsubscribe()
        assert events == ["assigned", "revoked"]
        assert consumer.assignment() == []
        # Somebody else gets the partition without waiting for a session to end.
        with alone(system, group, enable_auto_commit="false") as other:
            other.subscribe([topic])
            start = time.monotonic()
            wait_for(lambda: not other.poll(50) and bool(other.assignment()))
            assert time.monotonic() - start < 5
        mine = TopicPartition(topic, 0)
        assert consumer.committed([mine]) == {mine: OffsetAndMetadata(7)}


def test_a_static_member_that_returns_moves_nothing(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 4)
    first, second = join(group_instance_id="one"), join(group_instance_id="two")
    wait_for(share_all([first, second], partitions(topic, 4)))
    owned, events = second.owned, list(first.events)
    second.close()
    back = join(group_instance_id="two")
    wait_for(lambda: back.owned == owned)
    assert generation_of(back) == generation_of(first)
    assert first.events == events


def test_a_static_leader_that_returns_still_watches_for_new_partitions(
    topic: str, talk: Talk, join: Join
) -> None:
    talk.create(topic, 2)
    keys = {"metadata_max_age_ms": 300}
    leader = join(group_instance_id="one", **keys)
    wait_for(lambda: leader.owned == partitions(topic, 2))
    other = join(group_instance_id="two", **keys)
    wait_for(share_all([leader, other], partitions(topic, 2)))
    assert membership_of(leader).is_leader
    generation = generation_of(leader)
    leader.close()
    back = join(group_instance_id="one", **keys)
    wait_for(share_all([back, other], partitions(topic, 2)))
    assert generation_of(back) == generation
    talk.admin.create_partitions({topic: 4})
    wait_for(share_all([back, other], partitions(topic, 4)))


def membership_of(member: Member) -> Membership:
    group = member.consumer._group
    assert group is not None
    return group.membership


def generation_of(member: Member) -> int:
    return membership_of(member).generation.id


def test_a_second_process_with_the_same_instance_fences_the_first(
    system: System, topic: str, talk: Talk, group: str
) -> None:
    talk.create(topic, 1)
    with alone(system, group, group_instance_id="one") as first:
        first.subscribe([topic])
        wait_for(lambda: not first.poll(50) and bool(first.assignment()))
        with alone(system, group, group_instance_id="one") as second:
            second.subscribe([topic])
            wait_for(lambda: not second.poll(50) and bool(second.assignment()))
            with pytest.raises(ApiError) as caught:
                read(first, 1)
            assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_does_not_poll_in_time_loses_its_partitions(topic: str, talk: Talk, join: Join) -> None:
    talk.create(topic, 2)
    slow = join(max_poll_interval_ms=1_500)
    wait_for(lambda: slow.events == [("assigned", [0, 1])])
    slow.hold()
    other = join()
    wait_for(lambda: other.owned == partitions(topic, 2), timeout_s=20)
    slow.go_on()
    wait_for(share_all([slow, other], partitions(topic, 2)))
    assert slow.events[1] == ("lost", [0, 1])


def test_a_commit_of_one_that_is_out_of_the_group_fails(
    system: System, topic: str, talk: Talk, group: str
) -> None:
    talk.create(topic, 1)
    mine = TopicPartition(topic, 0)
    keys = {"max_poll_interval_ms": 1_000, "enable_auto_commit": "false"}
    with alone(system, group, **keys) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        membership = consumer._group.membership  # type: ignore[union-attr]
        wait_for(lambda: not membership.generation.member_id)
        with pytest.raises(CommitFailedError):
            consumer.commit_sync({mine: 1})
        wait_for(lambda: not consumer.poll(50) and bool(membership.generation.member_id))
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        consumer.commit_sync({mine: 1})


@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_one_group_of_many_kinds_of_clients(
    system: System, topic: str, talk: Talk, group: str, join: Join, kafka_classpath: str, strategy: str
) -> None:
    talk.create(topic, 8)
    wanted = partitions(topic, 8)
    ours = join(partition_assignment_strategy=strategy)
    others: list[ProcessMember | Other] = []
    try:
        full = f"org.apache.kafka.clients.consumer.{strategy}"
        others.append(java_member(kafka_classpath, system, group, topic, **{"--assignment-strategy": full}))
        others.append(confluent_member(system, group, topic, strategy))
        if strategy == "RangeAssignor":  # kafka-python has no cooperative one
            others.append(kafka_python_member(system, group, topic))
        wait_for(share_all([ours, *others], wanted), timeout_s=60)
        for number in range(80):
            talk.send(topic, b"%d" % number, partition=number % 8)
        wait_for(
            lambda: set(ours.values).union(*(each.values for each in others)) == numbers(0, 80), timeout_s=40
        )
        for member in others:
            member.close()
        wait_for(lambda: ours.owned == wanted, timeout_s=30)
    finally:
        for member in others:
            member.close()


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


def has_seen(members: Sequence["ProcessMember"], assignments: list[int]) -> bool:
    return [each.assignments for each in members] == assignments


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
                self.process.wait(20)
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


# -- topics that come and grow ------------------------------------------------------------------------------


def test_a_pattern_takes_in_new_topics_and_new_partitions(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(f"{topic}.a", 1)
    with alone(system, group, metadata_max_age_ms=300) as consumer:
        consumer.subscribe(pattern=rf"{topic}\.[ab]")
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 1)
        talk.create(f"{topic}.b", 1)
        talk.create(f"{topic}.c", 1)
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 2)
        assert consumer.subscription() == {f"{topic}.a", f"{topic}.b"}
        talk.admin.create_partitions({f"{topic}.a": 3})
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 4)
        talk.delete(f"{topic}.b")
        wait_for(lambda: not consumer.poll(50) and len(consumer.assignment()) == 3)


def test_a_pattern_leaves_internal_topics_out_unless_told(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    pattern = f"{topic}|__consumer_offsets"
    with alone(system, group) as consumer:
        consumer.subscribe(pattern=pattern)
        wait_for(lambda: not consumer.poll(50) and consumer.subscription() == {topic})
        wait_for(lambda: not consumer.poll(50) and consumer.assignment() == [TopicPartition(topic, 0)])
    with alone(system, f"{group}2", exclude_internal_topics=False, auto_offset_reset="latest") as consumer:
        consumer.subscribe(pattern=pattern)
        wait_for(
            lambda: (
                not consumer.poll(50) and {each.topic for each in consumer.assignment()} == {topic, OFFSETS}
            )
        )


def test_a_topic_is_awaited_and_created_where_the_broker_does_that(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    with alone(system, group, allow_auto_create_topics="false", metadata_max_age_ms=300) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(500) == []
        talk.create(topic, 1)
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
    with alone(system, f"{group}2", metadata_max_age_ms=300) as consumer:
        consumer.subscribe([f"{topic}x"])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))


def test_a_subscription_can_be_changed(system: System, talk: Talk, topic: str, group: str) -> None:
    for name in (f"{topic}a", f"{topic}b"):
        talk.create(name, 1)
        talk.send(name, name.encode())
    with alone(system, group) as consumer:
        consumer.subscribe([f"{topic}a"])
        assert [each.topic for each in read(consumer, 1)] == [f"{topic}a"]
        consumer.subscribe([f"{topic}a", f"{topic}b"])
        assert [each.topic for each in read(consumer, 1)] == [f"{topic}b"]
        consumer.subscribe([f"{topic}b"])
        wait_for(lambda: not consumer.poll(50) and consumer.assignment() == [TopicPartition(f"{topic}b", 0)])


def test_a_rebalance_can_be_enforced(topic: str, talk: Talk, system: System, group: str) -> None:
    talk.create(topic, 1)
    with alone(system, group) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        assert consumer.group_metadata().generation_id == 1
        consumer.enforce_rebalance("because")
        wait_for(lambda: not consumer.poll(50) and consumer.group_metadata().generation_id == 2)


# -- positions --------------------------------------------------------------------------------------------


def test_positions_without_a_commit_follow_the_policy(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"old")
    mine = TopicPartition(topic, 0)
    with alone(system, group, auto_offset_reset="latest") as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        assert consumer.position(mine) == 1
        talk.send(topic, b"new")
        assert [each.value for each in read(consumer, 1)] == [b"new"]
        assert consumer.current_lag(mine) == 0
    with alone(system, f"{group}2", auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(NoOffsetError, match="Undefined offset with no reset policy"):
            read(consumer, 1, 10)
        consumer.seek(mine, 0)
        assert [each.value for each in read(consumer, 2)] == [b"old", b"new"]
        consumer.seek(mine, 100)
        with pytest.raises(NoOffsetError, match="out of range"):
            read(consumer, 1, 10)


def test_offsets_are_looked_up(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    talk.send(topic, b"a", b"b")
    both = sorted(partitions(topic, 2))
    with alone(system) as consumer:
        assert consumer.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
        assert consumer.end_offsets(both) == {both[0]: 2, both[1]: 0}
        found = consumer.offsets_for_times(dict.fromkeys(both, 0))
        assert [found[each].offset for each in both] == [0, -1]
        assert [each.partition for each in consumer.partitions_for(topic).partitions] == [0, 1]
        assert topic in consumer.list_topics()
        consumer.assign(both)
        assert consumer.position(both[0]) == 0
        consumer.seek_to_end([both[0]])
        assert consumer.position(both[0]) == 2
        consumer.seek_to_beginning()
        consumer.pause([both[1]])
        assert consumer.paused() == [both[1]]
        assert len(read(consumer, 2)) == 2
        consumer.seek(both[0], OffsetAndMetadata(1, "", 0))
        assert [each.value for each in read(consumer, 1)] == [b"b"]


def test_what_does_not_exist_is_answered_as_javas_consumer_answers_it(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    nowhere, beyond = TopicPartition(f"{topic}x", 0), TopicPartition(topic, 7)
    with alone(system, group, allow_auto_create_topics=False) as consumer:
        with pytest.raises(ClientTimeoutError, match="700ms expired before successfully committing offsets"):
            consumer.commit_sync({nowhere: 1}, timeout_ms=700)
        assert consumer.committed([nowhere]) == {nowhere: None}
        for partition in (nowhere, beyond):
            reason = f"Failed to get offsets by times in 700ms ({partition}: no leader is known)"
            with pytest.raises(ClientTimeoutError, match=re.escape(reason)):
                consumer.end_offsets([partition], timeout_ms=700)
        with pytest.raises(
            IllegalStateError, match="You can only check the position for partitions assigned"
        ):
            consumer.position(beyond)


# -- what the user's own code sees ------------------------------------------------------------------------


def test_keys_and_values_are_deserialized_and_a_bad_one_can_be_passed(
    system: System, talk: Talk, topic: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"\0\0\0\1", b"\0\0\0\2", b"bad bytes", b"\0\0\0\3")
    mine = TopicPartition(topic, 0)
    deserializer = "org.apache.kafka.common.serialization.IntegerDeserializer"
    with alone(system, value_deserializer=deserializer) as consumer:
        consumer.assign([mine])
        assert [each.value for each in read(consumer, 2)] == [1, 2]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as caught:
                read(consumer, 1)
            assert (caught.value.partition, caught.value.offset, caught.value.part) == (mine, 2, "value")
            consumer.seek(mine, 2)
        consumer.seek(mine, 3)
        assert [each.value for each in read(consumer, 1)] == [3]


def test_interceptors_see_records_and_commits(system: System, talk: Talk, topic: str, group: str) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"keep", b"drop")
    commits: list[object] = []

    class Interceptor:
        def on_consume(self, records: Any) -> Any:
            return type(records)([each for each in records if each.value == b"keep"])

        def on_commit(self, offsets: Any) -> None:
            commits.append({each: at.offset for each, at in offsets.items()})

    with alone(system, group, interceptor_classes=[Interceptor()], enable_auto_commit="false") as consumer:
        consumer.subscribe([topic])
        assert [each.value for each in read(consumer, 1)] == [b"keep"]
        consumer.commit_sync()
        assert commits == [{TopicPartition(topic, 0): 2}]
        assert consumer.poll(0).by_partition() == {}


def test_wakeup_ends_what_waits_once(system: System, talk: Talk, topic: str, group: str) -> None:
    talk.create(topic, 1)
    mine = TopicPartition(topic, 0)
    with alone(system, group) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and bool(consumer.assignment()))
        calls: list[Callable[[], object]] = [
            lambda: consumer.poll(60_000),
            lambda: consumer.commit_sync({mine: 0}),
            lambda: consumer.committed([mine]),
        ]
        for call in calls:
            consumer.wakeup()
            with pytest.raises(WakeupError):
                call()
        consumer.commit_sync({mine: 0})


@pytest.mark.parametrize("keys", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_listener_that_fails_is_raised_and_the_group_goes_on(
    system: System, talk: Talk, topic: str, group: str, keys: dict[str, object]
) -> None:
    """What is called in which order was seen with Java's consumer: the assignment comes again, and brings nothing."""
    talk.create(topic, 1)
    talk.send(topic, b"x")
    events: list[tuple[str, int]] = []
    failing = {"assigned"}

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            self._note("assigned", partitions)

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            self._note("revoked", partitions)

        def _note(self, name: str, partitions: Collection[TopicPartition]) -> None:
            events.append((name, len(partitions)))
            if name in failing:
                failing.discard(name)
                raise ZeroDivisionError("a bug of the user's")

    with alone(system, group, **keys) as consumer:
        consumer.subscribe([topic], listener=Listener())
        with pytest.raises(ZeroDivisionError):
            read(consumer, 1)
        assert consumer.assignment() == [TopicPartition(topic, 0)]
        assert [each.value for each in read(consumer, 1)] == [b"x"]
        assert events == [("assigned", 1), ("assigned", 0)]
        if not keys:
            failing.add("revoked")
            consumer.enforce_rebalance()
            with pytest.raises(ZeroDivisionError):
                read(consumer, 1)
            assert consumer.assignment() == []
            wait_for(lambda: not consumer.poll(50) and len(events) == 4)
            assert events[2:] == [("revoked", 1), ("assigned", 1)]


# -- brokers that go and return ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EITHER)
def test_a_group_outlives_a_restart_of_its_coordinator(
    kind: str, tmp_path: Path, topic: str, group: str
) -> None:
    settings = {
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 2,
        "group.initial.rebalance.delay.ms": 0,
    }
    if kind == "kafka":
        try:
            context: Any = oracle.running_kafka(tmp_path, overrides=settings)
            oracle.jars("kafka")
        except oracle.OracleUnavailableError as missing:
            pytest.skip(str(missing))
    else:
        context = running_broker(tmp_path, settings)
    with context as broker:
        talk = Talk(broker.bootstrap, broker_id=broker.id if hasattr(broker, "id") else 0)
        talk.create(topic, 2)
        talk.send(topic, b"before")
        member = Member(broker, group, [topic], auto_commit_interval_ms=200)
        mine = TopicPartition(topic, 0)
        try:
            wait_for(lambda: member.values == [b"before"])
            wait_for(lambda: committed_by(broker, group, mine) == 1)
            broker.restart()
            talk.send(topic, b"after")
            # Once or, where the member was put out meanwhile, twice.
            wait_for(lambda: set(member.values) == {b"before", b"after"}, timeout_s=60)
            talk.send(topic, b"again")
            wait_for(lambda: b"again" in member.values, timeout_s=30)
            assert member.values.count(b"before") == 1
        finally:
            member.close()
            talk.close()
        assert committed_by(broker, group, mine) == 3


@pytest.mark.nightly
def test_a_group_moves_to_another_broker_with_its_coordinator(
    kafka_classpath: str, tmp_path: Path, topic: str, group: str
) -> None:
    """Two brokers of Apache Kafka: a partition's leader and the coordinator die, its replica takes over."""
    settings = {
        "offsets.topic.replication.factor": 2,
        "offsets.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "zookeeper.session.timeout.ms": 6_000,
        "default.replication.factor": 2,
    }
    with running_server(tmp_path, jars=Path(kafka_classpath).parent) as (_process, port):
        brokers = [
            oracle.KafkaBroker(
                kafka_classpath,
                f"127.0.0.1:{port}",
                tmp_path / str(number),
                overrides={**settings, "broker.id": number},
            )
            for number in (1, 2)
        ]
        try:
            for broker in brokers:
                broker.start()
            _move(brokers, topic, group)
        finally:
            for broker in brokers:
                broker.kill()


def _move(brokers: Sequence[oracle.KafkaBroker], topic: str, group: str) -> None:
    mine = TopicPartition(topic, 0)
    bootstrap = ",".join(each.bootstrap for each in brokers)
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "acks": "all"})
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        good(admin.create_topics([NewTopic(topic, 1, 2)])[topic])
        member = Member(brokers[0], group, [topic], auto_commit_interval_ms=200, metadata_max_age_ms=2_000)
        try:
            send_all(producer, topic, numbers(0, 10))
            wait_for(lambda: set(member.values) == numbers(0, 10))
            coordinator = membership_of(member).coordinator
            assert coordinator is not None
            doomed, other = sorted(brokers, key=lambda each: each.port != coordinator.port)
            wait_for(lambda: committed_by(other, group, mine) == 10)
            wait_for(lambda: len(good(admin.describe_topics([topic])[topic]).partitions[0].isr) == 2)
            doomed.kill()
            send_all(producer, topic, numbers(10, 20))
            wait_for(lambda: set(member.values) == numbers(0, 20), timeout_s=60)
            wait_for(
                lambda: (membership_of(member).coordinator or coordinator).port == other.port, timeout_s=60
            )
        finally:
            member.close()
    assert committed_by(other, group, mine) == 20


def send_all(producer: ConfluentProducer, topic: str, values: Collection[bytes]) -> None:
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def committed_by(system: System, group: str, partition: TopicPartition) -> int:
    with alone(system, group) as consumer:
        found = consumer.committed([partition])[partition]
    return -1 if found is None else found.offset
