"""Clusters of Apache Kafka 3.9.1 and pkafka side by side on one ZooKeeper, as during a migration in place.

Broker 0 is Kafka, broker 1 is pkafka. Whoever leads, and whoever is the controller: what all in sync have acknowledged
is read back in order, and the logs of both are the same byte for byte.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigResource,
    ElectionType,
    NewTopic,
    ResourceType,
)
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST, TopicPartition
from pkafka.protocol.messages.fetch import FetchResponse
from pkafka.server.coordinator.keyed_topic import partition_of
from tests.cluster import SETTINGS, Cluster, Load, check, hanging, read_all
from tests.interop.conftest import JavaTool
from tests.raw_client import RawClient, fetch_request
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

KAFKA, PKAFKA = 0, 1
NAMES: Final = ("kafka", "pkafka")
LAG_MS: Final = 2_500
COMMON: Mapping[str, object] = {
    **SETTINGS,
    "inter.broker.protocol.version": "3.9",
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "auto.leader.rebalance.enable": "false",
    # As long as the ZooKeeper of tests allows: a broker of a busy machine is silent for seconds.
    "zookeeper.session.timeout.ms": 10_000,
    "replica.fetch.backoff.ms": 200,
    # Who was killed begins with the high watermark of its start, so that each test shows how it gets the true one.
    "replica.high.watermark.checkpoint.interval.ms": 600_000,
    "log.initial.task.delay.ms": 0,
    "log.segment.delete.delay.ms": 500,
}


class Mixed(Cluster):
    """One broker of each kind.

    Args:
        directory: gets a folder for each.
        zookeeper: ``host:port``; the cluster has a chroot of its own there.
        controller: which of the two shall be the controller, so starts first.
        settings: of both, beside the common ones.
    """

    def __init__(
        self, directory: Path, zookeeper: str, controller: int, settings: Mapping[str, object] | None = None
    ) -> None:
        overrides = {**COMMON, "pkafka.workers": 2, **(settings or {})}
        super().__init__(directory, zookeeper, kinds="kp", overrides=overrides)
        self._first = controller

    def start(self) -> None:
        self.brokers[self._first].start()
        wait_for(lambda: self.controller() == self._first, what="the controller")
        self.brokers[1 - self._first].start()
        wait_for(self._knows_both, what="both brokers in the metadata of both")

    def wait_for_isr(self, topic: str, *brokers: int, partition: int = 0) -> None:
        wait_for(
            lambda: sorted(self.state(topic, partition).isr) == sorted(brokers),
            what=f"{topic}-{partition} in sync on {brokers}",
        )

    def wait_for_leader(self, topic: str, broker: int, partition: int = 0) -> None:
        wait_for(
            lambda: self.state(topic, partition).leader == broker,
            what=f"{topic}-{partition} led by {broker}",
        )

    def assert_same_logs(self, topic: str, partition: int = 0) -> None:
        """Every byte of the topic's records is the same on both, and there are some."""
        assert sorted(self.state(topic, partition).isr) == [KAFKA, PKAFKA]
        assert self.same_logs(topic, partition)

    def _knows_both(self) -> bool:
        for broker in self.brokers:
            with contextlib.closing(Admin({"bootstrap.servers": broker.bootstrap})) as admin:
                if len(admin.describe_cluster().brokers) != len(self.brokers):
                    return False
        return True


@pytest.fixture(
    scope="module",
    params=(pytest.param(KAFKA, marks=pytest.mark.nightly), PKAFKA),
    ids=lambda one: f"{NAMES[one]}-controller",
)
def cluster(
    request: pytest.FixtureRequest,
    zookeeper: ZooKeeper,
    kafka_classpath: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mixed]:
    """Both brokers, one of them the controller, for tests that leave them running."""
    directory = tmp_path_factory.mktemp("mixed")
    made = Mixed(directory, zookeeper.connect, request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(
    params=(pytest.param(KAFKA, marks=pytest.mark.nightly), PKAFKA),
    ids=lambda one: f"{NAMES[one]}-controller",
)
def fresh(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path
) -> Iterator[Mixed]:
    """The same for one test that stops or kills them."""
    made = Mixed(tmp_path, zookeeper.connect, request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=(KAFKA, PKAFKA), ids=lambda one: f"{NAMES[one]}-leads")
def leader(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


_FETCH_BY_NAMES: Final = 12
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def test_replicas_are_the_same(cluster: Mixed, leader: int) -> None:
    topic = f"same-{leader}"
    follower = 1 - leader
    cluster.create_topic(topic, assignment=dict.fromkeys(range(3), (leader, follower)))
    expected: list[int] = []
    for codec in CODECS:
        for idempotent in ("true", "false"):
            with cluster.producer(
                **{"compression.type": codec, "enable.idempotence": idempotent}
            ) as producer:
                sent = []
                for _ in range(50):
                    sent.append(producer.send(topic, b"%d" % len(expected), partition=len(expected) % 3))
                    expected.append(len(expected))
                for one in sent:
                    one.result(60)
    before = [cluster.versioned_state(topic, partition) for partition in range(3)]
    for partition in range(3):
        cluster.assert_same_logs(topic, partition)
        assert read_all(cluster, topic, partition) == expected[partition::3]
        assert before[partition][0].leader == leader
        assert sorted(before[partition][0].isr) == [KAFKA, PKAFKA]


@pytest.mark.nightly  # tests/unit/server/replicas/test_leadership.py has it in each change, with a clock of its own
def test_who_follows_a_leader_without_news_stays_in_sync(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path: Path, leader: int
) -> None:
    made = Mixed(tmp_path, zookeeper.connect, PKAFKA, {"replica.lag.time.max.ms": LAG_MS})
    try:
        made.start()
        made.create_topic("t", assignment={0: (leader, 1 - leader)})
        send(made, range(50))
        made.wait_for_isr("t", KAFKA, PKAFKA)
        before = made.versioned_state("t")
        time.sleep(2 * LAG_MS / 1000)
        assert made.versioned_state("t") == before
    finally:
        made.stop()


@pytest.mark.nightly
def test_a_follower_restarts(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    with Load(fresh, "t") as load:
        fresh.brokers[follower].stop()
        fresh.wait_for_isr("t", leader)
        assert fresh.controller() == leader
        load.goes_on()
        fresh.brokers[follower].start()
        fresh.wait_for_isr("t", KAFKA, PKAFKA)
        load.goes_on()
    assert fresh.state("t").leader == leader
    assert fresh.state("t").leader_epoch == 1, "a replica that stops leaves the ISR in a new epoch"
    check(fresh, load, "t")
    fresh.assert_same_logs("t")


def test_a_leader_stops_and_follows(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    with Load(fresh, "t") as load:
        fresh.brokers[leader].stop()
        assert fresh.state("t").leader == follower, "controlled shutdown has moved the leader"
        load.goes_on()
        fresh.brokers[leader].start()
        fresh.wait_for_isr("t", KAFKA, PKAFKA)
        assert fresh.controller() == follower
        load.goes_on()
        partition = TopicPartition("t", 0)
        with fresh.admin() as admin:
            good(admin.elect_leaders(ElectionType.PREFERRED, [partition])[partition])
        assert fresh.state("t").leader == leader
        load.goes_on()
    check(fresh, load, "t")
    fresh.assert_same_logs("t")


@pytest.mark.nightly
def test_leaders_are_killed_in_turn(fresh: Mixed, leader: int) -> None:
    fresh.create_topic("t", assignment={0: (leader, 1 - leader)})
    with Load(fresh, "t") as load:
        for victim in (leader, 1 - leader):
            fresh.wait_for_leader("t", victim)
            fresh.brokers[victim].kill()
            fresh.wait_for_leader("t", 1 - victim)
            load.goes_on()
            fresh.brokers[victim].start()
            fresh.wait_for_isr("t", KAFKA, PKAFKA)
    check(fresh, load, "t")
    fresh.assert_same_logs("t")


@pytest.mark.nightly
def test_what_only_a_dead_leader_had_is_cut_off(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    send(fresh, range(10))
    write_what_dies(fresh, leader, follower)
    fresh.wait_for_leader("t", follower)
    send(fresh, range(10, 20))
    fresh.brokers[leader].start()
    fresh.wait_for_isr("t", KAFKA, PKAFKA)
    send(fresh, range(20, 30))
    values = read_all(fresh, "t")
    assert [value for value in values if value < 99] == list(range(30))
    # The fetch that waited may have been answered with the first of the twenty.
    kept = [value for value in values if value >= 99]
    assert kept == list(range(99, 99 + len(kept)))
    assert len(kept) < 20
    fresh.assert_same_logs("t")


def test_a_follower_that_only_cuts_its_log_knows_what_is_committed(fresh: Mixed, leader: int) -> None:
    """Without a new record: a leader thinks that the answer that said where the logs part told the high watermark, too,
    of which a follower takes nothing."""
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (follower, leader)})
    send(fresh, range(10))
    write_what_dies(fresh, follower, leader)
    fresh.wait_for_leader("t", leader)
    fresh.brokers[follower].start()
    fresh.wait_for_isr("t", KAFKA, PKAFKA)
    end = len(read_all(fresh, "t"))
    assert 10 < end < 31
    wait_for(
        lambda: high_watermark(fresh.brokers[follower].bootstrap, "t") == end,
        what="the follower's high watermark",
    )


@pytest.mark.nightly
@pytest.mark.parametrize("asked", [True, False], ids=["asked-for", "allowed"])
def test_an_unclean_election_costs_what_only_the_dead_had(fresh: Mixed, leader: int, asked: bool) -> None:
    """Nobody out of sync leads, unless somebody elects in person, or the topic allows it."""
    follower = 1 - leader
    configs = {} if asked else {"unclean.leader.election.enable": "true"}
    fresh.create_topic("t", assignment={0: (leader, follower)}, configs=configs)
    send(fresh, range(10))
    fresh.brokers[follower].kill()
    fresh.wait_for_isr("t", leader)
    send(fresh, range(10, 40))
    fresh.brokers[leader].kill()
    fresh.brokers[follower].start()
    partition = TopicPartition("t", 0)
    if asked:
        fresh.wait_for_leader("t", -1)
        assert list(fresh.state("t").isr) == [leader]
        with fresh.admin() as admin:
            good(admin.elect_leaders(ElectionType.UNCLEAN, [partition])[partition])
    fresh.wait_for_leader("t", follower)
    # A broker that has not heard of the topic yet would make a new one for a producer, if it could.
    wait_for(lambda: fresh.leadership("t")[0][0] == follower, what="the leader in the metadata")
    send(fresh, range(100, 120))
    fresh.brokers[leader].start()
    fresh.wait_for_isr("t", KAFKA, PKAFKA)
    send(fresh, range(120, 130))
    assert read_all(fresh, "t") == [*range(10), *range(100, 130)]
    fresh.assert_same_logs("t")


@pytest.mark.nightly
def test_a_follower_begins_anew_where_its_leader_begins(fresh: Mixed, leader: int) -> None:
    follower = 1 - leader
    fresh.create_topic("t", assignment={0: (leader, follower)})
    send(fresh, range(10))
    fresh.brokers[follower].stop()
    fresh.wait_for_isr("t", leader)
    send(fresh, range(10, 40))
    partition = TopicPartition("t", 0)
    with fresh.admin() as admin:
        assert good(admin.delete_records({partition: 30})[partition]) == 30
    fresh.brokers[follower].start()
    fresh.wait_for_isr("t", KAFKA, PKAFKA)
    send(fresh, range(40, 50))
    fresh.brokers[leader].stop()
    fresh.wait_for_leader("t", follower)
    assert read_all(fresh, "t") == list(range(30, 50))
    with fresh.admin() as admin:
        assert good(admin.list_offsets({partition: EARLIEST})[partition]).offset == 30


def send(cluster: Mixed, values: range) -> None:
    with cluster.producer() as producer:
        for value in values:
            producer.send("t", b"%d" % value, partition=0).result(60)


def write_what_dies(cluster: Mixed, leader: int, follower: int) -> None:
    """Both get 99; the leader alone takes 100 to 119, while the follower hangs, and is killed."""
    only_leader = {
        "bootstrap.servers": cluster.brokers[leader].bootstrap,
        "acks": "1",
        "enable.idempotence": "false",
    }
    with cluster.producer(**only_leader) as producer:
        # It finds the leader with the first one, while the other broker answers.
        producer.send("t", b"99", partition=0).result(60)
        wait_for(
            lambda: cluster.log_bytes(follower, "t-0") == cluster.log_bytes(leader, "t-0"), what="99 at both"
        )
        with hanging(cluster.brokers[follower]):
            for number in range(100, 120):
                producer.send("t", b"%d" % number, partition=0).result(60)
            cluster.brokers[leader].kill()


def high_watermark(address: str, topic: str) -> int:
    """What a broker that need not lead the topic tells consumers."""
    with RawClient(address) as client:
        response = client.call(fetch_request({(topic, 0): 0}, max_wait_ms=0), _FETCH_BY_NAMES)
    assert isinstance(response, FetchResponse)
    [partition] = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    return partition.high_watermark


class Tools(Protocol):
    """What an administrator does to a topic, by one side's programs."""

    def create(self, topic: str, assignment: Mapping[int, tuple[int, ...]], **configs: str) -> None: ...

    def configure(self, topic: str, **configs: str) -> None: ...

    def grow(self, topic: str, count: int, assignment: Mapping[int, tuple[int, ...]]) -> None: ...

    def delete(self, topic: str) -> None: ...


class OfKafka:
    """TopicCommand and ConfigCommand."""

    def __init__(self, java_tool: JavaTool, bootstrap: str) -> None:
        self._java_tool = java_tool
        self._to = ("--bootstrap-server", bootstrap)

    def create(self, topic: str, assignment: Mapping[int, tuple[int, ...]], **configs: str) -> None:
        settings = [word for pair in _pairs(configs) for word in ("--config", pair)]
        self._topics("--create", "--topic", topic, "--replica-assignment", _listed(assignment), *settings)

    def configure(self, topic: str, **configs: str) -> None:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        self._run(CONFIGS, "--alter", *entity, "--add-config", ",".join(_pairs(configs)))

    def grow(self, topic: str, count: int, assignment: Mapping[int, tuple[int, ...]]) -> None:
        added = ("--replica-assignment", _listed(assignment))
        self._topics("--alter", "--topic", topic, "--partitions", count, *added)

    def delete(self, topic: str) -> None:
        self._topics("--delete", "--topic", topic)

    def _topics(self, *arguments: object) -> None:
        self._run(TOPICS, *arguments)

    def _run(self, tool: str, *arguments: object) -> None:
        done = self._java_tool(tool, *self._to, *arguments)
        assert done.returncode == 0, done


class OfPkafka:
    """The admin client, which its commands are made of."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, topic: str, assignment: Mapping[int, tuple[int, ...]], **configs: str) -> None:
        settings = dict(_split(configs))
        with self._admin() as admin:
            good(admin.create_topics([NewTopic(topic, assignments=assignment, configs=settings)])[topic])

    def configure(self, topic: str, **configs: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        changes = [ConfigChange(name, AlterOp.SET, value) for name, value in _split(configs)]
        with self._admin() as admin:
            good(admin.alter_configs({resource: changes})[resource])

    def grow(self, topic: str, count: int, assignment: Mapping[int, tuple[int, ...]]) -> None:
        added = [brokers for index, brokers in assignment.items() if index >= count - 1]
        with self._admin() as admin:
            good(admin.create_partitions({topic: count}, assignments={topic: added})[topic])

    def delete(self, topic: str) -> None:
        with self._admin() as admin:
            good(admin.delete_topics([topic])[topic])

    def _admin(self) -> Admin:
        return Admin({"bootstrap.servers": self._bootstrap})


def _split(configs: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "."), value) for name, value in configs.items()]


def _pairs(configs: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in _split(configs)]


def _listed(assignment: Mapping[int, tuple[int, ...]]) -> str:
    return ",".join(":".join(map(str, brokers)) for brokers in assignment.values())


@pytest.mark.parametrize("side", [KAFKA, PKAFKA], ids=lambda one: f"{NAMES[one]}-creates")
def test_topics_are_made_changed_and_removed(cluster: Mixed, java_tool: JavaTool, side: int) -> None:
    both: list[Tools] = [
        OfKafka(java_tool, cluster.brokers[KAFKA].bootstrap),
        OfPkafka(cluster.brokers[PKAFKA].bootstrap),
    ]
    ours, theirs = both[side], both[1 - side]
    topic = f"tools-{side}"
    assignment: dict[int, tuple[int, ...]] = {0: (KAFKA, PKAFKA), 1: (PKAFKA, KAFKA)}
    ours.create(topic, assignment, segment_bytes="1500")
    cluster.wait_for_isr(topic, KAFKA, PKAFKA)
    cluster.wait_for_isr(topic, KAFKA, PKAFKA, partition=1)
    with cluster.producer(**{"linger.ms": 0}) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number + b"x" * 300, partition=number % 2).result(60)
        for index in assignment:
            names = [segments(broker.log_dir / f"{topic}-{index}") for broker in cluster.brokers]
            assert len(names[0]) > 1
            assert names[0] == names[1]
            cluster.assert_same_logs(topic, index)

        theirs.configure(topic, max_message_bytes="200")
        for index in assignment:
            wait_for(lambda: refuses(producer, topic, index), what="the new limit")  # noqa: B023 - called at once
        ours.configure(topic, max_message_bytes="2000", segment_bytes="1000000")
        for index in assignment:
            wait_for(lambda: not refuses(producer, topic, index), what="the newer limit")  # noqa: B023

        assignment[2] = (side, 1 - side)
        theirs.grow(topic, 3, assignment)
        cluster.wait_for_isr(topic, KAFKA, PKAFKA, partition=2)
        wait_for(lambda: not refuses(producer, topic, 2), what="the new partition")
    cluster.assert_same_logs(topic, 2)

    theirs.delete(topic)
    for broker in cluster.brokers:
        wait_for(lambda: not list(broker.log_dir.glob(f"{topic}-*")), what="the end of the logs")  # noqa: B023


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log"))


def refuses(producer: Producer, topic: str, index: int) -> bool:
    """Whether records of 300 bytes are too large."""
    try:
        producer.send(topic, b"x" * 300, partition=index).result(60)
    except ApiError as error:
        if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
            raise
        return True
    return False


def test_a_partition_moves_under_load(cluster: Mixed, leader: int) -> None:
    topic, other = f"moves-{leader}", 1 - leader
    cluster.create_topic(topic, assignment={0: (leader,)})
    partition = TopicPartition(topic, 0)
    with cluster.admin() as admin, Load(cluster, topic) as load:
        for target in ([other], [leader], [other, leader]):
            good(admin.alter_partition_reassignments({partition: target})[partition])
            wait_for(lambda: not admin.list_partition_reassignments(), what="the end of the move")
            state = cluster.state(topic)
            assert state.leader in target
            assert sorted(state.isr) == sorted(target)
            if len(target) == 1:
                gone = cluster.brokers[1 - target[0]].log_dir / f"{topic}-0"
                wait_for(lambda: not gone.exists(), what="the end of the replica that is no more")  # noqa: B023
            load.goes_on()
    check(cluster, load, topic)
    cluster.assert_same_logs(topic)
    # A request to it would have been waited for as long as its request.timeout.ms, 30 s.
    assert load.longest_gap_s() < 25, "nobody waits for a leader that is no more"


@pytest.mark.nightly
def test_a_group_goes_on_at_another_coordinator(fresh: Mixed, leader: int) -> None:
    # As many as offsets.topic.num.partitions says, which Kafka reckons with.
    everywhere = dict.fromkeys(range(3), (leader, 1 - leader))
    fresh.create_topic("__consumer_offsets", assignment=everywhere, configs={"cleanup.policy": "compact"})
    of_group = partition_of("g", len(everywhere))
    fresh.create_topic("t", assignment={0: (1 - leader, leader)})
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    partition = TopicPartition("t", 0)
    seen: list[int] = []
    with (
        fresh.producer() as producer,
        Consumer({"bootstrap.servers": fresh.bootstrap, **settings}) as consumer,
    ):
        consumer.subscribe(["t"])

        def ten_more() -> None:
            wanted = len(seen) + 10
            for number in range(len(seen), wanted):
                producer.send("t", b"%d" % number, partition=0).result(30)

            def has_them() -> bool:
                seen.extend(int(one.value or b"-1") for one in consumer.poll(100))
                return len(seen) >= wanted

            wait_for(has_them, what="ten records")
            consumer.commit_sync(timeout_ms=30_000)

        ten_more()
        for victim in (leader, 1 - leader):
            fresh.brokers[victim].kill()
            fresh.wait_for_leader("__consumer_offsets", 1 - victim, of_group)
            ten_more()
            fresh.brokers[victim].start()
            fresh.wait_for_isr("__consumer_offsets", KAFKA, PKAFKA, partition=of_group)
            ten_more()
            fresh.wait_for_isr("t", KAFKA, PKAFKA)
        fresh.brokers[leader].stop()
        ten_more()
        assert seen == list(range(60))
        stored = consumer.committed([partition])[partition]
        assert stored is not None
        assert stored.offset == 60
    fresh.brokers[leader].start()
    fresh.wait_for_isr("__consumer_offsets", KAFKA, PKAFKA, partition=of_group)
    wait_for(lambda: fresh.same_logs("__consumer_offsets", of_group), what="the same bytes")
