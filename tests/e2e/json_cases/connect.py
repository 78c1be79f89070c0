"""What pk-connect prints of connectors, of a worker that runs for the case."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pkafka.cli.kit.exit_status import ExitStatus
from tests.connect_workers import ConnectWorker, standalone
from tests.e2e.json_cases.case import At, Cases
from tests.talk import wait_for

CASES = Cases()


@contextmanager
def _running(at: At) -> Iterator[tuple[ConnectWorker, str, dict[str, str]]]:
    """A worker with a source that runs."""
    topic = at.topic()
    lines = at.tmp_path / "lines"
    lines.write_text("a\n")
    configs = {"name": topic, "connector.class": "FileStreamSource", "file": str(lines), "topic": topic}
    with standalone(at.tmp_path / "worker", at.broker.bootstrap) as worker:
        worker.rest.call("POST", "/connectors", {"name": topic, "config": configs})
        worker.rest.wait_until(topic, "RUNNING", "RUNNING")
        wait_for(lambda: worker.rest.call("GET", f"/connectors/{topic}/offsets").body["offsets"])
        yield worker, topic, configs


@CASES.of("pk-connect.list", "pk-connect.status", "pk-connect.offsets")
def connectors_are_shown(at: At) -> None:
    verb = at.name.partition(".")[2]
    with _running(at) as (worker, name, _configs):
        words = ["--url", worker.rest.url, "OUTPUT", verb, *([] if verb == "list" else [name])]
        rows = at.every_form(words)
        (found,) = rows.values()
        if verb == "list":
            assert (found[0]["name"], found[0]["state"], found[0]["running"]) == (name, "RUNNING", 1)
        elif verb == "status":
            assert [row["task"] for row in found] == [None, 0]
            at.error("--url", worker.rest.url, "OUTPUT", verb, at.new())
    at.error("--url", worker.rest.url, "OUTPUT", "list", status=ExitStatus.UNREACHABLE)


@CASES.of("pk-connect.pause", "pk-connect.resume", "pk-connect.stop", "pk-connect.restart")
def connectors_are_changed(at: At) -> None:
    verb = at.name.partition(".")[2]
    with _running(at) as (worker, name, _configs):
        (rows,) = at.every_form(["--url", worker.rest.url, "OUTPUT", verb, name]).values()
        assert rows == [{"name": name, "done": True, "error": None}]
        words = ["--url", worker.rest.url, "OUTPUT", verb, at.new()]
        (row,) = at.document(*words, status=ExitStatus.FAILURE)["connectors"]
        assert row["done"] is False
        assert "not found" in row["error"] or "Unknown connector" in row["error"]


@CASES.of("pk-connect.apply")
def connectors_are_as_files_define_them(at: At) -> None:
    with _running(at) as (worker, name, configs):
        directory = at.tmp_path / "connectors"
        directory.mkdir()
        for file, values in (
            ("a", {**configs, "batch.size": "7"}),
            ("b", {**configs, "name": f"{name}-new"}),
        ):
            (directory / f"{file}.json").write_text(json.dumps(values))
        words = ["--url", worker.rest.url, "OUTPUT", "apply", str(directory)]
        (rows,) = at.every_form([*words, "--dry-run"]).values()
        assert [(row["action"], row["changes"], row["done"]) for row in rows] == [
            ("update", ["batch.size"], False),
            ("create", [], False),
        ]
        assert [row["done"] for row in at.document(*words)["connectors"]] == [True, True]
        assert [row["action"] for row in at.document(*words)["connectors"]] == ["unchanged", "unchanged"]
        _refuses_all_when_one_is_wrong(at, directory, words, configs)
    at.error("OUTPUT", "apply", str(at.tmp_path / "none"), status=ExitStatus.USAGE)


def _refuses_all_when_one_is_wrong(
    at: At, directory: Path, words: list[str], configs: dict[str, str]
) -> None:
    (directory / "a.json").write_text(json.dumps({**configs, "batch.size": "8"}))
    (directory / "c.json").write_text(json.dumps({**configs, "name": "c", "tasks.max": "none"}))
    rows = at.document(*words, status=ExitStatus.FAILURE)["connectors"]
    assert [row["done"] for row in rows] == [False, False, False]
    assert "Not a number of type INT" in rows[2]["error"]


@CASES.of("pk-connect.dlq")
def dead_letters_are_shown_and_replayed(at: At) -> None:
    topic, other = at.topic(b"letter", b"\xff"), at.topic()
    servers = ["--bootstrap-server", at.broker.bootstrap]
    (rows, replayed) = at.every_form(["OUTPUT", "dlq", "show", topic, *servers]).values()
    assert [(row["value"], row["connector"]) for row in rows] == [
        ("letter", None),
        ({"base64": "/w=="}, None),
    ]
    assert replayed == 0
    words = ["OUTPUT", "dlq", "replay", topic, *servers, "--to", other]
    assert at.every_form([*words, "--reset"])["replayed"] == 2
    assert at.document(*words) == {"letters": [], "replayed": 0}
    at.error("OUTPUT", "dlq", "show", at.new(), *servers)


@CASES.of("pk-connect-plugin-path.list")
def plugins_are_listed(at: At) -> None:
    (rows,) = at.every_form(["list"]).values()
    assert "FileStreamSource" in {row["second_alias"] for row in rows}
    at.error("list", "--plugin-path", str(at.tmp_path / "none"), status=ExitStatus.USAGE)
