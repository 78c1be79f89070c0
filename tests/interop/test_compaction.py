"""The same log, file by file, given to Apache Kafka 3.9.1 and to pkafka: both leave the same records and headers of it.

Then each is given what the other has left: it serves all of it, compacts it further, and Kafka's own dump tool finds
nothing wrong.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import StorageError
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.legacy import build_message_set
from pkafka.records.reading import Record, read_batches
from pkafka.storage.config import LogConfig
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from pkafka.storage.transaction_index import AbortedTransaction, TransactionIndex
from pkafka.testing import Broker
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.kafka import KafkaBroker
from tests.talk import Talk, wait_for
from tests.unit.storage.cleaned import compact, latest, records_of, write
from tests.unit.storage.makers import FaultyFiles, World, end_transaction
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "orders"  # that of World
RETENTION_MS = 3_000
CLEANER: dict[str, object] = {
    "log.cleaner.backoff.ms": 100,
    "log.segment.delete.delay.ms": 0,
    "log.initial.task.delay.ms": 0,
    "log.message.timestamp.before.max.ms": 2**62,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
}
CONFIGS: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_bytes": 3000,
    "index_interval_bytes": 200,
    "min_cleanable_dirty_ratio": "0.001",
    "delete_retention_ms": RETENTION_MS,
}
Either = KafkaBroker | Broker
Header = tuple[Any, ...]
Batch = tuple[Header, list[Record]]


def a_bit_of_everything(log: Log, now_ms: int, rng: random.Random) -> None:
    """Idempotent and transactional producers, tombstones, all codecs, records without a key, old formats."""
    old = [
        build_message_set(
            [(0, now_ms, b"k1", b"old"), (1, now_ms, b"old", b"stays"), (2, now_ms, b"k1", b"old too")],
            magic=1,
            codec=Codec.GZIP,
        ),
        build_message_set([(3, now_ms, b"k2", b"old")], magic=0),
        build_message_set([(4, now_ms, b"old as well", b"stays")], magic=1),
    ]
    for messages in old:
        log.append_as_follower(messages)
    log.set_high_watermark(log.log_end_offset)
    sequences: dict[int, int] = {}
    open_ones: set[int] = set()
    for number in range(400):
        kind = rng.random()
        pid = rng.randrange(100, 106)
        if kind < 0.1 and open_ones:
            pid = rng.choice(sorted(open_ones))
            end_transaction(log, pid, 0, committed=rng.random() < 0.5)
            open_ones.discard(pid)
            continue
        records = [
            (
                None if rng.random() < 0.03 else b"k%d" % rng.randrange(40 if number < 380 else 400),
                None if rng.random() < 0.15 else b"v%d-" % number + b"." * rng.randrange(80),
            )
            for _ in range(rng.randrange(1, 6))
        ]
        options: dict[str, Any] = {}
        if kind < 0.6:
            if pid < 103:
                open_ones.add(pid)
            options = {"pid": pid, "epoch": 0, "sequence": sequences.get(pid, 0), "transactional": pid < 103}
            sequences[pid] = sequences.get(pid, 0) + len(records)
        write(log, *records, timestamp=now_ms + number, codec=rng.choice(list(Codec)), **options)
    for pid in sorted(open_ones):
        end_transaction(log, pid, 0, committed=pid % 2 == 0)


def batches_in(directory: Path) -> list[Batch]:
    """The batches of all segments in order, but for where the base of their timestamps lies."""
    found: list[Batch] = []
    for path in sorted(directory.glob("*.log")):
        for header, records in read_batches(path.read_bytes()):
            fields = header._replace(batch_length=0, crc=0, base_timestamp=0)
            found.append((tuple(fields), records))
    return found


def bases_in(directory: Path) -> list[int]:
    return [int(path.stem) for path in sorted(directory.glob("*.log"))]


def aborted_in(directory: Path) -> list[tuple[str, list[AbortedTransaction]]]:
    """What the transaction indexes say; one without entries is like none."""
    indexes = [
        (path.name, TransactionIndex(path, 0, OsFiles()).entries)
        for path in sorted(directory.glob("*.txnindex"))
    ]
    return [(name, entries) for name, entries in indexes if entries]


def cleaned_up_to(broker: Either) -> int:
    checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    found = [int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")]
    return found[0] if found else -1


class Pair:
    """Both brokers, each with the same files for one partition."""

    def __init__(self, class_path: str, connect: str, directory: Path) -> None:
        self.kafka = KafkaBroker(
            class_path,
            f"{connect}/k",
            directory / "kafka",
            overrides={**CLEANER, "broker.id": 0},
            heap="256m",
        )
        self.pkafka = Broker(
            directory / "pkafka",
            {**CLEANER, "broker.id": 0, "zookeeper.connect": f"{connect}/p", "pkafka.workers": 2},
        )
        self.both: tuple[Either, Either] = (self.kafka, self.pkafka)

    def files(self, broker: Either) -> Path:
        return broker.log_dir / f"{TOPIC}-0"

    def give(self, broker: Either, source: Path) -> None:
        """Put a partition's files in the place of its own; it must have been stopped."""
        target = self.files(broker)
        for path in target.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in source.iterdir():
            if path.name != "partition.metadata":
                shutil.copy2(path, target)
        checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
        if checkpoint.exists():
            checkpoint.unlink()

    def each(self, action: Callable[[Talk], object]) -> None:
        for broker in self.both:
            with closing(Talk(broker.bootstrap)) as talk:
                action(talk)

    def compacted(self) -> None:
        """Both have cleaned all that can be."""
        for broker in self.both:
            wait_for(
                lambda: cleaned_up_to(broker) == bases_in(self.files(broker))[-1],  # noqa: B023 - called at once
                what=f"compaction by {type(broker).__name__}",
                timeout_s=60,
            )

    def assert_same(self, *, files: bool = True) -> None:
        """The same batches; with ``files`` in the same segments too."""
        kafka, pkafka = (self.files(broker) for broker in self.both)
        assert not first_difference(batches_in(pkafka), batches_in(kafka))
        if files:
            assert bases_in(pkafka) == bases_in(kafka)
            assert aborted_in(pkafka) == aborted_in(kafka)

    def close(self) -> None:
        self.kafka.kill()
        self.pkafka.kill()


@pytest.fixture
def pair(kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(kafka_classpath, f"{zookeeper.connect}/c{time.monotonic_ns()}", tmp_path)
    yield pair
    pair.close()
    print(pair.pkafka.log_tail())  # shown when the test fails


def tombstones_in(pair: Pair) -> list[Record]:
    found = batches_in(pair.files(pair.pkafka))
    return [record for _, records in found for record in records if record.value is None]


def complaints(java_tool: JavaTool, directory: Path) -> list[str]:
    """What kafka.tools.DumpLogSegments finds odd about the files of a partition; gaps, after compaction, are."""
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    files = [path for path in sorted(directory.iterdir()) if path.suffix in suffixes and path.stat().st_size]
    dump = java_tool(
        "kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--files",
        ",".join(map(str, files)),
        timeout_s=120,
    )
    assert dump.returncode == 0, dump.stderr
    return sorted(line.replace(str(directory), "") for line in dump.stderr.splitlines())


def made(root: Path, now_ms: int, seed: int) -> Path:
    """A partition's directory with a log of many small segments, closed."""
    root.mkdir()
    config = LogConfig(segment_bytes=3000, index_interval_bytes=200, cleanup_policy=("compact",))
    world = World(root, replace(config, segment_index_bytes=4096))
    log = world.create()
    a_bit_of_everything(log, now_ms, random.Random(seed))
    log.roll(now_ms)
    log.close()
    return world.directory


def more(talk: Talk) -> None:
    """Something to be compacted, and a reason to roll; in one round, for each one leaves its last header."""
    talk.set_topic(TOPIC, min_cleanable_dirty_ratio="1.0")
    for number in range(12):
        rows: list[Any] = [(1_700_000_000_000 + number, b"more%d" % (number % 2), b"." * 400, ())]
        talk.produce(TOPIC, bytes(build_batch(rows)))
    talk.set_topic(TOPIC, min_cleanable_dirty_ratio="0.001")


@pytest.mark.nightly  # half a minute each; the next one is compacted in each change
@pytest.mark.parametrize("seed", [1, 2])
def test_both_leave_the_same_records_and_headers(
    pair: Pair, java_tool: JavaTool, tmp_path: Path, seed: int
) -> None:
    for broker in pair.both:
        broker.start()
    pair.each(lambda talk: talk.create(TOPIC, **CONFIGS))
    for broker in pair.both:
        broker.stop()
    source = made(tmp_path / "made", time.time_ns() // 1_000_000, seed)
    before = batches_in(source)
    for broker in pair.both:
        pair.give(broker, source)
        broker.start()
    pair.compacted()
    assert sum(len(records) for _, records in before) > 3 * sum(
        len(records) for _, records in batches_in(pair.files(pair.kafka))
    )
    pair.assert_same()

    # Everything that has a time to stay in stays, and when that is over goes, in both.
    assert len(tombstones_in(pair)) > 5
    time.sleep(RETENTION_MS / 1000)
    pair.each(more)
    pair.compacted()
    pair.assert_same()
    assert tombstones_in(pair) == []

    # Now each gets what the other made.
    for broker in pair.both:
        broker.stop()
    assert complaints(java_tool, pair.files(pair.pkafka)) == complaints(java_tool, pair.files(pair.kafka))
    shutil.copytree(pair.files(pair.kafka), tmp_path / "kafkas")
    shutil.copytree(pair.files(pair.pkafka), tmp_path / "pkafkas")
    pair.give(pair.kafka, tmp_path / "pkafkas")
    pair.give(pair.pkafka, tmp_path / "kafkas")
    seen = []
    for broker in pair.both:
        broker.start()
        with closing(Talk(broker.bootstrap)) as talk:
            seen.append((talk.ends(TOPIC), talk.read(TOPIC)))
    pair.compacted()
    assert not first_difference(*seen)
    pair.each(more)
    pair.compacted()
    # Which segments were merged depends on how many rounds each made of what it found at its start.
    pair.assert_same(files=False)


def test_a_log_that_kafka_filled_is_compacted_alike(pair: Pair) -> None:
    """Not made by pkafka's storage: the same requests to both, with small batches that roll by size."""
    for broker in pair.both:
        broker.start()
    # Tombstones stay: when their time is over in the middle, it depends on the rounds of each which of them have gone.
    lasting = {**CONFIGS, "delete_retention_ms": 24 * 60 * 60 * 1000}
    pair.each(lambda talk: talk.create(TOPIC, **lasting))
    now_ms = time.time_ns() // 1_000_000
    rng = random.Random(3)
    batches = []
    for number in range(150):
        rows: list[Any] = [
            (
                now_ms + number,
                b"k%d" % rng.randrange(20),
                None if rng.random() < 0.2 else b"%d" % number * rng.randrange(30),
                (("h", b"%d" % number),) if rng.random() < 0.3 else (),
            )
            for _ in range(rng.randrange(1, 5))
        ]
        batches.append(bytes(build_batch(rows, codec=rng.choice(list(Codec)))))
    for batch in batches:
        pair.each(lambda talk: talk.produce(TOPIC, batch))  # noqa: B023 - called at once
    pair.each(more)
    pair.compacted()
    kafka, pkafka = (
        [record for _, records in batches_in(pair.files(broker)) for record in records]
        for broker in pair.both
    )
    final = {record.key: record for record in kafka}
    assert {record.key: record for record in pkafka} == final


def stopped_at(root: Path, renames: int, now_ms: int) -> tuple[Path, list[Record]] | None:
    """The directory of a log whose owner died after so many renames of a swap, and what was in it before; None when
    the swap has fewer."""
    root.mkdir()
    files = FaultyFiles()
    world = World(root, LogConfig(segment_bytes=2000, cleanup_policy=("compact",)), files)
    log = world.create()
    for number in range(40):
        pairs = [(b"k%d" % (number % 3), b"%d" % number), (b"once%d" % number, b"" if number % 4 else None)]
        write(log, *pairs, timestamp=now_ms + number)
        if number % 7 == 6:
            log.roll(now_ms)
    before = records_of(log)
    files.fail("rename", after=renames)
    try:
        compact(log, now=now_ms)
    except StorageError:
        return world.directory, before
    finally:
        world.crash(log)
    return None


@pytest.mark.nightly
def test_a_start_of_either_finishes_a_swap_that_was_cut_off(pair: Pair, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    states: list[tuple[Path, list[Record]]] = []
    while (state := stopped_at(tmp_path / f"after-{len(states)}", len(states), now_ms)) is not None:
        states.append(state)
    assert len(states) > 15
    lasting: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_bytes": 2000,
        "min_cleanable_dirty_ratio": "1.0",
    }
    for broker in pair.both:
        broker.start()
        with closing(Talk(broker.bootstrap)) as talk:
            talk.create(TOPIC, partitions=len(states), **lasting)
        broker.stop()
        (broker.log_dir / ".kafka_cleanshutdown").unlink()
        for number, (directory, _) in enumerate(states):
            target = broker.log_dir / f"{TOPIC}-{number}"
            for path in target.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for path in directory.iterdir():
                if path.name != "partition.metadata":
                    shutil.copy2(path, target)
        broker.start()
        with closing(Talk(broker.bootstrap)) as talk:
            for number, (_, before) in enumerate(states):
                found = talk.read(TOPIC, number)
                assert latest(found) == latest(before), number
                assert set(found) <= set(before)
                assert talk.ends(TOPIC, number) == (0, 80)
        assert not [
            path
            for path in broker.log_dir.glob(f"{TOPIC}-*/*")
            if path.suffix in {".cleaned", ".swap", ".deleted"}
        ]
        broker.stop()
