"""Copies from topic to topic in transactions, while the processes of the broker die: each record once, and in order."""

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pkafka.clients.admin.results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.cluster import Cluster
from tests.faults.conftest import MakeBroker
from tests.faults.family import family, is_alive
from tests.talk import good, talking, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = pytest.mark.timeout(300)

COPIER = (sys.executable, str(Path(__file__).parents[1] / "interop" / "copying_member.py"))
GO_COPIERS = Path(__file__).with_name("go")
SOURCE, TARGET = "source", "copied"
PARTITIONS = 3
RECORDS = 60
"""In each partition, for each death, and once more whenever all is copied before the first one."""
SETTINGS = {
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
    "group_initial_rebalance_delay_ms": 0,
}


class Original:
    """The topic that is copied, and what is in it.

    Args:
        bootstrap: of the brokers, which have neither topic yet.
        replicas: of each of them.
    """

    def __init__(self, bootstrap: str, *, replicas: int = 1) -> None:
        self.bootstrap = bootstrap
        self.sent: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        with talking(bootstrap) as talk:
            topics = [NewTopic(topic, PARTITIONS, replicas) for topic in (SOURCE, TARGET)]
            for outcome in talk.admin.create_topics(topics).values():
                good(outcome)

    def write(self, count: int) -> None:
        """Append so many records to each partition."""
        with Producer({"bootstrap.servers": self.bootstrap}) as producer:
            for partition, sent in self.sent.items():
                values = [f"{partition}-{len(sent) + place}" for place in range(count)]
                producer.send_batch(SOURCE, [value.encode() for value in values], partition=partition)
                sent += values


@contextmanager
def copier(bootstrap: str, command: Sequence[str] = COPIER) -> Iterator[subprocess.Popen[bytes]]:
    told = {
        "bootstrap": bootstrap,
        "source": SOURCE,
        "target": TARGET,
        "group": "copiers",
        "die_at": -1,
        "die_after_ms": -1,
    }
    with subprocess.Popen([*command, json.dumps(told)]) as process:
        try:
            yield process
        finally:
            process.kill()


def read_committed(bootstrap: str) -> dict[int, list[str]]:
    keys = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    found: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    with talking(bootstrap) as talk, Consumer(keys) as consumer:
        ends = {TopicPartition(TARGET, number): talk.ends(TARGET, number)[1] for number in found}
        consumer.assign(list(ends))
        wait_for(lambda: consumer.end_offsets(ends) == ends, what="the end of the last transaction")
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(500):
                found[record.partition].append((record.value or b"").decode())
    return found


def copied_so_far(bootstrap: str) -> int:
    with talking(bootstrap) as talk:
        return sum(talk.ends(TARGET, number)[1] for number in range(PARTITIONS))


def are_in_sync(cluster: Cluster) -> bool:
    topics = (SOURCE, TARGET, CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
    return all(
        len(isr) == len(cluster.brokers)
        for topic in topics
        for _leader, isr in cluster.leadership(topic).values()
    )


def copy_through(
    original: Original,
    kills: int,
    chance: random.Random,
    kill_one: Callable[[], None],
    *,
    command: Sequence[str] = COPIER,
) -> None:
    """Copy everything; copiers that give up have successors. Between two kills something is copied."""
    bootstrap = original.bootstrap
    original.write(kills * RECORDS)
    left, seen = kills, 0
    while True:
        with copier(bootstrap, command) as process:
            while process.poll() is None:
                if left and copied_so_far(bootstrap) > seen:
                    time.sleep(chance.random() * 0.3)
                    kill_one()
                    left -= 1
                    seen = copied_so_far(bootstrap)
                else:
                    time.sleep(0.02)
            if process.returncode == 0:
                if left < kills:
                    return
                # All was copied before this test could look, which may be a matter of who gets the processor.
                seen = copied_so_far(bootstrap)
                original.write(kills * RECORDS)


@pytest.mark.parametrize(
    ("worker", "kills"),
    [
        ("either", 1),
        *(pytest.param(f"worker-{index}", 1, marks=pytest.mark.nightly) for index in range(2)),
        *(
            pytest.param(worker, 5, marks=pytest.mark.nightly)
            for worker in ("worker-0", "worker-1", "either")
        ),
    ],
)
def test_copies_outlive_workers(make_broker: MakeBroker, worker: str, kills: int) -> None:
    """They own partitions of groups, of transactional ids and of both topics.

    A broker stops when seven processes die within half a minute, so there are fewer deaths.
    """
    copy_while_workers_die(make_broker, kills, worker)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("worker", ["worker-0", "worker-1", "either"])
@pytest.mark.parametrize("client", ["sarama", "franz"])
def test_copies_of_clients_in_go_outlive_workers(
    make_broker: MakeBroker, tmp_path: Path, client: str, worker: str
) -> None:
    copy_while_workers_die(make_broker, 5, worker, command=[built(client, tmp_path)])


def built(client: str, directory: Path) -> str:
    """The program that copies by a client for Go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs go")
    program = directory / client
    command = [go, "build", "-o", str(program), f"./{client}_copier"]
    done = subprocess.run(command, cwd=GO_COPIERS, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return str(program)


def copy_while_workers_die(
    make_broker: MakeBroker, kills: int, worker: str, *, command: Sequence[str] = COPIER
) -> None:
    broker = make_broker(**SETTINGS)
    broker.start()
    original = Original(broker.bootstrap)
    chance = random.Random(worker)

    def kill_one() -> None:
        name = chance.choice(["worker-0", "worker-1"]) if worker == "either" else worker
        found = family(broker).get(name)
        if found is not None:
            found.kill()
            wait_for(lambda: not is_alive(found), what="the end of the worker")

    copy_through(original, kills, chance, kill_one, command=command)
    assert read_committed(broker.bootstrap) == original.sent


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_copies_outlive_their_broker(make_broker: MakeBroker, kills: int) -> None:
    broker = make_broker(**SETTINGS)
    broker.start()
    original = Original(broker.bootstrap)

    def kill_one() -> None:
        broker.kill()
        broker.start()

    copy_through(original, kills, random.Random(7), kill_one)
    assert read_committed(broker.bootstrap) == original.sent


@pytest.mark.parametrize(
    ("kinds", "kills"),
    [
        ("ppp", 1),
        pytest.param("ppp", 5, marks=pytest.mark.nightly),
        *(pytest.param(kinds, 3, marks=pytest.mark.nightly) for kinds in ("kpp", "ppk")),
    ],
)
def test_copies_outlive_brokers_of_a_cluster(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str, kills: int
) -> None:
    """A broker at a time, with what it coordinates and leads; the next one when it is back in sync."""
    overrides = {
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "transaction.state.log.num.partitions": 3,
        "min.insync.replicas": 2,
    }
    chance = random.Random(kinds)
    with Cluster(tmp_path, zookeeper.connect, overrides=overrides, kinds=kinds) as cluster:
        original = Original(cluster.bootstrap, replicas=3)

        def kill_one() -> None:
            victim = chance.choice(cluster.brokers)
            victim.kill()
            time.sleep(chance.random() * 3)
            victim.start()
            wait_for(lambda: are_in_sync(cluster), timeout_s=90, what="all replicas in sync")

        copy_through(original, kills, chance, kill_one)
        assert read_committed(cluster.bootstrap) == original.sent
