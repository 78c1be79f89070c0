"""What the commands print that only pkafka has, and the verifiable clients."""

import csv
import io
import json

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from tests.e2e.json_cases.case import COMMANDS, At, Cases, Words
from tests.e2e.json_cases.groups import group_of
from tests.json_schemas import SCHEMAS, check, check_cells
from tests.talk import wait_for

CASES = Cases()


@CASES.of("pk-dev.up", "pk-dev.down", "pk-dev.status")
def brokers_come_and_go(at: At) -> None:
    verb = at.name.partition(".")[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(at.tmp_path))
        forms: Words = ["json", "jsonl", "csv"]
        try:
            for form in forms:
                words = ["--name", form]
                up = at.run("up", *words, "--workers", "1", "--output", form)
                status = at.run("status", *words, "--output", form)
                down = at.run("down", *words, "--output", form)
                shown = {"up": up, "status": status, "down": down}[verb]
                if form == "json":
                    check(json.loads(shown), at.name)
                elif form == "jsonl":
                    check(json.loads(shown), at.name, "row")
                else:
                    header, cells = csv.reader(io.StringIO(shown))
                    check_cells(header, cells, at.name)
        finally:
            at.run("down", "--all")
        if verb == "status":
            assert at.document("status") == {"brokers": []}
            assert at.document("status", "--name", "x", status=ExitStatus.FAILURE) == {"brokers": []}
        elif verb == "down":
            assert at.document("down", "--all") == {"brokers": []}
            at.error("down", "--name", "x")


@CASES.of("pk-apply.diff", "pk-apply.apply")
def a_declaration_is_compared_and_applied(at: At) -> None:
    verb = at.name.partition(".")[2]
    there, bad, made = at.topic(partitions=2, retention_ms=1_000), at.topic(), at.new()
    changes = {there: {"partitions": 3, "configs": {"retention.ms": None, "segment.bytes": 1_000_000}}}
    wanted = {"topics": {**changes, made: {"partitions": 2}}}
    file = at.file(wanted)
    differs = ExitStatus.FAILURE if verb == "diff" else ExitStatus.OK
    found = at.document(verb, file, *(["--dry-run"] if verb == "apply" else []), status=differs)
    assert found["dry_run"] is True
    assert {row["action"] for row in found["changes"]} == {"create", "change"}
    if verb == "apply":
        assert at.document(verb, file)["dry_run"] is False
        wait_for(lambda: COMMANDS["pk-apply"].run(["diff", file]) == ExitStatus.OK)
        assert at.document(verb, file)["changes"] == []
    wanted = {"topics": {there: {"partitions": 1}, bad: {"configs": {"retention.ms": "soon"}}}}
    rows = at.every_form([verb, at.file(wanted)], ExitStatus.FAILURE)["changes"]
    assert [row["action"] for row in rows if row["name"] == there] == ["impossible"]
    assert all(row["error"] for row in rows if row["name"] == there or verb == "apply")
    at.error(verb, at.file({"no": 1}), status=ExitStatus.USAGE)
    if verb == "diff":
        secret = at.file({"brokers": {"0": {"my.reporter.password": "hush"}}})
        [row] = at.document(verb, secret, status=ExitStatus.FAILURE)["changes"]
        assert (row["key"], row["after"]) == ("my.reporter.password", None)


@CASES.of("pk-apply.export")
def a_cluster_is_exported(at: At) -> None:
    topic = at.topic(retention_ms=1_000)
    assert at.document("export")["topics"][topic]["configs"] == {"retention.ms": "1000"}
    check(json.loads(at.run("export", "--topic", topic, "--output", "jsonl")), at.name)
    at.error("export", "--topic", at.new())


@CASES.of("pk-top")
def a_cluster_is_watched(at: At) -> None:
    topic = at.topic(b"a", partitions=2)
    group = group_of(at, topic)
    words = ["--interval", "0.05", "--internal"]
    found = at.every_form([*words, "--count", "2"])
    assert len(found["looks"]) == 2
    assert group in {row["group"] for row in found["looks"][0]["groups"]}
    at.every_form([*words, "--topic", topic])
    (empty,) = at.document(*words, "--topic", at.new(), "--group", "^none$")["looks"]
    assert (empty["topics"], empty["groups"]) == ([], [])


@CASES.of("pk-pipeline.validate", "pk-pipeline.run")
def a_pipeline_is_checked_and_run(at: At) -> None:
    verb = at.name.partition(".")[2]
    servers = {"kafka.bootstrap.servers": at.broker.bootstrap}
    definition = {
        "source": {"format": "pkafka", "options": {**servers, "subscribe": at.topic(b"a", b"b")}},
        "sink": {"format": "pkafka", "options": {**servers, "topic": at.topic()}},
    }
    words = [verb, at.file(definition), "--master", "local[1]"]
    if verb == "validate":
        found = at.every_form(words)
        assert [stage["kind"] for stage in found["stages"]] == ["source", "sink"]
    else:
        (batch,) = at.document(*words)["batches"]
        assert batch["rows_written"] == 2
        assert len(at.rows(*words)) == 1
    at.error(verb, at.file({"no": 1}), status=ExitStatus.USAGE)


@CASES.of("pk-verifiable-producer", "pk-verifiable-consumer")
def every_event_is_told(at: At) -> None:
    topic = at.topic()
    names: set[str] = set()

    def told(*words: str, status: int = ExitStatus.OK, command: str) -> None:
        for each in at.run(*words, status=status, command=command).splitlines():
            if command == at.name:
                event = json.loads(each)
                check(event, at.name)
                names.add(event["name"])

    sending = ("--topic", topic, "--max-messages", "3")
    told(*sending, "--repeating-keys", "2", command="pk-verifiable-producer")
    told("--topic", "no/topic", "--max-messages", "1", status=1, command="pk-verifiable-producer")
    reading = (*sending, "--group-id", at.new(), "--verbose")
    told(*reading, command="pk-verifiable-consumer")
    promised = {each["properties"]["name"]["enum"][0] for each in SCHEMAS[at.name]["anyOf"]}
    assert names == promised
