"""MirrorMaker 2's connectors in Java's worker and in ours, by turns: either goes on where the other has stopped."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pkafka.cli.mirror import main
from pkafka.clients.admin import Admin
from pkafka.clients.producer import Producer
from pkafka.connect.mirror.client import MirrorClient
from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition
from tests.connect_workers import ConnectWorker, connector_file, java_command, standalone
from tests.interop.conftest import System
from tests.interop.mirror_oracle import mirror_oracle
from tests.mirrors import CHECKPOINTS, SYNCS, WORKER, connector, wait_for_transactions
from tests.talk import Talk, good, talking, wait_for


@pytest.fixture
def a(kafka: System | None) -> Iterator[Talk]:
    assert kafka is not None
    with talking(kafka.bootstrap) as talk:
        yield talk


@pytest.fixture
def b(pkafka: System | None) -> Iterator[Talk]:
    assert pkafka is not None
    with talking(pkafka.bootstrap) as talk:
        yield talk


@pytest.fixture
def workers(pkafka: System | None, tmp_path: Path) -> Iterator[tuple[ConnectWorker, ConnectWorker]]:
    """Ours and Java's, with one file of offsets."""
    assert pkafka is not None
    settings = {**WORKER, "offset.storage.file.filename": str(tmp_path / "offsets")}
    java = ConnectWorker(java_command(tmp_path), tmp_path / "java", pkafka.bootstrap, settings)
    with standalone(tmp_path / "ours", pkafka.bootstrap, settings, starts=False) as ours:
        yield ours, java
    java.close()


def _has(talk: Talk, topic: str, values: list[bytes | None]) -> bool:
    if topic not in {each.name for each in talk.admin.list_topics()}:
        return False  # the task that makes it has just begun, or has yet to
    return [each.value for each in talk.read(topic)] == values


def _is_synced(talk: Talk, topic: str, pair: tuple[int, int]) -> bool:
    """Whether the last sync of a topic is of these offsets."""
    found = [OffsetSync.of(each.key, each.value) for each in talk.read(SYNCS)]
    return [(each.upstream, each.downstream) for each in found if each.partition.topic == topic][-1:] == [
        pair
    ]


def _is_translated(client: MirrorClient, group: str, position: int) -> bool:
    found = client.checkpoints("A") if CHECKPOINTS in client.checkpoint_topics() else ()
    return [each.downstream for each in found if each.group == group] == [position]


def _commit(bootstrap: str, group: str, partition: TopicPartition, offset: int) -> None:
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        good(admin.alter_group_offsets(group, {partition: offset})[partition])


@pytest.mark.nightly
def test_workers_go_on_from_each_others_offsets_syncs_and_checkpoints(
    workers: tuple[ConnectWorker, ConnectWorker],
    kafka: System | None,
    pkafka: System | None,
    kafka_classpath: str,
    a: Talk,
    b: Talk,
    topic: str,
    tmp_path: Path,
) -> None:
    assert kafka is not None
    assert pkafka is not None
    ours, java = workers
    copy = TopicPartition(f"A.{topic}", 0)
    group = f"{topic}-group"
    a.create(topic)
    b.create(copy.topic)
    b.send(copy.topic, *[b"before"] * 3)
    # Syncs of all records, so that each checkpoint has only one right value.
    more = {"topics": topic, "groups": group, "offset.lag.max": 0}
    files = [
        connector_file(tmp_path / kind, connector(kind, kafka.bootstrap, pkafka.bootstrap, more))
        for kind in ("Source", "Checkpoint")
    ]
    sent: list[bytes | None] = [b"before"] * 3
    configs = {"bootstrap.servers": pkafka.bootstrap}
    with mirror_oracle(kafka_classpath) as oracle, MirrorClient(configs) as client:
        for number, worker in enumerate((ours, java, ours)):
            records = [b"%d-%d" % (number, each) for each in range(5)]
            sent += records
            a.send(topic, *records)
            _commit(kafka.bootstrap, group, TopicPartition(topic, 0), 5 * number + 2)
            worker.start(*files)
            wait_for(partial(_has, b, copy.topic, list(sent)), what=f"{number}: copy")
            end = 5 * number + 4
            wait_for(partial(_is_synced, a, topic, (end, end + 3)), what=f"{number}: sync")
            position = 5 * number + 5
            wait_for(
                partial(_is_translated, client, group, position), timeout_s=60, what=f"{number}: checkpoint"
            )
            theirs = oracle.ask("translate", configs=configs, alias="A", group=group)
            assert theirs[f"{copy.topic}-0"] == position
            hops = client.replication_hops("A")
            assert theirs["hops"] == (-1 if hops is None else hops)
            assert theirs["upstream"] == sorted(client.upstream_clusters())
            assert theirs["heartbeats"] == sorted(client.heartbeat_topics())
            assert theirs["checkpoints"] == sorted(client.checkpoint_topics())
            worker.stop()
    assert _has(b, copy.topic, sent)


def test_copies_go_from_pkafka_to_kafka(
    kafka: System | None, pkafka: System | None, a: Talk, b: Talk, topic: str, tmp_path: Path
) -> None:
    assert kafka is not None
    assert pkafka is not None
    b.create(topic)
    b.send(topic, b"1", b"2")
    with standalone(tmp_path / "ours", kafka.bootstrap, WORKER) as worker:
        worker.create(connector("Source", pkafka.bootstrap, kafka.bootstrap, {"topics": topic}))
        wait_for(partial(_has, a, f"A.{topic}", [b"1", b"2"]), timeout_s=90)
        wait_for(partial(_is_synced, b, topic, (1, 1)), timeout_s=90)


@pytest.mark.nightly
def test_javas_connector_goes_on_behind_a_back_fill(
    workers: tuple[ConnectWorker, ConnectWorker],
    kafka: System | None,
    pkafka: System | None,
    a: Talk,
    b: Talk,
    topic: str,
    tmp_path: Path,
) -> None:
    """By the offsets that the back-fill has stored, and with syncs that both have written."""
    assert kafka is not None
    assert pkafka is not None
    _, java = workers
    sent: list[bytes | None] = [b"%d" % each for each in range(40)]
    a.create(topic)
    a.send(topic, *filter(None, sent))
    configs = connector("Source", kafka.bootstrap, pkafka.bootstrap, {"topics": topic, "offset.lag.max": 0})
    clusters = ["--source", kafka.bootstrap, "--target", pkafka.bootstrap, "--include", topic]
    aliases = ["--source-alias", "A", "--target-alias", "B", "--timeout", "60s"]
    offsets = ["--connector", configs["name"], "--offsets-file", str(tmp_path / "offsets")]
    assert main.run(["back-fill", *clusters, *aliases, *offsets]) == 0
    assert _has(b, f"A.{topic}", sent)
    assert _is_synced(a, topic, (39, 39))
    sent += [b"late", b"later"]
    a.send(topic, b"late", b"later")
    java.start(connector_file(tmp_path / "Source", configs))
    wait_for(partial(_is_synced, a, topic, (41, 41)), timeout_s=90)
    assert _has(b, f"A.{topic}", sent)


@pytest.mark.nightly
def test_what_apache_kafka_has_on_its_disk_is_copied_as_its_consumers_read_it(
    kafka: System | None, pkafka: System | None, a: Talk, b: Talk, topic: str
) -> None:
    assert kafka is not None
    assert pkafka is not None
    a.create(topic, 1, **{"segment.bytes": 2_000})
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "compression.type": "zstd"}
    wanted: list[bytes | None] = []
    with Producer(settings) as producer:
        producer.init_transactions()
        for number in range(20):
            values = [b"%d-%d" % (number, each) for each in range(30)]
            producer.begin_transaction()
            producer.send_batch(topic, values, values)
            producer.flush()
            if number % 3:
                producer.commit_transaction()
                wanted += values
            else:
                producer.abort_transaction()
    wait_for_transactions(kafka.bootstrap, topic)
    # A living broker's directory, as no test may end the one that all share: nobody writes to the topic any more.
    source = ["--source-dir", str(kafka.log_dir), "--above-high-watermark", "--include", topic]
    target = ["--target", pkafka.bootstrap, "--source-alias", "A", "--target-alias", "D", "--timeout", "60s"]
    assert main.run(["back-fill", *source, *target]) == 0
    assert _has(b, f"A.{topic}", wanted)
