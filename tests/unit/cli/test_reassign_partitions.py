"""pk-reassign-partitions in this process: what is refused, and what is set, shown and undone at a scripted broker."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.reassign_partitions import main
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pkafka.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from pkafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pkafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.json_schemas import check_cells


@pytest.fixture(autouse=True)
def no_compat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    return path


@pytest.mark.parametrize("flag", ["throttle", "replica-alter-log-dirs-throttle"])
@pytest.mark.parametrize("rate", ["99999999999999999999", "9223372036854775808", "-9223372036854775809"])
def test_a_rate_beyond_64_bits_is_refused_before_anything_is_set(
    flag: str, rate: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeBroker({"t": 1}) as broker:
        words = ["--bootstrap-server", broker.bootstrap, "--execute", "--reassignment-json-file", str(file)]
        assert (main.run([*words, f"--{flag}", rate]), broker.requests) == (ExitStatus.USAGE, [])
    printed = capsys.readouterr()
    assert printed.out == f"Error: Cannot parse argument '{rate}' of option {flag}\n"
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("action", ["execute", "verify", "cancel"])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            '{"partitions":[{"topic":"t","partition":99999999999,"replicas":[1]}]}',
            "Expected `Integer` value, received 99999999999",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[4294967296]}]}',
            "Expected `Integer` value, received 4294967296",
        ),
        ("[" * 100_000, "The input string is not a valid JSON"),
        ('{"version":Infinity}', "The input string is not a valid JSON"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_kafkas_words(
    action: str, content: str, text: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(content)
    with FakeBroker({"t": 1}) as broker:
        words = ["--bootstrap-server", broker.bootstrap, f"--{action}", "--reassignment-json-file", str(file)]
        assert (main.run(words), broker.requests) == (ExitStatus.FAILURE, [])
    printed = capsys.readouterr()
    assert printed.out == f"Error: {text}\n"
    assert text in printed.err
    assert printed.err.count("\n") == 1


def test_topics_that_are_nested_too_deeply_are_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("[" * 100_000)
    with FakeBroker({"t": 1}) as broker:
        words = ["--bootstrap-server", broker.bootstrap, "--generate", "--broker-list", "1"]
        assert main.run([*words, "--topics-to-move-json-file", str(file)]) == ExitStatus.FAILURE
    assert capsys.readouterr().out == "Error: The input string is not a valid JSON\n"


# -- at a broker that keeps throttles ---------------------------------------------------------------------


class Throttled:
    """What the scripted broker keeps; ``refused`` are types of resources that it changes for nobody."""

    def __init__(self, broker: FakeBroker) -> None:
        self.settings: dict[tuple[int, str], dict[str, str]] = {}
        self.refused: set[int] = set()
        self.outcome = 0
        where = DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=broker.port)
        broker.handlers |= {
            ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda *_: ListPartitionReassignmentsResponse(topics=[]),
            ApiKey.DESCRIBE_CLUSTER: lambda *_: DescribeClusterResponse(cluster_id="fake", brokers=[where]),
            ApiKey.DESCRIBE_CONFIGS: self._describe,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda *_: self._begin(),
        }

    def _describe(self, message: Message, _: int) -> Message:
        assert isinstance(message, DescribeConfigsRequest)
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=[]
                )
                for each in message.resources
            ]
        )

    def _alter(self, message: Message, _: int) -> Message:
        assert isinstance(message, IncrementalAlterConfigsRequest)
        rows = []
        for each in message.resources:
            is_refused = each.resource_type in self.refused
            kept = self.settings.setdefault((each.resource_type, each.resource_name), {})
            for change in () if is_refused else each.configs:
                if change.config_operation:
                    kept.pop(change.name, None)
                else:
                    assert change.value is not None
                    kept[change.name] = change.value
            rows.append(
                AlterConfigsResourceResponse(
                    error_code=31 if is_refused else 0,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(responses=rows)

    def _begin(self) -> Message:
        row = ReassignablePartitionResponse(partition_index=0, error_code=self.outcome)
        return AlterPartitionReassignmentsResponse(
            responses=[ReassignableTopicResponse(name="t", partitions=[row])]
        )

    @property
    def left(self) -> dict[tuple[int, str], dict[str, str]]:
        return {each: settings for each, settings in self.settings.items() if settings}


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"t": 1}) as started:
        yield started


def execute(broker: FakeBroker, file: Path, *words: str) -> int:
    return main.run(
        ["--bootstrap-server", broker.bootstrap, "--execute", "--reassignment-json-file", str(file), *words]
    )


def test_throttles_stay_where_the_move_begins(broker: FakeBroker, file: Path) -> None:
    kept = Throttled(broker)
    assert execute(broker, file, "--throttle", "5") == ExitStatus.OK
    assert set(kept.left) == {(2, "t"), (4, "1")}


def test_throttles_of_topics_go_where_those_of_a_broker_are_refused(
    broker: FakeBroker, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Throttled(broker)
    kept.refused = {4}
    assert execute(broker, file, "--throttle", "5") == ExitStatus.AUTHENTICATION
    assert (kept.settings != {}, kept.left) == (True, {})
    assert broker.count(ApiKey.INCREMENTAL_ALTER_CONFIGS) > 2
    assert broker.count(ApiKey.ALTER_PARTITION_REASSIGNMENTS) == 0
    # The broker refused to be set back as well, which changes nothing but has to be said.
    assert "the throttles that were set are still there" in capsys.readouterr().err


def test_throttles_go_where_no_move_begins(
    broker: FakeBroker, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Throttled(broker)
    kept.outcome = 39
    assert execute(broker, file, "--throttle", "5") == ExitStatus.FAILURE
    assert (kept.settings != {}, kept.left) == (True, {})
    assert "Error reassigning partition(s):\nt-0: " in capsys.readouterr().out


def test_the_way_back_is_written_before_anything_moves(
    broker: FakeBroker, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Throttled(broker)
    file.write_text('{"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    # Where nothing would change there is no way back.
    assert execute(broker, file) == ExitStatus.OK
    assert os.listdir(tmp_path) == [file.name]
    named = tmp_path / "back.json"
    assert execute(broker, file, "--rollback-file", str(named)) == ExitStatus.OK
    written = json.loads(named.read_text())
    assert [row["replicas"] for row in written["partitions"]] == [[1]]
    moves = broker.count(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    capsys.readouterr()
    assert execute(broker, file, "--rollback-file", str(named)) == ExitStatus.FAILURE
    assert broker.count(ApiKey.ALTER_PARTITION_REASSIGNMENTS) == moves
    error = capsys.readouterr().err
    assert "back.json is there already" in error
    assert error.count("\n") == 1


def test_csv_has_its_header_without_any_row(broker: FakeBroker, capsys: pytest.CaptureFixture[str]) -> None:
    Throttled(broker)
    assert main.run(["--bootstrap-server", broker.bootstrap, "--list", "--output", "csv"]) == ExitStatus.OK
    [header] = capsys.readouterr().out.splitlines()
    cells = ["t", "0", "1", "1", "", "", ""]
    check_cells(header.split(","), cells, "pk-reassign-partitions.list")
