"""Classes of a user's own that the console tools read and print with."""

import io
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from typing import BinaryIO, ClassVar

import pytest

from pkafka.cli import console_consumer, console_producer
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.producer import ProducerRecord
from pkafka.testing import Broker
from pkafka.tools.console_plugins import MessageFormatter, RecordReader
from tests.talk import Talk, talking

pytestmark = pytest.mark.usefixtures("plain_environment")

HERE = "tests.e2e.test_console_plugins"


class Blocks(RecordReader):
    """A record for each block of lines, with the properties of the command line as its header."""

    closed = 0

    def configure(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def read_records(self, source: BinaryIO) -> Iterator[ProducerRecord]:
        headers = [(name, value.encode()) for name, value in sorted(self._properties.items())]
        for block in source.read().split(b"\n\n"):
            key, _, value = block.partition(b"\n")
            yield ProducerRecord(self._properties["topic"], value, key, headers=headers)

    def close(self) -> None:
        Blocks.closed += 1


class Imitation:
    """No more than is needed."""

    def read_records(self, source: BinaryIO) -> Iterator[ProducerRecord]:
        for line in source:
            yield ProducerRecord(line.decode().strip(), int(line.split(b"-")[-1][:0] or b"x"))


class Waiting(RecordReader):
    """Says that it reads, and does so under an ``except`` that takes everything."""

    def read_records(self, source: BinaryIO) -> Iterator[ProducerRecord]:
        sys.stderr.write("reading\n")
        try:
            source.read()
        except Exception as error:
            raise ValueError("caught") from error
        yield ProducerRecord("t")


class Places(MessageFormatter):
    """Where a record was, and what it is."""

    closed: ClassVar[int] = 0

    def configure(self, properties: Mapping[str, str]) -> None:
        self._separator = properties["between"].encode()

    def write_to(self, record: ConsumerRecord, output: BinaryIO) -> None:
        place = f"{record.topic}-{record.partition}@{record.offset}".encode()
        if record.value == b"bad":
            raise ValueError("cannot show this")
        output.write(self._separator.join([place, record.key or b"-", record.value]) + b"\n")

    def close(self) -> None:
        Places.closed += 1


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


@pytest.fixture
def topic(talk: Talk) -> str:
    name = f"plugins-{uuid.uuid4().hex[:8]}"
    talk.create(name)
    return name


def type_in(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


@pytest.mark.parametrize("name", [f"{HERE}.Blocks", f"{HERE}:Blocks"])
def test_a_reader_of_ones_own(name: str, talk: Talk, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(b"k\none\ntwo\n\nl\nthree", monkeypatch)
    before = Blocks.closed
    args = ["--topic", topic, "--line-reader", name, "--property", "colour=red"]
    assert console_producer.main.run(args) == ExitStatus.OK
    headers = (("colour", b"red"), ("topic", topic.encode()))
    assert [each[2:] for each in talk.read(topic)] == [
        (b"k", b"one\ntwo", headers),
        (b"l", b"three", headers),
    ]
    assert Blocks.closed == before + 1


def test_what_a_reader_raises_is_one_line(
    topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(b"line\n", monkeypatch)
    args = ["--topic", topic, "--line-reader", f"{HERE}.Imitation"]
    assert console_producer.main.run(args) == ExitStatus.FAILURE
    assert capsys.readouterr().err == (
        f"pk-console-producer: {HERE}.Imitation: ValueError: invalid literal for int() with base 10: b'x'\n"
    )


def test_a_signal_ends_a_reader_that_catches_everything(topic: str) -> None:
    program = "from pkafka.cli.console_producer import main; main()"
    command = [sys.executable, "-c", program, "--topic", topic, "--line-reader", f"{HERE}.Waiting"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as producer:
        try:
            assert producer.stderr is not None
            assert producer.stderr.readline() == "reading\n"
            producer.send_signal(signal.SIGTERM)
            assert producer.wait(60) == 128 + signal.SIGTERM
            assert producer.stderr.read() == ""
        finally:
            producer.kill()


def test_a_formatter_of_ones_own(talk: Talk, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    talk.send(topic, b"one", b"bad", b"three")
    before = Places.closed
    args = ["--topic", topic, "--from-beginning", "--until-end", "--formatter", f"{HERE}.Places"]
    args += ["--property", "between=|"]
    assert console_consumer.main.run(args) == ExitStatus.FAILURE
    shown = capsys.readouterr()
    assert shown.out == f"{topic}-0@0|-|one\n"
    assert f"terminating consumer process: {HERE}.Places: ValueError: cannot show this" in shown.err
    assert console_consumer.main.run([*args, "--skip-message-on-error"]) == ExitStatus.OK
    assert capsys.readouterr().out == f"{topic}-0@0|-|one\n{topic}-0@2|-|three\n"
    assert Places.closed == before + 2


@pytest.mark.parametrize(
    ("flag", "name", "why"),
    [
        ("--line-reader", "Nope", "write package.module.Class"),
        ("--line-reader", "no.such.LineMessageReader", "cannot be found: No module named 'no'"),
        ("--line-reader", f"{HERE}:Places", "has no method read_records"),
        ("--line-reader", "org.example.Nope", "cannot be found"),
        ("--formatter", "Nope", "write package.module.Class"),
        ("--formatter", "no.such.NoOpMessageFormatter", "cannot be found: No module named 'no'"),
        ("--formatter", f"{HERE}.Blocks", "has no method write_to"),
        ("--formatter", f"{HERE}.Places", "KeyError: 'between'"),  # it was not given what it needs
    ],
)
def test_what_cannot_be_loaded_is_one_line(
    flag: str, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = console_producer.main if flag == "--line-reader" else console_consumer.main
    assert command.run(["--topic", "t", flag, name]) != ExitStatus.OK
    said = capsys.readouterr()
    assert why in said.err
    assert name in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_json_lines_have_a_reader_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--topic", "t", "--input", "jsonl", "--line-reader", f"{HERE}.Blocks"]
    assert console_producer.main.run(args) == ExitStatus.USAGE
    assert "--input jsonl" in capsys.readouterr().err
