"""pk-dump-log --spark on a log that Apache Kafka wrote: what the plain dump gives, and what Kafka's own tool prints."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pkafka.clients.producer import Producer
from pkafka.pipeline.dump import SparkDump
from pkafka.tools.logs.dump import Dump
from pkafka.tools.logs.rows import BatchRow, RecordRow, text_of
from tests.differences import first_difference, first_difference_of_all
from tests.interop import kafka as oracle
from tests.interop.conftest import JavaTool
from tests.spark import END_S, Sessions
from tests.talk import talking, wait_for

pytestmark = pytest.mark.timeout(900)

TOPIC = "orders"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PART_BYTES = 1_000
"""Several parts a segment."""
SETTINGS: dict[str, Any] = {
    "log.cleaner.backoff.ms": 100,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
CONFIGS: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_bytes": 4_000,
    "index_interval_bytes": 200,
    "min_cleanable_dirty_ratio": "0.001",
}


@pytest.fixture
def segments(kafka_classpath: str, tmp_path: Path) -> list[Path]:
    """Every codec, transactions of both fates, gaps where compaction was, and half a batch at the end."""
    with (
        oracle.running_kafka(tmp_path / "kafka", overrides=SETTINGS) as broker,
        talking(broker.bootstrap) as talk,
    ):
        talk.create(TOPIC, **CONFIGS)
        sent = write_transactions(broker.bootstrap) + write_with_codecs(broker.bootstrap)
        wait_for(lambda: len(talk.read(TOPIC)) < sent, timeout_s=END_S, what="compaction")
        write_transactions(broker.bootstrap)
        broker.stop()
    found = sorted((tmp_path / "kafka" / "data" / f"{TOPIC}-0").glob("*.log"))
    last = found[-1].read_bytes()
    found[-1].write_bytes(last + last[:70])
    return found


def write_with_codecs(bootstrap: str) -> int:
    """Write keys of which half come again and again, in batches of ten records; how many records."""
    values = random.Random(1)
    for codec in CODECS:
        with Producer({"bootstrap.servers": bootstrap, "compression.type": codec}) as producer:
            for number in range(60):
                key = b"k%d" % values.randrange(12) if number % 2 else b"%s-%d" % (codec.encode(), number)
                value = None if number % 7 == 0 else values.randbytes(20).hex().encode()
                headers = [("codec", codec.encode()), ("none", None)] if number % 5 == 0 else ()
                producer.send(TOPIC, value, key, headers=headers)
                if number % 10 == 9:
                    producer.flush()
    return len(CODECS) * 60


def write_transactions(bootstrap: str) -> int:
    """Write three transactions that are committed and one that is not; how many records, markers too."""
    with Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"}) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for each in range(3):
                producer.send(TOPIC, b"%d" % each, b"t%d" % number)
            producer.flush()
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    return 16


def test_the_same_rows_and_the_same_text(
    segments: list[Path], spark_sessions: Sessions, java_tool: JavaTool
) -> None:
    names = ",".join(map(str, segments))
    done = java_tool("kafka.tools.DumpLogSegments", "--print-data-log", "--files", names)
    assert done.returncode == 0, done
    theirs = done.stdout

    def plain() -> Dump:
        return Dump(records=True)

    def by_spark() -> SparkDump:
        session = spark_sessions.get()
        return SparkDump(records=True, session=session, files=segments, part_bytes=PART_BYTES)

    texts = [theirs, text(plain(), segments), text(by_spark(), segments)]
    assert not first_difference_of_all(texts)
    found, expected = (
        [row for path in segments for row in dump.rows(path)] for dump in (by_spark(), plain())
    )
    assert not first_difference(found, expected)
    # A row has what a line has: of each line every field.
    lines = [line for line in theirs.splitlines() if line.startswith(("baseOffset: ", "| offset: "))]
    rows = [row for row in found if isinstance(row, BatchRow | RecordRow)]
    assert not first_difference([line_of(row) for row in rows], lines)
    # It is the log that it was to be.
    assert {f"compresscodec: {codec} " in theirs for codec in CODECS} == {True}
    assert {f"endTxnMarker: {fate}" in theirs for fate in ("COMMIT", "ABORT")} == {True}
    offsets = [row.record.offset for row in rows if isinstance(row, RecordRow)]
    assert any(after - before > 1 for before, after in pairwise(offsets))
    assert "Found 70 invalid bytes at the end of " in theirs


def text(dump: Dump, files: list[Path]) -> str:
    """As the command prints it."""
    parts = (b"Dumping %s\n%s" % (bytes(path), b"".join(dump.text(path, content=True))) for path in files)
    return b"".join(parts).decode()


def line_of(row: BatchRow | RecordRow) -> str:
    return text_of(row, content=True)
