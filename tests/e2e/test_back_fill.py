"""pk-mirror back-fill copies the history of topics, and MirrorMaker 2's source connector goes on: every record once."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli.mirror import main
from pkafka.clients.admin.results import ResourceType
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.connect.mirror.records import OffsetSync
from pkafka.connect.storage.offset_keys import decode_key, decode_offset
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from pkafka.testing import Broker, running_broker
from tests.connect_fixtures import source_broker
from tests.connect_workers import standalone
from tests.e2e.test_connect_mirror_maker import Maker, flows
from tests.mirrors import SYNCS, WORKER, connector, wait_for_transactions
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking, wait_for

__all__ = ["source_broker"]

pytestmark = pytest.mark.timeout(
    600
)  # programs are started one after the other, on a machine that may be busy


def words(source: Broker, target: Broker, topic: str, *more: object) -> list[str]:
    """The command line."""
    clusters = ["--source", source.bootstrap, "--target", target.bootstrap, "--include", f"{topic}.*"]
    aliases = ["--source-alias", "A", "--target-alias", "B", "--timeout", "60s"]
    return ["back-fill", *clusters, *aliases, "--output", "json", *map(str, more)]


def filled(capsys: pytest.CaptureFixture[str], line: list[str], status: int = 0) -> Any:
    """The document of a run in this process."""
    capsys.readouterr()
    found = main.run(line)
    printed = capsys.readouterr()
    assert found == status, printed.err
    return json.loads(printed.out)


def read_values(talk: Talk, topic: str, partition: int = 0) -> list[bytes | None]:
    return [each.value for each in talk.read(topic, partition)]


def committed(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values that a consumer with read_committed gets."""
    place = TopicPartition(topic, partition)
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    found: list[bytes | None] = []
    with Consumer(settings) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            found += [each.value for each in consumer.poll(1_000)]
    return found


def send_history(bootstrap: str, topic: str, seed: int) -> None:
    """Batches of all sizes in three partitions, some of them aborted, with keys and headers."""
    rng = random.Random(seed)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic, "compression.type": "lz4"}
    with Producer(settings) as producer:
        producer.init_transactions()
        for number in range(12):
            producer.begin_transaction()
            for partition in range(3):
                values = [f"{number}-{partition}-{each}".encode() for each in range(rng.choice([1, 20, 150]))]
                producer.send_batch(topic, values, values, partition=partition, headers=[("h", b"1")])
                producer.flush()
            (producer.abort_transaction if number in (0, 5, 11) else producer.commit_transaction)()
    wait_for_transactions(bootstrap, topic, 3)


def test_a_source_connector_goes_on_behind_a_back_fill(
    source: Broker, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, offsets = new_topic_name(), tmp_path / "worker" / "offsets"
    more = f"{topic}-more"
    with (
        talking(source.bootstrap) as a,
        talking(broker.bootstrap) as b,
        standalone(tmp_path / "worker", broker.bootstrap, WORKER, starts=False) as worker,
    ):
        a.create(topic, 3, **{"retention.ms": 777_000_000})
        a.create(more)
        send_history(source.bootstrap, topic, 1)
        a.send(more, *(b"%d" % each for each in range(30)))
        line = words(source, broker, topic, "--offsets-file", offsets, "--connector", "copies")
        planned = filled(capsys, [*line, "--dry-run"])
        assert planned["created"] == [f"A.{topic}", f"A.{more}"]
        assert not any(topic in each.name for each in b.admin.list_topics())
        found = filled(capsys, line)
        assert [each["state"] for each in found["partitions"]] == ["copied"] * 4
        assert found["stored_in"] == str(offsets)
        wanted = [committed(source.bootstrap, topic, each) for each in range(3)]
        assert [read_values(b, f"A.{topic}", each) for each in range(3)] == wanted
        assert found["records"] == sum(map(len, wanted)) + 30
        assert b.described(ResourceType.TOPIC, f"A.{topic}")["retention.ms"].value == "777000000"
        _check_syncs(a, b, topic)

        # Again is refused; going on finds nothing to do.
        assert "has records already" in filled(capsys, line, status=1)["error"]["message"]
        assert filled(capsys, [*line, "--resume"])["records"] == 0

        a.send(topic, b"late", partition=1)
        a.send(more, b"later")
        configs = connector("Source", source.bootstrap, broker.bootstrap, {"topics": f"{topic}.*"})
        worker.start()
        worker.create({**configs, "name": "copies"})
        wait_for(lambda: read_values(b, f"A.{more}")[-1:] == [b"later"], timeout_s=60)
        wait_for(lambda: read_values(b, f"A.{topic}", 1)[-1:] == [b"late"], timeout_s=60)
        wanted[1].append(b"late")
        assert [read_values(b, f"A.{topic}", each) for each in range(3)] == wanted
        copied = [*(b"%d" % each for each in range(30)), b"later"]
        assert read_values(b, f"A.{more}") == copied

        # And a back-fill behind a source connector.
        worker.stop()
        a.send(more, b"last")
        assert filled(capsys, [*line, "--resume"])["records"] == 1
        assert read_values(b, f"A.{more}") == [*copied, b"last"]


def _check_syncs(a: Talk, b: Talk, topic: str) -> None:
    """Each sync is about one record, or about the place behind a batch whose last record is the copy's."""
    found = [OffsetSync.of(each.key, each.value) for each in a.read(SYNCS)]
    for partition in range(3):
        there = {each.offset: each.value for each in a.read(topic, partition)}
        here = read_values(b, f"A.{topic}", partition)
        places = {value: index for index, value in enumerate(here)}
        syncs = [each for each in found if each.partition == (topic, partition)]
        assert syncs[-1].downstream == len(here) - 1
        for sync in syncs:
            before = [
                places[value]
                for offset, value in there.items()
                if offset <= sync.upstream and value in places
            ]
            assert max(before) == sync.downstream


@pytest.mark.parametrize(
    ("size", "batches"), [(40, 1_000), pytest.param(4_000, 100, marks=pytest.mark.nightly)]
)
def test_a_back_fill_that_is_killed_goes_on_without_a_repeat(
    source: Broker, broker: Broker, tmp_path: Path, size: int, batches: int
) -> None:
    """In small batches and in large ones, which go as they are."""
    topic, partitions = new_topic_name(), 2
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(topic, partitions)
        wanted = [b"%050d" % each for each in range(size * batches)]
        now_ms = time.time_ns() // 1_000_000  # retention would delete records of long ago
        with Producer({"bootstrap.servers": source.bootstrap}) as producer:
            for start in range(0, len(wanted), size):
                rows = [(now_ms + start, None, value, ()) for value in wanted[start : start + size]]
                for partition in range(partitions):
                    producer.send_raw_batch(topic, build_batch(rows), partition=partition)
        more = ("--offsets-file", tmp_path / "offsets", "--threads", 1, "--resume")
        command = [sys.executable, "-m", "pkafka.cli.mirror", *words(source, broker, topic, *more)]
        for _ in range(2):
            _run_until_it_copies(b, command, topic, partitions)
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        for partition in range(partitions):
            assert read_values(b, f"A.{topic}", partition) == wanted
            found = [OffsetSync.of(each.key, each.value) for each in a.read(SYNCS)]
            syncs = [each for each in found if each.partition == (topic, partition)]
            assert all(each.upstream == each.downstream for each in syncs)
            assert syncs[-1].upstream == len(wanted) - 1


def _run_until_it_copies(b: Talk, command: list[str], topic: str, partitions: int) -> None:
    """Kill it as soon as it has written something, if it is not done before."""

    def length() -> int:
        copy = f"A.{topic}"
        if all(each.name != copy for each in b.admin.list_topics()):
            return 0
        return sum(b.ends(copy, each)[1] for each in range(partitions))

    before = length()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: length() > before or process.poll() is not None, timeout_s=150)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(30)


def test_behind_a_record_that_the_target_refuses_nothing_is_copied_before_it_is(
    source: Broker, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic_name()
    wanted = [b"%d" % each for each in range(200)]
    wanted[100] = b"x" * 5_000
    line = words(source, broker, topic, "--offsets-file", tmp_path / "offsets")
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(topic)
        for start in range(0, len(wanted), 30):
            a.send(topic, *wanted[start : start + 30])
        b.create(f"A.{topic}", **{"max.message.bytes": 2_000})
        found = filled(capsys, line, status=1)
        assert (found["partitions"][0]["state"], found["stored_in"]) == ("failed", None)
        assert "too large for" in found["partitions"][0]["error"]
        there = read_values(b, f"A.{topic}")
        assert there == wanted[: len(there)]
        assert len(there) <= 100
        b.set_topic(f"A.{topic}", **{"max.message.bytes": 20_000})
        assert filled(capsys, [*line, "--resume"])["partitions"][0]["state"] == "copied"
        assert read_values(b, f"A.{topic}") == wanted


def test_a_dead_cluster_is_copied_from_its_disks(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic_name()
    with running_broker(tmp_path / "dead", {"broker.id": 0}) as dead:
        with talking(dead.bootstrap) as a:
            a.create(topic, 3, **{"segment.bytes": 4_096})
        send_history(dead.bootstrap, topic, 2)
        wanted = [committed(dead.bootstrap, topic, each) for each in range(3)]
        dead.kill()
        line = words(dead, broker, topic, "--source-dir", dead.log_dir, "--above-high-watermark")
        found = filled(capsys, [*line[:1], *line[3:]])
    assert [each["state"] for each in found["partitions"]] == ["copied"] * 3
    assert (found["stored_in"], found["records"]) == (None, sum(map(len, wanted)))
    with talking(broker.bootstrap) as b:
        assert [read_values(b, f"A.{topic}", each) for each in range(3)] == wanted


def test_source_offsets_are_stored_where_mirror_maker_looks(
    source: Broker, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic_name()
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(topic, 3)
        for partition in (0, 2):
            a.send(topic, b"0", b"1", partition=partition)
        b.create(f"A.{topic}", 1)
        found = filled(capsys, words(source, broker, topic))
        assert (found["stored_in"], found["grown"]) == ("mm2-offsets.A.internal", {f"A.{topic}": 3})
        assert read_values(b, f"A.{topic}", 2) == [b"0", b"1"]
        places = [{"cluster": "A", "partition": number, "topic": topic} for number in range(3)]
        stored = [each for each in _stored(b, found["stored_in"]) if each[1] in places]
        assert {(each[0], each[1]["partition"], each[2]["offset"]) for each in stored} == {
            ("MirrorSourceConnector", 0, 1),
            ("MirrorSourceConnector", 2, 1),
        }


@pytest.mark.nightly
def test_mirror_maker_goes_on_behind_a_back_fill(
    source: Broker, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic_name()
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(topic)
        a.send(topic, *(b"%d" % each for each in range(40)))
        filled(capsys, words(source, broker, topic))
        a.send(topic, b"40")
        maker = Maker(tmp_path / "maker", flows(source, broker, topic))
        try:
            wait_for(lambda: read_values(b, f"A.{topic}")[-1:] == [b"40"], timeout_s=90)
        finally:
            maker.end(signal.SIGKILL)
        assert read_values(b, f"A.{topic}") == [b"%d" % each for each in range(41)]


def _stored(b: Talk, topic: str) -> list[Any]:
    """Connector, place and offset of what is stored."""
    found = []
    for partition in range(25):
        for each in b.read(topic, partition):
            key = decode_key(each.key or b"")
            assert key is not None
            found.append((*key, decode_offset(each.value)))
    return found
