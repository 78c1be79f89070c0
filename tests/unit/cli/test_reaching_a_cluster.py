"""Which brokers a command asks, and what becomes of one that is not there or says nothing: all commands alike."""

import io
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pkafka.cli import (
    broker_api_versions,
    configs,
    console_consumer,
    console_producer,
    consumer_perf_test,
    delete_records,
    get_offsets,
    log_dirs,
    producer_perf_test,
    topics,
)
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import KafkaCommand
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.sockets import free_port
from tests.talk import wait_for

PERF = ["--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1"]
# Command, arguments, and what Kafka 3.9's own tool ends with when it reaches nobody.
ALL: list[tuple[KafkaCommand, list[str], int]] = [
    (topics.main, ["--list"], 1),
    (configs.main, ["--describe", "--topic", "t"], 1),
    (get_offsets.main, [], 1),
    (delete_records.main, ["--offset-json-file", "offsets.json"], 0),
    (log_dirs.main, ["--describe"], 1),
    (broker_api_versions.main, [], 1),
    (console_consumer.main, ["--topic", "t"], 0),
    (console_consumer.main, ["--topic", "t", "--group", "g", "--timeout-ms", "300"], 0),
    (console_consumer.main, ["--include", "t"], 0),
    (console_producer.main, ["--topic", "t"], 0),
    (producer_perf_test.main, PERF, 0),
    (consumer_perf_test.main, ["--topic", "t", "--messages", "1"], 0),
    (consumer_perf_test.main, ["--topic", "t", "--messages", "1", "--group", "g"], 0),
]
WITH_FILES: list[tuple[KafkaCommand, list[str], str, str | None]] = [
    (topics.main, ["--list"], "--command-config", None),
    (console_consumer.main, ["--topic", "t"], "--consumer.config", "--consumer-property"),
    (console_producer.main, ["--topic", "t"], "--producer.config", "--producer-property"),
    (producer_perf_test.main, PERF, "--producer.config", "--producer-props"),
    (consumer_perf_test.main, ["--topic", "t", "--messages", "1"], "--consumer.config", None),
]
each_command = pytest.mark.parametrize(
    ("command", "args", "kafkas_status"), ALL, ids=[str(each.name) for each, *_ in ALL]
)


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    monkeypatch.delenv("PK_BOOTSTRAP_SERVER", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"line\n")))
    (tmp_path / "offsets.json").write_text(
        '{"partitions":[{"topic":"t","partition":0,"offset":1}],"version":1}'
    )


@each_command
def test_a_port_where_nobody_listens_is_status_3_at_once(
    command: KafkaCommand, args: list[str], kafkas_status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    began_s = time.process_time()
    assert command.run([*args, "--bootstrap-server", address]) == ExitStatus.UNREACHABLE
    assert time.process_time() - began_s < 5.0  # its first imports included
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(
        f"{command.name}: cannot connect to {address}: Connection refused (nothing listens"
    )


@pytest.mark.parametrize("group", [[], ["--group", "g"]], ids=["alone", "group"])
def test_nothing_is_measured_where_nobody_listens(
    group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    args = ["--topic", "t", "--messages", "1", *group, "--bootstrap-server", address]
    assert consumer_perf_test.main.run(args) == ExitStatus.UNREACHABLE
    assert capsys.readouterr().out == ""


@each_command
def test_compat_gives_kafkas_status(
    command: KafkaCommand, args: list[str], kafkas_status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PK_COMPAT", "3.9")
    assert command.run([*args, "--bootstrap-server", f"127.0.0.1:{free_port()}"]) == kafkas_status


@each_command
def test_the_environment_names_the_brokers_where_no_flag_does(
    command: KafkaCommand,
    args: list[str],
    kafkas_status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.run(args) == ExitStatus.USAGE
    named, flagged = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", named)
    assert command.run(args) == ExitStatus.UNREACHABLE
    assert named in capsys.readouterr().err
    assert command.run([*args, "--bootstrap-server", flagged]) == ExitStatus.UNREACHABLE
    assert flagged in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "args", "file_flag", "property_flag"),
    WITH_FILES,
    ids=[str(each.name) for each, *_ in WITH_FILES],
)
def test_flag_over_property_over_environment_over_file(
    command: KafkaCommand,
    args: list[str],
    file_flag: str,
    property_flag: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {name: f"127.0.0.1:{free_port()}" for name in ("file", "environment", "property", "flag")}
    (tmp_path / "client.properties").write_text(f"bootstrap.servers={places['file']}\n")
    line = [*args, file_flag, "client.properties"]

    def asked() -> str:
        assert command.run(line) == ExitStatus.UNREACHABLE
        error = capsys.readouterr().err
        return next(name for name, address in places.items() if address in error)

    assert asked() == "file"
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", places["environment"])
    assert asked() == "environment"
    if property_flag is not None:
        line += [property_flag, f"bootstrap.servers={places['property']}"]
        assert asked() == "property"
    line += ["--bootstrap-server", places["flag"]]
    assert asked() == "flag"


def running(tool: str, *flags: str) -> "subprocess.Popen[str]":
    program = f"from pkafka.cli.{tool} import main; main()"
    command = [sys.executable, "-c", program, "--topic", "t", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_verifiable_consumer_waits_for_its_brokers_and_says_so_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    with running("verifiable_consumer", "--group-id", "g", "--bootstrap-server", address) as reading:
        try:
            assert reading.stderr is not None
            said = reading.stderr.readline()
            with pytest.raises(subprocess.TimeoutExpired):  # it has tried many times since
                reading.wait(1)
            reading.send_signal(signal.SIGTERM)
            told, rest = reading.communicate(timeout=60)
        finally:
            reading.kill()
    assert said.startswith(f"cannot connect to {address}: Connection refused (nothing listens")
    assert said.endswith("; still trying\n")
    assert rest == ""
    assert [json.loads(line)["name"] for line in told.splitlines()] == [
        "startup_complete",
        "shutdown_complete",
    ]
    assert reading.returncode == ExitStatus.TERMINATED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_verifiable_producer_that_waits_for_metadata(number: signal.Signals) -> None:
    with (
        FakeBroker() as broker,
        running("verifiable_producer", "--bootstrap-server", broker.bootstrap) as sending,
    ):
        try:
            wait_for(lambda: any(_asks_for_t(message) for _, _, message in list(broker.requests)))
            sending.send_signal(number)
            told, said = sending.communicate(timeout=60)
        finally:
            sending.kill()
    events = [json.loads(line) for line in told.splitlines()]
    assert [each["name"] for each in events] == [
        "startup_complete",
        "producer_send_error",
        "shutdown_complete",
        "tool_data",
    ]
    assert (events[-1]["sent"], events[-1]["acked"]) == (1, 0)
    assert said == ""
    assert sending.returncode == 128 + number


def _asks_for_t(message: Message) -> bool:
    return isinstance(message, MetadataRequest) and any(each.name == "t" for each in message.topics or ())


def test_a_broker_that_says_nothing_costs_the_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        args = ["--list", "--bootstrap-server", address, "--timeout", "200ms"]
        began_s = time.monotonic()
        assert topics.main.run(args) == ExitStatus.UNREACHABLE
        assert time.monotonic() - began_s < 50
    assert capsys.readouterr().err.startswith("pk-topics: ")


@pytest.mark.parametrize(
    ("address", "status", "text"),
    [
        ("localhost", ExitStatus.USAGE, "every entry must be host:port"),
        ("localhost:x", ExitStatus.USAGE, "every entry must be host:port"),
        ("no-such-host.invalid:9092", ExitStatus.UNREACHABLE, "does not resolve"),
        ("nö-such-host.invalid:9092", ExitStatus.UNREACHABLE, "does not resolve"),
        (f"{'x' * 64}.invalid:9092", ExitStatus.UNREACHABLE, "does not resolve"),
    ],
)
def test_a_bad_address_is_named(
    address: str, status: ExitStatus, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert topics.main.run(["--list", "--bootstrap-server", address]) == status
    assert text in capsys.readouterr().err


def test_a_configuration_file_that_is_not_there_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for command, args, flag, _ in WITH_FILES:
        assert command.run([*args, "--bootstrap-server", "h:1", flag, "nope.properties"]) == ExitStatus.USAGE
        assert "nope.properties: cannot be read" in capsys.readouterr().err


def test_configs_name_a_topic_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from pkafka.protocol.api import ApiKey
    from pkafka.protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult

    missing = DescribeConfigsResult(error_code=3, resource_type=2, resource_name="nope", configs=[])
    with FakeBroker() as broker:
        broker.handlers[ApiKey.DESCRIBE_CONFIGS] = lambda *_: DescribeConfigsResponse(results=[missing])
        args = ["--bootstrap-server", broker.bootstrap, "--describe", "--topic", "nope"]
        assert configs.main.run(args) == ExitStatus.FAILURE
    assert capsys.readouterr().err == "pk-configs: Topic 'nope' does not exist\n"


@pytest.mark.parametrize(
    "command", [console_consumer.main, consumer_perf_test.main], ids=lambda each: str(each.name)
)
def test_a_deserializer_of_java_in_a_file_does_not_stop_a_tool_that_reads_bytes(
    command: KafkaCommand, tmp_path: Path
) -> None:
    (tmp_path / "java.properties").write_text("value.deserializer=com.example.AvroDeserializer\n")
    args = [
        "--topic",
        "t",
        "--consumer.config",
        "java.properties",
        "--bootstrap-server",
        f"127.0.0.1:{free_port()}",
    ]
    if command is consumer_perf_test.main:
        args += ["--messages", "1"]
    assert command.run(args) == ExitStatus.UNREACHABLE
