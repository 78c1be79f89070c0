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

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from tests.faults.conftest import MakeBroker, MeasuredBroker
from tests.faults.family import family, is_alive
from tests.talk import talking, wait_for

pytestmark = pytest.mark.timeout(300)

COPIER = Path(__file__).parents[1] / "interop" / "copying_member.py"
SOURCE, TARGET = "source", "copied"
PARTITIONS = 3
RECORDS = 60
SETTINGS = {
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
    "group_initial_rebalance_delay_ms": 0,
}


def sent() -> dict[int, list[str]]:
    return {number: [f"{number}-{place}" for place in range(RECORDS)] for number in range(PARTITIONS)}


def write(broker: MeasuredBroker) -> None:
    with talking(broker.bootstrap) as talk:
        for topic in (SOURCE, TARGET):
            talk.create(topic, PARTITIONS)
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for partition, values in sent().items():
            producer.send_batch(SOURCE, [value.encode() for value in values], partition=partition)


@contextmanager
def copier(broker: MeasuredBroker) -> Iterator[subprocess.Popen[bytes]]:
    told = {
        "bootstrap": broker.bootstrap,
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


def read_committed(broker: MeasuredBroker) -> dict[int, list[str]]:
    keys = {
        "bootstrap.servers": broker.bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    found: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
    with talking(broker.bootstrap) as talk, Consumer(keys) as consumer:
        ends = {TopicPartition(TARGET, number): talk.ends(TARGET, number)[1] for number in found}
        consumer.assign(list(ends))
        wait_for(lambda: consumer.end_offsets(ends) == ends, what="the end of the last transaction")
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(500):
                found[record.partition].append((record.value or b"").decode())
    return found


def copied_so_far(broker: MeasuredBroker) -> int:
    with talking(broker.bootstrap) as talk:
        return sum(talk.ends(TARGET, number)[1] for number in range(PARTITIONS))


def copy_through(
    broker: MeasuredBroker, kills: int, chance: random.Random, kill_one: Callable[[], None]
) -> None:
    """Copy everything; copiers that give up have successors. Between two kills something is copied."""
    left, seen = kills, 0
    while True:
        with copier(broker) as process:
            while process.poll() is None:
                if left and copied_so_far(broker) > seen:
                    time.sleep(chance.random() * 0.3)
                    kill_one()
                    left -= 1
                    seen = copied_so_far(broker)
                else:
                    time.sleep(0.02)
            if process.returncode == 0:
                return


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("worker", ["worker-0", "worker-1", "either"])
def test_copies_outlive_workers(make_broker: MakeBroker, worker: str, kills: int) -> None:
    """They own partitions of groups, of transactional ids and of both topics.

    A broker stops when seven processes die within half a minute, so there are fewer deaths.
    """
    broker = make_broker(**SETTINGS)
    broker.start()
    write(broker)
    chance = random.Random(worker)

    def kill_one() -> None:
        name = chance.choice(["worker-0", "worker-1"]) if worker == "either" else worker
        found = family(broker).get(name)
        if found is not None:
            found.kill()
            wait_for(lambda: not is_alive(found), what="the end of the worker")

    copy_through(broker, kills, chance, kill_one)
    assert read_committed(broker) == sent()


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_copies_outlive_their_broker(make_broker: MakeBroker, kills: int) -> None:
    broker = make_broker(**SETTINGS)
    broker.start()
    write(broker)

    def kill_one() -> None:
        broker.kill()
        broker.start()

    copy_through(broker, kills, random.Random(7), kill_one)
    assert read_committed(broker) == sent()
