"""pkafka on a real ZooKeeper: the znodes that it writes are those of an Apache Kafka 3.9.1 that does the same.

Sessions that end, a ZooKeeper that goes away and processes that die are in tests/faults/test_zookeeper.py.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pkafka.clients.admin.results import ConfigResource, ResourceType
from pkafka.coordination.store import NoNodeError
from pkafka.coordination.znodes import ClusterId
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.testing import Broker
from pkafka.tools.servers.local_broker import BrokerStartError
from tests.differences import differences
from tests.faults.zookeeper_faults import MortalZooKeeper
from tests.interop.kafka import KafkaBroker
from tests.talk import Talk, good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "zookeeper.session.timeout.ms": 6000,
    "log.cleaner.enable": "false",
}
FAST = {"pkafka.workers": 1}

Tree = dict[str, tuple[bytes, bool]]
"""Path to data and whether the node is ephemeral."""


@pytest.fixture
def chroot() -> str:
    return f"/z{time.monotonic_ns()}"


@contextmanager
def running(broker: Broker | KafkaBroker) -> Iterator[Talk]:
    broker.start()
    try:
        with closing(Talk(broker.bootstrap)) as talk:
            yield talk
    finally:
        broker.kill()


def tree(connect: str) -> Tree:
    """All znodes below a chroot."""
    found: Tree = {}
    with ZooKeeperStore(connect, 10_000) as store:

        def walk(path: str) -> None:
            with contextlib.suppress(NoNodeError):  # deleted since its name was read
                data, stat = store.get(path)
                found[path] = (data, bool(stat.ephemeral_owner))
                for child in sorted(store.children(path)):
                    walk(f"{path.rstrip('/')}/{child}")

        walk("/")
    return found


def masked(nodes: Tree, port: int) -> Tree:
    """Without what differs between any two clusters: ids, times, ports, random numbers."""
    result: Tree = {}
    for path, (data, ephemeral) in nodes.items():
        text = data.decode()
        text = re.sub(r'"topic_id":"[\w-]{22}"', '"topic_id":"*"', text)
        text = re.sub(r'"timestamp":"\d+"', '"timestamp":"*"', text)
        text = re.sub(r'"id":"[\w-]{22}"', '"id":"*"', text)
        text = re.sub(rf"\b{port}\b", "PORT", text)
        text = text.replace(',"pkafka":true', "")  # how brokers of pkafka know each other
        result[path] = (text.encode(), ephemeral)
    return result


def script(talk: Talk, connect: str) -> None:
    """What an operator does to a cluster."""
    talk.create("plain", partitions=13)
    talk.create(
        "kept", partitions=2, cleanup_policy="compact,delete", retention_ms=7000, segment_bytes=1048576
    )
    talk.create("grown")
    talk.create("gone", retention_ms=5)
    talk.set_topic("kept", retention_ms=None, max_message_bytes=5000)
    talk.set_topic("plain", flush_ms=1000)
    talk.set_topic("plain", flush_ms=None)
    talk.set_broker(log_retention_ms=123456789)
    talk.set_broker("", message_max_bytes=2000000, log_flush_interval_ms=10000)
    talk.set_broker("", log_flush_interval_ms=None)
    good(talk.admin.create_partitions({"grown": 4})["grown"])
    talk.send("plain", b"x")
    talk.new_producer()
    talk.delete("gone")

    def over() -> bool:
        nodes = tree(connect)
        return (
            "/brokers/topics/grown/partitions/3/state" in nodes
            and "/brokers/topics/gone" not in nodes
            and "/config/topics/gone" not in nodes
            and "/admin/delete_topics/gone" not in nodes
        )

    wait_for(over, timeout_s=30)


def test_the_same_script_leaves_the_same_znodes(
    kafka_classpath: str, zookeeper: ZooKeeper, chroot: str, tmp_path: Path
) -> None:
    connects = {name: f"{zookeeper.connect}{chroot}{name}" for name in ("kafka", "pkafka")}
    brokers: list[KafkaBroker | Broker] = [
        KafkaBroker(kafka_classpath, connects["kafka"], tmp_path / "kafka", overrides=SETTINGS, heap="256m"),
        Broker(tmp_path / "pkafka", {**SETTINGS, **FAST, "zookeeper.connect": connects["pkafka"]}),
    ]
    trees: list[Tree] = []
    for broker, connect in zip(brokers, connects.values(), strict=True):
        with running(broker) as talk:
            script(talk, connect)
            running_tree = masked(tree(connect), broker.port)
            broker.stop()
            stopped = masked(tree(connect), broker.port)
            trees += [running_tree, stopped]
    kafkas, ours = trees[:2], trees[2:]
    for theirs, mine in zip(kafkas, ours, strict=True):
        assert list(differences(theirs, mine)) == []


def test_a_broker_without_an_id_is_given_one_and_keeps_it(
    zookeeper: ZooKeeper, chroot: str, tmp_path: Path
) -> None:
    connect = zookeeper.connect + chroot
    settings = {**FAST, "zookeeper.connect": connect, "broker.id": -1}
    one, two = (Broker(tmp_path / name, settings) for name in ("one", "two"))
    for broker, expected in ((one, 1001), (two, 1002), (one, 1001)):
        with running(broker) as talk:
            nodes = talk.admin.describe_cluster().brokers
            assert [node.id for node in nodes] == [expected]
            assert f"broker.id={expected}" in (broker.log_dir / "meta.properties").read_text()
            talk.broker_id = expected
            resource = ConfigResource(ResourceType.BROKER, str(expected))
            assert good(talk.admin.describe_configs([resource])[resource])
            broker.stop()


def test_the_chroot_is_made_and_everything_is_below_it(
    zookeeper: ZooKeeper, chroot: str, tmp_path: Path
) -> None:
    settings = {**FAST, "zookeeper.connect": f"{zookeeper.connect}{chroot}/deep/down", "broker.id": 0}
    with running(Broker(tmp_path / "b", settings)) as talk:
        talk.create("below")
        with ZooKeeperStore(zookeeper.connect, 10_000) as store:
            assert store.children(chroot) == ["deep"]
            assert store.children(f"{chroot}/deep/down/brokers/topics") == ["below"]
            with pytest.raises(NoNodeError):
                store.get("/brokers/topics/below")


def test_directories_of_another_cluster_or_broker_are_refused(
    zookeeper: ZooKeeper, chroot: str, tmp_path: Path
) -> None:
    connect = zookeeper.connect + chroot
    first = Broker(tmp_path / "b", {**FAST, "zookeeper.connect": connect, "broker.id": 5})
    with running(first) as talk:
        talk.create("t")
        first.stop()
    meta = (first.log_dir / "meta.properties").read_text()
    with ZooKeeperStore(connect, 10_000) as store:
        cluster_id = ClusterId.decode(store.get(ClusterId.path())[0]).cluster_id
    assert f"cluster.id={cluster_id}" in meta
    for settings, reason in (
        (
            {"zookeeper.connect": f"{connect}/another", "broker.id": 5},
            rf"CRITICAL .*belongs to cluster {cluster_id}, but the coordination store to cluster",
        ),
        (
            {"zookeeper.connect": connect, "broker.id": 6},
            r"CRITICAL .*broker\.id is 6, but the log directories belong to broker 5",
        ),
    ):
        other = Broker(tmp_path / "other", {**FAST, **settings, "log.dirs": first.log_dir})
        with pytest.raises(BrokerStartError, match=reason) as refused:
            other.start()
        assert "Traceback" not in str(refused.value)
        assert (first.log_dir / "meta.properties").read_text() == meta
    with running(first):
        first.stop()


def test_without_a_zookeeper_the_first_start_ends_with_one_line(tmp_path: Path) -> None:
    settings = {**FAST, "zookeeper.connect": "127.0.0.1:1/x", "zookeeper.connection.timeout.ms": 1000}
    broker = Broker(tmp_path / "b", settings)
    with pytest.raises(BrokerStartError, match="ended with exit code 1"):
        broker.start()
    [line] = broker.log_file.read_text().splitlines()
    assert "CRITICAL" in line
    assert "127.0.0.1:1" in line


def test_an_outage_of_zookeeper_is_told_once_and_so_is_its_end(tmp_path: Path) -> None:
    own = MortalZooKeeper(tmp_path, tick_time_ms=3000)
    try:
        own.start()
        # What a server that is started again knows of sessions lasts from then on.
        settings = {**FAST, "zookeeper.connect": own.connect, "zookeeper.session.timeout.ms": 60_000}
        broker = Broker(tmp_path / "b", settings)
        with running(broker):
            before = broker.log_file.read_text()
            own.kill()
            wait_for(lambda: "No connection to ZooKeeper" in broker.log_file.read_text(), timeout_s=60)
            own.start()
            wait_for(lambda: "is back" in broker.log_file.read_text(), timeout_s=60)
            # The first screen may still be on its way into the file when the broker is ready.
            lines = broker.log_file.read_text().removeprefix(before).splitlines()
            told = [line for line in lines if "ZooKeeper" in line]
            assert len(told) == 2, told
            lost, back = told
            assert f"No connection to ZooKeeper ({own.connect})" in lost
            assert "the session goes on" in back
    finally:
        own.kill()
