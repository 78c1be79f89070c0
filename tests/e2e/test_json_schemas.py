"""What commands print as JSON, JSON lines and CSV at a real broker is what their schemas promise."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.consumer import Consumer
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.coordination.embedded import STORE_FILE, EmbeddedStore
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import describe_client_quotas as quotas_wire
from pkafka.protocol.messages import describe_user_scram_credentials as scram_wire
from pkafka.records.builder import build_batch
from pkafka.testing import Broker, running_broker
from scripts.regenerate import commands
from tests.fakes.broker import FakeBroker
from tests.json_schemas import COMMON, SCHEMAS, check, check_cells, leaves, prints_json
from tests.log_files import offsets_segment, write_rich_files
from tests.sockets import free_port
from tests.spark import Sessions, share
from tests.talk import Talk, talking, wait_for
from tests.zookeeper import running_zookeeper

pytestmark = pytest.mark.usefixtures("plain_environment")

COMMANDS: dict[str, Any] = dict(commands())
Words: TypeAlias = list[str]


class At(NamedTuple):
    """Where a case runs, and what it compares with its schema."""

    name: str
    broker: Broker
    talk: Talk
    tmp_path: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def command(self) -> str:
        """The command that the schema belongs to."""
        return self.name.partition(".")[0]

    def new(self, prefix: str = "schema") -> str:
        """A name that nothing has."""
        return f"{prefix}-{uuid.uuid4().hex[:8]}"

    def topic(self, *values: bytes, partitions: int = 1, **configs: object) -> str:
        """A topic that has these values in its first partition."""
        name = self.new()
        self.talk.create(name, partitions, **configs)
        if values:
            self.talk.send(name, *values)
        return name

    def file(self, content: object) -> str:
        """A JSON file."""
        path = self.tmp_path / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def run(self, *words: str, status: int = ExitStatus.OK, command: str | None = None) -> str:
        """What a command prints to standard output."""
        self.capsys.readouterr()
        found = COMMANDS[command or self.command].run(list(words))
        printed = self.capsys.readouterr()
        assert found == status, printed.err
        return printed.out

    def document(self, *words: str, status: int = ExitStatus.OK) -> Any:
        """The one document of ``--output json``."""
        found = json.loads(self.run(*_asked(words, "json"), status=status))
        check(found, self.name)
        return found

    def error(self, *words: str, status: int = ExitStatus.FAILURE) -> Any:
        """The document of a run that fails as a whole, and that it is the last line of JSON lines too."""
        found = json.loads(self.run(*_asked(words, "json"), status=status))
        check(found, "error")
        last = self.run(*_asked(words, "jsonl"), status=status).splitlines()[-1]
        check(json.loads(last), "error")
        return found["error"]

    def rows(self, *words: str, status: int = ExitStatus.OK) -> list[Any]:
        """The rows of ``--output jsonl``."""
        found = [json.loads(each) for each in self.run(*_asked(words, "jsonl"), status=status).splitlines()]
        for row in found:
            check(row, self.name, "row")
        return found

    def cells(self, *words: str, status: int = ExitStatus.OK) -> list[list[str]]:
        """The rows of ``--output csv``."""
        header, *found = csv.reader(io.StringIO(self.run(*_asked(words, "csv"), status=status)))
        for cells in found:
            check_cells(header, cells, self.name)
        return found

    def every_form(self, make: Callable[[], Words] | Words, status: int = ExitStatus.OK) -> Any:
        """The document; the rows of the other forms are as many as promised, and there are some.

        Args:
            make: the command line, or what gives a new one for each form.
        """
        words = make if callable(make) else lambda: make
        document = self.document(*words(), status=status)
        assert self.rows(*words(), status=status), "no rows, nothing was compared"
        assert self.cells(*words(), status=status)
        return document


def _asked(words: tuple[str, ...], form: str) -> Words:
    """The command line with ``--output``: where the word OUTPUT stands, else at the end."""
    if "OUTPUT" not in words:
        return [*words, "--output", form]
    at = words.index("OUTPUT")
    return [*words[:at], "--output", form, *words[at + 1 :]]


Case: TypeAlias = Callable[[At], None]
CASES: dict[str, Case] = {}
OF_SPARK = {"pk-dump-log.report", "pk-dump-log.sql", "pk-pipeline.run", "pk-pipeline.validate"}


def of(*names: str) -> Callable[[Case], Case]:
    """Marks what shows that a command keeps the promises of these schemas."""

    def keep(case: Case) -> Case:
        CASES.update(dict.fromkeys(names, case))
        return case

    return keep


@pytest.fixture
def talk(pkafka_broker: Broker) -> Iterator[Talk]:
    with talking(pkafka_broker.bootstrap) as talk:
        yield talk


@pytest.mark.timeout(900)  # as all that start Spark, as some of these do
@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - COMMON))
def test_what_a_command_prints_is_what_its_schema_promises(
    name: str,
    pkafka_broker: Broker,
    talk: Talk,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if name in OF_SPARK:
        sessions: Sessions = request.getfixturevalue("spark_sessions")
        share(sessions.get(), monkeypatch)
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
}
"""A command line of every command that asks a cluster."""


@pytest.mark.parametrize("name", ASKING)
def test_a_cluster_that_is_not_there_is_an_error_document(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", f"127.0.0.1:{free_port()}")
    for form in ("json", "jsonl"):
        assert COMMANDS[name].run(_asked(tuple(ASKING[name]), form)) == ExitStatus.UNREACHABLE
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
            text += process.communicate(timeout=20)[0]
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
    assert COMMANDS[name].run(_asked(words, "json")) == ExitStatus.OK
    document = json.loads(capsys.readouterr().out)
    check(document, "show-config")
    assert "bootstrap.servers" in {row["key"] for row in document["settings"]}
    assert COMMANDS[name].run(_asked(words, "jsonl")) == ExitStatus.OK
    assert [json.loads(each) for each in capsys.readouterr().out.splitlines()] == document["settings"]


# -- topics and configurations ----------------------------------------------------------------------------


@of("pk-topics.list")
def topics_are_listed(at: At) -> None:
    topic = at.topic()
    found = at.every_form(["--list"])
    assert topic in {row["name"] for row in found["topics"]}
    assert at.document("--list", "--topic", at.new()) == {"topics": []}


@of("pk-topics.describe")
def topics_are_described(at: At) -> None:
    topic = at.topic(partitions=2, retention_ms=1_000)
    (row,) = at.every_form(["--describe", "--topic", topic])["topics"]
    assert (row["configs"], len(row["partitions"])) == ({"retention.ms": "1000"}, 2)
    at.every_form(["--describe", "--topic", topic, "--at-min-isr-partitions"])
    at.document("--describe", "--topic", topic, "--topics-with-overrides")
    assert at.document("--describe", "--topic", at.new(), "--if-exists") == {"topics": []}
    assert at.error("--describe", "--topic", at.new())["code"] is None


@of("pk-topics.create")
def topics_are_created(at: At) -> None:
    topic = at.topic()
    words = ["--create", "--if-not-exists", "--topic"]
    (row,) = at.every_form(lambda: [*words, at.new(), "--partitions", "2"])["topics"]
    assert (row["created"], row["partition_count"]) == (True, 2)
    found = at.every_form(lambda: [*words, at.new(), "--dry-run"])
    assert (found["topics"][0]["created"], found["dry_run"]) == (False, True)
    (row,) = at.every_form([*words, topic])["topics"]
    assert (row["created"], row["id"]) == (False, None)
    assert at.error("--create", "--topic", topic)["name"] == "TOPIC_ALREADY_EXISTS"


@of("pk-topics.alter")
def topics_are_grown(at: At) -> None:
    grown = ("--partitions", "3")
    assert at.every_form(lambda: ["--alter", "--topic", at.topic(), *grown])["dry_run"] is False
    assert at.every_form(lambda: ["--alter", "--topic", at.topic(), *grown, "--dry-run"])["dry_run"] is True
    assert at.document("--alter", "--topic", at.new(), "--partitions", "3", "--if-exists")["topics"] == []
    assert at.error("--alter", "--topic", at.topic(), "--partitions", "1")["name"] == "INVALID_PARTITIONS"


@of("pk-topics.delete")
def topics_are_deleted(at: At) -> None:
    assert at.every_form(lambda: ["--delete", "--topic", at.topic()])["topics"][0]["deleted"] is True
    found = at.every_form(lambda: ["--delete", "--topic", at.topic(), "--dry-run"])
    assert (found["topics"][0]["deleted"], found["dry_run"]) == (False, True)
    assert at.document("--delete", "--topic", at.new(), "--if-exists")["topics"] == []
    at.error("--delete", "--topic", at.new())


@of("pk-configs.describe")
def configurations_are_described(at: At) -> None:
    topic = at.topic(retention_ms=1_000)
    assert at.every_form(["--describe", "--topic", topic])["configs"][0]["value"] == "1000"
    for entity in (["--topic", topic], ["--broker", "0"], ["--broker-logger", "0"]):
        at.every_form(["--describe", *entity, "--all"])
    assert at.document("--describe", "--topic", at.topic()) == {"configs": []}
    at.document("--describe", "--entity-type", "brokers")
    at.document("--describe", "--broker-defaults")
    assert at.error("--describe", "--topic", at.new())["code"] == 3


@of("pk-configs.describe-clients")
def quotas_and_credentials_are_described(at: At) -> None:
    """By a broker of a few lines: no pkafka serves them yet. Of Apache Kafka, see tests/interop/session/."""
    user = quotas_wire.EntityData(entity_type="user", entity_name="u")
    client = quotas_wire.EntityData(entity_type="client-id", entity_name=None)
    values = [quotas_wire.ValueData(key="producer_byte_rate", value=1024.5)]
    entries = [quotas_wire.EntryData(entity=[user, client], values=values)]
    infos = [scram_wire.CredentialInfo(mechanism=2, iterations=8192)]
    results = [
        scram_wire.DescribeUserScramCredentialsResult(user="u", credential_infos=infos),
        scram_wire.DescribeUserScramCredentialsResult(user="v", error_code=92, error_message="twice"),
        scram_wire.DescribeUserScramCredentialsResult(user="w", error_code=91),
    ]
    with FakeBroker() as broker:
        broker.handlers[ApiKey.DESCRIBE_CLIENT_QUOTAS] = lambda *_: quotas_wire.DescribeClientQuotasResponse(
            entries=entries
        )
        broker.handlers[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = lambda *_: (
            scram_wire.DescribeUserScramCredentialsResponse(results=results)
        )
        words = ["--bootstrap-server", broker.bootstrap, "--describe", "--entity-type", "users"]
        quota, credential, failed = at.every_form(words)["configs"]
        text = at.run(*words)
    assert (quota["user"], quota["defaults"], quota["value"]) == ("u", ["client-id"], 1024.5)
    assert (credential["name"], credential["value"], credential["iterations"]) == (
        "SCRAM-SHA-512",
        None,
        8192,
    )
    assert failed["error"]["message"] == "twice"
    assert "Quota configs for user-principal 'u', the default client-id are producer_byte_rate=1024.5" in text
    assert "Error retrieving SCRAM credential configs for user-principal 'v': ExecutionException: " in text
    assert "'w'" not in text
    refused = at.error("--describe", "--entity-type", "users", status=ExitStatus.FAILURE)
    assert "DescribeClientQuotas" in refused["message"]


@of("pk-configs.describe-zookeeper")
def what_zookeeper_stores_is_described(at: At) -> None:
    secret = "SCRAM-SHA-256=[iterations=8192,password=hush]"
    with running_zookeeper() as server:
        by_zookeeper = ["--zookeeper", server.connect, "--alter", "--user", "u", "--add-config", secret]
        for dry_run in (True, False):
            changed = json.loads(
                at.run(*by_zookeeper, *(["--dry-run"] if dry_run else []), "--output", "json")
            )
            check(changed, "pk-configs.alter")
            assert changed["dry_run"] is dry_run
            assert changed["changes"] == [{"name": "SCRAM-SHA-256", "op": "SET", "value": None}]
        found = at.every_form(["--zookeeper", server.connect, "--describe", "--user", "u"])
    row = {"entity_type": "users", "entity_name": "u", "name": "SCRAM-SHA-256", "value": "iterations=8192"}
    assert found == {"configs": [row]}


@of("pk-configs.alter")
def configurations_are_changed(at: At) -> None:
    topic = at.topic()
    words = ["--alter", "--topic", topic, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"]
    assert len(at.every_form(words)["changes"]) == 2
    assert at.every_form([*words, "--dry-run"])["dry_run"] is True
    at.document("--alter", "--topic", topic, "--delete-config", "retention.ms")
    at.document("--alter", "--broker-defaults", "--add-config", "log.cleaner.threads=1", "--dry-run")
    secret = ["--alter", "--broker", "0", "--add-config", "my.reporter.password=hush", "--dry-run"]
    assert at.document(*secret)["changes"] == [{"name": "my.reporter.password", "op": "SET", "value": None}]
    credential = ["--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[password=hush]", "--dry-run"]
    with FakeBroker() as broker:
        broker.handlers[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = lambda *_: (
            scram_wire.DescribeUserScramCredentialsResponse(
                results=[scram_wire.DescribeUserScramCredentialsResult(user="u", error_code=91)]
            )
        )
        found = at.document("--bootstrap-server", broker.bootstrap, *credential)
    assert found["changes"] == [{"name": "SCRAM-SHA-256", "op": "SET", "value": None}]
    assert found["entities"] == [{"type": "users", "name": "u"}]
    assert at.error("--alter", "--topic", topic, "--add-config", "retention.ms=x")["name"] == "INVALID_CONFIG"


# -- offsets, brokers, disks ------------------------------------------------------------------------------


@of("pk-get-offsets")
def offsets_are_found(at: At) -> None:
    topic = at.topic(b"a", b"b")
    assert at.every_form(["--topic", topic])["offsets"] == [
        {"topic": topic, "partition": 0, "offset": 2, "error": None}
    ]
    assert at.document("--topic", topic, "--time", "99999999999999") == {"offsets": []}
    at.error("--topic", at.new())


@of("pk-delete-records")
def records_are_deleted(at: At) -> None:
    topic = at.topic(b"a", b"b", b"c")
    partitions = [{"topic": topic, "partition": 0, "offset": 1}]
    words = ["--offset-json-file", at.file({"partitions": partitions, "version": 1})]
    found = at.document(*words, "--dry-run")
    assert [found["partitions"][0][key] for key in ("log_start_offset", "low_watermark")] == [0, 1]
    at.every_form([*words, "--dry-run"])
    at.every_form(words)
    missing = at.new()
    partitions.append({"topic": missing, "partition": 0, "offset": 1})
    words = ["--offset-json-file", at.file({"partitions": partitions, "version": 1})]
    for more in ([], ["--dry-run"]):
        found = at.every_form([*words, *more], ExitStatus.FAILURE)
        codes = {row["topic"]: row["error"] and row["error"]["code"] for row in found["partitions"]}
        assert codes == {topic: None, missing: 3}
    at.error("--offset-json-file", at.file({}))


@of("pk-log-dirs")
def directories_are_described(at: At) -> None:
    topic = at.topic(b"a")
    (broker,) = at.every_form(["--describe", "--topic-list", topic])["brokers"]
    (replica,) = broker["log_dirs"][0]["replicas"]
    assert (replica["topic"], replica["size_bytes"] > 60) == (topic, True)
    assert broker["log_dirs"][0]["usable_bytes"] > 0
    at.every_form(["--describe", "--topic-list", at.new()])
    at.error("--describe", "--broker-list", "99")


@of("pk-leader-election")
def leaders_are_elected(at: At) -> None:
    topic, missing = at.topic(), at.new()
    rows = [{"topic": each, "partition": 0} for each in (topic, missing)]
    words = ["--election-type", "preferred", "--path-to-json-file", at.file({"partitions": rows})]
    for more in ([], ["--dry-run"]):
        found = at.every_form([*words, *more], ExitStatus.FAILURE)
        assert {row["topic"]: row["result"] for row in found["partitions"]} == {
            topic: "not_needed",
            missing: "failed",
        }
    assert at.document("--election-type", "UNCLEAN", "--all-topic-partitions")["partitions"] == []
    at.error("--election-type", "preferred", "--path-to-json-file", at.file({}))


@of("pk-preferred-replica-election")
def preferred_leaders_are_elected(at: At) -> None:
    topic, missing = at.topic(), at.new()
    rows = [{"topic": each, "partition": 0} for each in (topic, missing)]
    words = ["--path-to-json-file", at.file({"partitions": rows})]
    for more in ([], ["--dry-run"]):
        found = at.every_form([*words, *more], ExitStatus.FAILURE)
        assert {row["topic"]: row["result"] for row in found["partitions"]} == {
            topic: "not_needed",
            missing: "failed",
        }
    assert at.document()["partitions"] == []
    at.error("--path-to-json-file", at.file({}))


@of("pk-replica-verification")
def replicas_are_compared(at: At) -> None:
    topic = at.topic(b"a", b"b")
    words = ["--once", "--topics-include", topic]
    started, report = at.document(*words)["events"]
    assert (started["event"], started["partitions"]) == ("started", 1)
    assert (report["event"], report["lag"], report["offset"]) == ("report", 0, 2)
    assert [row["event"] for row in at.rows(*words)] == ["started", "report"]
    at.error("--once", "--topics-include", at.new())


@of(
    "pk-metadata.brokers",
    "pk-metadata.controller",
    "pk-metadata.log-dirs",
    "pk-metadata.topics",
    "pk-metadata.partitions",
    "pk-metadata.epochs",
    "pk-metadata.isr",
)
def metadata_is_shown(at: At) -> None:
    topic, verb = at.topic(b"a"), at.name.partition(".")[2]
    if verb == "isr":
        assert at.document(verb) == {"partitions": []}
        assert at.rows(verb, "--check") == []
        return
    found = at.every_form([verb, "--check"])
    if verb in ("topics", "partitions", "epochs"):
        (row,) = at.document(verb, "--topic", topic)[verb if verb != "epochs" else "partitions"]
        assert row["topic"] == topic
    else:
        assert len(next(each for each in found.values() if isinstance(each, list))) == 1
    assert at.rows(verb, "--problems") == []


def moving(at: At, *topics: str, **more: object) -> Words:
    """A file that has partitions where they are: on one broker they can be nowhere else."""
    rows = [{"topic": topic, "partition": 0, "replicas": [0], **more} for topic in topics]
    return ["--reassignment-json-file", at.file({"version": 1, "partitions": rows})]


@of("pk-reassign-partitions.generate")
def a_reassignment_is_proposed(at: At) -> None:
    topic = at.topic(partitions=2)
    topics = at.file({"topics": [{"topic": topic}], "version": 1})
    words = ["--generate", "--topics-to-move-json-file", topics, "--broker-list", "0"]
    assert at.every_form(words)["partitions"][1] == {
        "topic": topic,
        "partition": 1,
        "replicas": [0],
        "proposed_replicas": [0],
    }
    at.error(*words[:-1], "7")


@of("pk-reassign-partitions.execute")
def a_reassignment_begins(at: At) -> None:
    topic = at.topic()
    for more in ([], ["--dry-run"], ["--throttle", "1000"]):
        found = at.every_form(["--execute", *moving(at, topic), *more])
        assert (found["dry_run"], found["log_dir_moves"]) == ("--dry-run" in more, [])
    found = at.document("--execute", "--dry-run", *moving(at, topic, log_dirs=["/d"]))
    assert found["log_dir_moves"] == [
        {"topic": topic, "partition": 0, "broker": 0, "log_dir": "/d", "started": False, "bytes": 0}
    ]
    assert (found["partitions"][0]["bytes"], found["total_bytes"], found["rollback_file"]) == (0, 0, None)
    at.error("--execute", *moving(at, at.new()))


@of("pk-reassign-partitions.verify")
def a_reassignment_is_verified(at: At) -> None:
    topic, missing = at.topic(), at.new()
    assert at.every_form(["--verify", *moving(at, topic)])["throttles_cleared"] is True
    found = at.every_form(["--verify", *moving(at, missing), "--preserve-throttles"], ExitStatus.FAILURE)
    assert (found["partitions"][0]["state"], found["throttles_cleared"]) == ("other_replicas", False)
    there, nowhere = [str(at.broker.log_dir)], ["/nowhere"]
    for log_dirs, state in ((there, "completed"), (nowhere, "not_moving")):
        status = ExitStatus.OK if state == "completed" else ExitStatus.FAILURE
        found = at.document("--verify", *moving(at, topic, log_dirs=log_dirs), status=status)
        assert [row["state"] for row in found["log_dir_moves"]] == [state]


@of("pk-reassign-partitions.cancel")
def a_reassignment_is_given_up(at: At) -> None:
    words = ["--cancel", *moving(at, at.topic())]
    nothing = {"partitions": [], "log_dir_moves": [], "throttles_cleared": True, "dry_run": False}
    assert at.document(*words) == nothing
    assert at.document(*words, "--dry-run")["dry_run"] is True
    at.error("--cancel", "--reassignment-json-file", at.file([]))


@of("pk-reassign-partitions.list")
def reassignments_are_listed(at: At) -> None:
    assert at.document("--list") == {"partitions": []}
    at.error("--list", "--generate", status=ExitStatus.USAGE)


@of("pk-broker-api-versions")
def versions_are_told(at: At) -> None:
    at.every_form([])


@of("pk-cluster.cluster-id", "pk-cluster.list-endpoints")
def a_cluster_is_described(at: At) -> None:
    verb = at.name.partition(".")[2]
    at.every_form([verb])
    at.error(verb, "--wait", "--brokers", "2", "--timeout", "1", status=ExitStatus.UNREACHABLE)


@of("pk-cluster.unregister")
def nobody_is_unregistered(at: At) -> None:
    at.error("unregister", "--id", "0")


@of("pk-features.describe")
def features_are_described(at: At) -> None:
    assert at.document("OUTPUT", "describe")["features"] == []


@of("pk-features.upgrade", "pk-features.downgrade", "pk-features.disable")
def features_are_changed(at: At) -> None:
    verb = at.name.partition(".")[2]
    feature = "foo" if verb == "disable" else "foo=1"
    for more in ([], ["--dry-run"]):
        found = at.every_form(["OUTPUT", verb, "--feature", feature, *more], ExitStatus.FAILURE)
        assert (found["dry_run"], found["features"][0]["error"]["code"] is not None) == (bool(more), True)


@of("pk-metrics")
def beans_are_shown(at: At) -> None:
    port = free_port()
    with running_broker(at.tmp_path / "broker", {"pkafka.workers": 1, "pkafka.metrics.port": port}):
        words = ("--url", f"http://localhost:{port}", "--one-time")
        assert at.document(*words)["beans"]
        assert at.rows(*words)
        at.error(*words, "--object-name", "no such name:", status=ExitStatus.USAGE)
    at.error(*words, status=ExitStatus.UNREACHABLE)


# -- groups -----------------------------------------------------------------------------------------------


def group_of(at: At, topic: str) -> str:
    """A group without members that has read one record."""
    group = at.new("group")
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
    outcomes = at.talk.admin.alter_group_offsets(group, offsets)
    assert list(outcomes.values()) == [None]
    return group


def while_reading(at: At, group: str, topic: str, look: Callable[[], None]) -> None:
    """Look at a group while it has a member."""
    with Consumer({"bootstrap.servers": at.broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(50) is not None and consumer.assignment(), what="partitions")
        look()


@of("pk-consumer-groups.list")
def groups_are_listed(at: At) -> None:
    group = group_of(at, at.topic(b"a"))
    assert group in {row["group"] for row in at.every_form(["--list"])["groups"]}
    assert at.document("--list", "--state", "Dead") == {"groups": [], "failures": []}


@of("pk-consumer-groups.describe-offsets")
def lag_is_told(at: At) -> None:
    topic = at.topic(b"a", b"b", partitions=2)
    group = group_of(at, topic)
    words = ["--describe", "--group", group]
    assert at.every_form(words)["groups"][0]["partitions"][0]["lag"] == 1
    found = at.every_form([*words, "--group", at.new()], ExitStatus.FAILURE)
    assert [row["error"] and row["error"]["name"] for row in found["groups"]] == [None, "GROUP_ID_NOT_FOUND"]
    assert len(found["failures"]) == 1
    assert len(at.document(*words, "--max-lag", "0", status=ExitStatus.FAILURE)["failures"]) == 1
    assert at.document("--describe", "--group", group, "--only-lagging")["groups"][0]["partitions"]
    while_reading(at, group, topic, lambda: at.every_form(words))
    endless = at.run("--output", "json", "--describe", "--group", group, "--watch", status=ExitStatus.USAGE)
    check(json.loads(endless), "error")


@of("pk-consumer-groups.describe-members", "pk-consumer-groups.describe-state")
def members_and_states_are_told(at: At) -> None:
    topic = at.topic(b"a")
    group = group_of(at, topic)
    words = ["--describe", "--group", group, f"--{at.name.rpartition('-')[2]}"]
    at.document(*words)
    at.document(*words, "--group", at.new(), status=ExitStatus.FAILURE)
    while_reading(at, group, topic, lambda: at.every_form(words))


@of("pk-consumer-groups.delete")
def groups_are_deleted(at: At) -> None:
    topic = at.topic(b"a")
    at.every_form(lambda: ["--delete", "--group", group_of(at, topic)])
    found = at.every_form(lambda: ["--delete", "--group", at.new()], ExitStatus.FAILURE)
    assert found["groups"][0]["error"]["name"] == "GROUP_ID_NOT_FOUND"
    assert found["failures"]
    group = group_of(at, topic)
    assert at.every_form(["--delete", "--group", group, "--dry-run"])["dry_run"] is True


@of("pk-consumer-groups.reset-offsets")
def offsets_are_reset(at: At) -> None:
    topic = at.topic(b"a", b"b")
    group = group_of(at, topic)
    words = ["--reset-offsets", "--group", group, "--topic", topic, "--to-latest"]
    for mode in ("--dry-run", "--execute"):
        found = at.every_form([*words, mode])
        assert found["dry_run"] is (mode == "--dry-run")

    def refused() -> None:
        found = at.document(*words, "--execute", status=ExitStatus.FAILURE)
        assert (found["offsets"], len(found["failures"])) == ([], 1)

    while_reading(at, group, topic, refused)
    at.error(
        "--reset-offsets", "--group", group, "--topic", topic, "--to-datetime", "x", status=ExitStatus.USAGE
    )


@of("pk-consumer-groups.delete-offsets")
def offsets_are_deleted(at: At) -> None:
    topic = at.topic(b"a")
    at.every_form(lambda: ["--delete-offsets", "--group", group_of(at, topic), "--topic", topic])
    missing = ["--topic", at.new(), "--topic", topic]
    found = at.every_form(
        lambda: ["--delete-offsets", "--group", group_of(at, topic), *missing], ExitStatus.FAILURE
    )
    assert {row["partition"] for row in found["offsets"]} == {None, 0}
    words = ["--delete-offsets", "--group", group_of(at, topic), "--topic", topic, "--dry-run"]
    assert at.every_form(words)["dry_run"] is True


# -- records ----------------------------------------------------------------------------------------------


def rich_topic(at: At) -> str:
    """A topic whose records have everything that a record can have."""
    topic = at.topic()
    headers = (("h", b"1"), ("h", b"2"), ("binary", b"\xff"), ("none", None), ("", b""))
    records = [(5_000, b"k", b"v", headers), (6_000, None, b"\xfe\x00", ()), (7_000, b"", None, ())]
    at.talk.produce(topic, bytes(build_batch(records)))
    return topic


@of("pk-console-consumer")
def records_are_consumed(at: At) -> None:
    words = ["--topic", rich_topic(at), "--from-beginning", "--until-end"]
    assert len(at.document(*words)["records"]) == len(at.rows(*words)) == 3
    assert at.document(*words, "--filter", "key=nothing") == {"records": []}
    at.error("--topic", "no/topic", "--from-beginning")


@of("pk-console-producer.input")
def what_the_consumer_writes_is_read(at: At) -> None:
    words = ["--topic", rich_topic(at), "--from-beginning", "--until-end", "--output", "jsonl"]
    lines = [json.loads(each) for each in at.run(*words, command="pk-console-consumer").splitlines()]
    lines += [{}, {"value": None}, {"value": {"base64": "AA=="}, "headers": None, "comment": "more"}]
    for line in lines:
        check(line, at.name)
    topic = at.topic()
    source = io.TextIOWrapper(io.BytesIO("".join(f"{json.dumps(each)}\n" for each in lines).encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", source)
        at.run("--topic", topic, "--input", "jsonl", command="pk-console-producer")
    assert len(at.talk.read(topic)) == len(lines)


# -- load -------------------------------------------------------------------------------------------------


@of("pk-producer-perf-test")
def a_producer_is_measured(at: At) -> None:
    words = ["--topic", at.topic(max_message_bytes=500), "--throughput", "-1"]
    found = at.every_form([*words, "--num-records", "10", "--record-size", "10"])
    assert found["runs"][0]["records"] == 10
    at.document(*words, "--num-records", "0", "--record-size", "10")
    found = at.document(*words, "--num-records", "1", "--record-size", "1000", status=ExitStatus.FAILURE)
    assert (found["runs"][0]["failed"], found["runs"][0]["latency_mean_ms"]) == (1, None)


@of("pk-consumer-perf-test")
def a_consumer_is_measured(at: At) -> None:
    topic = at.topic(b"a", b"b")
    at.every_form(["--topic", topic, "--messages", "2"])
    at.document("--topic", topic, "--messages", "2", "--group", at.new())
    at.document("--topic", topic, "--messages", "3", "--timeout", "300", status=ExitStatus.FAILURE)
    at.error("--topic", at.new(), "--messages", "1")


@of("pk-e2e-latency")
def latency_is_measured(at: At) -> None:
    at.every_form(["--topic", at.topic(), "--num-records", "3", "--record-size", "10"])


@of("pk-perf-test.run")
def a_load_test_reports(at: At) -> None:
    words = ["run", "--num-records", "200", "--interval", "0.2"]
    at.every_form([*words, "--header", "a=b", "--warmup", "0.1"])
    at.document(*words, "--consumers", "0", "--rate", "1000")
    at.document("run", "--topic", at.topic(b"a"), "--producers", "0", "--num-records", "1")


@of("pk-perf-test.compare")
def reports_are_compared(at: At) -> None:
    report = at.tmp_path / "report.json"
    at.run("run", "--num-records", "100", "--interval", "0.2", "--report", str(report))
    check(json.loads(report.read_text()), "pk-perf-test.run")
    assert at.every_form(["compare", str(report), str(report)])["regression"] is False
    worse = json.loads(report.read_text())
    worse["results"][0]["records_per_s"] /= 2
    found = at.document("compare", str(report), at.file(worse), status=ExitStatus.FAILURE)
    assert found["regression"] is True
    at.error("compare", str(report), at.file({}))


# -- what Kafka has no tool for ---------------------------------------------------------------------------


@of("pk-dev.up", "pk-dev.down", "pk-dev.status")
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


@of("pk-apply.diff", "pk-apply.apply")
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


@of("pk-apply.export")
def a_cluster_is_exported(at: At) -> None:
    topic = at.topic(retention_ms=1_000)
    assert at.document("export")["topics"][topic]["configs"] == {"retention.ms": "1000"}
    check(json.loads(at.run("export", "--topic", topic, "--output", "jsonl")), at.name)
    at.error("export", "--topic", at.new())


@of("pk-top")
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


@of("pk-pipeline.validate", "pk-pipeline.run")
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


@of("pk-verifiable-producer", "pk-verifiable-consumer")
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


# -- files ------------------------------------------------------------------------------------------------


@of("pk-verify-log")
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


@of("pk-dump-log")
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


@of("pk-dump-log.stats")
def logs_are_counted(at: At) -> None:
    write_rich_files(at.tmp_path)
    at.every_form(["--stats", "--files", str(at.tmp_path)])
    topic = at.topic()
    words = ["--stats", "--files", str(at.broker.log_dir / f"{topic}-0")]
    assert at.document(*words)["logs"][0]["first_offset"] is None


@of("pk-dump-log.report", "pk-dump-log.sql")
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


@of("pk-zookeeper-shell")
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
