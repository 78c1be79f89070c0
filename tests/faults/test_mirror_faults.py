"""MirrorMaker 2 between clusters that die: what the source has acknowledged is on the target in the end, in order."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pkafka.clients.producer import Producer
from pkafka.connect.mirror.records import OffsetSync
from pkafka.testing import Broker, running_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.mirrors import SYNCS, WORKER, connector
from tests.talk import talking, wait_for

pytestmark = pytest.mark.timeout(400)

TOPIC = "orders"
RECORDS = 30_000


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "source", {"broker.id": 0}) as broker:
        yield broker


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "target", {"broker.id": 0}) as broker:
        yield broker


@pytest.fixture
def worker(target: Broker, tmp_path: Path) -> Iterator[ConnectWorker]:
    with standalone(tmp_path / "worker", target.bootstrap, WORKER) as worker:
        yield worker


@pytest.mark.parametrize("transforms", [False, True])
def test_brokers_that_are_killed_cost_no_record(
    source: Broker, target: Broker, worker: ConnectWorker, transforms: bool
) -> None:
    with talking(source.bootstrap) as a:
        a.create(TOPIC)
    more: dict[str, str] = {"topics": TOPIC}
    if transforms:  # records go one by one then
        more |= {"transforms": "h", "transforms.h.type": "org.apache.kafka.connect.transforms.DropHeaders"}
        more["transforms.h.headers"] = "x"
    worker.create(connector("Source", source.bootstrap, target.bootstrap, more))
    sending = threading.Thread(target=_send, args=(source.bootstrap,))
    sending.start()
    for victim in (source, target, target, source):
        began = _end(target)
        wait_for(partial(_goes_on, target, began, sending), timeout_s=60)
        victim.kill()
        victim.start()
    sending.join(120)
    assert not sending.is_alive()
    wanted = [b"%d" % number for number in range(RECORDS)]
    with talking(target.bootstrap) as b, talking(source.bootstrap) as a:
        wait_for(lambda: [each.value for each in b.read(f"A.{TOPIC}")][-1:] == wanted[-1:], timeout_s=90)
        found = list(dict.fromkeys(each.value for each in b.read(f"A.{TOPIC}")))
        assert found == list(dict.fromkeys(each.value for each in a.read(TOPIC)))
        assert found == wanted
        # Each sync says the truth: its record is there at both ends.
        there, here = a.read(TOPIC), b.read(f"A.{TOPIC}")
        for sync in (OffsetSync.of(each.key, each.value) for each in a.read(SYNCS)):
            assert there[sync.upstream].value == here[sync.downstream].value


def _send(bootstrap: str) -> None:
    with Producer({"bootstrap.servers": bootstrap, "delivery.timeout.ms": 110_000}) as producer:
        for start in range(0, RECORDS, 100):
            values = [b"%d" % number for number in range(start, start + 100)]
            producer.send_batch(TOPIC, values, partition=0).result(110)


def _goes_on(target: Broker, began: int, sending: threading.Thread) -> bool:
    return _end(target) > began or not sending.is_alive()


def _end(target: Broker) -> int:
    with talking(target.bootstrap) as talk:
        try:
            return talk.ends(f"A.{TOPIC}")[1]
        except Exception:  # noqa: BLE001 - it may not be there yet
            return 0
