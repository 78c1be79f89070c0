"""Commands in this process: usage errors, exit statuses, errors as one line or one JSON document, dry runs."""

import io
import json
from pathlib import Path

import pytest

from pkafka.cli import (
    broker_api_versions,
    configs,
    console_consumer,
    console_producer,
    consumer_groups,
    consumer_perf_test,
    delegation_tokens,
    delete_records,
    dev,
    doctor,
    dump_log,
    get_offsets,
    log_dirs,
    metrics,
    mirror_maker,
    producer_perf_test,
    topics,
    verify_log,
)
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandGroup, KafkaCommand
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pkafka.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from pkafka.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from pkafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.json_schemas import check
from tests.sockets import free_port

ALL: list[KafkaCommand] = [
    broker_api_versions.main,
    configs.main,
    console_consumer.main,
    console_producer.main,
    consumer_perf_test.main,
    delegation_tokens.main,
    delete_records.main,
    doctor.main,
    dump_log.main,
    get_offsets.main,
    log_dirs.main,
    metrics.main,
    mirror_maker.main,
    producer_perf_test.main,
    topics.main,
    verify_log.main,
]


@pytest.fixture(autouse=True)
def no_compat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.delenv("PK_BOOTSTRAP_SERVER", raising=False)


@pytest.mark.parametrize("command", [*ALL, dev.main], ids=lambda each: each.name)
def test_version_is_kafkas_alone_on_stdout(
    command: KafkaCommand | CommandGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag in ("--version",) if command is dev.main else ("--version", "-version"):
        assert command.run([flag]) == ExitStatus.OK
        assert capsys.readouterr().out == "3.9.1\n"


@pytest.mark.parametrize("command", ALL, ids=lambda each: each.name)
def test_help_is_an_answer_and_with_compat_a_failure_as_kafkas(
    command: KafkaCommand, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.run(["--help"]) == ExitStatus.OK
    shown = capsys.readouterr()
    assert shown.out.startswith(f"Usage: {command.name} ")
    assert shown.err == ""
    monkeypatch.setenv("PK_COMPAT", "3.9")
    assert command.run(["--help"]) == ExitStatus.FAILURE
    as_kafkas = capsys.readouterr()
    where, other = (as_kafkas.out, as_kafkas.err)
    if command is not producer_perf_test.main:
        where, other = other, where
    assert (where, other) == (shown.out, "")


@pytest.mark.parametrize("command", ALL, ids=lambda each: each.name)
def test_an_unknown_flag_is_one_line_and_usage(
    command: KafkaCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(["--no-such-flag"]) == ExitStatus.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"see {command.name} --help" in captured.err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--list", "--create"], "exactly one action"),
        ([], "exactly one action"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--alter", "--topic", "t"], 'Missing required argument "[partitions]"'),
        (
            ["--create", "--topic", "t", "--replica-assignment", "1", "--partitions", "1"],
            "can't be used with",
        ),
        (["--list", "--partitions", "1"], "can't be used with"),
        (["--list", "--topic", "a", "--topic=b"], "Found multiple arguments for option topic"),
        (["--list", "stray"], "unexpected extra argument"),
        (["--list", "--topic", "t", "stray"], "unexpected extra argument"),
        (
            ["--list", "--topic", "--exclude-internal", "stray"],
            "--topic needs a value, before --exclude-internal",
        ),
        (
            ["--describe", "--wait", "--topic", "t"],
            "--wait needs a value, before --topic",
        ),
        (["--describe", "--topic", "a("], "invalid regex"),
    ],
)
def test_usage_of_pk_topics(args: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker({"t": 1}) as broker:
        assert topics.main.run(["--bootstrap-server", broker.bootstrap, *args]) == ExitStatus.USAGE
    assert text in capsys.readouterr().err


def test_a_missing_bootstrap_server_is_usage_unless_the_environment_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topics.main.run(["--list"]) == ExitStatus.USAGE
    with FakeBroker({"b": 1, "a": 1}) as broker:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", broker.bootstrap)
        assert topics.main.run(["--list"]) == ExitStatus.OK
    assert capsys.readouterr().out == "a\nb\n"


@pytest.mark.parametrize("command", [topics.main, consumer_groups.main, get_offsets.main])
def test_the_zookeeper_of_old_scripts_is_told_what_came_after_it(
    command: KafkaCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(["--zookeeper", "localhost:2181", "--list"]) == ExitStatus.USAGE
    error = capsys.readouterr().err
    assert "zookeeper is not a recognized option" in error
    assert "--bootstrap-server" in error


def test_an_unreachable_cluster_is_status_3_and_names_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        topics.main.run(["--bootstrap-server", f"127.0.0.1:{free_port()}", "--list"])
        == ExitStatus.UNREACHABLE
    )
    captured = capsys.readouterr()
    assert captured.out.startswith("Error while executing topic command : cannot connect to")
    assert "nothing listens there" in captured.err
    assert "Traceback" not in captured.err


def test_an_error_is_one_json_document_when_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--bootstrap-server", f"127.0.0.1:{free_port()}", "--list", "--output", "json"]
    assert topics.main.run(args) == ExitStatus.UNREACHABLE
    assert json.loads(capsys.readouterr().out)["error"]["name"] == "Connect"


def test_compat_brings_back_kafkas_statuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PK_COMPAT", "3.9")
    assert topics.main.run(["--bootstrap-server", f"127.0.0.1:{free_port()}", "--list"]) == 1
    assert topics.main.run(["--nope"]) == 1
    file = tmp_path / "o.json"
    file.write_text('{"partitions":[{"topic":"t","partition":0,"offset":1}],"version":1}')
    assert (
        delete_records.main.run(
            ["--bootstrap-server", f"127.0.0.1:{free_port()}", "--offset-json-file", str(file)]
        )
        == 0
    )


def test_describe_prints_kafkas_cells(capsys: pytest.CaptureFixture[str]) -> None:
    row = DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1, synonyms=[])
    result = DescribeConfigsResult(resource_type=2, resource_name="t", configs=[row])
    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.DESCRIBE_CONFIGS] = lambda *_: DescribeConfigsResponse(results=[result])
        broker.handlers[ApiKey.LIST_PARTITION_REASSIGNMENTS] = lambda *_: ListPartitionReassignmentsResponse(
            topics=[]
        )
        assert topics.main.run(["--bootstrap-server", broker.bootstrap, "--describe", "--topic", "t"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: retention.ms=5")
    assert second == "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\tLastKnownElr: N/A"


def test_a_reassignment_is_described_in_json_as_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    moves = [
        OngoingTopicReassignment(
            name="t",
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=1, replicas=[2, 3, 1], adding_replicas=[2, 3], removing_replicas=[1]
                )
            ],
        )
    ]
    with FakeBroker({"t": 2}) as broker:
        broker.handlers[ApiKey.DESCRIBE_CONFIGS] = lambda *_: DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=2, resource_name="t", configs=[])]
        )
        broker.handlers[ApiKey.LIST_PARTITION_REASSIGNMENTS] = lambda *_: ListPartitionReassignmentsResponse(
            topics=moves
        )
        words = ["--bootstrap-server", broker.bootstrap, "--describe", "--topic", "t"]
        assert topics.main.run(words) == 0
        assert "\tAdding Replicas: 2,3\tRemoving Replicas: 1\t" in capsys.readouterr().out
        assert topics.main.run([*words, "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document, "pk-topics.describe")
    found = [
        (each["adding_replicas"], each["removing_replicas"]) for each in document["topics"][0]["partitions"]
    ]
    assert found == [([], []), ([2, 3], [1])]


@pytest.mark.parametrize("dry_run", [False, True])
def test_create_with_and_without_dry_run(dry_run: bool, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bool] = []

    def create(message: Message, version: int) -> Message:
        assert isinstance(message, CreateTopicsRequest)
        asked.append(message.validate_only)
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name="n", num_partitions=1, replication_factor=1)]
        )

    with FakeBroker() as broker:
        broker.handlers[ApiKey.CREATE_TOPICS] = create
        args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", "n"]
        assert topics.main.run(args + (["--dry-run"] if dry_run else [])) == 0
    assert asked == [dry_run]
    assert capsys.readouterr().out == ("Would create topic n.\n" if dry_run else "Created topic n.\n")


def test_delete_with_dry_run_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker({"a-1": 1, "a-2": 1, "b": 1}) as broker:
        args = ["--bootstrap-server", broker.bootstrap, "--delete", "--topic", "a.*", "--dry-run"]
        assert topics.main.run(args) == 0
        assert broker.count(ApiKey.DELETE_TOPICS) == 0
    assert capsys.readouterr().out == "Would delete topic a-1.\nWould delete topic a-2.\n"


def test_an_exact_topic_is_no_expression(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker({"a.b": 1, "axb": 1}) as broker:
        args = ["--bootstrap-server", broker.bootstrap, "--delete", "--topic", "a.b", "--dry-run"]
        assert topics.main.run([*args, "--exact"]) == 0
        assert capsys.readouterr().out == "Would delete topic a.b.\n"
        assert topics.main.run(args) == 0
        assert capsys.readouterr().out == "Would delete topic a.b.\nWould delete topic axb.\n"
        assert (
            topics.main.run(["--bootstrap-server", broker.bootstrap, "--list", "--topic", "a.b", "--exact"])
            == 0
        )
        assert capsys.readouterr().out == "a.b\n"
    for wrong in (["--create", "--topic", "n", "--exact"], ["--list", "--exact"], ["--list", "--yes"]):
        assert topics.main.run(wrong) == ExitStatus.USAGE


@pytest.mark.parametrize(
    ("answer", "more", "deletes"),
    [("y\n", [], True), ("\n", [], False), ("", [], False), ("", ["--yes"], True), (None, [], True)],
)
def test_topics_that_were_not_named_are_deleted_after_a_question_on_a_terminal(
    answer: str | None,
    more: list[str],
    deletes: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with FakeBroker({"a.b": 1, "axb": 1, "c": 1}) as broker:
        broker.handlers[ApiKey.DELETE_TOPICS] = lambda *_: DeleteTopicsResponse(
            responses=[DeletableTopicResult(name="a.b"), DeletableTopicResult(name="axb")]
        )
        monkeypatch.setattr("sys.stdin", io.StringIO() if answer is None else Terminal(answer))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        args = ["--bootstrap-server", broker.bootstrap, "--delete", "--topic", "a.b", *more]
        assert topics.main.run(args) == (ExitStatus.OK if deletes else ExitStatus.FAILURE)
        assert broker.count(ApiKey.DELETE_TOPICS) == int(deletes)
        told = "--topic a.b is a regular expression, which takes in axb too" in capsys.readouterr().err
        assert told is not bool(more)


def test_an_authorization_error_is_status_4() -> None:
    with FakeBroker() as broker:
        failed = CreatableTopicResult(name="n", error_code=29)
        broker.handlers[ApiKey.CREATE_TOPICS] = lambda *_: CreateTopicsResponse(topics=[failed])
        args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", "n"]
        assert topics.main.run(args) == ExitStatus.AUTHENTICATION


def test_what_the_cluster_does_not_allow_is_told_in_a_few_words(capsys: pytest.CaptureFixture[str]) -> None:
    session = "session=Session@1, listenerName=ListenerName(A), buffer=null, envelope=None"
    said = f"Request Request(processor=3, connectionId=1-2, {session}) needs CREATE permission."
    with FakeBroker() as broker:
        failed = CreatableTopicResult(name="n", error_code=31, error_message=said)
        broker.handlers[ApiKey.CREATE_TOPICS] = lambda *_: CreateTopicsResponse(topics=[failed])
        args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", "n"]
        assert topics.main.run(args) == ExitStatus.AUTHENTICATION
    told = capsys.readouterr().err
    assert told.startswith("pk-topics: Cluster authorization failed: it needs CREATE permission. (pk-acls ")


@pytest.mark.parametrize(
    ("key", "hint"), [("retention.mss", " (did you mean retention.ms?)"), ("no.such.thing", "")]
)
def test_a_setting_that_is_not_there_may_be_meant_for_another(
    key: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = f"Unknown topic config name: {key}"
    with FakeBroker() as broker:
        failed = CreatableTopicResult(name="n", error_code=40, error_message=message)
        broker.handlers[ApiKey.CREATE_TOPICS] = lambda *_: CreateTopicsResponse(topics=[failed])
        args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", "n", "--config", f"{key}=1"]
        assert topics.main.run(args) == ExitStatus.FAILURE
    captured = capsys.readouterr()
    assert captured.err == f"pk-topics: {message}{hint}\n"
    assert captured.out == f"Error while executing topic command : {message}\n"


def test_delete_records_fails_when_a_partition_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "o.json"
    file.write_text('{"partitions":[{"topic":"t","partition":0,"offset":9}],"version":1}')
    row = DeleteRecordsPartitionResult(partition_index=0, error_code=1)
    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.DELETE_RECORDS] = lambda *_: DeleteRecordsResponse(
            topics=[DeleteRecordsTopicResult(name="t", partitions=[row])]
        )
        args = ["--bootstrap-server", broker.bootstrap, "--offset-json-file", str(file)]
        assert delete_records.main.run(args) == ExitStatus.FAILURE
    out = capsys.readouterr().out
    assert "partition: t-0\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: " in out


@pytest.mark.parametrize("text", ["{", '{"partitions":[{}]}', '{"version":2,"partitions":[]}', "[]"])
def test_a_bad_offset_file_is_explained(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "o.json"
    file.write_text(text)
    assert delete_records.main.run(["--bootstrap-server", "h:1", "--offset-json-file", str(file)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_config_lists_protect_commas_with_brackets() -> None:
    assert configs.parse_config_list("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--describe"], "At least one entity type"),
        (
            ["--describe", "--topic", "t", "--entity-type", "topics"],
            "Duplicate entity type(s) specified: topics",
        ),
        (["--alter", "--topic", "t"], "At least one of --add-config"),
        (["--describe", "--broker", "x"], "valid integer broker id"),
        (["--alter", "--entity-type", "topics", "--add-config", "a=b"], "an entity name must be specified"),
    ],
)
def test_usage_of_pk_configs(args: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert configs.main.run(["--bootstrap-server", "h:1", *args]) == ExitStatus.USAGE
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--topic", "t", "--include", "t"],
        ["--topic", "t", "--offset", "1"],
        ["--topic", "t", "--partition", "0", "--offset", "x"],
        ["--topic", "t", "--partition", "0", "--offset", "1", "--from-beginning"],
    ],
)
def test_usage_of_pk_console_consumer(args: list[str]) -> None:
    assert console_consumer.main.run(["--bootstrap-server", "h:1", *args]) == ExitStatus.USAGE


def test_nothing_in_the_background_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert dev.main.run(["status"]) == ExitStatus.OK
    assert dev.main.run(["status", "--name", "x"]) == ExitStatus.FAILURE
    assert capsys.readouterr() == ("", "No broker runs.\nNo broker named x runs.\n")


def test_producer_props_take_many_values() -> None:
    spread = producer_perf_test.main._spread(["--producer-props", "a=1", "b=2", "--topic", "t"])
    assert spread == ["--producer-props", "a=1", "--producer-props", "b=2", "--topic", "t"]
