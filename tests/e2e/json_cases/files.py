"""What commands print of the files of a broker."""

import csv
import io
import json

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.records.builder import build_batch
from tests.e2e.json_cases.case import At, Cases
from tests.json_schemas import SCHEMAS, check
from tests.log_files import offsets_segment, write_rich_files
from tests.sockets import free_port
from tests.zookeeper import running_zookeeper
from tests.zookeeper_with_users import write_jaas

CASES = Cases()


@CASES.of("pk-verify-log")
def logs_are_verified(at: At) -> None:
    topic = at.topic(b"a")
    assert at.every_form(["--files", str(at.broker.log_dir / f"{topic}-0")])["logs"][0]["verdict"] == "sound"
    write_rich_files(at.tmp_path)
    (at.tmp_path / f"{900:020}.log").write_bytes(b"\1" * 100)
    words = ["--files", str(at.tmp_path)]
    assert at.every_form(words, ExitStatus.FAILURE)["logs"][0]["problems"]
    dumped = at.run(*words, "--verify", "--output", "json", status=ExitStatus.FAILURE, command="pk-dump-log")
    check(json.loads(dumped), at.name)
    at.error("--files", str(at.tmp_path / "none"))


@CASES.of("pk-dump-log")
def logs_are_dumped(at: At) -> None:
    write_rich_files(at.tmp_path)
    batches = [bytes(build_batch([(1, None, b"v", ())], base_offset=900 + each)) for each in range(2)]
    (at.tmp_path / f"{900:020}.log").write_bytes((b"\1" * 100).join(batches))
    (at.tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 5\n")
    words = ("--files", str(at.tmp_path), "--skip-damage", "--print-data-log")
    found = at.document(*words, status=ExitStatus.FAILURE)
    assert found["problems"]
    kinds = {row["kind"] for row in found["rows"]}
    assert kinds >= {
        "batch",
        "record",
        "offset",
        "time",
        "aborted",
        "producer",
        "epoch",
        "property",
        "damage",
    }
    lines = at.run(*words, "--output", "jsonl", status=ExitStatus.FAILURE).splitlines()
    assert [json.loads(each) for each in lines[:-1]] == found["rows"]
    check(json.loads(lines[-1]), "error")
    text = at.run(*words, "--output", "csv", status=ExitStatus.FAILURE)
    header = next(csv.reader(io.StringIO(text)))
    forms = SCHEMAS[at.name]["$defs"]["row"]["anyOf"]
    assert set(header) <= {key for form in forms for key in form["properties"]}
    for payload in ("hex", "base64", "json"):
        at.document("--files", str(at.tmp_path), "--payload", payload, status=ExitStatus.FAILURE)
    (at.tmp_path / "x.log").write_bytes(b"")
    files = ("--files", ",".join(str(at.tmp_path / each) for each in (f"{0:020}.log", "x.log")))
    found = at.document(*files, status=ExitStatus.FAILURE)
    assert (bool(found["rows"]), "problems" in found, "error" in found) == (True, False, True)
    *rows, error = at.run(*files, "--output", "jsonl", status=ExitStatus.FAILURE).splitlines()
    check(json.loads(error), "error")
    assert [json.loads(each) for each in rows] == found["rows"]
    at.error("--files", str(at.tmp_path / "none"))


@CASES.of("pk-dump-log.stats")
def logs_are_counted(at: At) -> None:
    write_rich_files(at.tmp_path)
    at.every_form(["--stats", "--files", str(at.tmp_path)])
    topic = at.topic()
    words = ["--stats", "--files", str(at.broker.log_dir / f"{topic}-0")]
    assert at.document(*words)["logs"][0]["first_offset"] is None


@CASES.of("pk-dump-log.report", "pk-dump-log.sql")
def logs_are_asked(at: At) -> None:
    directory = at.tmp_path / "orders-0"
    directory.mkdir()
    write_rich_files(directory)
    words = ["--files", str(directory), "--master", "local[1]"]
    if at.name == "pk-dump-log.sql":
        assert at.document(*words, "--sql", "select * from records order by offset")["rows"]
        return
    for report in ("audit", "size", "producers", "keys"):
        assert at.document(*words, "--report", report)["rows"]
    assert at.document(*words, "--report", "audit", "--tier", "all=orders")["rows"]
    offsets = at.tmp_path / "__consumer_offsets-0"
    offsets.mkdir()
    offsets_segment([("g", "orders", 0, 1)]).write(offsets)
    assert at.document("--files", str(at.tmp_path), *words[2:], "--report", "lag")["rows"]


READING = (
    *("ls /", "ls -R /", "get /brokers/ids/0", "stat /brokers", "getAllChildrenNumber /"),
    *("getAcl /", "getEphemerals", "version"),
)


@CASES.of("pk-zookeeper-shell")
def nodes_are_shown(at: At) -> None:
    with EmbeddedStore(at.tmp_path / STORE_FILE) as store:
        for path in ("/a", "/zookeeper", "/zookeeper/quota"):
            store.create(path, b"\xff")
    changing = (
        "create /b text",
        "set /b other",
        "get /a",
        "create /c",
        "get /c",
        "delete /b",
        "setquota -n 5 /a",
        "listquota /a",
    )
    for directory, lines in ((at.broker.log_dir, READING), (at.tmp_path, changing)):
        for line in lines:
            at.document("OUTPUT", "--data-dir", str(directory), *line.split())
    assert at.rows("OUTPUT", "--data-dir", str(at.tmp_path), "ls", "/")
    at.error("OUTPUT", "--data-dir", str(at.tmp_path), "get", "/nope")


@CASES.of("pk-zookeeper-security-migration")
def rights_of_nodes_are_set(at: At) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_OPTS", write_jaas(at.tmp_path / "jaas.conf"))
        with running_zookeeper() as server:
            words = ["--zookeeper.acl", "secure", "--zookeeper.connect", server.connect]
            for more in (["--dry-run"], []):
                found = at.every_form([*words, *more])
                assert found["dry_run"] is bool(more)
                assert {row["result"] for row in found["nodes"]} == {"set", "created"}
            assert found["missing"][0] == "/admin"
            at.error(*words[:2], "--zookeeper.connect", f"{server.connect}/nope")
            patch.setenv("KAFKA_OPTS", write_jaas(at.tmp_path / "other.conf", user="other"))
            rows = at.document(*words, status=ExitStatus.AUTHENTICATION)["nodes"]
            assert {row["error"]["name"] for row in rows} == {"NoAuth"}
            at.error(
                *words[:2], "--zookeeper.connect", f"127.0.0.1:{free_port()}", status=ExitStatus.UNREACHABLE
            )
