"""Workers make no garbage in cycles of what lasts: what outlived a long collection is not looked at again (garbage.py).

A module that every Python of the broker loads first writes down what each collection found.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.testing import Broker
from tests.faults.family import family
from tests.faults.wire import Wire
from tests.group_client import GroupClient

WATCHING: Final = """
import gc, os

def collecting(phase, info):
    if phase == "stop":
        with open(os.path.join({directory!r}, str(os.getpid())), "a") as found:
            found.write(f"{{info['collected']}}\\n")

gc.callbacks.append(collecting)
gc.set_threshold(100, 2, 0)
"""
CONNECTIONS: Final = 60
ROUNDS: Final = 3
TOPICS: Final = 10


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """A file for each process of the broker: how many objects in cycles each of its collections found."""
    directory = tmp_path / "found"
    directory.mkdir()
    return directory


@pytest.fixture
def watched(tmp_path: Path, found: Path) -> Iterator[Broker]:
    watching = tmp_path / "watching"
    watching.mkdir()
    (watching / "sitecustomize.py").write_text(WATCHING.format(directory=str(found)))
    broker = Broker(tmp_path / "broker", {"pkafka.workers": 2}, environment={"PYTHONPATH": str(watching)})
    broker.start()
    yield broker
    broker.kill()


def load(broker: Broker) -> None:
    """Connections, topics, records, groups and offsets, which come and go."""
    for number in range(TOPICS):
        with Wire(broker.bootstrap) as wire:
            assert wire.create_topic(f"garbage-{number}", 4) == ErrorCode.NONE
            producer = wire.init_producer()
            for partition in range(4):
                assert (
                    wire.produce(f"garbage-{number}", partition, [b"a"] * 9, producer=(*producer, 0))[0] == 0
                )
                assert wire.fetch(f"garbage-{number}", partition, 0)[0] == ErrorCode.NONE
    wires = [Wire(broker.bootstrap) for _ in range(CONNECTIONS)]
    for wire in wires:
        assert len(wire.fetch("garbage-0", 0, 0)[1]) == 9
        wire.close()
    with GroupClient(broker.bootstrap) as client:
        client.make_topic_of_groups()
        for number in range(CONNECTIONS):
            group = f"garbage-{number}"
            client.coordinate(group)
            member, generation = client.settle(group)
            assert client.heartbeat(group, member, generation) == ErrorCode.NONE
            client.commit(group, {("garbage-0", 0): 5}, generation=generation, member=member)
            assert client.leave(group, member) == ErrorCode.NONE
        client.delete_groups(*(f"garbage-{number}" for number in range(CONNECTIONS)))
    with Wire(broker.bootstrap) as wire:
        for number in range(TOPICS):
            assert wire.delete_topic(f"garbage-{number}") == ErrorCode.NONE


def test_workers_make_no_garbage_in_cycles(watched: Broker, found: Path) -> None:
    workers = [child for name, child in family(watched).items() if name.startswith("worker")]
    for _ in range(ROUNDS):
        load(watched)
    collections = [
        [int(line) for line in (found / str(worker.pid)).read_text().split()] for worker in workers
    ]
    assert len(collections) == 2
    for each in collections:
        assert len(each) > 20
        assert sum(each) == 0
