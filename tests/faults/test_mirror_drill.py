"""The loss of a mirrored cluster, as docs/mirroring.md prepares for it: what groups read again at the other one.

The configurations and commands are those of the pages, with the brokers of the test in place of theirs.
"""

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError
from pkafka.clients.producer import Producer
from pkafka.connect.mirror.records import Checkpoint
from pkafka.java.properties import parse_properties
from pkafka.model import TopicPartition
from pkafka.testing import Broker, running_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.mirrors import CHECKPOINTS, WORKER, connector
from tests.talk import Talk, talking, wait_for

pytestmark = [pytest.mark.faults]

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
TOPIC: Final = "orders"
GROUP: Final = "billing"
PARTITIONS: Final = 2
BATCH: Final = 20
LAG_MAX: Final = 100
"""The default of ``offset.lag.max``, by which the pages' mirrors run."""
SOON_S: Final = 90.0


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "source", {"broker.id": 0}) as broker:
        yield broker


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "target", {"broker.id": 0}) as broker:
        yield broker


def documented(name: str) -> dict[str, str]:
    """The properties of a connector on the page about connectors."""
    page = (DOCS / "mirroring-connectors.md").read_text("utf-8")
    blocks = re.findall(r"^```properties\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return next(each for each in map(parse_properties, blocks) if each.get("name") == name)


def run_documented(command: str, source: Broker, target: Broker, *more: str) -> tuple[int, Any]:
    """Status and document of the one command of the page about mirroring that begins like this."""
    page = (DOCS / "mirroring.md").read_text("utf-8")
    (line,) = re.findall(rf"^ *\$ ({command} .*)$", page, re.MULTILINE)
    program, *words = shlex.split(line)
    module = f"pkafka.cli.{program.removeprefix('pk-').replace('-', '_')}"
    places = {"a1:9092": source.bootstrap, "b1:9092": target.bootstrap}
    words = [places.get(each, each) for each in words]
    done = subprocess.run(
        [sys.executable, "-m", module, *words, *more, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def start_mirror(worker: ConnectWorker, source: Broker, target: Broker) -> None:
    """The two connectors of the page, which look often here."""
    soon = connector("Source", source.bootstrap, target.bootstrap)
    intervals = {name: value for name, value in soon.items() if name.endswith(".interval.seconds")}
    replicas = {name: value for name, value in soon.items() if name.endswith("replication.factor")}
    places = {
        f"{cluster}.cluster.bootstrap.servers": broker.bootstrap
        for cluster, broker in (("source", source), ("target", target))
    }
    copies = {**documented("copies"), **places, **intervals, **replicas}
    positions = copies | {
        "name": "positions",
        "connector.class": copies["connector.class"].replace("Source", "Checkpoint"),
        "sync.group.offsets.enabled": "true",
    }
    for configs in (copies, positions):
        worker.create(configs)


class Billing:
    """A group that reads, and a producer that never is more than a batch ahead of it and of the mirror.

    A record's value is its offset on the source.

    Args:
        source, target: the clusters.
        b: asks the target.
    """

    def __init__(self, source: Broker, target: Broker, b: Talk) -> None:
        self._source = source
        self._target = target
        self._b = b
        self._is_over = threading.Event()
        self._producing = threading.Thread(target=self._produce)
        self.done = [0] * PARTITIONS
        """How many records of each partition the group has read and committed."""
        self.acknowledged = [0] * PARTITIONS

    def start(self) -> None:
        self._producing.start()

    def end(self) -> None:
        self._is_over.set()
        self._producing.join(SOON_S)
        assert not self._producing.is_alive()

    def _produce(self) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": self._source.bootstrap,
            "delivery.timeout.ms": 3_000,
        }
        settings |= {"request.timeout.ms": 2_000}
        with Producer(settings) as producer:
            while not self._is_over.wait(0.01):
                for partition in range(PARTITIONS):
                    begin = self.acknowledged[partition]
                    if min(self.done[partition], self._copied(partition)) < begin:
                        continue
                    values = [b"%d" % number for number in range(begin, begin + BATCH)]
                    try:
                        producer.send_batch(TOPIC, values, partition=partition).result(10)
                    except Exception:  # noqa: BLE001 - the source is dead, which is what the test is about
                        return
                    self.acknowledged[partition] += BATCH

    def _copied(self, partition: int) -> int:
        return self._b.ends(f"A.{TOPIC}", partition)[1]

    def read_until(self, count: int, *, then: threading.Event) -> None:
        """Read and commit on the source, as long as it answers, and say when there is so much of each partition."""
        settings = {
            "bootstrap.servers": self._source.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": "false",
            "default.api.timeout.ms": 20_000,
        }
        with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe([TOPIC])
            while not self._is_over.is_set():
                read = list(self.done)
                for record in consumer.poll(200):
                    read[record.partition] = record.offset + 1
                if read != self.done:
                    try:
                        consumer.commit_sync()
                    except ClientTimeoutError:
                        return  # the source is dead
                    self.done = read
                if min(self.done) >= count:
                    then.set()


def checkpoints(b: Talk) -> list[Checkpoint]:
    found = (Checkpoint.of(each.key, each.value) for each in b.read(CHECKPOINTS))
    return [each for each in found if each.group == GROUP]


def read_at_target(target: Broker) -> dict[int, list[int]]:
    """What the group reads where it is told to go on, by partition."""
    places = [TopicPartition(f"A.{TOPIC}", number) for number in range(PARTITIONS)]
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    settings = {"bootstrap.servers": target.bootstrap, "group.id": GROUP, "auto.offset.reset": "none"}
    with Consumer(settings) as consumer:
        ends = consumer.end_offsets(places)
        consumer.subscribe([f"A.{TOPIC}"])
        while any(
            len(found[each.partition]) == 0 or found[each.partition][-1] + 1 < ends[each] for each in places
        ):
            for record in consumer.poll(500):
                found[record.partition].append(int(record.value or b"-1"))
        consumer.commit_sync()
    return found


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_group_that_moves_reads_few_records_again_and_misses_none(
    source: Broker, target: Broker, tmp_path: Path
) -> None:
    with (
        talking(source.bootstrap) as a,
        talking(target.bootstrap) as b,
        standalone(tmp_path / "worker", target.bootstrap, WORKER) as worker,
    ):
        a.create(TOPIC, PARTITIONS)
        b.create(f"A.{TOPIC}", PARTITIONS)
        start_mirror(worker, source, target)
        billing, enough = Billing(source, target, b), threading.Event()
        reading = threading.Thread(target=lambda: billing.read_until(1_000, then=enough))
        reading.start()
        billing.start()
        assert enough.wait(SOON_S)
        wait_for(lambda: is_ready(source, target), timeout_s=SOON_S, what="a target that is ready")
        source.kill()  # under load
        billing.end()
        reading.join(SOON_S)
        assert worker.stop() == 0

        status, described = run_documented("pk-consumer-groups", source, target)
        assert status == 0, described
        assert json.dumps(described).count(f"A.{TOPIC}") == PARTITIONS, described
        found = read_at_target(target)
        for partition, numbers in found.items():
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), (
                "nothing is missing, and all is in order"
            )
            assert numbers[0] <= billing.done[partition], "the group misses nothing"
            told = [each for each in checkpoints(b) if each.partition.partition == partition]
            position = next(each for each in reversed(told) if each.downstream == numbers[0])
            again = position.upstream - numbers[0]
            print(
                f"{partition}: {billing.done[partition] - numbers[0]} again, {again} of them before the checkpoint"
            )
            # The task knows of the syncs a little later: what one batch and the next may have added meanwhile.
            assert 0 <= again <= LAG_MAX + 1 + 2 * BATCH
        # What was acknowledged and is not on the target is what the page says is gone: no more than was on its way.
        for partition, acknowledged in enumerate(billing.acknowledged):
            assert acknowledged - (found[partition][-1] + 1) <= 2 * BATCH

        source.start()
        status, verified = run_documented(
            "pk-mirror verify", source, target, "--source-alias", "A", "--target-alias", "B"
        )
        assert status in (0, 5), verified  # the same, or the same as far as it goes


def is_ready(source: Broker, target: Broker) -> bool:
    """Whether the page's drill says that the group could move now."""
    status, found = run_documented("pk-mirror drill", source, target, "--groups", GROUP)
    return status == 0 and found["ready"] and len(found["positions"]) == PARTITIONS
