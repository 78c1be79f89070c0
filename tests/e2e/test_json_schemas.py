"""What commands print as JSON, JSON lines and CSV at a real broker is what their schemas promise."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import Broker
from tests.e2e.json_cases import (
    acls,
    cluster,
    connect,
    delegation_tokens,
    files,
    groups,
    mirrors,
    own_tools,
    records,
    topics,
    transactions,
)
from tests.e2e.json_cases.case import COMMANDS, At, Words, asked
from tests.json_schemas import COMMON, SCHEMAS, check, leaves, prints_json
from tests.sockets import free_port
from tests.talk import Talk, talking

pytestmark = pytest.mark.usefixtures("plain_environment")

CASES = {
    name: case
    for module in (
        acls,
        connect,
        delegation_tokens,
        topics,
        cluster,
        groups,
        mirrors,
        records,
        transactions,
        own_tools,
        files,
    )
    for name, case in module.CASES.by_name.items()
}
OF_SPARK = {"pk-dump-log.report", "pk-dump-log.sql", "pk-pipeline.run", "pk-pipeline.validate"}
"""In tests/e2e/pipeline/test_json_schemas_of_spark.py."""


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - COMMON - OF_SPARK))
def test_what_a_command_prints_is_what_its_schema_promises(
    name: str,
    pkafka_broker: Broker,
    talk: Talk,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    CASES[name](At(name, pkafka_broker, talk, tmp_path, capsys))


WITH_JSON = [(name, verb) for name, verb, params in leaves() if prints_json(params)]


@pytest.mark.parametrize(("name", "verb"), WITH_JSON, ids=[name for name, _ in WITH_JSON])
def test_wrong_use_is_an_error_document(name: str, verb: Words, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "jsonl"):
        words = [*verb, "--no-such-flag", "--output", form]
        assert COMMANDS[name.partition(".")[0]].run(words) == ExitStatus.USAGE
        found = json.loads(capsys.readouterr().out)
        check(found, "error")
        assert (found["error"]["code"], found["error"]["name"]) == (None, "Usage")


ASKING: dict[str, Words] = {
    "pk-apply": ["export"],
    "pk-broker-api-versions": [],
    "pk-cluster": ["cluster-id"],
    "pk-configs": ["--describe", "--topic", "t"],
    "pk-console-consumer": ["--topic", "t"],
    "pk-consumer-groups": ["--list"],
    "pk-consumer-perf-test": ["--topic", "t", "--messages", "1", "--group", "g"],
    "pk-e2e-latency": ["--topic", "t", "--num-records", "1", "--record-size", "1"],
    "pk-features": ["OUTPUT", "describe"],
    "pk-get-offsets": [],
    "pk-leader-election": ["--election-type", "preferred", "--all-topic-partitions"],
    "pk-log-dirs": ["--describe"],
    "pk-metadata": ["brokers"],
    "pk-perf-test": ["run", "--num-records", "1"],
    "pk-preferred-replica-election": [],
    "pk-producer-perf-test": [
        "--topic",
        "t",
        "--num-records",
        "1",
        "--throughput",
        "-1",
        "--record-size",
        "1",
    ],
    "pk-reassign-partitions": ["--list"],
    "pk-replica-verification": ["--once"],
    "pk-top": [],
    "pk-topics": ["--list"],
    "pk-transactions": ["OUTPUT", "list"],
}
"""A command line of every command that asks a cluster."""


@pytest.mark.parametrize("name", ASKING)
def test_a_cluster_that_is_not_there_is_an_error_document(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", f"127.0.0.1:{free_port()}")
    for form in ("json", "jsonl"):
        assert COMMANDS[name].run(asked(tuple(ASKING[name]), form)) == ExitStatus.UNREACHABLE
        check(json.loads(capsys.readouterr().out), "error")


def interrupted(name: str, *words: str, when: bytes = b"") -> tuple[int, Any]:
    """Status and document of a command that gets Ctrl-C as soon as it has printed what contains ``when``."""
    module = name.removeprefix("pk-").replace("-", "_")
    program = f"from pkafka.cli.{module} import main; main()"
    command = [sys.executable, "-c", program, *words, "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            text = b""
            while when not in text:
                read = os.read(process.stdout.fileno(), 65_536)
                assert read, "it ended before"
                text += read
            process.send_signal(signal.SIGINT)
            text += process.communicate(timeout=60)[0]
        finally:
            process.kill()
    return process.returncode, json.loads(text)


def test_what_is_interrupted_ends_its_document(talk: Talk) -> None:
    topic = f"schema-{uuid.uuid4().hex[:8]}"
    talk.create(topic)
    talk.send(topic, b"shown")
    status, document = interrupted(
        "pk-console-consumer", "--topic", topic, "--from-beginning", when=b'"shown"}'
    )
    check(document, "pk-console-consumer")
    assert (status, len(document["records"]), "error" in document) == (ExitStatus.INTERRUPTED, 1, False)
    status, document = interrupted("pk-top", "--interval", "0.05", "--count", "1000000", when=b'"groups"')
    check(document, "pk-top")
    assert (status, document["error"]["name"]) == (ExitStatus.INTERRUPTED, "Interrupted")


@pytest.mark.parametrize("name", ASKING)
def test_settings_that_would_be_used(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if not any(each.name == "show_config" for each in COMMANDS[name].params):
        assert name in (
            "pk-apply",
            "pk-cluster",
            "pk-metadata",
            "pk-perf-test",
        )  # it is a flag of their verbs
        return
    words = ("--show-config", *ASKING[name])
    assert COMMANDS[name].run(asked(words, "json")) == ExitStatus.OK
    document = json.loads(capsys.readouterr().out)
    check(document, "show-config")
    assert "bootstrap.servers" in {row["key"] for row in document["settings"]}
    assert COMMANDS[name].run(asked(words, "jsonl")) == ExitStatus.OK
    assert [json.loads(each) for each in capsys.readouterr().out.splitlines()] == document["settings"]
