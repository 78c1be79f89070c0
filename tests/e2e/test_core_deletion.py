"""What a topic leaves behind in the processes of a broker: nothing."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pkafka.testing import Broker, running_broker
from tests.talk import Talk, talking, wait_for

WORKERS = 2
SETTINGS = {"broker.id": 0, "pkafka.workers": WORKERS, "log.segment.delete.delay.ms": 0}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("lives"), SETTINGS) as broker:
        yield broker


@pytest.fixture
def talk(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        yield talk


def test_a_reader_does_not_keep_what_is_deleted_on_the_disk(broker: Broker, talk: Talk) -> None:
    talk.create("read", 4)
    for partition in range(4):
        talk.send("read", b"v", partition=partition)
        assert [record.value for record in talk.read("read", partition)] == [b"v"]
    assert still_open(broker, "read-")
    talk.delete("read")
    wait_for(lambda: not still_open(broker, "read-"), what="closing the files of a deleted topic")


def still_open(broker: Broker, prefix: str) -> list[str]:
    """Files of that topic that a process of the broker holds open, deleted ones too."""
    found = []
    for process in psutil.Process(broker.pid).children():
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(link))
    return [target for target in found if Path(target).parent.name.startswith(prefix)]
