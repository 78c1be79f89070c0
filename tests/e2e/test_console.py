"""The console tools at a real broker, where it matters what the broker makes of them."""

import io
import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Final

import pytest

from pkafka.cli import console_consumer, console_producer, consumer_perf_test, topics
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.producer import Producer
from pkafka.records.builder import build_batch
from pkafka.testing import Broker
from tests.talk import Talk, good, talking, wait_for

pytestmark = pytest.mark.usefixtures("plain_environment")

KEPT: Final = {"retention_ms": -1}
"""Of topics whose records are years old: the broker looks for what it need not keep now and then."""


def exists(topic: str, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    assert topics.main.run(["--list"]) == ExitStatus.OK
    return topic in capsys.readouterr().out.split()


def test_a_topic_is_made_by_being_consumed(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["--from-beginning"], ["--partition", "0", "--offset", "earliest"]):
        topic = f"console-{uuid.uuid4().hex[:8]}"

        def is_made_by_asking(topic: str = topic, args: list[str] = args) -> bool:
            """On a busy machine the time may be over before the broker has heard of it."""
            capsys.readouterr()
            status = console_consumer.main.run(["--topic", topic, "--timeout-ms", "500", *args])
            if status == ExitStatus.OK:
                assert capsys.readouterr().err == "Processed a total of 0 messages\n"
            return status == ExitStatus.OK and exists(topic, capsys)

        wait_for(is_made_by_asking, what=f"{topic} by {args}")


def test_a_topic_that_does_not_come_is_told_within_the_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    began = time.monotonic()
    args = ["--topic", topic, "--timeout-ms", "300", "--consumer-property", "allow.auto.create.topics=false"]
    assert console_consumer.main.run(args) == ExitStatus.FAILURE
    assert time.monotonic() - began < 30  # and not the minute that a client has for its calls
    assert "create it with pk-topics --create" in capsys.readouterr().err
    assert not exists(topic, capsys)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_typed_is_sent_before_a_signal_ends_the_producer(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    program = "from pkafka.cli.console_producer import main; main()"
    command = [sys.executable, "-c", program, "--topic", topic, "--timeout", "60000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        wait_for(lambda: exists(topic, capsys), what="the first line was read")
        producer.send_signal(number)
        producer.wait(60)
    assert producer.returncode == 128 + number
    args = ["--topic", topic, "--from-beginning", "--until-end"]
    assert console_consumer.main.run(args) == ExitStatus.OK
    assert capsys.readouterr().out == "one\n"


def test_measuring_the_consumption_of_nothing_makes_no_topic(capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    assert consumer_perf_test.main.run(["--topic", topic, "--messages", "1"]) == ExitStatus.FAILURE
    assert not exists(topic, capsys)


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


def consumed(capsys: pytest.CaptureFixture[str], topic: str, *args: str) -> list[str]:
    capsys.readouterr()
    assert console_consumer.main.run(["--topic", topic, "--until-end", *args]) == ExitStatus.OK
    return capsys.readouterr().out.splitlines()


def test_the_last_records_and_those_of_a_time(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    talk.create(topic, 2, **KEPT)
    for partition in range(2):
        records = [(1_000 * number, None, b"%d-%d" % (partition, number), ()) for number in range(1, 6)]
        talk.produce(topic, bytes(build_batch(records)), partition=partition)
    assert sorted(consumed(capsys, topic, "--tail", "2")) == ["0-4", "0-5", "1-4", "1-5"]
    assert consumed(capsys, topic, "--tail", "0") == []
    assert consumed(capsys, topic, "--partition", "1", "--tail", "1") == ["1-5"]
    assert sorted(consumed(capsys, topic, "--from-time", "4000")) == ["0-4", "0-5", "1-4", "1-5"]
    between = ("--partition", "0", "--from-time", "1970-01-01T00:00:02", "--to-time", "1970-01-01T00:00:04Z")
    assert consumed(capsys, topic, *between) == ["0-2", "0-3"]
    assert consumed(capsys, topic, "--from-time", "-1h") == []
    assert sorted(consumed(capsys, topic, "--from-beginning", "--to-time", "-1h")) == [
        f"{partition}-{number}" for partition in range(2) for number in range(1, 6)
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--tail", "0", "--from-beginning"],
            "Options from-beginning and tail cannot be specified together.",
        ),
        (["--from-time", "noon"], "noon is no time"),
        (["--tail", "1", "--group", "g"], "--tail is for a topic that is read without a group"),
    ],
)
def test_beginnings_that_cannot_be(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert console_consumer.main.run(["--topic", "t", *args]) == ExitStatus.USAGE
    assert message in capsys.readouterr().err


def test_what_is_consumed_as_json_lines_is_produced_again(
    talk: Talk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copy = (f"console-{uuid.uuid4().hex[:8]}" for _ in range(2))
    talk.create(source, 2, **KEPT)
    talk.create(copy, 2, **KEPT)
    headers = (("h", b"1"), ("h", None), ("h", b"1"), ("binary", b"\xff"), ("none", None))
    records = [
        (5_000, b"k", b"v", headers),
        (6_000, None, b"\xfe\x00", ()),
        (7_000, "schön".encode(), None, ()),
    ]
    talk.produce(source, bytes(build_batch(records)), partition=1)
    lines = consumed(capsys, source, "--from-beginning", "--output", "jsonl")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    assert console_producer.main.run(["--topic", copy, "--input", "jsonl"]) == ExitStatus.OK
    assert talk.read(copy, 1) == talk.read(source, 1)
    assert talk.read(copy, 0) == []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"value": 1}\n')))
    assert console_producer.main.run(["--topic", copy, "--input", "jsonl"]) == ExitStatus.FAILURE
    assert "No record found on line number 1" in capsys.readouterr().err


def test_only_wanted_records_are_shown_and_counted(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    talk.create(topic)
    talk.send(topic, *[b'{"n":%d,"even":%s}' % (n, (b"false", b"true")[n % 2 == 0]) for n in range(20)])
    even = ("--from-beginning", "--filter", "value.even=true")
    assert len(consumed(capsys, topic, *even)) == 10
    assert consumed(capsys, topic, *even, "--filter", "value.n~^1") == [
        f'{{"n":{n},"even":true}}' for n in (10, 12, 14, 16, 18)
    ]
    assert len(consumed(capsys, topic, *even, "--max-messages", "3")) == 3
    assert consumed(capsys, topic, *even, "--formatter", "NoOpMessageFormatter") == []
    assert console_consumer.main.run(["--topic", topic, "--filter", "n=1"]) == ExitStatus.USAGE


def test_conditions_on_keys_headers_and_fields(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    talk.create(topic, **KEPT)
    records = [
        (1, b"user-1", b'{"order":{"items":["tea"]}}', (("trace", b"abc"), ("trace", b"def"))),
        (2, b"user-2", b'{"order":{"items":["coffee",2]}}', (("trace", None),)),
        (3, None, b"no JSON", ()),
        (4, b"user-2", None, (("trace", b"def"),)),
    ]
    talk.produce(topic, bytes(build_batch(records)))

    def offsets(*conditions: str) -> list[int]:
        flags = [word for each in conditions for word in ("--filter", each)]
        lines = consumed(capsys, topic, "--from-beginning", *flags, "--output", "jsonl")
        return [json.loads(each)["offset"] for each in lines]

    assert offsets() == [0, 1, 2, 3]
    assert offsets("key=user-2") == [1, 3]
    assert offsets("key~^user") == [0, 1, 3]
    assert offsets("header.trace=def") == [0, 3]
    assert offsets("key=user-2", "header.trace~.") == [3]
    assert offsets("value.order.items.0~^(tea|coffee)$") == [0, 1]
    assert offsets("value.order.items.1=2") == [1]
    assert offsets("value=no JSON") == [2]
    assert offsets("value~.", "key~3") == []


def test_ranges_and_counts_together(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    talk.create(topic, **KEPT)
    # Times that are not in order: a range begins and ends with the first record of a time or later.
    times = (1_000, 3_000, 2_000, 4_000, 5_000)
    talk.produce(topic, bytes(build_batch([(at, None, b"%d" % at, ()) for at in times])))
    assert consumed(capsys, topic, "--from-time", "2000", "--to-time", "5000") == ["3000", "2000", "4000"]
    assert consumed(capsys, topic, "--tail", "3", "--max-messages", "2") == ["2000", "4000"]
    assert consumed(capsys, topic, "--tail", "99", "--to-time", "2000") == ["1000"]
    assert consumed(capsys, topic, "--from-time", "1000", "--max-messages", "1") == ["1000"]
    assert consumed(capsys, topic, "--from-beginning", "--max-messages", "0") == []
    wanted = ("--from-beginning", "--filter", "value~000", "--max-messages", "2", "--to-time", "4000")
    assert consumed(capsys, topic, *wanted) == ["1000", "3000"]
    assert consumed(capsys, topic, "--from-time", "5000", "--to-time", "2000") == []
    assert consumed(capsys, topic, "--partition", "0", "--offset", "3") == ["4000", "5000"]
    assert consumed(capsys, topic, "--group", f"g-{topic}", "--from-beginning") == [str(at) for at in times]
    assert consumed(capsys, topic, "--group", f"g-{topic}") == []


def test_a_topic_that_grows_has_an_end(
    talk: Talk, pkafka_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    talk.create(topic)
    talk.send(topic, b"first", b"second")
    is_over = threading.Event()

    def keep_sending() -> None:
        with Producer({"bootstrap.servers": pkafka_broker.bootstrap}) as producer:
            while not is_over.is_set():
                producer.send(topic, b"later").result()

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        wait_for(lambda: talk.ends(topic)[1] > 10, what="more records")
        first = consumed(capsys, topic, "--from-beginning")
        assert first[:3] == ["first", "second", "later"]
        wait_for(lambda: talk.ends(topic)[1] > len(first), what="records behind that end")
    finally:
        is_over.set()
        sender.join()


def test_partitions_that_come_later_are_read_from_their_beginning(talk: Talk) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    talk.create(topic)
    program = "from pkafka.cli.console_consumer import main, reading; reading._NEW_PARTITIONS_S = 0.1; main()"
    command = [sys.executable, "-c", program, "--topic", topic, "--max-messages", "2", "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reading:
        try:
            talk.send(topic, b"first")
            assert reading.stdout is not None
            assert reading.stdout.readline() == "first\n"
            good(talk.admin.create_partitions({topic: 2})[topic])
            talk.send(topic, b"second", partition=1)
            assert reading.stdout.readline() == "second\n"
            assert reading.wait(60) == 0
        finally:
            reading.kill()
