"""Transactions of version 2 (KIP-890) while Apache Kafka 4.3 is killed, and while what uses them is."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clients.producer import Producer
from tests.interop import kafka as oracle
from tests.interop.committed import committed_by_partition
from tests.interop.kraft import KraftBroker, running_kraft
from tests.talk import Talk, good, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.nightly, pytest.mark.timeout(600)]

COPIER = Path(__file__).with_name("copying_member.py")
EACH = 20
KILLS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    try:
        oracle.jars("kafka-4")
    except oracle.OracleUnavailableError as missing:
        pytest.skip(str(missing))
    with running_kraft(tmp_path_factory.mktemp("kafka-4")) as kafka:
        yield kafka


class Writer:
    """Commits and aborts transactions of two partitions in a thread until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._keys = {
            "bootstrap.servers": bootstrap,
            "transactional.id": topic,
            "max.block.ms": 240_000,
            "delivery.timeout.ms": 300_000,
            "request.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 200,
        }
        self._topic = topic
        self._stop = threading.Event()
        self.committed: list[list[bytes]] = [[], []]
        self.transactions = 0
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(300)
        assert not self._thread.is_alive()

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more transactions have ended, or one has failed."""
        wanted = self.transactions + count
        wait_for(lambda: self.errors or self.transactions >= wanted, timeout_s=120, what="transactions")

    def _run(self) -> None:
        try:
            with Producer(self._keys) as producer:
                producer.init_transactions()
                while not self._stop.is_set():
                    self._transact(producer, is_abort=self.transactions % 4 == 3)
                    self.transactions += 1
        except Exception as error:  # noqa: BLE001 - told by the test
            self.errors.append(error)

    def _transact(self, producer: Producer, *, is_abort: bool) -> None:
        name = "aborted" if is_abort else "committed"
        values = [b"%s-%d-%d" % (name.encode(), self.transactions, each) for each in range(EACH)]
        producer.begin_transaction()
        for index, value in enumerate(values):
            producer.send(self._topic, value, partition=index % 2)
        if is_abort:
            producer.flush()
            producer.abort_transaction()
            return
        producer.commit_transaction()
        for partition in (0, 1):
            self.committed[partition] += values[partition::2]


def test_what_was_committed_is_read_once_and_in_order_after_kills_of_the_broker(broker: KraftBroker) -> None:
    topic = "killed"
    with talking(broker.bootstrap) as talk:
        talk.create(topic, 2)
    writer = Writer(broker.bootstrap, topic)
    try:
        for _ in range(KILLS):
            writer.wait_for_more(40)
            broker.kill()
            broker.start()
        writer.wait_for_more(8)
    finally:
        writer.stop()
    assert not writer.errors
    with talking(broker.bootstrap) as talk:
        over(talk, topic)
        described = good(talk.admin.describe_transactions([topic])[topic])
    assert described.producer_epoch == writer.transactions, "an epoch for each"
    assert committed_by_partition(broker.bootstrap, topic, 2) == writer.committed


def over(talk: Talk, transactional_id: str) -> None:
    """Wait until the last transaction has its markers."""

    def is_over() -> bool:
        found = good(talk.admin.describe_transactions([transactional_id])[transactional_id])
        return found.state.value in ("Empty", "CompleteCommit", "CompleteAbort")

    wait_for(is_over, what="the end of the transaction")


def test_copies_are_made_once_while_copiers_and_the_broker_are_killed(broker: KraftBroker) -> None:
    """Positions travel with the copies, and those of a member that was killed do not count."""
    source, target = "source", "source-copied"
    sent = [[b"%d-%d" % (partition, number) for number in range(150)] for partition in range(3)]
    with talking(broker.bootstrap) as talk, Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for name in (source, target):
            talk.create(name, 3)
        for partition, values in enumerate(sent):
            producer.send_batch(source, values, partition=partition)
    chance = random.Random(7)
    for kill in range(6):
        copier = started(broker, source, die_at=chance.randrange(1, 60), die_after_ms=-1)
        if kill % 3 == 2:
            broker.kill()
            broker.start()
        assert copier.wait(120) in (0, -signal.SIGKILL)
    assert started(broker, source, die_at=-1, die_after_ms=-1).wait(120) == 0
    with talking(broker.bootstrap) as talk:
        over(talk, f"copiers-of-{source}")
    assert committed_by_partition(broker.bootstrap, target, 3) == sent


def started(broker: KraftBroker, source: str, **death: int) -> "subprocess.Popen[bytes]":
    """A member that copies from topic to topic."""
    told = {
        "bootstrap": broker.bootstrap,
        "source": source,
        "target": f"{source}-copied",
        "group": f"copiers-of-{source}",
        **death,
    }
    return subprocess.Popen([sys.executable, str(COPIER), json.dumps(told)])
