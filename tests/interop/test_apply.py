"""pk-apply makes topics and settings what a file declares, on Apache Kafka as on pkafka.

Systems are shared by other tests, so nothing is pruned here but with a declaration of what is there.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pkafka.cli import apply
from pkafka.cli.kit.exit_status import ExitStatus
from tests.interop.conftest import System
from tests.talk import Talk, wait_for

Run = Callable[..., str]


@pytest.fixture
def run(system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", system.bootstrap)

    def run(*arguments: object, status: int = ExitStatus.OK) -> str:
        capsys.readouterr()
        found = apply.main.run([str(each) for each in arguments])
        said = capsys.readouterr()
        assert found == status, said
        return said.out

    return run


def declared(path: Path, topic: str, **fields: Any) -> Path:
    names = {name.replace("_", "-"): value for name, value in fields.items()}
    path.write_text(yaml.safe_dump({"topics": {topic: names}}))
    return path


def partitions_of(talk: Talk, topic: str) -> int:
    (found,) = talk.admin.describe_topics([topic]).values()
    return len(getattr(found, "partitions", ()))


def test_a_topic_becomes_what_is_declared(run: Run, talk: Talk, topic: str, tmp_path: Path) -> None:
    file = declared(tmp_path / "a.yaml", topic, partitions=2, configs={"retention.ms": 1000})
    text = f"+ topic {topic}: 2 partitions, replication factor by default, retention.ms=1000\n"
    assert run("diff", file, status=ExitStatus.FAILURE) == f"{text}1 to create, 0 to change, 0 to delete.\n"
    assert run("apply", "--dry-run", file).startswith(text)
    assert topic not in {each.name for each in talk.admin.list_topics()}
    assert run("apply", file) == f"{text}1 created, 0 changed, 0 deleted.\n"
    wait_for(lambda: partitions_of(talk, topic) == 2)
    assert run("diff", file) == "Nothing to do.\n"
    declared(file, topic, partitions=3, configs={"retention.ms": None, "segment.bytes": 1_000_000})
    changes = json.loads(run("apply", file, "--output", "json"))["changes"]
    assert [(each["key"], each["before"], each["after"], each["error"]) for each in changes] == [
        ("partitions", 2, 3, None),
        ("retention.ms", "1000", None, None),
        ("segment.bytes", None, "1000000", None),
    ]
    wait_for(lambda: partitions_of(talk, topic) == 3)
    wait_for(lambda: run("diff", file) == "Nothing to do.\n")


def test_what_the_cluster_refuses_is_said_and_the_rest_is_done(
    run: Run, talk: Talk, topic: str, tmp_path: Path
) -> None:
    talk.create(topic)
    file = tmp_path / "a.json"
    bad, good = {"configs": {"retention.ms": "soon"}}, {"partitions": 2}
    file.write_text(json.dumps({"topics": {topic: bad, f"{topic}-2": good}}))
    for mode in (["--dry-run"], []):
        lines = run("apply", file, *mode, status=ExitStatus.FAILURE).splitlines()
        assert lines[0].startswith(f"! topic {topic}: retention.ms (unset) -> soon: Invalid config value")
        assert "Invalid value soon for configuration retention.ms" in lines[0]
        assert lines[1].startswith(f"+ topic {topic}-2: 2 partitions")
    wait_for(lambda: partitions_of(talk, f"{topic}-2") == 2)
    file.write_text(json.dumps({"topics": {f"{topic}-2": {"partitions": 1}}}))
    document = json.loads(run("diff", file, "--output", "json", status=ExitStatus.FAILURE))
    (change,) = document["changes"]
    assert change["action"] == "impossible"
    assert "it has 2 partitions and cannot have 1" in change["error"]["message"]


def test_an_export_is_a_declaration(
    run: Run, talk: Talk, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.create(topic, partitions=2, retention_ms=5_000)
    one = yaml.safe_load(run("export", "--topic", topic))
    assert one == {
        "version": 1,
        "topics": {topic: {"partitions": 2, "replication-factor": 1, "configs": {"retention.ms": "5000"}}},
    }
    assert json.loads(run("export", "--topic", topic, "--output", "json")) == one
    run("export", "--topic", f"{topic}-nowhere", status=ExitStatus.FAILURE)
    everything = run("export")
    assert "__" not in "".join(yaml.safe_load(everything)["topics"])

    class Stdin:
        buffer = io.BytesIO(everything.encode())

    monkeypatch.setattr("sys.stdin", Stdin)
    assert run("diff", "-", "--prune") == "Nothing to do.\n"


def test_deleting_needs_somebody_who_says_so(
    run: Run, talk: Talk, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.create(topic)
    document = yaml.safe_load(run("export"))
    del document["topics"][topic]
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(document))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run("apply", "--prune", file, status=ExitStatus.USAGE) == ""
    assert run("apply", "--prune", "--dry-run", file).splitlines()[0] == f"- topic {topic}"
    assert topic in {each.name for each in talk.admin.list_topics()}
    assert run("apply", "--prune", "--yes", file).splitlines()[0] == f"- topic {topic}"
    wait_for(lambda: topic not in {each.name for each in talk.admin.list_topics()})
