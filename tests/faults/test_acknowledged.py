"""kill -9 of a worker and of the whole broker, again and again, under a load of acknowledged produces.

A killed process leaves what it wrote with the kernel: no acknowledged record may be missing, doubled or out of order.
"""

import random
import time

import pytest

from pkafka.errors import ErrorCode
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.family import family, kill, replaced
from tests.faults.load import LibrdkafkaWriter, Writer
from tests.faults.wire import Wire, eventually

SEED = 20240


def start_load(broker: Broker) -> list[Writer | LibrdkafkaWriter]:
    with Wire(broker.bootstrap) as wire:
        # Small segments: rolls, snapshots and recovery points are a part of the game.
        configs = {"segment.bytes": "300000"}
        for topic in ("leader", "all", "librdkafka"):
            assert wire.create_topic(topic, 2, configs=configs) == ErrorCode.NONE
    return [
        *(Writer(broker.bootstrap, "leader", partition, acks=1) for partition in range(2)),
        *(Writer(broker.bootstrap, "all", partition, acks=-1) for partition in range(2)),
        LibrdkafkaWriter(broker.bootstrap, "librdkafka", 2),
    ]


def progress(writers: list[Writer | LibrdkafkaWriter]) -> None:
    """Wait until every partition has more acknowledged than now."""

    def counts() -> list[int]:
        return [
            count
            for writer in writers
            for count in (
                [writer.acknowledged] if isinstance(writer, Writer) else map(len, writer.acknowledged)
            )
        ]

    before = counts()
    eventually(lambda: all(now > then for now, then in zip(counts(), before, strict=True)), timeout_s=60)


def finish(writers: list[Writer | LibrdkafkaWriter]) -> None:
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.check()
    assert sum(writer.retries for writer in writers if isinstance(writer, Writer)) > 0


def hurt_worker(broker: Broker, choice: random.Random) -> None:
    name = choice.choice([name for name in family(broker) if name.startswith("worker")])
    replaced(broker, kill(broker, name), name)


def hurt_all(broker: Broker, choice: random.Random) -> None:
    if choice.random() < 0.5:
        broker.kill()
    else:
        # Not only the supervisor, whose children then end: each of them at its own time.
        victims = list(family(broker).values())
        choice.shuffle(victims)
        for victim in victims:
            victim.kill()
        broker.kill()
    broker.start()


def torment(broker: Broker, rounds: int, seed: int) -> None:
    choice = random.Random(seed)
    writers = start_load(broker)
    progress(writers)
    for _ in range(rounds):
        hurt_worker(broker, choice)
        time.sleep(choice.random() * 0.3)
        progress(writers)
        hurt_all(broker, choice)
        time.sleep(choice.random() * 0.3)
        progress(writers)
    finish(writers)
    assert broker.stop() == 0
    broker.start()
    for writer in writers:
        writer.check()


def test_nothing_acknowledged_is_lost_doubled_or_moved_by_four_kills_of_each_kind(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**{"replica.high.watermark.checkpoint.interval.ms": 500})
    broker.start()
    torment(broker, rounds=4, seed=SEED)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_for_longer(make_broker: MakeBroker, workers: int) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    broker = make_broker(
        **{
            "pkafka.workers": workers,
            "log.initial.task.delay.ms": 1000,
            "log.flush.offset.checkpoint.interval.ms": 1000,
        }
    )
    broker.start()
    torment(broker, rounds=60, seed=seed)
