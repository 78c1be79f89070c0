"""The clients of Kafka 0.8 (clients/legacy), on Apache Kafka and on pkafka, both with a real ZooKeeper."""

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pkafka.clients.legacy import (
    Blacklist,
    ConsumerRebalanceFailedError,
    ConsumerTimeoutError,
    KafkaStream,
    KeyedMessage,
    MessageAndMetadata,
    MessageStreamsExistError,
    OldProducer,
    SimpleConsumer,
    TopicFilter,
    Whitelist,
    ZookeeperConsumerConnector,
)
from pkafka.clients.legacy.simple_consumer import EARLIEST, LATEST, STORED_IN_KAFKA, STORED_IN_ZOOKEEPER
from pkafka.coordination.store import Store
from pkafka.coordination.znodes_consumers import ConsumerRegistration
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.interop.conftest import EITHER
from tests.interop.kafka import (
    JAVA_SOURCES,
    KafkaBroker,
    OracleUnavailableError,
    compile_java,
    jars,
    java_program,
)
from tests.sockets import free_port
from tests.talk import Talk, good, talking, wait_for
from tests.zookeeper import ZooKeeper

SESSION_MS = 10_000
"""As long as the ZooKeeper of tests allows: a member of a busy machine is silent for seconds."""
MORTAL_MS = 6_000
"""Of members that are killed, whose sessions are waited for."""
_OLD_PROGRAMS = ("OldMember", "OldSender")
Message = tuple[int, int, bytes]
"""Partition, offset, value."""


class Cluster(NamedTuple):
    """A broker and the ZooKeeper that it uses."""

    broker: KafkaBroker | Broker
    bootstrap: str
    connect: str
    talk: Talk
    store: Store


@pytest.fixture(params=EITHER)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Apache Kafka and pkafka in turn, in ZooKeeper mode."""
    broker: KafkaBroker | Broker
    if request.param == "kafka":
        kafka: KafkaBroker = request.getfixturevalue("kafka")
        broker, connect = kafka, kafka.zookeeper
    else:
        broker = request.getfixturevalue("pkafka_on_zookeeper")
        zookeeper: ZooKeeper = request.getfixturevalue("zookeeper")
        connect = f"{zookeeper.connect}/tools"
    with talking(broker.bootstrap) as talk, ZooKeeperStore(connect, 10_000) as store:
        yield Cluster(broker, broker.bootstrap, connect, talk, store)


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


def settings(cluster: Cluster, group: str, **more: object) -> dict[str, object]:
    keys = {
        "zookeeper_connect": cluster.connect,
        "zookeeper_session_timeout_ms": SESSION_MS,
        "group_id": group,
        "auto_offset_reset": "smallest",
        "rebalance_backoff_ms": 200,
        "rebalance_max_retries": 300,
        "consumer_timeout_ms": 60_000,
        **more,
    }
    return {key.replace("_", "."): value for key, value in keys.items()}


class Reader:
    """A member of a group: a connector, and a thread for each of its streams that writes down what comes."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topic: str,
        threads: int = 1,
        *,
        work_s: float = 0.0,
        **more: object,
    ) -> None:
        self._work_s = work_s
        self.connector = ZookeeperConsumerConnector(
            settings(cluster, group, **{"consumer_timeout_ms": -1, **more})
        )
        self.seen: list[Message] = []
        self.first: dict[Message, float] = {}
        self._threads: list[threading.Thread] = []
        try:
            self._read(self.connector.create_message_streams({topic: threads})[topic])
        except BaseException:
            self.connector.shutdown()
            raise

    def _read(self, streams: list[KafkaStream]) -> None:
        for stream in streams:
            thread = threading.Thread(target=self._drain, args=(stream,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _drain(self, stream: KafkaStream) -> None:
        for message in stream:
            each = (message.partition, message.offset, message.message or b"")
            self.first.setdefault(each, time.monotonic())
            self.seen.append(each)
            if self._work_s:
                time.sleep(self._work_s)

    def leave(self) -> None:
        self.connector.shutdown()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


class ProcessReader:
    """A member of the same group that is a process: OldMember.java or old_member.py."""

    def __init__(
        self, program: Sequence[str], directory: Path, config: Mapping[str, object], topic: str, threads: int
    ) -> None:
        properties = directory / f"{time.monotonic_ns()}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        command = [*program, str(properties), topic, str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.seen: list[Message] = []
        self.first: dict[Message, float] = {}
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                return  # the last words of one that was killed
            partition, offset, value = line.split()
            each = (int(partition), int(offset), value)
            self.first.setdefault(each, time.monotonic())
            self.seen.append(each)

    def leave(self) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
        self._ended()

    def kill(self) -> None:
        self._process.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._ended()

    def _ended(self) -> None:
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


@pytest.fixture(scope="session")
def old_java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that OldMember and OldSender are run with, on Kafka 0.8.2.2."""
    try:
        java_program("javac")
        class_path = compile_java(jars("old-clients"), tmp_path_factory.mktemp("old-clients"), *_OLD_PROGRAMS)
        log = f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}"
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", log]
        return [java_program("java"), *flags, "-cp", class_path]
    except OracleUnavailableError as missing:
        pytest.skip(str(missing))


@contextmanager
def readers() -> Iterator[Callable[..., Reader]]:
    """Makes members, and lets all of them leave at the end."""
    made: list[Reader] = []

    def make(*arguments: object, **more: object) -> Reader:
        made.append(Reader(*arguments, **more))  # type: ignore[arg-type]
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.leave()


def owners(cluster: Cluster, group: str, topic: str) -> dict[int, str]:
    """Partition to the thread that owns it, as ZooKeeper has it."""
    parent = f"/consumers/{group}/owners/{topic}"
    if cluster.store.exists(parent) is None:
        return {}
    names = cluster.store.children(parent)
    nodes = cluster.store.get_many([f"{parent}/{name}" for name in names])
    return {int(name): node[0].decode() for name, node in zip(names, nodes, strict=True) if node is not None}


def stored(cluster: Cluster, group: str, topic: str, partition: int) -> int:
    """The offset in ZooKeeper; -1 without one."""
    [node] = cluster.store.get_many([f"/consumers/{group}/offsets/{topic}/{partition}"])
    return -1 if node is None else int(node[0])


def ranges(count: int, *connectors: ZookeeperConsumerConnector) -> dict[int, str]:
    """Who owns what of one topic with so many partitions: range assignment of members with one thread each."""
    names = sorted(f"{each.consumer_id}-0" for each in connectors)
    share, extra = divmod(count, len(names))
    owner: dict[int, str] = {}
    for position, name in enumerate(names):
        for _ in range(share + (position < extra)):
            owner[len(owner)] = name
    return owner


def patiently(stream: KafkaStream) -> MessageAndMetadata:
    """The next message of a stream whose time-out is short: who was told of it asks again."""
    found: list[MessageAndMetadata] = []

    def has_come() -> bool:
        with suppress(ConsumerTimeoutError):
            found.append(next(stream))
        return bool(found)

    wait_for(has_come, timeout_s=60, what="a message")
    return found[0]


def wait_for_owners(cluster: Cluster, group: str, topic: str, expected: Mapping[int, str]) -> None:
    wait_for(lambda: owners(cluster, group, topic) == expected, what=f"owners {expected}")


def fill(cluster: Cluster, topic: str, partitions: int, count: int, start: int = 0) -> set[Message]:
    """``count`` messages into every partition, in batches of ten."""
    sent: set[Message] = set()
    for partition in range(partitions):
        for first in range(0, count, 10):
            values = [b"%d-%d" % (partition, start + first + each) for each in range(min(10, count - first))]
            base = cluster.talk.send(topic, *values, partition=partition)
            sent |= {(partition, base + index, value) for index, value in enumerate(values)}
    return sent


def test_a_member_alone_its_znodes_and_its_return(cluster: Cluster, topic: str, group: str) -> None:
    cluster.talk.create(topic, partitions=3)
    sent = fill(cluster, topic, 3, 25)
    connector = ZookeeperConsumerConnector(settings(cluster, group, queued_max_message_chunks=10))
    streams = connector.create_message_streams({topic: 2})[topic]
    me = connector.consumer_id
    assert re.fullmatch(rf"{re.escape(group)}_[\w.-]+-\d{{13}}-[0-9a-f]{{8}}", me)
    data, stat = cluster.store.get(f"/consumers/{group}/ids/{me}")
    text = re.sub(r"\d{13}", "*", data.decode())
    assert text == f'{{"version":1,"subscription":{{"{topic}":2}},"pattern":"static","timestamp":"*"}}'
    assert stat.ephemeral_owner
    assert owners(cluster, group, topic) == {0: f"{me}-0", 1: f"{me}-0", 2: f"{me}-1"}
    assert (
        cluster.store.get(f"/consumers/{group}/owners/{topic}/0")[1].ephemeral_owner == stat.ephemeral_owner
    )
    got = {(each.partition, each.offset, each.message) for each in (next(streams[0]) for _ in range(50))}
    got |= {(each.partition, each.offset, each.message) for each in (next(streams[1]) for _ in range(20))}
    assert len(got) == 70
    assert got < sent
    assert connector.commit_offsets()
    assert [stored(cluster, group, topic, partition) for partition in range(3)] == [25, 25, 20]
    assert not cluster.store.get(f"/consumers/{group}/offsets/{topic}/2")[1].ephemeral_owner
    next(streams[1])
    with pytest.raises(MessageStreamsExistError):
        connector.create_message_streams({topic: 1})
    connector.shutdown()
    assert list(streams[0]) == list(streams[1]) == []
    assert stored(cluster, group, topic, 2) == 21
    assert cluster.store.children(f"/consumers/{group}/ids") == []
    assert owners(cluster, group, topic) == {}

    with ZookeeperConsumerConnector(settings(cluster, group, consumer_timeout_ms=1_000)) as again:
        [stream] = again.create_message_streams({topic: 1})[topic]
        assert [patiently(stream).offset for _ in range(4)] == [21, 22, 23, 24]
        with pytest.raises(ConsumerTimeoutError):
            next(stream)
        more = fill(cluster, topic, 1, 1)
        assert {(each.partition, each.offset, each.message) for each in [patiently(stream)]} == more


def test_without_an_offset_the_reset_policy_decides(cluster: Cluster, topic: str, group: str) -> None:
    cluster.talk.create(topic)
    fill(cluster, topic, 1, 10)
    config = settings(cluster, group, auto_offset_reset="largest", consumer_timeout_ms=500)
    with ZookeeperConsumerConnector(config) as connector:
        [stream] = connector.create_message_streams({topic: 1}, value_decoder=bytes.decode)[topic]
        with pytest.raises(ConsumerTimeoutError):
            next(stream)

        # Its fetcher finds the end in its own time: what comes before that is none of its messages.
        end = {TopicPartition(topic, 0): 10}
        wait_for(lambda: connector.owned_partitions() == end, timeout_s=60, what="the largest offset")
        fill(cluster, topic, 1, 1, start=100)
        assert (lambda each: (each.offset, each.message))(patiently(stream)) == (10, "0-100")
    # Out of range is the same case: what was committed is not there any more.
    good(cluster.talk.admin.delete_records({TopicPartition(topic, 0): 8})[TopicPartition(topic, 0)])
    cluster.store.set(f"/consumers/{group}/offsets/{topic}/0", b"3")
    with ZookeeperConsumerConnector(settings(cluster, group)) as connector:
        [stream] = connector.create_message_streams({topic: 1})[topic]
        assert [next(stream).offset for _ in range(3)] == [8, 9, 10]


def test_members_come_and_go_and_every_message_is_read_once(cluster: Cluster, topic: str, group: str) -> None:
    """Hand-overs in order: who releases a partition has committed what it returned, and returns nothing after it.

    Readers are slower than fetchers, so that there is always something fetched that nobody has read.
    """
    cluster.talk.create(topic, partitions=5)
    sent = fill(cluster, topic, 5, 40)
    with readers() as join:
        members = [join(cluster, group, topic, work_s=0.005)]
        wait_for_owners(cluster, group, topic, ranges(5, members[0].connector))
        for step in range(1, 3):
            members.append(join(cluster, group, topic, work_s=0.005))
            sent |= fill(cluster, topic, 5, 40, start=100 * step)
            wait_for_owners(cluster, group, topic, ranges(5, *(each.connector for each in members)))
        members[0].leave()
        sent |= fill(cluster, topic, 5, 40, start=1_000)
        wait_for_owners(cluster, group, topic, ranges(5, *(each.connector for each in members[1:])))
        members[1].leave()
        sent |= fill(cluster, topic, 5, 40, start=2_000)
        wait_for_owners(cluster, group, topic, ranges(5, members[2].connector))
        wait_for(
            lambda: sum(len(each.seen) for each in members) >= len(sent), timeout_s=60, what="every message"
        )
    seen = Counter(message for each in members for message in each.seen)
    assert set(seen) == sent
    assert set(seen.values()) == {1}
    for each in members:  # within a partition in order
        for partition in range(5):
            offsets = [offset for number, offset, _ in each.seen if number == partition]
            assert offsets == sorted(offsets)


@pytest.mark.nightly  # half a minute each
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_one_group_with_the_consumer_of_kafka_0_8(
    cluster: Cluster, topic: str, group: str, old_java: list[str], tmp_path: Path, strategy: str
) -> None:
    """Both compute the same assignment, and hand partitions over to each other without loss."""
    cluster.talk.create(topic, partitions=7)
    sent = fill(cluster, topic, 7, 20)
    config = settings(cluster, group, partition_assignment_strategy=strategy)

    def java(threads: int) -> ProcessReader:
        return ProcessReader(
            [*old_java, "OldMember"], tmp_path, {**config, "consumer.timeout.ms": -1}, topic, threads
        )

    def all_owned(members: int) -> bool:
        names = {owner.rpartition("-")[0] for owner in owners(cluster, group, topic).values()}
        return len(owners(cluster, group, topic)) == 7 and len(names) == members

    with readers() as join:
        ours = join(cluster, group, topic, 2, partition_assignment_strategy=strategy)
        wait_for(lambda: all_owned(1))
        theirs = [java(1)]
        try:
            wait_for(lambda: all_owned(2), what="two members")
            mine = ours.connector.consumer_id
            nodes = {
                name: cluster.store.get(f"/consumers/{group}/ids/{name}")[0].decode()
                for name in cluster.store.children(f"/consumers/{group}/ids")
            }
            [other] = nodes.keys() - {mine}
            assert re.sub(r"\d{13}", "*", nodes[mine]) == re.sub(r"\d{13}", "*", nodes[other]).replace(
                f'"{topic}":1', f'"{topic}":2'
            )
            assert re.sub(r"\d{13}-[0-9a-f]{8}", "*", mine) == re.sub(r"\d{13}-[0-9a-f]{8}", "*", other)
            sent |= fill(cluster, topic, 7, 20, start=100)
            theirs.append(java(2))
            wait_for(lambda: all_owned(3), what="three members")
            sent |= fill(cluster, topic, 7, 20, start=200)
            theirs[0].leave()
            wait_for(lambda: all_owned(2), what="two members again")
            sent |= fill(cluster, topic, 7, 20, start=300)
            everybody: list[Reader | ProcessReader] = [ours, *theirs]
            # Not so many messages: some may come twice, before others.
            wait_for(
                lambda: {message for each in everybody for message in each.seen} >= sent, what="every message"
            )
            seen = Counter(message for each in everybody for message in each.seen)
            assert set(seen) == sent
            for message in (each for each, count in seen.items() if count > 1):
                # Kafka's own may return a message behind the commit that precedes a hand-over; ours never does.
                first = min(
                    (each for each in everybody if message in each.first),
                    key=lambda each: each.first[message],
                )
                assert isinstance(first, ProcessReader), message
            theirs[1].kill()
            wait_for(lambda: all_owned(1), what="what the killed one owned")
            sent |= fill(cluster, topic, 7, 20, start=400)
            wait_for(lambda: {message for each in everybody for message in each.seen} == sent)
        finally:
            for member in theirs:
                member.kill()


def test_members_are_killed(cluster: Cluster, topic: str, group: str, tmp_path: Path) -> None:
    """The others take over when its session is over; only what it did not commit comes again."""
    cluster.talk.create(topic, partitions=4)
    sent = fill(cluster, topic, 4, 20)
    config = settings(
        cluster,
        group,
        consumer_timeout_ms=-1,
        auto_commit_interval_ms=100,
        zookeeper_session_timeout_ms=MORTAL_MS,
    )
    program = [sys.executable, str(Path(__file__).with_name("old_member.py"))]
    everybody: list[ProcessReader] = []

    def join(count: int) -> None:
        everybody.extend(ProcessReader(program, tmp_path, config, topic, 1) for _ in range(count))

    def all_owned(members: int) -> bool:
        found = owners(cluster, group, topic)
        return len(found) == 4 and len(set(found.values())) == members

    try:
        join(3)
        wait_for(lambda: all_owned(3), what="three members")
        wait_for(lambda: [stored(cluster, group, topic, each) for each in range(4)] == [20] * 4)
        everybody[0].kill()
        wait_for(lambda: all_owned(2), what="what it owned")
        before = len(everybody[1].seen)
        sent |= fill(cluster, topic, 4, 200, start=100)
        wait_for(lambda: len(everybody[1].seen) > before)
        everybody[1].kill()
        wait_for(lambda: all_owned(1), what="what it owned")
        join(1)
        wait_for(lambda: all_owned(2), what="a new member")
        sent |= fill(cluster, topic, 4, 20, start=1_000)
        wait_for(
            lambda: {message for each in everybody for message in each.seen} == sent, what="every message"
        )
        seen = Counter(message for each in everybody for message in set(each.seen))
        # Whoever came first may have read everything before the others were there.
        assert {seen[message] for message in everybody[0].seen} <= {1}, "it had committed them"
        kept = Counter(message for each in everybody[2:] for message in each.seen)
        assert set(kept.values()) == {1}
    finally:
        for each in everybody:
            each.kill()


def test_a_broker_that_starts_again_is_found_again(cluster: Cluster, topic: str, group: str) -> None:
    """Who iterates sees nothing of it."""
    cluster.talk.create(topic, partitions=2)
    with readers() as join:
        member = join(cluster, group, topic)
        sent = fill(cluster, topic, 2, 10)
        wait_for(lambda: set(member.seen) == sent)
        cluster.broker.stop()
        cluster.broker.start()
        sent |= fill(cluster, topic, 2, 10, start=100)
        wait_for(lambda: set(member.seen) == sent, what="what came after the start")
        assert len(member.seen) == len(sent)


def test_more_members_than_partitions_leave_some_idle(cluster: Cluster, topic: str, group: str) -> None:
    cluster.talk.create(topic, partitions=2)
    with readers() as join:
        members = [join(cluster, group, topic) for _ in range(3)]
        wait_for_owners(cluster, group, topic, ranges(2, *(each.connector for each in members)))
        idle = max(members, key=lambda each: each.connector.consumer_id)
        sent = fill(cluster, topic, 2, 5)
        wait_for(lambda: sum(len(each.seen) for each in members) == len(sent))
        assert idle.seen == []


def test_an_expired_session_begins_anew(cluster: Cluster, topic: str, group: str) -> None:
    cluster.talk.create(topic, partitions=2)
    with readers() as join:
        member = join(cluster, group, topic, auto_commit_interval_ms=50)
        sent = fill(cluster, topic, 2, 10)
        wait_for(lambda: set(member.seen) == sent)
        wait_for(lambda: [stored(cluster, group, topic, each) for each in range(2)] == [10, 10])
        store = member.connector._store
        before = cluster.store.get(ConsumerRegistration.path(group, member.connector.consumer_id))[1]
        # Another client of the same session that closes it: the server ends it under the member's feet.
        ZooKeeperStore(cluster.connect, SESSION_MS, resume=(store.session_id, store.session_password)).close()

        def back() -> bool:
            stat = cluster.store.exists(ConsumerRegistration.path(group, member.connector.consumer_id))
            return stat is not None and stat.czxid != before.czxid

        wait_for(back, what="a new registration")
        wait_for_owners(cluster, group, topic, ranges(2, member.connector))
        sent |= fill(cluster, topic, 2, 10, start=100)
        wait_for(lambda: len(member.seen) == len(sent), what="the messages after it")
        assert set(member.seen) == sent


def test_new_partitions_are_read(cluster: Cluster, topic: str, group: str) -> None:
    cluster.talk.create(topic, partitions=1)
    with readers() as join:
        member = join(cluster, group, topic)
        good(cluster.talk.admin.create_partitions({topic: 3})[topic])
        wait_for_owners(cluster, group, topic, ranges(3, member.connector))
        sent = fill(cluster, topic, 3, 2)
        wait_for(lambda: set(member.seen) == sent)


@pytest.mark.parametrize("kind", ["white", "black"])
def test_topics_by_filter_now_and_later(cluster: Cluster, topic: str, group: str, kind: str) -> None:
    """As it looks in ZooKeeper: pattern and regular expression, and owners of the topics that match."""
    names = [f"{topic}-a", f"{topic}-b"]
    cluster.talk.create(names[0])
    cluster.talk.send(names[0], b"first")
    if kind == "white":
        wanted: TopicFilter = Whitelist(f'"{topic}-a, {topic}-b"')
        assert wanted.regex == f"{topic}-a|{topic}-b"
    else:
        # Everything but what does not begin with the name of this test's topics.
        wanted = Blacklist(rf"(?!{topic}-).*")
    with ZookeeperConsumerConnector(settings(cluster, group)) as connector:
        [stream] = connector.create_message_streams_by_filter(wanted)
        node = json.loads(cluster.store.get(f"/consumers/{group}/ids/{connector.consumer_id}")[0])
        assert (node["pattern"], node["subscription"]) == (f"{kind}_list", {wanted.regex: 1})
        assert next(stream).message == b"first"
        cluster.talk.create(f"other-{topic}")
        cluster.talk.create(names[1])
        cluster.talk.send(names[1], b"second")
        each = next(stream)
        assert (each.topic, each.message) == (names[1], b"second")
        assert set(cluster.store.children(f"/consumers/{group}/owners")) == set(names)


def test_a_partition_that_nobody_gives_up_is_waited_for(
    cluster: Cluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller is told after the last try; a member that is in goes on trying, where Kafka's gave up."""
    cluster.talk.create(topic, partitions=2)
    with readers() as join:
        member = join(cluster, group, topic, rebalance_max_retries=2)
        foreign = f"/consumers/{group}/owners/{topic}/1"
        with ZooKeeperStore(cluster.connect, 10_000) as other:
            cluster.store.delete(foreign)
            other.create(foreign, b"somebody-0", ephemeral=True)
            with pytest.raises(ConsumerRebalanceFailedError, match="can't rebalance after 2 retries"):
                join(cluster, group, topic, rebalance_max_retries=2, consumer_id="zz")
            wait_for(lambda: f"{member.connector.consumer_id} can't rebalance" in caplog.text)
            assert owners(cluster, group, topic)[1] == "somebody-0"
        wait_for_owners(cluster, group, topic, ranges(2, member.connector))
        sent = fill(cluster, topic, 2, 3)
        wait_for(lambda: set(member.seen) == sent)


def test_roundrobin_deals_all_topics_to_all_threads(cluster: Cluster, topic: str, group: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        cluster.talk.create(name, partitions=3)
    config = settings(cluster, group, partition_assignment_strategy="roundrobin")
    with ZookeeperConsumerConnector(config) as one, ZookeeperConsumerConnector(config) as two:
        for connector in (one, two):
            connector.create_message_streams(dict.fromkeys(names, 1))
        wait_for(
            lambda: [len(each.owned_partitions()) for each in (one, two)] == [3, 3],
            what="three partitions each",
        )
        assert not one.owned_partitions().keys() & two.owned_partitions().keys()


def test_simple_consumer(cluster: Cluster, topic: str, group: str) -> None:
    host, port = cluster.bootstrap.split(":")
    key, missing = TopicPartition(topic, 0), TopicPartition(topic, 7)
    cluster.talk.create(topic)
    cluster.talk.send(topic, b"a", b"b", b"c")
    cluster.talk.send(topic, b"d")
    with SimpleConsumer(host, int(port), client_id="simple") as consumer:
        views, brokers = consumer.topic_metadata([topic])
        leader = brokers[views[topic].partitions[0].leader]
        assert (leader.host, leader.port) == (host, int(port))
        for _ in range(2):  # what was read can be read again
            [*found] = consumer.fetch({key: 1})[key].messages()
            assert [(each.offset, each.value) for each in found] == [(1, b"b"), (2, b"c"), (3, b"d")]
        answers = consumer.fetch({key: 9, missing: 0})
        assert answers[key].error is ErrorCode.OFFSET_OUT_OF_RANGE
        assert answers[missing].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        began = time.monotonic()
        assert consumer.fetch({key: 4}, max_wait_ms=300, min_bytes=1)[key].messages() == []
        assert time.monotonic() - began > 0.25
        assert consumer.offsets_before({key: LATEST}, offsets_max=5) == {key: [4, 0]}
        assert consumer.earliest_or_latest_offset(key, EARLIEST) == 0
        assert consumer.earliest_or_latest_offset(key, LATEST) == 4


@pytest.mark.parametrize("version", [STORED_IN_ZOOKEEPER, STORED_IN_KAFKA])
def test_simple_consumer_keeps_offsets_of_a_group(
    cluster: Cluster, topic: str, group: str, version: int
) -> None:
    host, port = cluster.bootstrap.split(":")
    key = TopicPartition(topic, 0)
    cluster.talk.create(topic)
    with SimpleConsumer(host, int(port)) as consumer:
        if version == STORED_IN_KAFKA:
            wait_for(lambda: consumer.find_coordinator(group), what="a coordinator")
            wait_for(
                lambda: (
                    consumer.fetch_offsets(group, [key])[key].error
                    is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                )
            )
        assert consumer.fetch_offsets(group, [key], version=version)[key].offset == -1
        assert consumer.commit_offsets(group, {key: 42}, version=version) == {key: ErrorCode.NONE}
        assert consumer.fetch_offsets(group, [key], version=version)[key].offset == 42
    if version == STORED_IN_ZOOKEEPER:
        assert stored(cluster, group, topic, 0) == 42


@pytest.mark.parametrize("dual", [True, False])
def test_offsets_in_kafka(cluster: Cluster, topic: str, group: str, dual: bool) -> None:
    """A group that moves its offsets over: at first it reads both places, and takes the farther one."""
    cluster.talk.create(topic, partitions=2)
    fill(cluster, topic, 2, 10)
    for partition in range(2):
        cluster.store.create(f"/consumers/{group}/offsets/{topic}/{partition}", b"4", make_parents=True)
    config = settings(
        cluster, group, offsets_storage="kafka", dual_commit_enabled=dual, offsets_channel_backoff_ms=100
    )
    begin = 4 if dual else 0
    with ZookeeperConsumerConnector(config) as connector:
        [stream] = connector.create_message_streams({topic: 1})[topic]
        got = [next(stream) for _ in range(2 * (10 - begin))]
        assert {each.offset for each in got} == set(range(begin, 10))
        assert connector.commit_offsets()
        in_zookeeper = [stored(cluster, group, topic, partition) for partition in range(2)]
        assert in_zookeeper == ([10, 10] if dual else [4, 4])
    more = fill(cluster, topic, 2, 1)
    with ZookeeperConsumerConnector(
        settings(cluster, group, offsets_storage="kafka", dual_commit_enabled=False)
    ) as again:
        [stream] = again.create_message_streams({topic: 1})[topic]
        assert {(each.partition, each.offset, each.message) for each in (next(stream), next(stream))} == more


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_old_producer(cluster: Cluster, topic: str, kind: str) -> None:
    cluster.talk.create(topic, partitions=4)
    keys = {
        "metadata.broker.list": cluster.bootstrap,
        "producer.type": kind,
        "request.required.acks": 1,
        "serializer.class": "kafka.serializer.StringEncoder",
        "compression.codec": "2",
        "compressed.topics": f"{topic},other",
        "batch.num.messages": 7,
        "queue.buffering.max.ms": 50,
        "request.timeout.ms": 60_000,
    }
    with OldProducer(keys) as producer:
        producer.send(*(KeyedMessage(topic, f"value-{each}", f"key-{each % 5}") for each in range(50)))
        producer.send(
            KeyedMessage(topic, None, "key-0"), KeyedMessage(topic, "by part key", part_key="key-1")
        )
    # The partitions that Java's String.hashCode gives: "key-0" is 101943362, and the others follow it.
    hashes = {f"key-{each}": 101943362 + each for each in range(5)}
    found = {partition: cluster.talk.read(topic, partition) for partition in range(4)}
    for partition, records in found.items():
        for record in records:
            if record.key is not None:
                assert hashes[record.key.decode()] % 4 == partition
    values = Counter(record.value for records in found.values() for record in records)
    assert values == Counter([*(b"value-%d" % each for each in range(50)), None, b"by part key"])
    by_key = [record.value for record in found[hashes["key-3"] % 4] if record.key == b"key-3"]
    assert by_key == [b"value-%d" % each for each in range(3, 50, 5)]


def test_old_producers_give_up_alike_where_nobody_listens(old_java: list[str], tmp_path: Path) -> None:
    from pkafka.clients.legacy import FailedToSendMessageError

    keys = {
        "metadata.broker.list": f"127.0.0.1:{free_port()}",
        "request.required.acks": 1,
        "request.timeout.ms": 100_000,
    }
    properties = tmp_path / "producer.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    command = [*old_java, "OldSender", str(properties), "t"]
    done = subprocess.run(command, input="a\nb\n", capture_output=True, text=True, timeout=90, check=True)
    theirs = [line.partition(" ") for line in done.stdout.splitlines()]
    assert len(theirs) == 2
    with OldProducer(keys) as producer:
        for took_ms, _, outcome in theirs:
            began = time.monotonic()
            with pytest.raises(FailedToSendMessageError, match=re.escape(outcome)):
                producer.send(KeyedMessage("t", b"a"))
            # Four pauses of retry.backoff.ms, and no request.timeout.ms.
            assert all(400 <= each < 60_000 for each in (int(took_ms), (time.monotonic() - began) * 1_000))


def test_old_producer_to_a_topic_that_cannot_be(cluster: Cluster) -> None:
    from pkafka.clients.legacy import FailedToSendMessageError

    keys = {
        "metadata.broker.list": cluster.bootstrap,
        "message.send.max.retries": 1,
        "request.timeout.ms": 500,
    }
    with OldProducer(keys) as producer, pytest.raises(FailedToSendMessageError, match="after 1 tries"):
        producer.send(KeyedMessage("not/legal", b"x"))
    with suppress(FailedToSendMessageError), OldProducer({**keys, "request.required.acks": 0}) as producer:
        producer.send()
