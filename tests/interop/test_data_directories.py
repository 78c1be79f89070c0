"""One data directory, one ZooKeeper, two kinds of broker in turn: Apache Kafka 3.9.1 and pkafka.

Whoever comes next finds every record as it was (offset, timestamp, key, value, headers) and every producer where it
stopped, after clean and unclean stops; and Kafka's own dump tool reads all files of both.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pkafka.coordination.embedded import STORE_FILE
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.reading import Record
from pkafka.testing import Broker
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.kafka import KafkaBroker
from tests.talk import Talk, good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "log.cleaner.enable": "false",
    "log.flush.start.offset.checkpoint.interval.ms": 200,
    "log.initial.task.delay.ms": 0,
    "log.message.timestamp.before.max.ms": 2**62,
    "zookeeper.session.timeout.ms": 6000,
}
PAST_MS = 1_700_000_000_000
PATIENT: dict[str, object] = {"pkafka.workers": 2, "log.message.timestamp.before.max.ms": 2**62}
TOPICS: dict[str, dict[str, object]] = {
    "codecs": {"segment_bytes": 4000, "index_interval_bytes": 200, "retention_ms": -1},
    "appended": {"message_timestamp_type": "LogAppendTime"},
    "tombstones": {"cleanup_policy": "compact"},
    "shortened": {"segment_bytes": 1000, "retention_ms": -1},
    "sequences": {"retention_ms": -1},
    "empty": {},
}
Either = KafkaBroker | Broker
Contents = dict[str, tuple[tuple[int, int], list[Record]]]


class Cluster:
    """Two brokers of different kinds that take turns on one data directory, as the same broker of one cluster."""

    def __init__(self, class_path: str, connect: str, directory: Path) -> None:
        self.log_dir = directory / "data"
        settings = {**SETTINGS, "log.dirs": self.log_dir}
        self.kafka = KafkaBroker(class_path, connect, directory / "kafka", overrides=settings, heap="256m")
        self.pkafka = Broker(
            directory / "pkafka", {**settings, "zookeeper.connect": connect, "pkafka.workers": 2}
        )
        self._connect = connect
        self.producer: tuple[int, int] = (-1, -1)
        self.sequence = 0
        # Of the present: a producer whose records are a day old is forgotten at the next start.
        self.now_ms = time.time_ns() // 1_000_000
        self.written = 0

    def close(self) -> None:
        self.kafka.kill()
        self.pkafka.kill()

    def turn(self, broker: Either) -> Talk:
        """Start the broker, on the directory as the other has left it."""
        # Kafka refuses to start beside the registration of the one that was killed, until its session is over.
        with closing(ZooKeeperStore(self._connect, create_chroot=True)) as store:
            path = BrokerRegistration.path(0)
            wait_for(lambda: store.exists(path) is None, what="the end of the other's session")
        broker.start()
        return Talk(broker.bootstrap)

    def fill(self, talk: Talk) -> None:
        """Write something of every kind."""
        for number in range(5 * 6):
            first = self.written * 1000 + number * 3
            talk.produce("codecs", self._batch(first, list(Codec)[number % 5]))
        talk.produce("appended", self._batch(self.written, Codec.GZIP))
        now = time.time_ns() // 1_000_000
        rows = [(now, b"key", b"value", ()), (now, b"key", None, ()), (now, b"", b"", ())]
        talk.produce("tombstones", bytes(build_batch(rows)))
        for _ in range(4):
            talk.send("shortened", b"x" * 700)
        first, end = talk.ends("shortened")
        key = TopicPartition("shortened", 0)
        assert good(talk.admin.delete_records({key: end - 2})[key]) == end - 2
        self.continue_producer(talk)
        self.written += 1

    def wait_for_checkpoint(self, before: Contents) -> None:
        """Until the start of "shortened" is on the disk: before that, kill -9 brings deleted records back, in both."""
        (start, _) = before["shortened"][0]
        checkpoint = self.log_dir / "log-start-offset-checkpoint"
        wait_for(lambda: f"shortened 0 {start}" in checkpoint.read_text().splitlines(), what="the checkpoint")

    def _batch(self, first: int, codec: Codec) -> bytes:
        records = [
            (
                PAST_MS + number,
                None if number % 3 == 0 else b"key-%d" % number,
                b"value-%d-" % number + b"x" * (number % 90),
                (("h", b"%d" % number), ("none", None), ("empty", b"")) if number % 2 else (),
            )
            for number in range(first, first + 3)
        ]
        return bytes(build_batch(records, codec=codec))

    def continue_producer(self, talk: Talk) -> None:
        """The next batch of a producer that lives longer than any broker, sent twice and stored once."""
        if self.producer[0] < 0:
            self.producer = talk.new_producer()
        batch = self._sequence(self.sequence)
        offset = talk.produce("sequences", batch)
        assert talk.produce("sequences", batch) == offset, "a repetition is answered like the first"
        assert talk.ends("sequences")[1] == offset + 2
        with pytest.raises(ApiError) as refused:
            talk.produce("sequences", self._sequence(self.sequence + 100))
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.sequence += 2

    def repeat_producer(self, talk: Talk) -> None:
        """The batch that the other broker stored last is still known as a repetition."""
        end = talk.ends("sequences")[1]
        assert talk.produce("sequences", self._sequence(self.sequence - 2)) == end - 2
        assert talk.ends("sequences")[1] == end

    def _sequence(self, sequence: int) -> bytes:
        rows = [(self.now_ms, b"%d" % number, b"", ()) for number in (sequence, sequence + 1)]
        return bytes(
            build_batch(
                rows,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                base_sequence=sequence,
            )
        )


def everything(talk: Talk) -> Contents:
    return {topic: (talk.ends(topic), talk.read(topic)) for topic in TOPICS}


def assert_same(now: Contents, before: Contents) -> None:
    """A difference is told as which topic, which start and end, which record."""
    for part in (0, 1):
        assert not first_difference(
            *({topic: found[topic][part] for topic in found} for found in (now, before))
        )


@pytest.fixture
def cluster(kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Cluster]:
    chroot = f"/d{time.monotonic_ns()}"
    cluster = Cluster(kafka_classpath, zookeeper.connect + chroot, tmp_path)
    yield cluster
    cluster.close()
    print(cluster.pkafka.log_tail())  # shown when the test fails


def create_topics(talk: Talk) -> None:
    for topic, settings in TOPICS.items():
        talk.create(topic, partitions=2 if topic == "empty" else 1, **settings)


def dump_without_complaint(java_tool: JavaTool, directory: Path) -> None:
    """kafka.tools.DumpLogSegments on every file of every partition.

    But for the indexes of active segments after kill -9: they still have their full size, and the tool takes the zeros
    for an entry, Kafka's own as well as ours.
    """
    files = [
        path
        for path in sorted(directory.glob("*-*/*"))
        if path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
        and path.parent.name[0] != "_"
        and not (path.suffix in {".index", ".timeindex"} and path.stat().st_size > 1_000_000)
    ]
    assert {".log", ".index", ".timeindex", ".snapshot"} <= {path.suffix for path in files}
    complaints = re.compile(
        r"mismatch|not found|out of order|corrupt|error|exception|isvalid: false|sanity check failed", re.I
    )
    deep = java_tool(
        "kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--files",
        ",".join(map(str, files)),
        timeout_s=120,
    )
    assert deep.returncode == 0, deep.stderr
    assert [line for line in deep.stdout.splitlines() if complaints.search(line)] == []
    assert deep.stderr == ""
    # An empty offset index is only named as such.
    indexes = [
        path
        for path in files
        if path.suffix == ".timeindex" or (path.suffix == ".index" and path.stat().st_size)
    ]
    checked = java_tool(
        "kafka.tools.DumpLogSegments", "--index-sanity-check", "--files", ",".join(map(str, indexes))
    )
    assert checked.stdout.count("passed sanity check") == len(indexes)


def clean(broker: Either) -> None:
    broker.stop()


def unclean(broker: Either) -> None:
    broker.kill()


@pytest.mark.nightly  # forty seconds; in each change directories with groups and transactions move
@pytest.mark.parametrize("stop", [clean, unclean])
def test_directories_move_both_ways_on_one_zookeeper(
    cluster: Cluster, java_tool: JavaTool, stop: Callable[[Either], None]
) -> None:
    before: Contents = {}
    for broker in (cluster.kafka, cluster.pkafka, cluster.kafka, cluster.pkafka):
        with closing(cluster.turn(broker)) as talk:
            if before:
                assert_same(everything(talk), before)
                cluster.repeat_producer(talk)
            else:
                create_topics(talk)
            cluster.fill(talk)
            before = everything(talk)
            assert len(before["codecs"][1]) == cluster.written * 90
            assert before["shortened"][0] == (cluster.written * 4 - 2, cluster.written * 4)
        cluster.wait_for_checkpoint(before)
        stop(broker)
        if broker is cluster.pkafka:
            dump_without_complaint(java_tool, cluster.log_dir)
    assert not list(cluster.log_dir.glob("*-stray"))
    # A kill may come between the writing of a checkpoint and its renaming; the next writing begins anew.
    assert stop is unclean or not list(cluster.log_dir.glob("*.tmp"))


@pytest.mark.nightly
def test_to_the_embedded_store_and_back(cluster: Cluster, java_tool: JavaTool) -> None:
    with closing(cluster.turn(cluster.kafka)) as talk:
        create_topics(talk)
        cluster.fill(talk)
        before = everything(talk)
    cluster.kafka.stop()
    # Kafka writes these files by and by.
    ids = {path.parent.name: path.read_text() for path in cluster.log_dir.glob("*/partition.metadata")}
    assert len(ids) == len(TOPICS) + 1
    alone = Broker(cluster.kafka.log_file.parent.with_name("alone"), {"log.dirs": cluster.log_dir, **PATIENT})
    try:
        alone.start("--adopt")
        with closing(Talk(alone.bootstrap)) as talk:
            assert_same(everything(talk), before)
            cluster.repeat_producer(talk)
            cluster.continue_producer(talk)
            talk.produce("tombstones", bytes(build_batch([(PAST_MS, b"from", b"pkafka", ())])))
            talk.create("only-here", retention_ms=-1)
            talk.send("only-here", b"Kafka knows nothing of this topic, and leaves it alone")
            ids["only-here-0"] = (cluster.log_dir / "only-here-0" / "partition.metadata").read_text()
            before = everything(talk)
        alone.stop()
    finally:
        alone.kill()
    dump_without_complaint(java_tool, cluster.log_dir)
    assert ids == {
        path.parent.name: path.read_text() for path in cluster.log_dir.glob("*/partition.metadata")
    }
    with closing(cluster.turn(cluster.kafka)) as talk:
        assert_same(everything(talk), before)
        cluster.repeat_producer(talk)
        cluster.fill(talk)
        before = everything(talk)
    cluster.wait_for_checkpoint(before)
    cluster.kafka.kill()
    assert (cluster.log_dir / STORE_FILE).exists()
    try:
        alone.start()
        with closing(Talk(alone.bootstrap)) as talk:
            assert_same(everything(talk), before)
            cluster.repeat_producer(talk)
            assert len(talk.read("only-here")) == 1
    finally:
        alone.kill()
    assert not [path for path in cluster.log_dir.iterdir() if path.name.endswith("-stray")]
