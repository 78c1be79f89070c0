"""CSV of nothing: the header that the schema promises, and never an empty line."""

from importlib import import_module

import pytest

from pkafka.cli import schemas
from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.output import OutputFormat, View
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.elect_leaders import ElectLeadersResponse
from pkafka.protocol.messages.list_groups import ListGroupsResponse
from pkafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from tests.fakes.broker import FakeBroker

ELECTION = ["--election-type", "preferred", "--all-topic-partitions"]


@pytest.mark.parametrize(
    ("module", "words", "header"),
    [
        ("topics", ["--list"], "name,id,internal"),
        ("topics", ["--describe"], "name,id,partition,leader,replicas,isr,configs"),
        ("consumer_groups", ["--list"], "group,type,state"),
        ("leader_election", ELECTION, "topic,partition,result,error"),
        ("preferred_replica_election", [], "topic,partition,result,error"),
        (
            "reassign_partitions",
            ["--list"],
            "topic,partition,replicas,adding,removing,bytes_done,bytes_total",
        ),
    ],
)
def test_a_table_without_rows_has_its_header(
    module: str,
    words: list[str],
    header: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)
    main = import_module(f"pkafka.cli.{module}").main
    with FakeBroker() as broker:
        broker.handlers |= {
            ApiKey.ELECT_LEADERS: lambda *_: ElectLeadersResponse(replica_election_results=[]),
            ApiKey.LIST_GROUPS: lambda *_: ListGroupsResponse(groups=[]),
            ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda *_: ListPartitionReassignmentsResponse(topics=[]),
        }
        words = ["--bootstrap-server", broker.bootstrap, *words, "--output", "csv"]
        assert main.run(words) == ExitStatus.OK
    assert capsys.readouterr().out == f"{header}\n"


def test_a_table_that_nobody_knows_is_no_line_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    output.show(View("rows", ()), OutputFormat.CSV)
    assert capsys.readouterr().out == ""


def test_the_columns_of_a_command_are_known_where_it_has_one_table() -> None:
    assert schemas.csv_columns("pk-topics.list") == ["name", "id", "internal"]
    assert schemas.csv_columns("pk-consumer-groups.describe") == []  # of offsets, of members, of states
    assert schemas.csv_columns("pk-nothing") == []
