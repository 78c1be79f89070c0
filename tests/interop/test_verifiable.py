"""pk-verifiable-producer, pk-verifiable-consumer and pk-e2e-latency beside Kafka's tools on the same cluster."""

import json
import re
import signal
import subprocess
import sys
from typing import Any

from pkafka.clients.admin.results import GroupState
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from tests.interop.conftest import JavaTool, System
from tests.interop.side_by_side import pk
from tests.talk import Talk, good, wait_for

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
LATENCY = "org.apache.kafka.tools.EndToEndLatency"


def events(text: str) -> list[tuple[tuple[str, Any], ...]]:
    """Every event without what differs from run to run: the members but the first have the order that a JVM finds."""
    found = []
    for line in text.splitlines():
        event = json.loads(line)
        assert isinstance(event.pop("timestamp"), int)
        name = event.pop("name")
        found.append((("name", name), *sorted(event.items())))
    return found


def test_a_producer_tells_what_became_of_each_record(
    talk: Talk, system: System, java_tool: JavaTool, topic: str
) -> None:
    for name in ("ours", "theirs"):
        talk.create(f"{topic}-{name}")
    total = 0
    for flags in (
        ("--max-messages", "3"),
        ("--max-messages", "3", "--value-prefix", "7", "--repeating-keys", "2", "--acks", "1"),
        ("--max-messages", "2", "--message-create-time", "1000", "--throughput", "50"),
    ):
        server = ("--bootstrap-server", system.bootstrap, *flags, "--topic")
        ours = pk("verifiable_producer", *server, f"{topic}-ours").replace("-ours", "")
        theirs = java_tool(PRODUCER, *server, f"{topic}-theirs").stdout.replace("-theirs", "")
        shown, expected = events(ours), events(theirs)
        # Kafka's tool ends with what its JVM does at its end, which a JVM of many tools does not.
        assert shown[: len(expected)] == expected or sorted(map(repr, shown[:-2])) == sorted(
            map(repr, expected)
        )
        assert shown[-2] == (("name", "shutdown_complete"),)
        count = int(flags[1])
        summary = dict(shown[-1])
        assert list(summary) == ["name", "acked", "avg_throughput", "sent", "target_throughput"]
        assert (summary["sent"], summary["acked"]) == (count, count)
        # Kafka's closes its producer at the end of the JVM, too: until then the producer sends in its own time.
        total += count
        wait_for(lambda: len(talk.read(f"{topic}-theirs")) == total, what="what Kafka's tool has sent")  # noqa: B023
    written, expected_records = talk.read(f"{topic}-ours"), talk.read(f"{topic}-theirs")
    assert [(each.key, each.value) for each in written] == [
        (each.key, each.value) for each in expected_records
    ]
    assert written[-2].timestamp == 1_000


def test_a_record_that_cannot_be_sent_is_an_event_and_a_failure(system: System) -> None:
    flags = ("--bootstrap-server", system.bootstrap, "--topic", "bad topic", "--max-messages", 1)
    (_, failure, *_) = events(pk("verifiable_producer", *flags, code=1))
    shown = dict(failure)
    assert shown.keys() == {"name", "topic", "key", "value", "exception", "message"}
    assert shown["exception"] == "class org.apache.kafka.common.errors.InvalidTopicException"


def test_a_consumer_tells_what_it_read_and_committed(
    talk: Talk, system: System, java_tool: JavaTool, topic: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"a", b"b", b"c", b"d", b"e")
    for flags in (
        ("--verbose", "--max-messages", "5"),
        ("--max-messages", "2"),
        ("--max-messages", "5", "--enable-autocommit", "--group-instance-id", "i"),
    ):
        server = ("--bootstrap-server", system.bootstrap, "--topic", topic, *flags, "--group-id")
        ours = events(pk("verifiable_consumer", *server, f"{topic}-ours-{len(flags)}"))
        theirs = events(java_tool(CONSUMER, *server, f"{topic}-theirs-{len(flags)}").stdout)
        assert ours == theirs
    committed = good(talk.admin.list_group_offsets({f"{topic}-ours-2": None})[f"{topic}-ours-2"])
    assert committed == {TopicPartition(topic, 0): OffsetAndMetadata(2)}


def test_a_signal_lets_a_consumer_leave_its_group(talk: Talk, system: System, topic: str) -> None:
    talk.create(topic)
    talk.send(topic, b"a")
    group = f"g-{topic}"
    program = "from pkafka.cli.verifiable_consumer import main; main()"
    flags = ["--bootstrap-server", system.bootstrap, "--topic", topic, "--group-id", group]
    reading = subprocess.Popen([sys.executable, "-c", program, *flags], stdout=subprocess.PIPE, text=True)
    try:
        assert reading.stdout is not None
        while "offsets_committed" not in reading.stdout.readline():
            assert reading.poll() is None
        reading.send_signal(signal.SIGTERM)
        rest, _ = reading.communicate(timeout=60)
    finally:
        reading.kill()
        reading.wait()
    assert reading.returncode == 143
    assert [dict(each)["name"] for each in events(rest)] == ["partitions_revoked", "shutdown_complete"]
    wait_for(lambda: good(talk.admin.describe_groups([group])[group]).state is GroupState.EMPTY)


def test_latency_is_shown_alike(system: System, java_tool: JavaTool, topic: str) -> None:
    words = (system.bootstrap, topic, 20, 1, 100)
    ours = pk("e2e_latency", *words)
    theirs = java_tool(LATENCY, *map(str, (system.bootstrap, f"{topic}-2", 20, 1, 100))).stdout
    assert _shape(ours) == _shape(theirs.replace(f"{topic}-2", topic))
    document = json.loads(
        pk(
            "e2e_latency",
            *("--bootstrap-server", system.bootstrap, "--topic", topic, "--num-records", 5),
            *("--record-size", 10, "--producer-acks", "all", "--output", "json"),
        )
    )
    (run,) = document["runs"]
    assert run["records"] == 5
    percentiles = run["percentiles_ms"]
    assert list(percentiles) == ["50", "99", "99.9"]
    # The digits of Kafka's average, also for percentiles, of which its text has whole milliseconds.
    figures = [run["latency_mean_ms"], *percentiles.values()]
    assert all(round(value, 4) == value for value in figures)
    assert 0 < percentiles["50"] <= percentiles["99.9"]
    assert any(value != int(value) for value in percentiles.values())
    assert pk("e2e_latency", *words[:3], 2, 100, code=2) == ""
    assert pk("e2e_latency", *words[:3], code=2) == ""


def _shape(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "N", text)
