"""pk-perf-test on a real broker: what it counts is what happened, and it ends as it should whatever happens."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from pkafka.cli import perf_test
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.admin.results import GroupState
from pkafka.errors import ApiError
from pkafka.testing import Broker, running_broker
from tests.perf_reports import remarks_of
from tests.sockets import free_port
from tests.talk import Talk, talking

Document = dict[str, Any]
Run = Callable[..., Document]


@pytest.fixture(autouse=True)
def plain_environment(pkafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pkafka_broker.bootstrap)


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


@pytest.fixture
def topic() -> str:
    return f"perf-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a load test in this process and gives its report."""

    def run(*args: object, status: int = ExitStatus.OK) -> Document:
        words = ["run", "--interval", "0.2", "--output", "json", *map(str, args)]
        found = perf_test.main.run(words)
        printed = capsys.readouterr()
        assert found == status, printed.err
        document: Document = json.loads(printed.out)
        return document

    return run


def sides(report: Document) -> dict[str, Document]:
    return {row["side"]: row for row in report["results"]}


def topics_of(talk: Talk) -> set[str]:
    return {each.name for each in talk.admin.list_topics()}


# -- what is counted ---------------------------------------------------------------------------------------


def test_every_record_is_sent_and_read_once(run: Run, talk: Talk, topic: str) -> None:
    report = run("--topic", topic, "--num-records", 30_000, "--record-size", 200, "--partitions", 3)
    produced, consumed = sides(report)["produce"], sides(report)["consume"]
    for side in (produced, consumed):
        assert (side["records"], side["size_bytes"], side["failed"]) == (30_000, 6_000_000, 0)
        assert 0 < side["percentiles_ms"]["50"] <= side["percentiles_ms"]["99"] <= side["latency_max_ms"]
        assert side["records_per_s"] == pytest.approx(30_000 / side["seconds"], rel=1e-3)
        assert side["cpu_us_per_record"] > 0
    assert sum(row["produced"] for row in report["series"]) == 30_000
    assert sum(row["consumed"] for row in report["series"]) == 30_000
    assert (report["status"], report["missing"], remarks_of(report)) == ("complete", 0, [])
    assert topic not in topics_of(talk), "what a test makes it takes away"


def test_several_processes_share_partitions_and_records(run: Run, topic: str, talk: Talk) -> None:
    talk.create(topic, partitions=3)
    options = ("--topic", topic, "--num-records", 10_001, "--producers", 2, "--consumers", 2)
    report = run(*options, "--key", "sequential", "--header", "a=b", "--header", "c=d")
    assert sides(report)["produce"]["records"] == sides(report)["consume"]["records"] == 10_001
    ends = [talk.ends(topic, partition)[1] for partition in range(3)]
    assert sum(ends) == 10_001
    assert min(ends) > 2_500
    found = [record for partition in range(3) for record in talk.read(topic, partition)]
    assert sorted(int(record.key or b"") for record in found) == list(range(10_001))
    assert {record.headers for record in found} == {(("a", b"b"), ("c", b"d"))}


def test_a_rate_is_kept_and_the_warm_up_left_out(run: Run, topic: str) -> None:
    report = run("--topic", topic, "--rate", 500, "--duration", "1s", "--warmup", "400ms", "--producers", 2)
    produced, consumed = sides(report)["produce"], sides(report)["consume"]
    for side, name in ((produced, "produced"), (consumed, "consumed")):
        assert side["records"] + side["warm_up_records"] == 700
        # They count where they arrive, which is where the machine lets them.
        in_warm_up = sum(row[name] for row in report["series"] if row["at_s"] < 0)
        assert side["warm_up_records"] == in_warm_up
    assert report["end_to_end_clock"] == "value, in microseconds"
    assert report["schedule_lag"]["max_ms"] is not None
    assert min(row["at_s"] for row in report["series"]) >= -0.4


def test_throughput_is_a_rate_in_bytes(run: Run) -> None:
    report = run("--throughput", 0.1, "--record-size", 1024, "--duration", "500ms", "--consumers", 0)
    assert report["configuration"]["rate"] == pytest.approx(102.4)
    assert [row["side"] for row in report["results"]] == ["produce"]


def test_a_group_shares_the_topic_and_begins_at_its_end(run: Run, topic: str, talk: Talk) -> None:
    talk.create(topic, partitions=2)
    run("--topic", topic, "--num-records", 100, "--consumers", 0)
    group = f"group-{topic}"
    options = ("--topic", topic, "--num-records", 1_000, "--consumers", 2, "--group", group)
    for _ in range(2):
        report = run(*options)
        assert sides(report)["consume"]["records"] == 1_000
        assert report["missing"] == 0
        found = talk.admin.describe_groups([group])[group]
        assert not isinstance(found, ApiError)
        assert (found.state, found.members) == (GroupState.EMPTY, ()), "they have left"


def test_consumers_alone_read_what_is_there(run: Run, topic: str, talk: Talk) -> None:
    talk.create(topic, partitions=2)
    run("--topic", topic, "--num-records", 5_000, "--consumers", 0)
    report = run("--topic", topic, "--producers", 0, "--consumers", 2)
    assert sides(report) == {"consume": report["results"][0]}
    assert report["results"][0]["records"] == 5_000
    assert report["results"][0]["latency_mean_ms"] is None
    in_group = run("--topic", topic, "--producers", 0, "--group", f"group-{topic}", "--num-records", 5_000)
    assert in_group["results"][0]["records"] == 5_000


def test_payloads(run: Run, topic: str, talk: Talk, tmp_path: Path) -> None:
    talk.create(topic)
    (tmp_path / "lines").write_text("red\ngreen\n")
    run("--topic", topic, "--num-records", 50, "--payload-file", tmp_path / "lines", "--codec", "zstd")
    assert {record.value for record in talk.read(topic)} == {b"red", b"green"}
    report = run("--topic", topic, "--num-records", 5, "--rate", 100, "--payload-template", '{"n": {number}}')
    assert report["end_to_end_clock"] == "timestamp, in milliseconds"
    assert [json.loads(record.value or b"") for record in talk.read(topic)[50:]] == [
        {"n": number} for number in range(5)
    ]
    times = [record.timestamp for record in talk.read(topic)[50:]]
    assert [each - times[0] for each in times] == [0, 10, 20, 30, 40], "when they were due"


def test_times_of_the_broker_are_no_latency(run: Run, topic: str) -> None:
    report = run(
        "--topic", topic, "--num-records", 100, "--topic-config", "message.timestamp.type=LogAppendTime"
    )
    assert sides(report)["consume"]["records"] == 100
    assert sides(report)["consume"]["latency_mean_ms"] is None
    assert any("LogAppendTime" in each or "appending" in each for each in report["remarks"])


def test_records_of_others_are_no_latency(run: Run, topic: str, talk: Talk) -> None:
    """They are read and counted; when they were due nobody knows."""
    talk.create(topic)
    report = run("--topic", topic, "--num-records", 50, "--rate", 200, "--keep-topic")
    again = run("--topic", topic, "--producers", 0)
    assert sides(report)["consume"]["records"] == sides(again)["consume"]["records"] == 50
    assert sides(again)["consume"]["percentiles_ms"] == {}


def test_a_stalled_broker_is_what_all_records_see_that_were_due_meanwhile(tmp_path: Path) -> None:
    """Also those that a generator that waits for answers would not have sent (coordinated omission)."""
    for side in measured_through_a_stall(tmp_path):
        # A third of the records was due meanwhile, and waited for half of that time on average.
        assert side["percentiles_ms"]["90"] > STALL_S * 1000 / 2


@pytest.mark.nightly  # on a busy machine all records wait; that those of the stall do, the test above shows daily
def test_a_stall_is_seen_by_none_that_was_not_due_meanwhile(tmp_path: Path) -> None:
    for side in measured_through_a_stall(tmp_path):
        assert side["percentiles_ms"]["50"] < STALL_S * 1000 / 2


STALL_S = 0.8


def measured_through_a_stall(tmp_path: Path) -> list[Document]:
    """What both sides see of a broker that stands still for a third of the time."""
    rate, report = 200, tmp_path / "report.json"
    options = ("--rate", rate, "--duration", "2.4s", "--report", report)
    with running_broker(tmp_path / "broker", {"pkafka.workers": 1}) as broker:
        supervisor = psutil.Process(broker.pid)
        family = [supervisor, *supervisor.children(recursive=True)]
        with started("--bootstrap-server", broker.bootstrap, *options) as process:
            for each in family:
                each.suspend()
            time.sleep(STALL_S)
            for each in family:
                each.resume()
            process.communicate(timeout=60)
    assert process.returncode == 0
    found = list(sides(json.loads(report.read_text())).values())
    assert [side["records"] for side in found] == [pytest.approx(2.4 * rate, abs=1)] * 2
    return found


# -- how it ends -------------------------------------------------------------------------------------------


def test_failed_records_fail_the_test(
    capsys: pytest.CaptureFixture[str], topic: str, run: Run, talk: Talk
) -> None:
    options = (
        "--topic",
        topic,
        "--num-records",
        10,
        "--topic-config",
        "max.message.bytes=500",
        "--rate",
        100,
    )
    report = run(*options, "--record-size", 1000, status=ExitStatus.FAILURE)
    assert report["status"] == "failed"
    assert sides(report)["produce"]["failed"] > 0
    assert "The batch is larger than the server accepts (max.message.bytes)" in report["error"]
    tolerated = run(*options, "--record-size", 1000, "--max-error-rate", 1)
    assert sides(tolerated)["produce"]["failed"] == 10
    assert topic not in topics_of(talk)


def test_a_broker_that_is_away_is_one_line_and_3(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    address = f"127.0.0.1:{free_port()}"
    assert perf_test.main.run(["--bootstrap-server", address, "--timeout", "3s"]) == ExitStatus.UNREACHABLE
    assert time.monotonic() - begun < 30  # and not the minute that clients have for their calls
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert address in printed.err


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--producers", "0", "--consumers", "0"], "producer or a consumer"),
        (["--rate", "5", "--throughput", "1"], "rate"),
        (["--rate", "-5"], "rate"),
        (["--record-size", "tiny"], "tiny"),
        (["--key", "odd"], "odd"),
        (["--duration", "soon"], "soon"),
        (["--producer-property", "linger.ms=-1"], "linger.ms"),
        (["--consumer-property", "fetch.max.wait.ms=x"], "fetch.max.wait.ms"),
        (["--header", "a"], "--header"),
    ],
)
def test_nonsense_is_2(args: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert perf_test.main.run(args) == ExitStatus.USAGE
    assert word in capsys.readouterr().err


def test_settings_are_shown_with_who_gave_them(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["run", "--show-config", "--codec", "lz4", "--producer-property", "linger.ms=7"]
    assert perf_test.main.run(args) == ExitStatus.OK
    shown = capsys.readouterr().out.splitlines()
    assert "compression.type=lz4 (--codec)" in shown
    assert "linger.ms=7 (--producer-property)" in shown
    assert perf_test.main.run([*args, "--producers", "0"]) == ExitStatus.OK
    assert "auto.offset.reset=earliest (command)" in capsys.readouterr().out.splitlines()


def test_reading_a_topic_that_is_not_there_is_1(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    assert perf_test.main.run(["--topic", topic, "--producers", "0"]) == ExitStatus.FAILURE
    assert topic in capsys.readouterr().err


@contextlib.contextmanager
def started(*args: object) -> Iterator["subprocess.Popen[str]"]:
    """A load test of its own, as soon as it says that something was sent."""
    command = [sys.executable, "-m", "pkafka.cli.perf_test", "--interval", "0.2", *map(str, args)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("0.2 s: sent/s "), line + process.stderr.read()
            while re.match(r"[\d.]+ s: sent/s 0\b", line):
                line = process.stderr.readline()
            assert "sent/s" in line, line + process.stderr.read()
            yield process
        finally:
            process.kill()


def generators_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process(process.pid).children()
        if "pkafka.tools.load.perf_test.generator" in each.cmdline()
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_report_so_far(number: signal.Signals, topic: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with started("--topic", topic, "--duration", "10m", "--rate", 200, "--report", report) as process:
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "interrupted: these are the figures until then" in out
    document = json.loads(report.read_text())
    assert document["status"] == "interrupted"
    assert sides(document)["produce"]["records"] > 0


def test_a_generator_that_dies_is_said_and_leaves_no_other(topic: str, talk: Talk) -> None:
    with started("--topic", topic, "--duration", "10m", "--rate", 100, "--consumers", 2) as process:
        family = generators_of(process)
        assert len(family) == 3
        family[0].kill()
        _, err = process.communicate(timeout=60)
    assert process.returncode == ExitStatus.FAILURE
    assert "ended with -9" in err.splitlines()[-1]
    assert psutil.wait_procs(family, timeout=60)[1] == []
    assert topic not in topics_of(talk)


def test_generators_end_with_a_parent_that_is_killed(topic: str) -> None:
    with started("--topic", topic, "--duration", "10m", "--rate", 100, "--keep-topic") as process:
        family = generators_of(process)
    assert family
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_a_broker_that_stops_meanwhile_leaves_a_report(tmp_path: Path) -> None:
    for duration in ("3s", "30s", "90s"):
        report = tmp_path / f"{duration}.json"
        options = ("--duration", duration, "--rate", 100, "--timeout", "5s", "--report", report)
        with (
            running_broker(tmp_path / duration, {"pkafka.workers": 1}) as broker,
            started("--bootstrap-server", broker.bootstrap, *options) as process,
        ):
            broker.kill()
            _, err = process.communicate(timeout=200)
        document = json.loads(report.read_text())
        if sides(document)["produce"]["failed"]:
            break  # else all was sent before the end came: the machine stood still
    assert process.returncode == ExitStatus.FAILURE
    assert f"the topic {document['configuration']['topic']} could not be deleted" in err
    assert sides(document)["produce"]["failed"] > 0
    assert document["status"] == "failed"


def test_more_consumers_than_partitions(run: Run) -> None:
    report = run("--num-records", 100, "--consumers", 3, "--partitions", 2)
    assert sides(report)["consume"]["records"] == 100


# -- what is made of reports -------------------------------------------------------------------------------


def test_reports_are_compared_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Run) -> None:
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    run("--rate", 400, "--duration", "500ms", "--report", fast)
    # As a run at a quarter of the rate; a machine that stands still makes two runs alike.
    worse = json.loads(fast.read_text())
    worse["configuration"]["rate"] /= 4
    for row in worse["results"]:
        row["records_per_s"] /= 4
    slow.write_text(json.dumps(worse))
    command = perf_test.main.run
    assert command(["compare", str(fast), str(fast), "--output", "json"]) == ExitStatus.OK
    assert json.loads(capsys.readouterr().out)["regression"] is False
    assert command(["compare", str(fast), str(slow)]) == ExitStatus.FAILURE
    out = capsys.readouterr().out
    assert any(line.startswith("produce records/sec") and line.endswith("worse") for line in out.splitlines())
    assert "not the same: rate: 400.0, 100.0" in out.splitlines()
    assert command(["compare", str(fast), str(slow), "--threshold", "100000%"]) == ExitStatus.OK
    assert command(["plot", str(fast), "--svg", str(tmp_path / "fast.svg")]) == ExitStatus.OK
    ElementTree.parse(tmp_path / "fast.svg")


def test_a_png_needs_a_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("--num-records", 10, "--report", tmp_path / "report.json")
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    args = ["plot", str(tmp_path / "report.json"), "--png", str(tmp_path / "picture.png")]
    assert perf_test.main.run(args) == ExitStatus.FAILURE
    assert "pip install cairosvg" in capsys.readouterr().err


def test_where_no_report_can_be_written_is_said_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none" / "report.json"
    assert perf_test.main.run(["--duration", "10m", "--report", str(file)]) == ExitStatus.FAILURE
    assert str(file) in capsys.readouterr().err


def test_what_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_text("no json")
    for args in (["compare", str(tmp_path / "other"), str(tmp_path / "none")], ["plot", "x", "--svg", "y"]):
        assert perf_test.main.run(args) == ExitStatus.FAILURE
    assert perf_test.main.run(["plot", str(tmp_path / "other")]) == ExitStatus.USAGE
    assert perf_test.main.run(["compare", "a", "b", "--threshold", "some"]) == ExitStatus.USAGE
    said = capsys.readouterr().err
    assert "this is no report of pk-perf-test" in said
    assert "--svg FILE or --png FILE" in said


def test_on_a_terminal_the_rows_stay_in_place(topic: str) -> None:
    ours, theirs = pty.openpty()
    options = ("--topic", topic, "--rate", "100", "--duration", "500ms", "--interval", "0.1")
    process = subprocess.Popen(
        [sys.executable, "-m", "pkafka.cli.perf_test", *options],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(theirs)
    drawn = b""
    try:
        with contextlib.suppress(OSError):  # the terminal is gone with its last process
            while part := os.read(ours, 1 << 16):
                drawn += part
        process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(ours)
    assert process.returncode == 0
    assert b"sent/s" in drawn
    assert b"\x1b[" in drawn
