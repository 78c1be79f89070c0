"""docs/migrate.md, step by step, under load: from three brokers of Apache Kafka 3.9.1 to three of pkafka, and back."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.tools.servers.local_broker import Broker
from tests.cluster import Cluster, ClusterBroker
from tests.interop.kafka import KafkaBroker
from tests.talk import wait_for
from tests.workload import Workload
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.nightly, pytest.mark.timeout(400)]

GUIDE: Final = Path(__file__).parents[2] / "docs" / "migrate.md"
TOPIC: Final = "orders"
GOES_ON_S: Final = 45.0
OVERRIDES: Final = {
    "inter.broker.protocol.version": "3.9",
    "zookeeper.session.timeout.ms": 6_000,
    "replica.lag.time.max.ms": 3_000,
    "replica.fetch.backoff.ms": 200,
    "log.initial.task.delay.ms": 0,
    "log.segment.delete.delay.ms": 500,
    "auto.leader.rebalance.enable": "false",
}


def commands_of(*sections: str) -> set[str]:
    """What sections of the guide say to type."""
    found = dict(re.findall(r"(?ms)^## ([^\n]*)\n(.*?)(?=^## |\Z)", GUIDE.read_text()))
    return {command for section in sections for command in re.findall(r"(?m)^ *\$ (pk-.*)$", found[section])}


class Guide:
    """Types the commands of the guide, which has to have them word for word.

    Args:
        cluster: stands for the guide's.
        directory: of the files that it names.
        sections: those that are followed.
    """

    def __init__(self, cluster: Cluster, directory: Path, *sections: str) -> None:
        self.untried = commands_of(*sections)
        self._commands = frozenset(self.untried)
        self._cluster = cluster
        self._directory = directory

    def type(self, command: str) -> str:
        """What the command prints."""
        assert command in self._commands, f"docs/migrate.md has no such command: {command}"
        self.untried.discard(command)
        places = {
            "broker0:9092": self._cluster.bootstrap,
            "zookeeper:2181/kafka": self._cluster.zookeeper_connect,
        }
        for place, found in places.items():
            command = command.replace(place, found)
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [str(Path(sys.executable).with_name(program)), *arguments],
            capture_output=True,
            text=True,
            cwd=self._directory,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done
        return done.stdout

    def nobody_is_out_of_sync(self) -> bool:
        return not self.type(
            "pk-topics --bootstrap-server broker0:9092 --describe --under-replicated-partitions"
        )


@pytest.mark.usefixtures("kafka_classpath")
def test_in_place_there_and_back(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    with Cluster(tmp_path, zookeeper.connect, kinds="kkk", overrides=OVERRIDES) as cluster:
        guide = Guide(cluster, tmp_path, "Before you begin", "In place: one broker after the other")
        cluster.create_topic(TOPIC, 3, configs={"min.insync.replicas": "2"})
        theirs: list[ClusterBroker] = list(cluster.brokers)
        ours: list[ClusterBroker] = [OnTheSameFile(broker) for broker in theirs]
        with Workload(cluster, TOPIC, 3, writers=2, members=2) as load:
            assert "__transaction_state" not in guide.type("pk-topics --bootstrap-server broker0:9092 --list")
            for path in ("users", "clients"):
                assert "[]" in guide.type(f"pk-zookeeper-shell zookeeper:2181/kafka ls /config/{path}")
            wait_for(guide.nobody_is_out_of_sync, what="all in sync")
            assert not guide.type(
                "pk-topics --bootstrap-server broker0:9092 --describe --at-min-isr-partitions"
            )
            replace_all(cluster, ours, guide, load)
            assert all(isinstance(broker, OnTheSameFile) for broker in cluster.brokers)
            load.goes_on(GOES_ON_S)
            replace_all(cluster, theirs, guide, load)
            assert all(isinstance(broker, KafkaBroker) for broker in cluster.brokers)
            load.goes_on(GOES_ON_S)
        load.check()
        # That one is what OnTheSameFile does.
        assert guide.untried == {"pk-server-start --daemon --wait server.properties"}
        assert load.longest_gap_s() < 20, "a rolling restart is all that clients notice"


def replace_all(cluster: Cluster, successors: list[ClusterBroker], guide: Guide, load: Workload) -> None:
    """The section "In place", for every broker, the controller last."""
    found = guide.type("pk-zookeeper-shell zookeeper:2181/kafka get /controller")
    (controller,) = re.findall(r'"brokerid":(\d+)', found)
    assert int(controller) == cluster.controller()
    for number in sorted(range(3), key=lambda number: number == int(controller)):
        wait_for(guide.nobody_is_out_of_sync, timeout_s=GOES_ON_S, what="all in sync")
        cluster.brokers[number].stop()
        load.goes_on(GOES_ON_S)
        cluster.brokers[number] = successors[number]
        successors[number].start()
        wait_for(guide.nobody_is_out_of_sync, timeout_s=GOES_ON_S, what="all in sync")
        guide.type(
            "pk-leader-election --bootstrap-server broker0:9092 --election-type preferred --all-topic-partitions"
        )
        assert TOPIC in guide.type(
            "pk-consumer-groups --bootstrap-server broker0:9092 --describe --all-groups"
        )
        load.goes_on(GOES_ON_S)


class OnTheSameFile(Broker):
    """pkafka on the file, the data and the port of a broker of Kafka: ``pk-server-start server.properties``."""

    def __init__(self, before: ClusterBroker) -> None:
        assert isinstance(before, KafkaBroker)
        self._properties = before.properties
        super().__init__(before.properties.parent, {"pkafka.workers": 2})
        self.log_file = self.directory / "pkafka.log"
        self.bootstrap = before.bootstrap

    def start(self, *arguments: str) -> None:
        super().start(str(self._properties), *arguments)


@pytest.mark.usefixtures("kafka_classpath")
def test_by_moving_there_and_back(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    replicas = {"offsets.topic.replication.factor": 2, "default.replication.factor": 2}
    with Cluster(tmp_path, zookeeper.connect, kinds="kkpp", overrides={**OVERRIDES, **replicas}) as cluster:
        guide = Guide(cluster, tmp_path, "By moving partitions: new brokers beside the old ones")
        cluster.create_topic(TOPIC, assignment={index: (index % 2, 1 - index % 2) for index in range(4)})
        offsets = {index: (index % 2, 1 - index % 2) for index in range(3)}
        cluster.create_topic("__consumer_offsets", assignment=offsets, configs={"cleanup.policy": "compact"})
        topics = {"version": 1, "topics": [{"topic": TOPIC}, {"topic": "__consumer_offsets"}]}
        assert json.dumps(topics) in GUIDE.read_text()
        (tmp_path / "topics.json").write_text(json.dumps(topics))
        with Workload(cluster, TOPIC, 4, writers=2, members=2) as load:
            printed = guide.type(
                "pk-reassign-partitions --bootstrap-server broker0:9092 --generate"
                " --topics-to-move-json-file topics.json --broker-list 2,3"
            )
            documents = re.findall(r"(?m)^\{.*\}$", printed)
            for name, document in zip(("back.json", "move.json"), documents, strict=True):
                (tmp_path / name).write_text(document)
            move(guide, "move.json")
            load.goes_on(GOES_ON_S)
            assert everywhere(cluster) == {2, 3}
            wait_for(lambda: held(guide) == {0: [], 1: []}, what="brokers that hold nothing")  # they go now
            for number in (0, 1):
                cluster.brokers[number].stop()
            load.goes_on(GOES_ON_S)
            for number in (0, 1):
                cluster.brokers[number].start()
            move(guide, "back.json")
            load.goes_on(GOES_ON_S)
            assert everywhere(cluster) == {0, 1}
            for number in (2, 3):
                cluster.brokers[number].stop()
            load.goes_on(GOES_ON_S)
        load.check()
        assert guide.untried == set()


def move(guide: Guide, name: str) -> None:
    to = "pk-reassign-partitions --bootstrap-server broker0:9092"
    guide.type(f"{to} --execute --reassignment-json-file {name}")
    assert "is complete" in guide.type(f"{to} --verify --reassignment-json-file {name} --wait 30m")


def everywhere(cluster: Cluster) -> set[int]:
    """All brokers that have a replica in sync."""
    counts: Mapping[str, int] = {TOPIC: 4, "__consumer_offsets": 3}
    return {
        broker
        for topic, count in counts.items()
        for index in range(count)
        for broker in cluster.state(topic, index).isr
    }


def held(guide: Guide) -> dict[int, list[str]]:
    """The replicas on the old brokers."""
    printed = guide.type("pk-log-dirs --bootstrap-server broker0:9092 --describe --broker-list 0,1")
    (document,) = re.findall(r"(?m)^\{.*\}$", printed)
    return {
        broker["broker"]: [
            partition["partition"] for directory in broker["logDirs"] for partition in directory["partitions"]
        ]
        for broker in json.loads(document)["brokers"]
    }
