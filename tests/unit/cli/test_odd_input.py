"""Inputs that were a traceback once, one of each kind; tests/unit/cli/test_any_input.py looks for others."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pkafka.cli import (
    apply,
    delete_records,
    dev,
    perf_test,
    pipeline,
    producer_perf_test,
    topics,
    verifiable_consumer,
    verifiable_producer,
)
from pkafka.cli.completions import live_names
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.options import parse_duration_ms
from pkafka.cli.kit.output import line, to_json
from pkafka.cli.kit.profiles import find_profile
from pkafka.clients.errors import IllegalArgumentError
from pkafka.clients.producer import ProducerRecord
from pkafka.errors import ConfigError
from tests.fakes.broker import FakeBroker
from tests.sockets import free_port
from tests.unit.tools.load.perf_test.reports import report

DEEP = b"[" * 100_000


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PK_COMPAT", "PK_BOOTSTRAP_SERVER", "PK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], command: click.Command, *args: str) -> str:
    """What a command says that is used wrongly."""
    assert command.run([*args]) == ExitStatus.USAGE  # type: ignore[attr-defined]
    return capsys.readouterr().err


# -- what is printed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "text", "printed"),
    [
        ("utf-8", "a\udcffb", b"a\xffb\n"),
        ("utf-8", "a\ud800b", b"a?b\n"),
        ("latin-1", "ä日\udcff", b"\xe4?\xff\n"),
        ("ascii", "ä", b"?\n"),
    ],
)
def test_what_standard_output_has_no_bytes_for_is_printed_all_the_same(
    encoding: str, text: str, printed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))

    @click.command("print", cls=type(topics.main))
    def print_it() -> None:
        line(text)

    assert print_it.run([]) == ExitStatus.OK
    assert written.getvalue() == printed


def test_half_a_surrogate_pair_is_an_escape_in_json() -> None:
    text = to_json({"name": "é\udcff"})
    assert text == '{"name":"é\\udcff"}'
    assert json.loads(text.encode().decode()) == {"name": "é\udcff"}


def test_json_of_a_name_that_is_no_text_is_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    args = ["--bootstrap-server", f"nowhere\udcff:{free_port()}", "--list", "--output", "json"]
    assert topics.main.run(args) == ExitStatus.UNREACHABLE
    assert r"nowhere\udcff" in json.loads(capfdbinary.readouterr().out)["error"]["message"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_caller_may_close_any_stream(closed: str) -> None:
    program = "from pkafka.cli.apply import main; main()"
    typed = f"'{sys.executable}' -c '{program}' diff - --bootstrap-server 127.0.0.1:{free_port()} {closed}"
    done = subprocess.run(["sh", "-c", typed], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == ExitStatus.USAGE  # there is nothing in what it reads
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["²", "²s", "9" * 5_000, "2147483648", "597h", "-1", "1.5s", "", "s", "5 s"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(click.UsageError, match="Cannot parse argument"):
        parse_duration_ms(text)


def test_times_go_up_to_kafkas() -> None:
    assert parse_duration_ms("2147483647") == 2**31 - 1
    assert parse_duration_ms("596h") == 596 * 3_600_000


@pytest.mark.parametrize("port", ["²", "٣", "0", "65536", "9" * 5_000])
def test_what_is_no_port_is_told(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "every entry must be host:port" in refused(
        capsys, topics.main, "--bootstrap-server", f"localhost:{port}", "--list"
    )


# -- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: !!int x", "line 1: 'x' is no value of !!int"),
        ("a:\n  !!bool x", "line 2: 'x' is no value of !!bool"),
        ("a: 2026-99-99", "line 1: '2026-99-99' is no value of !!timestamp"),
        ("a: !!timestamp x", "line 1: 'x' is no value of !!timestamp"),
        ("[" * 5_000, "nested too deeply"),
        ("topics: {a: {configs: {b: &c [*c]}}}", "nested too deeply"),
    ],
)
def test_a_declaration_that_is_no_yaml_is_told(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(text)
    assert told in refused(capsys, apply.main, "diff", str(file), "--bootstrap-server", "localhost:1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("source: &a {options: *a}", "line 1: a value is part of itself"),
        ("source: {<<: 1}", "line 1"),
        ("source: {format: json, options: {a: {b: !!int x}}}", "a number that is none"),
        ("[" * 5_000, "nested too deeply"),
    ],
)
def test_a_pipeline_that_is_no_yaml_is_told(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    assert told in refused(capsys, pipeline.main, "validate", str(file), "--offline")


@pytest.mark.parametrize(
    "text",
    [
        '{"partitions":[{"topic":"t","partition":0,"offset":1e999}]}',
        '{"partitions":[{"topic":"t","partition":1e999,"offset":1}]}',
    ],
)
def test_an_offset_without_end_is_told(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    args = ["--offset-json-file", str(file), "--bootstrap-server", "localhost:1"]
    assert delete_records.main.run(args) == ExitStatus.FAILURE
    assert "lacks or misuses a field" in capsys.readouterr().err
    file.write_bytes(DEEP)
    assert delete_records.main.run(args) == ExitStatus.FAILURE
    assert "is not a valid JSON" in capsys.readouterr().err


def test_a_profile_that_is_nested_without_end_is_told(tmp_path: Path) -> None:
    (tmp_path / ".pkafka.toml").write_text("a = " + "[" * 5_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        find_profile(None)


@pytest.mark.parametrize(
    "kept", ['{"SERVERS":1}', '{"SERVERS":{"topics":{"at":"x"}}}', "[" * 100_000, "\ufeff"]
)
def test_names_that_somebody_changed_are_asked_for_again(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A shell waits for a third of a second, which a busy machine may need for the imports alone.
    monkeypatch.setattr(live_names, "_DEADLINE_S", 60.0)
    with FakeBroker({"t": 1}) as broker:
        file = Path(os.environ["XDG_CACHE_HOME"]) / "pkafka" / "names.json"
        file.parent.mkdir(parents=True)
        file.write_text(kept.replace("SERVERS", broker.bootstrap))
        assert live_names.names("topics", ["--bootstrap-server", broker.bootstrap]) == ["t"]


@pytest.mark.parametrize("state", ["[]", '{"pid":1e999}', "[" * 100_000, '{"pid":1,"bootstrap":"a"}'])
def test_what_somebody_wrote_among_the_brokers_of_pk_dev_is_none(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(os.environ["XDG_STATE_HOME"]) / "pkafka" / "dev" / "default.json"
    file.parent.mkdir(parents=True)
    file.write_text(state)
    assert dev.main.run(["status"]) == ExitStatus.OK
    assert "No broker runs." in capsys.readouterr().err


# -- load tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"results": 1}, "results"),
        ({"results": [{"side": "produce"}]}, "results[0].records_per_s"),
        ({"series": [None]}, "series[0]"),
        ({"histograms": {"produce": 1}}, "histograms"),
        ({"configuration": {"rate": "x", "producers": 1, "consumers": 1}}, "configuration.rate"),
        ({"host": None}, "host"),
        ({"started_at": None}, "started_at"),
    ],
)
def test_a_report_that_somebody_changed_is_told(
    changes: dict[str, object], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "changed.json").write_text(json.dumps({**report(), **changes}))
    (tmp_path / "sound.json").write_text(json.dumps(report()))
    for args in (["compare", "changed.json", "sound.json"], ["compare", "sound.json", "changed.json"]):
        assert perf_test.main.run(args) == ExitStatus.FAILURE
        assert f"changed.json: {place} is missing" in capsys.readouterr().err
    assert perf_test.main.run(["plot", "changed.json", "--svg", "picture.svg"]) == ExitStatus.FAILURE
    assert f"changed.json: {place} is missing" in capsys.readouterr().err


def test_a_histogram_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "changed.json").write_text(json.dumps({**report(), "histograms": {"produce": "AAAA"}}))
    assert perf_test.main.run(["plot", "changed.json", "--svg", "picture.svg"]) == ExitStatus.FAILURE
    assert "this is no histogram" in capsys.readouterr().err
    (tmp_path / "changed.json").write_bytes(DEEP)
    assert perf_test.main.run(["plot", "changed.json", "--svg", "picture.svg"]) == ExitStatus.FAILURE
    assert "no report of pk-perf-test" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ("--record-size", "9223372036854775807"),
        ("--record-size", "uniform:1:99999999999999999999"),
        ("--record-size", "normal:inf:1"),
        ("--payload-template", "{random:99999999999}"),
        ("--payload-template", "{int:1:" + "9" * 5_000 + "}"),
        ("--key", "uniform:99999999999999999999"),
        ("--key", "zipf:5:1e308"),
    ],
)
def test_sizes_and_keys_without_end_are_told(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    servers = f"localhost:{free_port()}"
    said = refused(capsys, perf_test.main, "run", "--bootstrap-server", servers, "--consumers", "0", *args)
    assert said.count("\n") == 1


# -- clients -----------------------------------------------------------------------------------------------


def test_a_topic_without_a_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    servers = f"localhost:{free_port()}"
    args = ["--bootstrap-server", servers, "--topic", "", "--group-id", "g"]
    assert verifiable_consumer.main.run(args) == ExitStatus.FAILURE
    assert "cannot contain null or empty topic" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["\udcff", "x" * 40_000])
def test_a_name_that_no_request_can_carry_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    servers = f"localhost:{free_port()}"
    args = ["--bootstrap-server", servers, "--topic", name, "--group-id", "g"]
    assert verifiable_consumer.main.run(args) == ExitStatus.FAILURE
    assert "cannot be represented in a request" in capsys.readouterr().err


def test_a_timestamp_beyond_64_bits_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--topic", "t", "--bootstrap-server", "localhost:1", "--message-create-time", str(2**63))
    assert "Cannot parse argument" in refused(capsys, verifiable_producer.main, *args)
    with pytest.raises(IllegalArgumentError, match="does not fit 64 bits"):
        ProducerRecord("t", b"", timestamp_ms=2**63)


PERF = ("--topic", "t", "--num-records", "1", "--throughput", "-1", "--bootstrap-server", "localhost:1")


@pytest.mark.parametrize("size", ["2147483647", "1048577"])
def test_records_that_no_request_holds_are_told(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert producer_perf_test.main.run([*PERF, "--record-size", size]) == ExitStatus.FAILURE
    assert "do not fit into requests of max.request.size=1048576" in capsys.readouterr().err
