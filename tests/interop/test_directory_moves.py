"""Replicas between two log directories of one broker (KIP-113): asked of Apache Kafka 3.9.1 and of pkafka in the same
words, by the same tools; begun by one of them and finished by the other after kill -9."""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from pkafka.cli.kit.kafka_command import KafkaCommand
from pkafka.cli.log_dirs import main as pk_log_dirs
from pkafka.cli.reassign_partitions import main as pk_reassign_partitions
from pkafka.clients.admin.results import ConfigEntry, ConfigResource, ResourceType
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.testing import Broker
from tests.interop.conftest import JavaTool
from tests.interop.kafka import KafkaBroker
from tests.talk import Talk, code_of, good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BATCHES = 30
"""Of 100 kB: Kafka copies a megabyte before it looks at its quota."""
DELETE_DELAY_MS = 1_000
MAKES = ("kafka", "pkafka")
Either = KafkaBroker | Broker


class Twins:
    """Brokers of both makes that take turns on two log directories, as the same broker of one cluster."""

    def __init__(self, class_path: str, connect: str, directory: Path) -> None:
        self.homes = [directory / "home-0", directory / "home-1"]
        settings: dict[str, object] = {
            "broker.id": 0,
            "log.dirs": ",".join(map(str, self.homes)),
            "zookeeper.session.timeout.ms": 6000,
            "log.segment.delete.delay.ms": DELETE_DELAY_MS,
            "log.initial.task.delay.ms": 0,
        }
        self.brokers: dict[str, Either] = {
            "kafka": KafkaBroker(class_path, connect, directory / "kafka", overrides=settings, heap="256m"),
            "pkafka": Broker(
                directory / "pkafka", {**settings, "zookeeper.connect": connect, "pkafka.workers": 2}
            ),
        }
        self._connect = connect

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def turn(self, make: str) -> Talk:
        """Start a broker of that make, on the directories as the other has left them."""
        # Kafka refuses to start beside the registration of the one that was killed, until its session is over.
        with closing(ZooKeeperStore(self._connect, create_chroot=True)) as store:
            path = BrokerRegistration.path(0)
            wait_for(lambda: store.exists(path) is None, what="the end of the other's session")
        self.brokers[make].start()
        return Talk(self.brokers[make].bootstrap)

    def other(self, home: str) -> str:
        """The path of the other log directory."""
        first, second = map(str, self.homes)
        return second if home == first else first

    def names(self, topic: str) -> dict[str, list[str]]:
        """What there is of a topic's partition 0 in each directory; ids are masked."""
        return {
            str(home): sorted(
                re.sub(r"\.[0-9a-f]{32}-", ".ID-", path.name)
                for path in home.iterdir()
                if path.name.startswith(f"{topic}-0")
            )
            for home in self.homes
        }


@pytest.fixture
def twins(kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Twins]:
    found = Twins(kafka_classpath, f"{zookeeper.connect}/m{time.monotonic_ns()}", tmp_path)
    yield found
    found.close()
    for broker in found.brokers.values():
        if broker.log_file.exists():
            print(broker.log_file.read_text("utf-8", "replace")[-8000:])  # shown when the test fails


class Replica:
    """Partition 0 of a topic, as the broker's DescribeLogDirs tells where it is."""

    def __init__(self, talk: Talk, topic: str) -> None:
        self._talk = talk
        self.key = TopicPartitionReplica(topic, 0, 0)

    def places(self) -> dict[tuple[str, bool], tuple[int, int]]:
        """(directory, whether it is on its way there) -> (bytes, lag)."""
        return {
            (directory.path, each.is_future): (each.size_bytes, each.offset_lag)
            for directory in good(self._talk.admin.describe_log_dirs([0])[0])
            for each in directory.replicas
            if each.partition == TopicPartition(self.key.topic, 0)
        }

    @property
    def home(self) -> str:
        (home,) = (path for path, is_future in self.places() if not is_future)
        return home

    def move(self, home: str) -> ErrorCode | None:
        return code_of(self._talk.admin.alter_replica_log_dirs({self.key: home})[self.key])

    def is_at(self, home: str) -> bool:
        return self.places().keys() == {(home, False)}


def throttle(talk: Talk, rate: int | None) -> None:
    talk.set_broker(**{RATE: rate})
    wait_for(
        lambda: {each.value for each in _rates(talk)} == ({str(rate)} if rate is not None else set()),
        what="the rate",
    )


def _rates(talk: Talk) -> list[ConfigEntry]:
    resource = ConfigResource(ResourceType.BROKER, "0")
    return [
        each for each in good(talk.admin.describe_configs([resource], keys=[RATE])[resource]) if each.value
    ]


def filled(talk: Talk, topic: str) -> Replica:
    """A topic of three megabytes."""
    talk.create(topic, retention_ms=-1)
    for number in range(BATCHES):
        talk.send(topic, b"%06d" % number + b"x" * 100_000)
    return Replica(talk, topic)


def numbers(talk: Talk, topic: str) -> list[int]:
    return [int(record.value[:6]) for record in talk.read(topic) if record.value is not None]


def _is_over(began_s: float) -> bool:
    """Whether the time is over for which a directory that is deleted stays."""
    return time.monotonic() - began_s >= DELETE_DELAY_MS / 1_000


def is_made(talk: Talk, topic: str) -> bool:
    """Make a topic, unless another of the same name is still being deleted."""
    try:
        talk.create(topic)
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


@pytest.mark.parametrize("make", MAKES)
def test_what_is_asked_meanwhile_and_afterwards(twins: Twins, make: str) -> None:
    with closing(twins.turn(make)) as talk:
        throttle(talk, 1)
        replica = filled(talk, "t")
        here, there = replica.home, twins.other(replica.home)
        size, lag = replica.places()[here, False]
        assert lag == 0
        assert replica.move(there) is None
        assert twins.names("t") == {here: ["t-0"], there: ["t-0.ID-future"]}
        # Apache Kafka tells a size and a lag of different moments.
        wait_for(lambda: 0 < replica.places()[there, True][1] < BATCHES, what="the first piece")
        places = replica.places()
        assert places[here, False] == (size, 0)
        assert 0 < places[there, True][0] < size
        assert 0 < places[there, True][1] < BATCHES
        # The same again changes nothing; where it lies already, the move is given up.
        assert replica.move(there) is None
        began_s = time.monotonic()
        assert replica.move(here) is None
        assert replica.is_at(here)
        names = twins.names("t")
        assert names[here] == ["t-0"]
        # It is renamed at once, and goes when its time is over: on a busy machine before this looks.
        assert names[there] == ["t-0.ID-delete"] or (not names[there] and _is_over(began_s))
        # A topic that is deleted takes its copy with it, and one that is made again knows nothing of it.
        assert replica.move(there) is None
        wait_for(lambda: (there, True) in replica.places(), what="the copy")
        talk.delete("t")
        wait_for(lambda: twins.names("t") == {here: [], there: []}, what="the files to go")
        # The files go before the last node of the topic in ZooKeeper.
        wait_for(partial(is_made, talk, "t"), what="the topic of the same name")
        wait_for(lambda: len(replica.places()) == 1)
        throttle(talk, None)
        assert replica.move("/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        elsewhere = twins.other(replica.home)
        assert replica.move(elsewhere) is None
        wait_for(lambda: replica.is_at(elsewhere), what="an empty replica to move")


@pytest.mark.parametrize("make", MAKES)
def test_where_replicas_are_made_that_were_wanted_before(twins: Twins, make: str) -> None:
    with closing(twins.turn(make)) as talk:
        for number, home in enumerate(map(str, [*twins.homes, *twins.homes[::-1]])):
            replica = Replica(talk, f"later-{number}")
            assert replica.move(home) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            talk.create(f"later-{number}")
            wait_for(lambda: replica.places(), what="the topic")  # noqa: B023 - called at once
            assert replica.home == home
        # The directory of a replica on its way has a longer name than that of one at home.
        long = "t" * 214
        talk.create(long)
        replica = Replica(talk, long)
        wait_for(lambda: replica.places(), what="the topic")
        assert replica.move(twins.other(replica.home)) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert replica.move(replica.home) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("first", "then"),
    [pytest.param("kafka", "pkafka", marks=pytest.mark.nightly), ("pkafka", "kafka"), ("pkafka", "pkafka")],
)
def test_begun_by_one_and_finished_by_the_other(twins: Twins, first: str, then: str) -> None:
    with closing(twins.turn(first)) as talk:
        throttle(talk, 1)
        replica = filled(talk, "t")
        here, there = replica.home, twins.other(replica.home)
        assert replica.move(there) is None
        wait_for(lambda: replica.places()[there, True][0] > 0, what="the first piece")
    twins.brokers[first].kill()
    with closing(twins.turn(then)) as talk:
        replica = Replica(talk, "t")
        wait_for(lambda: (there, True) in replica.places(), what="the copy")
        talk.send("t", b"%06d" % BATCHES)
        throttle(talk, None)
        wait_for(lambda: replica.is_at(there), what="the end of the move")
        assert numbers(talk, "t") == list(range(BATCHES + 1))
        wait_for(lambda: twins.names("t") == {here: [], there: ["t-0"]}, what="the old files to go")
        talk.send("t", b"%06d" % (BATCHES + 1))
    twins.brokers[then].stop()
    with closing(twins.turn(first)) as talk:
        assert numbers(talk, "t") == list(range(BATCHES + 2))
        assert Replica(talk, "t").is_at(there)


@pytest.mark.parametrize(
    ("tools", "make"),
    [
        ("kafka's", "pkafka"),
        ("pkafka's", "kafka"),
        *(pytest.param(f"{make}'s", make, marks=pytest.mark.nightly) for make in MAKES),
    ],
)
def test_the_tools_begin_moves_and_tell_of_them(
    twins: Twins,
    java_tool: JavaTool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    make: str,
    tools: str,
) -> None:
    for name in [name for name in os.environ if name.startswith("PK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(main: KafkaCommand, java: str, *words: str, codes: tuple[int, ...] = (0,)) -> list[str]:
        words = ("--bootstrap-server", twins.brokers[make].bootstrap, *words)
        if tools == "kafka's":
            done = java_tool(java, *words)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.splitlines()
        capsys.readouterr()
        assert main.run(list(words)) in codes
        return capsys.readouterr().out.splitlines()

    with closing(twins.turn(make)) as talk:
        replica = filled(talk, "t")
        here, there = replica.home, twins.other(replica.home)
        plan = tmp_path / "plan.json"
        row = {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [there]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        file = ("--reassignment-json-file", str(plan))

        def verify() -> str:
            # pk-reassign-partitions says by its exit status, too, whether all has arrived.
            words = ("--verify", *file, "--preserve-throttles")
            return run(pk_reassign_partitions, REASSIGN, *words, codes=(0, 1, 5))[-1]

        assert verify() == (f"Partition t-0 on broker 0 is not being moved from log dir {here} to {there}.")
        begun = run(
            pk_reassign_partitions, REASSIGN, "--execute", *file, "--replica-alter-log-dirs-throttle", "1"
        )
        assert begun[-2:] == [
            "Successfully started partition reassignment for t-0",
            f"Successfully started moving log directory to {there} for replica t-0 with broker 0 ",
        ]
        assert "The replica-alter-dir throttle limit was set to 1 B/s" in begun
        assert verify() == "Reassignment of replica t-0-0 is still in progress."
        told = json.loads(run(pk_log_dirs, LOG_DIRS, "--describe", "--topic-list", "t")[-1])
        directories = {each["logDir"]: each for each in told["brokers"][0]["logDirs"]}
        (current,), (future,) = directories[here]["partitions"], directories[there]["partitions"]
        assert (current["partition"], current["isFuture"], current["offsetLag"]) == ("t-0", False, 0)
        assert (future["partition"], future["isFuture"]) == ("t-0", True)
        assert 0 < future["offsetLag"] <= BATCHES
        throttle(talk, None)
        wait_for(
            lambda: verify() == "Reassignment of replica t-0-0 completed successfully.",
            what="the end of the move",
        )
        assert numbers(talk, "t") == list(range(BATCHES))
