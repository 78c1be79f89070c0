"""The console tools at a real broker, where it matters what the broker makes of them."""

import signal
import subprocess
import sys
import time
import uuid

import pytest

from pkafka.cli import console_consumer, consumer_perf_test, topics
from pkafka.cli.exit_status import ExitStatus
from pkafka.testing import Broker
from tests.talk import wait_for


@pytest.fixture(autouse=True)
def plain_environment(pkafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pkafka_broker.bootstrap)


def exists(topic: str, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    assert topics.main.run(["--list"]) == ExitStatus.OK
    return topic in capsys.readouterr().out.split()


def test_a_topic_is_made_by_being_consumed(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["--from-beginning"], ["--partition", "0", "--offset", "earliest"]):
        topic = f"console-{uuid.uuid4().hex[:8]}"
        assert console_consumer.main.run(["--topic", topic, "--timeout-ms", "500", *args]) == ExitStatus.OK
        assert capsys.readouterr().err == "Processed a total of 0 messages\n"
        assert exists(topic, capsys)


def test_a_topic_that_does_not_come_is_told_within_the_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    began = time.monotonic()
    args = ["--topic", topic, "--timeout-ms", "300", "--consumer-property", "allow.auto.create.topics=false"]
    assert console_consumer.main.run(args) == ExitStatus.FAILURE
    assert time.monotonic() - began < 4
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
        producer.wait(20)
    assert producer.returncode == 128 + number
    args = ["--topic", topic, "--from-beginning", "--until-end"]
    assert console_consumer.main.run(args) == ExitStatus.OK
    assert capsys.readouterr().out == "one\n"


def test_measuring_the_consumption_of_nothing_makes_no_topic(capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"console-{uuid.uuid4().hex[:8]}"
    assert consumer_perf_test.main.run(["--topic", topic, "--messages", "1"]) == ExitStatus.FAILURE
    assert not exists(topic, capsys)
