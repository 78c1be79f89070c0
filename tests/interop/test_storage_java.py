"""Files against Apache Kafka 3.9.1: its dump tool on ours, our recovery on its directories, its broker on ours."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pkafka import model
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.validation import ProduceRules, validate
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log
from pkafka.storage.log_directory import LogDirectory
from pkafka.storage.recovery import LogEnvironment
from tests.differences import first_difference
from tests.interop import kafka as oracle
from tests.talk import wait_for
from tests.unit.storage.makers import NOW, World, append, end_transaction

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CONFIGS = {
    "codecs": {"segment.bytes": "60000", "index.interval.bytes": "1000"},
    "transfers": {"segment.bytes": "20000", "index.interval.bytes": "500"},
    "empty": {},
}
TRANSACTIONS = 30
COMMITTED = 20 * 20
"""Of each three transactions of 20 records the first is aborted."""
JavaTool = Callable[..., subprocess.CompletedProcess[str]]


def config_of(topic_partition: model.TopicPartition) -> LogConfig:
    return LogConfig.from_topic_configs(CONFIGS.get(topic_partition.topic, {}), LogConfig())


def open_all(path: Path) -> tuple[LogDirectory, dict[str, Log]]:
    directory = LogDirectory(path)
    directory.lock()
    mark = directory.take_clean_shutdown_mark()
    logs = directory.open_logs(
        lambda _: True, config_of, LogEnvironment(), had_clean_shutdown=mark is not None
    )
    return directory, {log.topic_partition.topic: log for log in logs}


def close_all(directory: LogDirectory, logs: dict[str, Log]) -> None:
    for log in logs.values():
        log.close()
    directory.write_recovery_points({log.topic_partition: log.recovery_point for log in logs.values()})
    directory.write_high_watermarks({log.topic_partition: log.log_end_offset for log in logs.values()})
    directory.write_log_start_offsets({})
    directory.write_clean_shutdown_mark()
    directory.unlock()


def contents(path: Path) -> dict[str, bytes]:
    """Every file of every partition, but for what depends on who leads."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.glob("*/*"))
        if file.name != "leader-epoch-checkpoint"
    }


def test_kafka_dumps_our_files_without_a_complaint(java_tool: JavaTool, tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig(segment_bytes=30_000, index_interval_bytes=500))
    log = world.create()
    sequence = 0
    for turn in range(40):
        for place in range(5):
            data = build_batch(
                [(NOW + turn * 100 + place * 7 % 5 + n % 3, b"k%d" % n, b"v" * 50, ()) for n in range(10)],
                codec=list(Codec)[(turn + place) % 5],
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            sequence += 10
            log.append_as_leader(
                validate(data, ProduceRules(), now_ms=NOW), leader_epoch=turn // 10, now_ms=NOW
            )
        end_transaction(log, 7, 0, committed=turn % 3 > 0)
    append(log, b"open", pid=7, epoch=0, sequence=sequence, transactional=True, leader_epoch=4)
    log.close()
    files = [path for path in sorted(world.directory.iterdir()) if path.name[0] == "0"]
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    dump = java_tool(
        "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files)), timeout_s=120
    )
    assert dump.returncode == 0, dump.stderr
    complaints = re.compile("mismatch|not found|out of order|corrupt|error|isvalid: false", re.IGNORECASE)
    assert not [line for line in dump.stdout.splitlines() if complaints.search(line)]
    assert dump.stdout.count("version: 0 producerId: 7 ") == 14
    assert f"lastSequence: {sequence} " in dump.stdout
    indexes = [path for path in files if path.suffix in {".index", ".timeindex"}]
    checked = java_tool(
        "kafka.tools.DumpLogSegments", "--index-sanity-check", "--files", ",".join(map(str, indexes))
    )
    assert checked.stdout.count("passed sanity check") == len(indexes)


@pytest.fixture(scope="module")
def broker(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[oracle.KafkaBroker]:
    """A broker of its own with three topics, which the tests stop and start."""
    assert kafka_classpath
    overrides: dict[str, Any] = {
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "log.cleaner.enable": "false",
        "log.dirs": tmp_path_factory.mktemp("logs"),
    }
    with oracle.running_kafka(tmp_path_factory.mktemp("storage"), overrides=overrides) as running:
        running.log_dir = Path(overrides["log.dirs"])
        topics = [NewTopic(name, 1, 1, config=config) for name, config in CONFIGS.items()]
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for created in admin.create_topics(topics).values():
            created.result(30)
        produce_codecs(running.bootstrap)
        produce_transactions(running.bootstrap)
        # A commit is answered before its marker is in the partition.
        wait_for(lambda: len(consumed(running.bootstrap, "transfers")) == COMMITTED)
        yield running


def produce_codecs(bootstrap: str) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        for number in range(300):
            producer.produce("codecs", key=f"{codec}{number}", value=f"{codec}{number}" * 30)
            if number % 10 == 0:
                producer.flush(30)
        producer.flush(30)


def produce_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bank"})
    producer.init_transactions(60)
    for turn in range(TRANSACTIONS):
        producer.begin_transaction()
        for number in range(20):
            producer.produce("transfers", key=f"{turn}-{number}", value=b"x" * 50)
        producer.flush(30)
        if turn % 3:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def consumed(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, bytes]] = []
    while (message := consumer.poll(30)) is not None:
        if message.error() is not None:
            break
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        found.append((offset, value))
    consumer.close()
    return found


@pytest.mark.nightly  # most of a minute; in each change directories with groups and transactions move
def test_directories_move_both_ways(broker: oracle.KafkaBroker, tmp_path: Path) -> None:
    codecs = consumed(broker.bootstrap, "codecs")
    transfers = consumed(broker.bootstrap, "transfers")
    assert (len(codecs), len(transfers)) == (1500, COMMITTED)
    # A copy of a running broker's quiet directory is what kill -9 leaves; the broker's ZooKeeper session lives on.
    unclean, clean = tmp_path / "unclean", tmp_path / "clean"
    # What it is about to rename may be gone when its turn comes.
    shutil.copytree(broker.log_dir, unclean, ignore=shutil.ignore_patterns("*.tmp"))
    broker.stop()
    shutil.copytree(broker.log_dir, clean)

    # A clean directory is taken over and given back without a changed byte.
    before = contents(clean)
    close_all(*open_all(clean))
    assert not first_difference(contents(clean), before)

    # After kill -9 our recovery builds what Kafka's has built.
    directory, logs = open_all(unclean)
    ends = {name: log.log_end_offset for name, log in logs.items()}
    assert (ends["codecs"], ends["transfers"], ends["empty"]) == (1500, TRANSACTIONS * 21, 0)
    assert len(logs["transfers"].aborted_transactions(0, ends["transfers"])) == TRANSACTIONS / 3
    close_all(directory, logs)
    ours, theirs = contents(unclean), contents(clean)
    names = [name for name in theirs if not name.startswith("__") and not name.endswith(".snapshot")]
    assert [name for name in names if ours.get(name) != theirs[name]] == []

    # What we append and close cleanly, Kafka serves.
    directory, logs = open_all(broker.log_dir)
    epoch = 50
    append(logs["codecs"], b"from", b"pkafka", pid=4000, epoch=0, sequence=0, leader_epoch=epoch)
    append(logs["transfers"], b"aborted", pid=4001, epoch=0, sequence=0, transactional=True)
    end_transaction(logs["transfers"], 4001, 0, committed=False)
    append(logs["transfers"], b"committed", pid=4001, epoch=0, sequence=1, transactional=True)
    end_transaction(logs["transfers"], 4001, 0, committed=True)
    close_all(directory, logs)
    broker.start()
    end = TRANSACTIONS * 21
    assert consumed(broker.bootstrap, "codecs") == [*codecs, (1500, b"from"), (1501, b"pkafka")]
    assert consumed(broker.bootstrap, "transfers") == [*transfers, (end + 2, b"committed")]
    assert (end, b"aborted") in consumed(broker.bootstrap, "transfers", "read_uncommitted")
    broker.stop()

    # What we leave in a crash, with a torn tail, Kafka recovers.
    directory, logs = open_all(broker.log_dir)
    append(logs["codecs"], b"before the crash", leader_epoch=epoch + 50)
    last = logs["codecs"].segments[-1].path
    for log in logs.values():
        for segment in log.segments:
            segment.release_files()
    directory.unlock()
    with last.open("ab") as torn:
        torn.write(b"\0" * 7 + b"\x05" * 40)
    broker.start()
    assert consumed(broker.bootstrap, "codecs")[-1] == (1502, b"before the crash")
    broker.stop()
