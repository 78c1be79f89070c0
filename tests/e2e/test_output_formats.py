"""What commands print in each format: tables that leave nothing out, one JSON document whatever happens, CSV rows."""

import csv
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import uuid
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli import (
    broker_api_versions,
    console_consumer,
    delete_records,
    dump_log,
    get_offsets,
    log_dirs,
    topics,
)
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import KafkaCommand
from pkafka.clients.producer import Producer
from pkafka.errors import ErrorCode
from pkafka.testing import Broker

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def topic(capsys: pytest.CaptureFixture[str]) -> str:
    """A topic of two partitions with a configuration of its own."""
    name = f"formats-{uuid.uuid4().hex[:8]}"
    args = ["--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=86400000"]
    assert topics.main.run(args) == 0
    capsys.readouterr()
    return name


def printed(
    command: KafkaCommand, *args: str, capsys: pytest.CaptureFixture[str], status: int = ExitStatus.OK
) -> str:
    assert command.run(list(args)) == status
    return capsys.readouterr().out


def document(
    command: KafkaCommand, *args: str, capsys: pytest.CaptureFixture[str], status: int = ExitStatus.OK
) -> dict[str, Any]:
    """The one JSON document that the command prints."""
    found = json.loads(printed(command, *args, "--output", "json", capsys=capsys, status=status))
    assert isinstance(found, dict)
    return found


def on_a_terminal(module: str, *args: str, columns: int = 80) -> str:
    """What a person sees of a command on a terminal of this width, without colours."""
    command = [sys.executable, "-c", f"from pkafka.cli.{module} import main; main()", *args]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    with subprocess.Popen(command, stdout=theirs, env={**environment, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as screen:
            while True:
                try:
                    data = screen.read(65_536)
                except OSError:  # the other end is closed: Linux says EIO
                    break
                if not data:
                    break
                shown += data
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def test_a_table_of_topics_shows_partitions_with_leader_and_replicas(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(topics.main, "--describe", "--topic", topic, "--output", "table", capsys=capsys)
    rows = [line.split() for line in shown.splitlines() if line.split()[:1] == [topic]]
    assert rows[0][2:] == ["2", "1", "retention.ms=86400000"]
    assert rows[1:] == [[topic, "0", "0", "0", "0"], [topic, "1", "0", "0", "0"]]


def test_an_id_fits_an_ordinary_terminal(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = document(topics.main, "--describe", "--topic", topic, capsys=capsys)["topics"]
    shown = on_a_terminal("topics", "--describe", "--topic", topic)
    assert row["id"] in shown
    assert "leader" in shown


def test_a_filter_shows_partitions_alone(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--describe", "--topic", topic, "--at-min-isr-partitions", "--output", "table")
    shown = printed(topics.main, *args, capsys=capsys)
    assert [line.split()[1] for line in shown.splitlines() if topic in line] == ["0", "1"]
    assert "retention" not in shown


def test_csv_has_a_row_per_partition(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(topics.main, "--describe", "--topic", topic, "--output", "csv", capsys=capsys)
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert [(row["name"], row["partition"], row["leader"], row["configs"]) for row in rows] == [
        (topic, "0", "0", "retention.ms=86400000"),
        (topic, "1", "0", "retention.ms=86400000"),
    ]


def test_a_table_of_api_versions_shows_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(broker_api_versions.main, "--output", "table", capsys=capsys)
    assert ["0", "0", "Produce", "0", "11", "11"] in [line.split() for line in shown.splitlines()]
    shown = printed(broker_api_versions.main, "--output", "csv", capsys=capsys)
    assert {"broker": "0", "key": "18", "name": "ApiVersions", "min": "0", "max": "4", "usable": "4"} in list(
        csv.DictReader(io.StringIO(shown))
    )


def test_log_dirs_are_a_table_on_a_terminal(
    topic: str, pkafka_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = on_a_terminal("log_dirs", "--describe", "--topic-list", topic, columns=160)
    assert "offset" in shown
    assert "{" not in shown
    assert [line.split()[:4] for line in shown.splitlines() if topic in line] == [
        ["0", str(pkafka_broker.log_dir), topic, str(partition)] for partition in (0, 1)
    ]


def test_log_dirs_are_watched_until_somebody_ends_it(topic: str, pkafka_broker: Broker) -> None:
    command = [
        sys.executable,
        "-c",
        "from pkafka.cli.log_dirs import main; main()",
        "--describe",
        "--topic-list",
        topic,
        "--watch",
        "0.1",
    ]
    flags = ["--bootstrap-server", pkafka_broker.bootstrap, "--output", "jsonl"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            first, second = watching.stdout.readline(), watching.stdout.readline()
            assert json.loads(first)["broker"] == json.loads(second)["broker"] == 0
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == ExitStatus.INTERRUPTED
        finally:
            watching.kill()


@pytest.mark.parametrize("words", [["--watch", "0"], ["--watch", "soon"], ["--watch", "--output", "json"]])
def test_a_watch_that_cannot_be_is_refused(words: list[str]) -> None:
    assert log_dirs.main.run(["--describe", *words]) == ExitStatus.USAGE


def test_a_directory_without_replicas_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--describe", "--topic-list", "no-such-topic", "--output", "csv")
    [row] = csv.DictReader(io.StringIO(printed(log_dirs.main, *args, capsys=capsys)))
    assert (row["broker"], row["topic"]) == ("0", "")


def test_a_usage_error_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(topics.main, "--list", "--create", capsys=capsys, status=ExitStatus.USAGE)
    assert found["error"]["name"] == "Usage"
    assert "exactly one action" in found["error"]["message"]


def test_partitions_that_fail_are_rows_of_the_one_document(
    topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "offsets.json"
    rows = [
        {"topic": topic, "partition": 0, "offset": 0},
        {"topic": topic, "partition": 1, "offset": 7},
        {"topic": "no-such-topic", "partition": 3, "offset": 0},
    ]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))
    for more in ((), ("--dry-run",)):
        found = document(
            delete_records.main,
            *("--offset-json-file", str(file), *more),
            capsys=capsys,
            status=ExitStatus.FAILURE,
        )
        errors = {(row["topic"], row["partition"]): row["error"] for row in found["partitions"]}
        assert errors == {
            (topic, 0): None,
            (topic, 1): {
                "code": 1,
                "name": "OFFSET_OUT_OF_RANGE",
                "message": ErrorCode.OFFSET_OUT_OF_RANGE.message,
            },
            ("no-such-topic", 3): {
                "code": 3,
                "name": "UNKNOWN_TOPIC_OR_PARTITION",
                "message": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message,
            },
        }
        assert (found["dry_run"], "error" in found) == (bool(more), False)


def test_what_a_dry_run_of_a_deletion_says(
    topic: str, tmp_path: Path, pkafka_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer({"bootstrap.servers": pkafka_broker.bootstrap}) as producer:
        for value in (b"a", b"b", b"c"):
            producer.send(topic, value, partition=1).result()
    file = tmp_path / "offsets.json"
    offsets = {0: -1, 1: 2}
    partitions = [{"topic": topic, "partition": each, "offset": offset} for each, offset in offsets.items()]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    shown = printed(delete_records.main, "--offset-json-file", str(file), "--dry-run", capsys=capsys)
    assert shown == (
        f"Would delete the records of {topic}-0 from 0 up to 0 (end: 0).\n"
        f"Would delete the records of {topic}-1 from 0 up to 2 (end: 3).\n"
    )
    args = ("--topic", topic, "--time", "earliest")
    assert printed(get_offsets.main, *args, capsys=capsys) == f"{topic}:0:0\n{topic}:1:0\n"


def test_records_and_what_ends_their_reading_are_one_document(
    topic: str, pkafka_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("--topic", topic, "--from-beginning")
    assert document(console_consumer.main, *args, "--until-end", capsys=capsys) == {"records": []}
    with Producer({"bootstrap.servers": pkafka_broker.bootstrap}) as producer:
        producer.send(topic, b"12345678", partition=0).result()
        producer.send(topic, b"short", partition=0).result()
    found = document(console_consumer.main, *args, "--until-end", capsys=capsys)
    assert [row["value"] for row in found["records"]] == ["12345678", "short"]
    args = ("--topic", "no/topic", "--from-beginning")
    found = document(console_consumer.main, *args, capsys=capsys, status=ExitStatus.FAILURE)
    assert list(found) == ["error"]


def test_a_format_that_a_stream_cannot_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert console_consumer.main.run(["--topic", "t", "--output", "csv"]) == ExitStatus.USAGE
    assert console_consumer.main.run(["--output", "table"]) == ExitStatus.USAGE
    assert "is not one of 'text', 'json', 'jsonl'" in capsys.readouterr().err


def test_problems_of_a_dump_are_in_its_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(b"\1" * 100)
    found = document(dump_log.main, "--files", str(segment), capsys=capsys, status=ExitStatus.FAILURE)
    assert found["rows"]
    assert found["problems"]
    snapshot = tmp_path / f"{0:020}.snapshot"
    snapshot.write_bytes(b"\x09" * 20)
    found = document(
        dump_log.main, "--files", f"{segment},{snapshot}", capsys=capsys, status=ExitStatus.FAILURE
    )
    assert found["rows"]
    assert any("Snapshot contained an unknown file version" in text for text in found["problems"])
    unnamed = tmp_path / "x.log"
    unnamed.write_bytes(b"")
    found = document(
        dump_log.main, "--files", f"{segment},{unnamed}", capsys=capsys, status=ExitStatus.FAILURE
    )
    assert found["rows"]
    assert "begins with its base offset" in found["error"]["message"]
    missing = str(tmp_path / f"{1:020}.log")
    found = document(dump_log.main, "--files", missing, capsys=capsys, status=ExitStatus.FAILURE)
    assert found["error"]["message"] == f"{missing}: there is no such file"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("module", ["topics", "get_offsets", "configs"])
def test_an_output_that_is_full_or_closed_is_no_traceback(topic: str, module: str, form: str) -> None:
    flags = {"topics": "--list", "get_offsets": f"--topic {topic}", "configs": f"--describe --topic {topic}"}
    program = (
        f"{sys.executable} -c 'from pkafka.cli.{module} import main; main()' {flags[module]} --output {form}"
    )
    full = subprocess.run(
        f"{program} > /dev/full", shell=True, stderr=subprocess.PIPE, text=True, check=False
    )
    names = {"topics": "pk-topics", "get_offsets": "pk-get-offsets", "configs": "pk-configs"}
    assert (full.returncode, full.stderr) == (1, f"{names[module]}: No space left on device\n")
    closed = subprocess.run(f"{program} >&-", shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_what_is_not_there_to_be_dumped_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in ((tmp_path, "holds no file of a log"), (tmp_path / "gone-0", "there is no such file")):
        assert dump_log.main.run(["--files", str(path)]) == ExitStatus.FAILURE
        captured = capsys.readouterr()
        assert captured.out == ""
        assert (
            captured.err == f"pk-dump-log: {path}: {text if path != tmp_path else 'this directory ' + text}\n"
        )
