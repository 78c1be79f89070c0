"""Workers make no garbage in cycles of what lasts: what outlived a long collection is not looked at again (garbage.py).

A module that every Python of the broker loads first writes down what each collection found, and collects all there is
when a signal says so. It lets nothing be spared: what outlived a collection is looked at when it has ended, too.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.testing import Broker
from tests.faults.family import family
from tests.faults.wire import Wire, eventually
from tests.group_client import GroupClient
from tests.group_requests import commit_error

WATCHING: Final = """
import gc, os, signal

def collecting(phase, info):
    if phase == "stop":
        with open(os.path.join({directory!r}, str(os.getpid())), "a") as found:
            found.write(f"{{info['generation']}} {{info['collected']}}\\n")

gc.callbacks.append(collecting)
gc.freeze = lambda: None
signal.signal(signal.SIGUSR2, lambda number, frame: gc.collect())
"""
CONNECTIONS: Final = 60
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


def collect_all(worker: psutil.Process, found: Path) -> None:
    """Have a worker look at everything it has, and find nothing in cycles, now or since it began."""
    noted = found / str(worker.pid)

    def seen() -> list[list[int]]:
        return (
            [[*map(int, line.split())] for line in noted.read_text().splitlines()] if noted.exists() else []
        )

    def full() -> int:
        return sum(generation == 2 for generation, _ in seen())

    before = full()
    worker.send_signal(signal.SIGUSR2)
    eventually(lambda: full() > before)
    assert [collected for _, collected in seen() if collected] == []


def test_workers_make_no_garbage_in_cycles(watched: Broker, found: Path) -> None:
    """Of connections, topics, logs, producers, groups and offsets: they are old when they end."""
    workers = [child for name, child in family(watched).items() if name.startswith("worker")]
    assert len(workers) == 2
    topics = [f"garbage-{number}" for number in range(TOPICS)]
    groups = [f"garbage-{number}" for number in range(CONNECTIONS)]
    with Wire(watched.bootstrap, timeout_s=60) as wire, GroupClient(watched.bootstrap) as client:
        for topic in topics:
            assert wire.create_topic(topic, 4) == ErrorCode.NONE
            producer = wire.init_producer()
            for partition in range(4):
                sent = wire.produce(topic, partition, [b"a"] * 9, producer=(*producer, 0))
                assert sent[0] == ErrorCode.NONE
        wires = [Wire(watched.bootstrap, timeout_s=60) for _ in range(CONNECTIONS)]
        for each in wires:
            assert len(each.fetch(topics[0], 0, 0)[1]) == 9
        client.make_topic_of_groups()
        members = {}
        for group in groups:
            client.coordinate(group)
            # They send no heartbeats, and are to be members still when they leave.
            members[group] = member, generation = client.settle(group, session_timeout_ms=600_000)
            commits = client.commit(group, {(topics[0], 0): 5}, generation=generation, member=member)
            assert commit_error(commits) is ErrorCode.NONE
        for worker in workers:
            collect_all(worker, found)

        for each in wires:
            each.close()
        for group, (member, _) in members.items():
            assert client.leave(group, member) == ErrorCode.NONE
        assert {one.error_code for one in client.delete_groups(*groups).results} == {ErrorCode.NONE}
        for topic in topics:
            assert wire.delete_topic(topic) == ErrorCode.NONE
        for worker in workers:
            collect_all(worker, found)
