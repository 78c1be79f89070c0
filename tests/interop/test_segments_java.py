"""Segments that are preallocated or have to be split: what Apache Kafka 3.9.1 makes of them, and what pkafka does."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pkafka import model
from pkafka.storage.config import LogConfig
from pkafka.storage.log_directory import LogDirectory
from pkafka.storage.recovery import LogEnvironment
from pkafka.storage.segment import RELATIVE_OFFSET_MAX
from tests.interop import kafka as oracle
from tests.interop.conftest import JavaTool
from tests.unit.storage.makers import NOW, batch, stored

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

FAR = RELATIVE_OFFSET_MAX + 1
OFFSETS = [*range(0, 40, 2), FAR - 1, FAR, *range(FAR + 7, FAR + 20), 3 * FAR, 3 * FAR + 1]
BASES = [0, FAR, 3 * FAR]
SPARSE = {"index.interval.bytes": "300", "retention.ms": "-1"}
PREALLOCATED = {"preallocate": "true", "segment.bytes": "20000"}
CONFIGS = {"sparse": SPARSE, "roomy": PREALLOCATED}


@pytest.fixture
def broker(kafka_classpath: str, tmp_path: Path) -> Iterator[oracle.KafkaBroker]:
    assert kafka_classpath
    overrides = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
    with oracle.running_kafka(tmp_path / "kafka", overrides=overrides) as running:
        topics = [NewTopic(name, 1, 1, config=config) for name, config in CONFIGS.items()]
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield running


def recovered(path: Path) -> None:
    """Open every log as after kill -9, and close it."""
    directory = LogDirectory(path)
    directory.lock()
    logs = directory.open_logs(_is_ours, _config_of, LogEnvironment(), had_clean_shutdown=False)
    for log in list(logs):
        log.close()
    directory.unlock()


def _is_ours(topic_partition: model.TopicPartition) -> bool:
    return topic_partition.topic in CONFIGS


def _config_of(topic_partition: model.TopicPartition) -> LogConfig:
    return LogConfig.from_topic_configs(CONFIGS[topic_partition.topic], LogConfig())


def files_of(path: Path, topic: str) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in sorted((path / f"{topic}-0").glob("0*"))
        if file.suffix != ".snapshot"
    }


def values_in(bootstrap: str, topic: str) -> list[tuple[int | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.offset(), message.value()))
    consumer.close()
    return found


@pytest.mark.nightly
def test_a_segment_whose_offsets_overflow_is_split_as_kafka_does(
    broker: oracle.KafkaBroker, java_tool: JavaTool, tmp_path: Path
) -> None:
    broker.stop()
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    data = b"".join(
        stored(batch([b"%d" % offset], timestamp=NOW + n), offset) for n, offset in enumerate(OFFSETS)
    )
    sparse = broker.log_dir / "sparse-0"
    (sparse / f"{0:020d}.log").write_bytes(data)
    ours = tmp_path / "ours"
    shutil.copytree(broker.log_dir, ours)
    recovered(ours)
    assert [name for name in files_of(ours, "sparse") if name.endswith(".log")] == [
        f"{base:020d}.log" for base in BASES
    ]

    broker.start()
    expected = [(offset, b"%d" % offset) for offset in OFFSETS]
    assert values_in(broker.bootstrap, "sparse") == expected
    broker.stop()
    theirs = files_of(broker.log_dir, "sparse")
    theirs = {name: content for name, content in theirs.items() if not name.endswith(".deleted")}
    assert files_of(ours, "sparse") == theirs

    files = [str(path) for path in sorted((ours / "sparse-0").glob("0*")) if path.suffix != ".snapshot"]
    dump = java_tool(
        "kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", ",".join(files)
    )
    assert dump.returncode == 0, dump.stderr
    complaints = re.compile("mismatch|not found|out of order|corrupt|error|isvalid: false", re.IGNORECASE)
    assert not [line for line in dump.stdout.splitlines() if complaints.search(line)]
    assert re.findall(r"^\| offset: (\d+) ", dump.stdout, re.MULTILINE) == [str(offset) for offset in OFFSETS]

    shutil.rmtree(sparse)
    shutil.copytree(ours / "sparse-0", sparse)
    broker.start()
    assert values_in(broker.bootstrap, "sparse") == expected


def test_preallocated_files_have_the_sizes_that_kafka_gives_them(
    broker: oracle.KafkaBroker, tmp_path: Path
) -> None:
    def sizes(path: Path) -> list[int]:
        return [len(data) for name, data in files_of(path, "roomy").items() if name.endswith(".log")]

    ours = tmp_path / "ours"
    assert sizes(broker.log_dir) == [20_000]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for _ in range(30):
        producer.produce("roomy", os.urandom(1000))
        producer.flush(30)
    full, rest = sizes(broker.log_dir)
    assert (full < 20_000, rest) == (True, 20_000)
    # A copy of a running broker's quiet directory is what kill -9 leaves; what it is about to rename may be gone.
    shutil.copytree(broker.log_dir, ours, ignore=shutil.ignore_patterns("*.tmp"))
    recovered(ours)
    broker.stop()
    assert files_of(ours, "roomy") == files_of(broker.log_dir, "roomy")
    assert sum(sizes(ours)) < 40_000

    # With what a killed pkafka leaves, Kafka deals as with its own.
    log_directory = LogDirectory(ours)
    (log,) = log_directory.open_logs(
        lambda key: key.topic == "roomy", _config_of, LogEnvironment(), had_clean_shutdown=True
    )
    log.roll(NOW)
    shutil.rmtree(broker.log_dir / "roomy-0")
    shutil.copytree(ours / "roomy-0", broker.log_dir / "roomy-0")
    assert sizes(broker.log_dir)[-1] == 20_000
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    broker.start()
    assert len(values_in(broker.bootstrap, "roomy")) == 30
    log.close()
