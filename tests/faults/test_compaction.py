"""Compaction under load, read all the time, with kill -9 of everybody who takes part in it.

The law: a reader from the start ends with the last acknowledged value of each key; what it sees on the way
was written, in order, each at its offset.
"""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pytest

from pkafka.errors import ErrorCode
from pkafka.records.reading import Record, read_batches
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker, MeasuredBroker
from tests.faults.family import connect_to, family, kill, replaced
from tests.faults.load import Writer
from tests.faults.wire import EARLIEST, Wire, eventually

T = TypeVar("T")

SEED = 4711
TOPIC = "changelog"
PACE_S = 0.005
"""Between two batches: compaction shall be able to keep up on a busy machine, too."""
KEYS = 12
BATCH = 5
TINY = {
    "cleanup.policy": "compact",
    "segment.bytes": "6000",
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "300",
}
EAGER: dict[str, object] = {
    "log.cleaner.backoff.ms": 20,
    "log.segment.delete.delay.ms": 0,
    "log.cleaner.threads": 2,
    "replica.high.watermark.checkpoint.interval.ms": 500,
}


def key_of(number: int) -> bytes:
    return b"k%d" % (number * 7 % KEYS)


def value_of(number: int) -> bytes | None:
    return None if number % 11 == 3 else b"%08d" % number + b"." * (number % 200)


def change_writer(address: str, partition: int) -> Writer:
    """An idempotent producer of numbered changes to a few keys of one partition."""
    return Writer(
        address,
        TOPIC,
        partition,
        pair=lambda number: (key_of(number), value_of(number)),
        batch_records=BATCH,
        pace_s=PACE_S,
    )


def read_from_start(wire: Wire, partitions: Sequence[int]) -> dict[int, list[Record]]:
    """Every record that is there, to the ends as they were when this began, and what may have replaced them.

    All partitions in one request: those that belong to different workers keep the connection where it is, so that some
    are read across processes.

    Raises:
        OSError: the broker, or who leads a partition, is gone.
    """
    positions = {partition: good(wire.offset(TOPIC, partition, EARLIEST)) for partition in partitions}
    records: dict[int, list[Record]] = {partition: [] for partition in partitions}
    for _ in range(2):
        # What had gone before its place was read had a successor by then, so below the end as it is after that.
        ends = {partition: good(wire.offset(TOPIC, partition)) for partition in partitions}
        while any(positions[partition] < end for partition, end in ends.items()):
            # Few bytes, so that reading goes on in the middle of a segment that may have become another one.
            for partition, answer in wire.fetch_each(TOPIC, positions, bytes_max=1500).items():
                for header, found in read_batches(good(answer), from_offset=positions[partition]):
                    records[partition] += [one for one in found if one.offset >= positions[partition]]
                    positions[partition] = header.next_offset
    return records


def good(answer: tuple[ErrorCode, T]) -> T:
    if answer[0]:
        raise ConnectionResetError(answer[0].name)
    return answer[1]


def check(records: list[Record], acknowledged: int) -> None:
    """What a reader from the start has seen, when at least so many changes were acknowledged before it began."""
    numbers = [record.offset for record in records]
    assert numbers == sorted(set(numbers))
    # One producer, each change once: offsets are numbers.
    for record in records:
        assert (record.key, record.value) == (key_of(record.offset), value_of(record.offset)), record.offset
    last = {record.key: record.offset for record in records}
    for number in range(max(acknowledged - KEYS, 0), acknowledged):
        key = key_of(number)
        # A record without a value may have had its time; then nothing older of its key is left either.
        assert last.get(key, -1) >= number or (value_of(number) is None and key not in last), number


class Reader:
    """Reads all partitions from their starts over and over, through the worker of that name where one is given."""

    def __init__(self, broker: Broker, writers: Sequence[Writer], worker: str | None = None) -> None:
        self._broker = broker
        self._writers = writers
        self._worker = worker
        self.rounds = 0
        self.failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except OSError:
                time.sleep(0.02)
            except Exception as error:  # noqa: BLE001 - raised again by the thread that stops this one
                self.failure = error
                return

    def _read(self) -> None:
        wire = connect_to(self._broker, self._worker) if self._worker else Wire(self._broker.bootstrap)
        with wire:
            while not self._stop.is_set():
                acknowledged = {writer.partition: writer.acknowledged for writer in self._writers}
                for partition, records in read_from_start(wire, list(acknowledged)).items():
                    check(records, acknowledged[partition])
                self.rounds += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


@contextmanager
def load(broker: Broker, partitions: int = 2, **settings: str) -> Iterator[list[Writer]]:
    """Writers of all partitions and a reader, ended and looked at on leaving."""
    configs = TINY | {name.replace("_", "."): value for name, value in settings.items()}
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic(TOPIC, partitions, configs=configs) == ErrorCode.NONE
    writers = [change_writer(broker.bootstrap, partition) for partition in range(partitions)]
    reader = Reader(broker, writers)
    yield writers
    for writer in writers:
        writer.stop()
    reader.stop()
    assert reader.rounds > 0


def cleaned(broker: Broker) -> dict[int, int]:
    """The cleaner's checkpoint of each partition."""
    path = broker.log_dir / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return {int(row[1]): int(row[2]) for row in rows if row[0] == TOPIC}


def progress(broker: Broker, writers: list[Writer]) -> None:
    """Wait until something that is written from now on has been cleaned, in every partition."""
    now = {writer.partition: writer.acknowledged for writer in writers}
    eventually(
        lambda: all(cleaned(broker).get(partition, 0) > then for partition, then in now.items()), timeout_s=60
    )


def settled(broker: Broker, writers: list[Writer]) -> None:
    """All is there, little else is, and no round has left a file behind."""
    for writer in writers:

        def is_small(writer: Writer = writer) -> bool:
            with Wire(broker.bootstrap) as wire:
                (records,) = read_from_start(wire, [writer.partition]).values()
            check(records, writer.acknowledged)
            return len(records) < writer.acknowledged / 2

        # The last changes may have come faster than the cleaner.
        eventually(is_small)
    directory = broker.log_dir
    for suffix in ("cleaned", "swap", "deleted"):
        eventually(lambda: not list(directory.glob(f"{TOPIC}-*/*.{suffix}")))  # noqa: B023 - called at once


def test_readers_through_every_worker_see_whole_records_while_segments_are_swapped(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**EAGER)
    broker.start()
    with load(broker) as writers:
        assert {owner_of(TOPIC, writer.partition, 2) for writer in writers} == {0, 1}
        readers = [Reader(broker, writers, f"worker-{index}") for index in (0, 1)]
        for _ in range(10):
            progress(broker, writers)
        eventually(lambda: all(reader.rounds > 3 or reader.failure for reader in readers))
        for reader in readers:
            reader.stop()
    settled(broker, writers)
    assert broker.stop() == 0


@pytest.mark.parametrize("name", ["cleaner", "worker", "broker"])
def test_a_kill_in_the_middle_of_compaction_loses_nothing(make_broker: MakeBroker, name: str) -> None:
    broker = make_broker(**EAGER)
    broker.start()
    choice = random.Random(SEED)
    with load(broker) as writers:
        progress(broker, writers)
        for _ in range(5):
            time.sleep(choice.random() * 0.2)
            hurt(broker, name, choice)
            progress(broker, writers)
    assert broker.stop() == 0
    broker.start()
    settled(broker, writers)


def hurt(broker: MeasuredBroker, name: str, choice: random.Random) -> None:
    if name == "broker":
        broker.kill()
        broker.start()
        return
    victim = name if name == "cleaner" else choice.choice([one for one in family(broker) if "worker" in one])
    replaced(broker, kill(broker, victim), victim)


def test_a_topic_deleted_and_made_anew_during_compaction(make_broker: MakeBroker) -> None:
    broker = make_broker(**EAGER)
    broker.start()
    for _ in range(3):
        with load(broker) as writers:
            progress(broker, writers)
        with Wire(broker.bootstrap) as wire:
            assert wire.delete_topic(TOPIC) == ErrorCode.NONE
        eventually(lambda: not list(broker.log_dir.glob(f"{TOPIC}-*")))
        eventually(lambda: not cleaned(broker))
    assert "uncleanable" not in broker.log_tail()
    assert broker.stop() == 0


def test_a_stop_in_the_middle_leaves_nothing_behind(make_broker: MakeBroker) -> None:
    broker = make_broker(**EAGER)
    broker.start()
    with load(broker) as writers:
        progress(broker, writers)
        for _ in range(3):
            assert broker.stop() == 0
            assert not list(broker.log_dir.glob(f"{TOPIC}-*/*.cleaned"))
            broker.start()
            progress(broker, writers)
    settled(broker, writers)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_same_for_longer_with_all_kills_and_a_new_topic_now_and_then(make_broker: MakeBroker) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    choice = random.Random(seed)
    broker = make_broker(**EAGER, **{"log.flush.offset.checkpoint.interval.ms": 500})
    broker.start()
    for _ in range(6):
        with load(broker, 3, delete_retention_ms=str(choice.choice([0, 200, 86_400_000]))) as writers:
            for _ in range(6):
                time.sleep(choice.random() * 0.5)
                hurt(broker, choice.choice(["cleaner", "worker", "broker", "broker"]), choice)
                progress(broker, writers)
        settled(broker, writers)
        assert broker.stop() == 0
        broker.start()
        settled(broker, writers)
        with Wire(broker.bootstrap) as wire:
            assert wire.delete_topic(TOPIC) == ErrorCode.NONE
        eventually(lambda: not list(broker.log_dir.glob(f"{TOPIC}-*")))
