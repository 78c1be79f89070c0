"""Replicas go from one log directory to the other and back, under load, while processes of the broker are killed.

The law: what was acknowledged is there, once and in order; every replica arrives where it was last sent, and nothing is
left of the places where it was.
"""

import random
import time
from pathlib import Path

import pytest

from pkafka.errors import ApiError, PkafkaError
from pkafka.model import TopicPartitionReplica
from tests.faults.conftest import MakeBroker, MeasuredBroker
from tests.faults.family import kill, replaced
from tests.faults.load import Writer
from tests.faults.wire import Wire, eventually
from tests.talk import Talk, good

SEED = 271828
TOPIC = "nomads"
PARTITIONS = 2
"""One of each worker."""
VICTIMS = ("worker-0", "broker", "cleaner", "worker-1", "control", "broker")
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BYTES_PER_S = 8_000_000
"""So that most deaths come in the middle of a move."""


def homes_of(talk: Talk) -> dict[int, list[tuple[str, bool]]]:
    """Where the replicas are: (name of the log directory, whether it is on its way there)."""
    found: dict[int, list[tuple[str, bool]]] = {}
    for directory in good(talk.admin.describe_log_dirs([0])[0]):
        for each in directory.replicas:
            if each.partition.topic == TOPIC:
                found.setdefault(each.partition.partition, []).append(
                    (Path(directory.path).name, each.is_future)
                )
    return found


def send(broker: MeasuredBroker, home: Path) -> None:
    """Have all replicas go there, however often it has to be asked."""
    replicas = {TopicPartitionReplica(TOPIC, index, 0): str(home) for index in range(PARTITIONS)}

    def attempt() -> bool:
        talk = Talk(broker.bootstrap)
        try:
            outcomes = talk.admin.alter_replica_log_dirs(replicas)
        except PkafkaError:
            return False
        finally:
            talk.close()
        return not any(isinstance(outcome, Exception) for outcome in outcomes.values())

    eventually(attempt)


def have_arrived(broker: MeasuredBroker, home: Path) -> bool:
    talk = Talk(broker.bootstrap)
    try:
        found = homes_of(talk)
    except (ApiError, PkafkaError):
        return False
    finally:
        talk.close()
    return found == {index: [(home.name, False)] for index in range(PARTITIONS)}


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir() if path.name.startswith(TOPIC))


@pytest.mark.timeout(180)
def test_replicas_arrive_whoever_dies_on_the_way(make_broker: MakeBroker, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    homes = [tmp_path / "home-0", tmp_path / "home-1"]
    settings: dict[str, object] = {
        "log.dirs": ",".join(map(str, homes)),
        "log.segment.bytes": 500_000,
        "log.segment.delete.delay.ms": 100,
        "log.initial.task.delay.ms": 0,
    }
    broker = make_broker(**settings)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(TOPIC, PARTITIONS)
    talk = Talk(broker.bootstrap)
    talk.set_broker(**{RATE: BYTES_PER_S})
    talk.close()
    writers = [Writer(broker.bootstrap, TOPIC, index) for index in range(PARTITIONS)]
    for number, name in enumerate(VICTIMS):
        home = homes[number % 2]
        send(broker, home)
        time.sleep(chance.random())  # where on the way it dies is up to chance
        if name == "broker":
            broker.kill()
            broker.start()
        else:
            replaced(broker, kill(broker, name), name)
        eventually(lambda: have_arrived(broker, home), timeout_s=60)  # noqa: B023 - called at once
    for writer in writers:
        writer.stop()
    for writer in writers:
        assert writer.acknowledged
        writer.check()
    last, other = homes[(len(VICTIMS) - 1) % 2], homes[len(VICTIMS) % 2]
    eventually(lambda: names(other) == [])
    eventually(lambda: names(last) == [f"{TOPIC}-{index}" for index in range(PARTITIONS)])
    assert broker.stop() == 0
