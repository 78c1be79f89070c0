"""Copies from topic to topic in transactions, while the processes of the broker die: each record once, and in order."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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

COPIER = Path(__file__).parents[1] / "interop" / "copying_member.py"
SOURCE, TARGET = "source", "copied"
PARTITIONS = 3
RECORDS = 60
"""In each partition, for each death."""
SETTINGS = {
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
    "group_initial_rebalance_delay_ms": 0,
}


def sent(kills: int) -> dict[int, list[str]]:
    return {number: [f"{number}-{place}" for place in range(kills * RECORDS)] for number in range(PARTITIONS)}


def write(bootstrap: str, kills: int, *, replicas: int = 1) -> None:
    with talking(bootstrap) as talk:
        topics = [NewTopic(topic, PARTITIONS, replicas) for topic in (SOURCE, TARGET)]
        for outcome in talk.admin.create_topics(topics).values():
            good(outcome)
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for partition, values in sent(kills).items():
            producer.send_batch(SOURCE, [value.encode() for value in values], partition=partition)


@contextmanager
def copier(bootstrap: str) -> Iterator[subprocess.Popen[bytes]]:
    told = {
        "bootstrap": bootstrap,
        "source": SOURCE,
        "target": TARGET,
        "group": "copiers",
        "die_at": -1,
        "die_after_ms": -1,
    }
    with subprocess.Popen([sys.executable, str(COPIER), json.dumps(told)]) as process:
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


def copy_through(bootstrap: str, kills: int, chance: random.Random, kill_one: Callable[[], None]) -> None:
    """Copy everything; copiers that give up have successors. Between two kills something is copied."""
    left, seen = kills, 0
    while True:
        with copier(bootstrap) as process:
            while process.poll() is None:
                if left and copied_so_far(bootstrap) > seen:
                    time.sleep(chance.random() * 0.3)
                    kill_one()
                    left -= 1
                    seen = copied_so_far(bootstrap)
                else:
                    time.sleep(0.02)
            if process.returncode == 0:
                assert left < kills, "everything was copied before the first death"
                return


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
    broker = make_broker(**SETTINGS)
    broker.start()
    write(broker.bootstrap, kills)
    chance = random.Random(worker)

    def kill_one() -> None:
        name = chance.choice(["worker-0", "worker-1"]) if worker == "either" else worker
        found = family(broker).get(name)
        if found is not None:
            found.kill()
            wait_for(lambda: not is_alive(found), what="the end of the worker")

    copy_through(broker.bootstrap, kills, chance, kill_one)
    assert read_committed(broker.bootstrap) == sent(kills)


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_copies_outlive_their_broker(make_broker: MakeBroker, kills: int) -> None:
    broker = make_broker(**SETTINGS)
    broker.start()
    write(broker.bootstrap, kills)

    def kill_one() -> None:
        broker.kill()
        broker.start()

    copy_through(broker.bootstrap, kills, random.Random(7), kill_one)
    assert read_committed(broker.bootstrap) == sent(kills)


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
        write(cluster.bootstrap, kills, replicas=3)

        def kill_one() -> None:
            victim = chance.choice(cluster.brokers)
            victim.kill()
            time.sleep(chance.random() * 3)
            victim.start()
            wait_for(lambda: are_in_sync(cluster), timeout_s=90, what="all replicas in sync")

        copy_through(cluster.bootstrap, kills, chance, kill_one)
        assert read_committed(cluster.bootstrap) == sent(kills)
