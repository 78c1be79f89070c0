"""The commands about groups at a real broker, as far as they need no Apache Kafka to be compared with."""

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pkafka.cli import (
    consumer_groups,
    consumer_perf_test,
    e2e_latency,
    topics,
    verifiable_consumer,
    verifiable_producer,
)
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.consumer import Consumer
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from pkafka.testing import Broker, running_broker
from tests.talk import Talk, talking, wait_for

PROGRAM = "from pkafka.cli.consumer_groups import main; main()"


pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


@pytest.fixture
def topic(talk: Talk) -> str:
    name = f"groups-{uuid.uuid4().hex[:8]}"
    talk.create(name)
    return name


def said(capsys: pytest.CaptureFixture[str], *args: str, status: int = ExitStatus.OK) -> list[str]:
    capsys.readouterr()
    assert consumer_groups.main.run(list(args)) == status
    return capsys.readouterr().out.splitlines()


def test_the_life_of_a_group(talk: Talk, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    talk.send(topic, b"a", b"b", b"c")
    group = f"g-{topic}"
    said(capsys, "--describe", "--group", group, status=ExitStatus.FAILURE)
    said(capsys, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "1", "--execute")
    assert group in said(capsys, "--list")
    rows = [each.split() for each in said(capsys, "--describe", "--group", group)]
    assert rows[2] == [group, topic, "0", "1", "3", "2", "-", "-", "-"]
    (exported, _) = said(
        capsys, "--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--export"
    )
    assert exported == f"{topic},0,3"
    said(capsys, "--delete-offsets", "--group", group, "--topic", topic)
    said(capsys, "--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute")
    assert "was successful" in said(capsys, "--delete", "--group", group)[0]
    assert group not in said(capsys, "--list")


def test_waiting_for_a_group_to_catch_up(talk: Talk, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    talk.send(topic, b"a")
    group = f"g-{topic}"
    flags = ["--describe", "--group", group, "--max-lag", "0", "--wait"]
    said(capsys, *flags, "200ms", status=ExitStatus.FAILURE)
    said(capsys, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    command = [sys.executable, "-c", PROGRAM, *flags, "120s", "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert (
            verifiable_consumer.main.run(["--topic", topic, "--group-id", group, "--max-messages", "1"]) == 0
        )
        (document, _) = waiting.communicate(timeout=150)
    assert waiting.returncode == 0
    assert json.loads(document)["groups"][0]["partitions"][0]["lag"] == 0


def test_what_a_dry_run_of_a_deletion_says(
    pkafka_broker: Broker, talk: Talk, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group, other = f"g-{topic}", f"{topic}-2"
    talk.create(other)
    for name in (topic, other):
        said(capsys, "--reset-offsets", "--group", group, "--topic", name, "--to-latest", "--execute")
    before = said(capsys, "--describe", "--group", group)
    whole = ["--delete", "--group", group, "--dry-run"]
    part = ["--delete-offsets", "--group", group, "--topic", topic, "--dry-run"]
    assert said(capsys, *whole) == [f"Would delete group '{group}'."]
    assert [each.split() for each in said(capsys, *part)][-1] == [topic, "0", "Deletable"]
    (_, _, *refused) = said(capsys, *whole, "--group", f"no-{group}", status=ExitStatus.FAILURE)
    assert refused[0] == "Error: Deletion of some consumer groups would fail:"
    assert "GroupIdNotFoundException" in refused[1]
    said(capsys, "--delete-offsets", "--group", group, "--topic", f"{topic}:7", "--dry-run", status=1)
    said(capsys, "--delete-offsets", "--group", f"no-{group}", "--topic", topic, "--dry-run", status=1)
    with Consumer({"bootstrap.servers": pkafka_broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(50) is not None and consumer.assignment())
        assert "GroupNotEmpty" in said(capsys, *whole, status=ExitStatus.FAILURE)[2]
        assert "GroupSubscribedToTopic" in said(capsys, *part, status=ExitStatus.FAILURE)[-1]
        said(capsys, "--delete-offsets", "--group", group, "--topic", other, "--dry-run")
        waiting = [*whole, "--wait"]
        said(capsys, *waiting, "200ms", status=ExitStatus.FAILURE)
    said(capsys, *waiting, "60s")
    assert said(capsys, "--describe", "--group", group) == before


def test_a_group_is_changed_when_its_members_have_left(
    pkafka_broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = f"g-{topic}"
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
    with Consumer({"bootstrap.servers": pkafka_broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(50) is not None and consumer.assignment())
        said(capsys, *reset, "--wait", "200ms", status=ExitStatus.FAILURE)
        command = [sys.executable, "-c", PROGRAM, *reset, "--wait", "120s"]
        waiting = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(1)
            consumer.close()
            assert waiting.wait(150) == ExitStatus.OK
        finally:
            waiting.kill()
            waiting.wait()
    said(capsys, "--delete", "--group", group, "--wait", "60s")


def measured(capsys: pytest.CaptureFixture[str], *args: str) -> dict[tuple[str, ...], float]:
    """What Prometheus makes of a description: by name and values of labels, without the group."""
    capsys.readouterr()
    assert consumer_groups.main.run(["--describe", *args, "--output", "prometheus"]) == ExitStatus.OK
    page = capsys.readouterr().out
    found = {}
    for family in text_string_to_metric_families(page):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            group, *others = sample.labels.values()
            assert group in args
            found[sample.name.removeprefix("kafka_consumergroup_"), *others] = sample.value
    return found


def test_prometheus_reads_what_is_described(
    talk: Talk, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk.send(topic, b"a", b"b", b"c")
    group, other = f'say "g"\\n of {topic}', f"{topic}-2"
    talk.create(other)
    for name, offset in ((topic, "1"), (other, "0")):
        args = ["--reset-offsets", "--group", group, "--topic", name, "--to-offset", offset, "--execute"]
        said(capsys, *args)
    states = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Assigning", "Reconciling")
    of_group = {("members",): 0, ("state", "Empty"): 1} | {("state", each): 0 for each in states}
    lagging = {
        ("current_offset", topic, "0"): 1,
        ("log_end_offset", topic, "0"): 3,
        ("lag", topic, "0"): 2,
    }
    whole = {(name, other, "0"): 0 for name, *_ in lagging}
    assert measured(capsys, "--group", group) == lagging | whole | of_group
    assert measured(capsys, "--group", group, "--only-lagging") == lagging | of_group
    assert measured(capsys, "--group", group, "--state") == of_group
    assert measured(capsys, "--group", group, "--members") == of_group
    for wrong in (["--list"], ["--describe", "--group", group, "--watch"]):
        assert consumer_groups.main.run([*wrong, "--output", "prometheus"]) == ExitStatus.USAGE
    said(capsys, "--describe", "--group", f"no-{group}", "--output", "prometheus", status=ExitStatus.FAILURE)
    assert topics.main.run(["--list", "--output", "prometheus"]) == ExitStatus.USAGE


def test_watching_outlives_the_broker(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as broker:
        with talking(broker.bootstrap) as talk:
            talk.create("t")
            at = {TopicPartition("t", 0): OffsetAndMetadata(0)}
            wait_for(lambda: set(talk.admin.alter_group_offsets("g", at).values()) == {None})
        command = [sys.executable, "-c", PROGRAM, "--describe", "--group", "g", "--watch", "0.1"]
        flags = ["--bootstrap-server", broker.bootstrap]
        watching = subprocess.Popen(
            [*command, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert watching.stderr is not None
        try:
            assert watching.stderr.readline() == "\n"
            assert "has no active members" in watching.stderr.readline()
        except BaseException:
            watching.kill()
            raise
    try:
        while "no news: cannot connect" not in watching.stderr.readline():
            assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == ExitStatus.INTERRUPTED
    finally:
        watching.kill()
        watching.wait()
        watching.stderr.close()


def test_tools_that_measure_and_tell(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    group = f"g-{topic}"
    assert verifiable_producer.main.run(["--topic", topic, "--max-messages", "20"]) == ExitStatus.OK
    # Ten seconds between records, as in Kafka, are few for whoever joins a group on a busy machine.
    reading = ["--topic", topic, "--messages", "20", "--group", group, "--timeout", "60000"]
    assert consumer_perf_test.main.run(reading) == ExitStatus.OK
    rows = [each.split() for each in said(capsys, "--describe", "--group", group)]
    assert rows[2][:6] == [group, topic, "0", "20", "20", "0"]
    latency = ["--topic", f"{topic}-2", "--num-records", "3", "--record-size", "10"]
    assert e2e_latency.main.run(latency) == ExitStatus.OK
    assert "Avg latency: " in capsys.readouterr().out
