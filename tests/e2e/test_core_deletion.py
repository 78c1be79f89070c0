"""What a topic leaves behind in the processes of a broker: nothing."""

import contextlib
import os
from pathlib import Path

import psutil
import pytest

from pkafka.testing import Broker
from tests.e2e.conftest import WORKERS
from tests.talk import Talk, wait_for

SETTINGS: dict[str, object] = {"broker.id": 0, "pkafka.workers": WORKERS, "log.segment.delete.delay.ms": 0}


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return SETTINGS


def test_a_reader_does_not_keep_what_is_deleted_on_the_disk(own_broker: Broker, talk: Talk) -> None:
    talk.create("read", 4)
    for partition in range(4):
        talk.send("read", b"v", partition=partition)
        assert [record.value for record in talk.read("read", partition)] == [b"v"]
    assert still_open(own_broker, "read-")
    talk.delete("read")
    wait_for(lambda: not still_open(own_broker, "read-"), what="closing the files of a deleted topic")


def still_open(broker: Broker, prefix: str) -> list[str]:
    """Files of that topic that a process of the broker holds open, deleted ones too."""
    found = []
    for process in psutil.Process(broker.pid).children():
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(link))
    return [target for target in found if Path(target).parent.name.startswith(prefix)]
