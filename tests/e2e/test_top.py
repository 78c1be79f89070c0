"""pk-top at a real broker, in a pipe and on a terminal."""

import csv
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest

from pkafka.cli import top
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import Broker
from tests.talk import Talk, talking

PROGRAM = "from pkafka.cli.top import main; main()"


@pytest.fixture
def topic(pkafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Talk]]:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pkafka_broker.bootstrap)
    name = f"top-{uuid.uuid4().hex[:8]}"
    with talking(pkafka_broker.bootstrap) as talk:
        talk.create(name, partitions=2)
        talk.send(name, b"a", b"b", b"c")
        yield name, talk


def test_a_pipe_gets_one_answer(topic: tuple[str, Talk], capsys: pytest.CaptureFixture[str]) -> None:
    name, _ = topic
    assert top.main.run(["--interval", "0.05", "--output", "json", "--topic", name]) == ExitStatus.OK
    (found,) = json.loads(capsys.readouterr().out)["looks"]
    assert [(row["topic"], row["partition"]) for row in found["topics"]] == [(name, 0), (name, 1)]
    assert sum(row["records"] for row in found["topics"]) == 3
    assert (found["offline"], found["under_replicated"]) == (0, 0)
    assert found["brokers"][0]["controller"] is True
    assert top.main.run(["--interval", "0.05"]) == ExitStatus.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Cluster ")
    (row,) = [each.split() for each in lines if each.startswith(name)]
    assert row[:4] == [name, "2", "0", "0"]
    assert top.main.run(["--interval", "0.05", "--output", "jsonl", "--count", "2"]) == ExitStatus.OK
    assert len([json.loads(each) for each in capsys.readouterr().out.splitlines()]) == 2
    assert top.main.run(["--interval", "0.05", "--output", "json", "--count", "2"]) == ExitStatus.OK
    assert len(json.loads(capsys.readouterr().out)["looks"]) == 2
    assert top.main.run(["--interval", "0.05", "--output", "csv", "--count", "2"]) == ExitStatus.OK
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["topic"] for row in rows if row["topic"] == name] == [name, name]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *flags: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *flags],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
        )
        os.close(theirs)

    def read_until(self, text: str) -> None:
        seen = b""
        deadline = time.monotonic() + 60
        while text.encode() not in seen:
            left_s = deadline - time.monotonic()
            readable, _, _ = select.select([self._ours], [], [], max(0, left_s))
            assert readable, f"{text!r} did not come: {seen[-400:]!r}"
            seen += os.read(self._ours, 65_536)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_a_terminal_shows_what_happens_until_somebody_leaves(topic: tuple[str, Talk]) -> None:
    name, talk = topic
    terminal = Terminal("--interval", "0.2", "--topic", name)
    try:
        terminal.read_until("order: rate")
        talk.send(name, *[b"x"] * 2_000)
        terminal.read_until("2.0 k")
        terminal.press("s")
        terminal.read_until("order: size")
        terminal.press("q")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()


def test_an_interrupt_ends_it(topic: tuple[str, Talk]) -> None:
    # Of one topic: others leave more of them than a screen has room for.
    terminal = Terminal("--interval", "0.2", "--topic", topic[0])
    try:
        terminal.read_until(topic[0])
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(60) == ExitStatus.INTERRUPTED
    finally:
        terminal.close()
