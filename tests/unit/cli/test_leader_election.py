"""What pk-leader-election takes of a command line and of files; elections are in tests/e2e."""

from pathlib import Path

import pytest

from pkafka.cli import leader_election, preferred_replica_election
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import KafkaCommand
from tests.fakes.broker import FakeBroker


@pytest.fixture(autouse=True)
def no_compat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)


@pytest.mark.parametrize("number", ["-1", "2147483648", "99999999999"])
def test_a_partition_that_cannot_be_is_wrong_use(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeBroker({"t": 1}) as broker:
        words = ["--bootstrap-server", broker.bootstrap, "--election-type", "preferred"]
        status = leader_election.main.run([*words, "--topic", "t", "--partition", number])
        assert (status, broker.requests) == (ExitStatus.USAGE, [])
    assert f"'--partition': {number} is not in the range" in capsys.readouterr().err


@pytest.mark.parametrize("command", [leader_election.main, preferred_replica_election.main])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            '{"partitions":[{"topic":"t","partition":99999999999}]}',
            "Expected `Integer` value, received 99999999999",
        ),
        ('{"partitions":[{"topic":"t","partition":-1}]}', "Topic t can have no partition -1"),
        ("[" * 100_000, "The input string is not a valid JSON: it is nested too deeply"),
        ('{"version":NaN,"partitions":[]}', "The input string is not a valid JSON: NaN is no number"),
    ],
)
def test_a_file_that_cannot_be_asked_for_is_one_line_and_asks_nobody(
    command: KafkaCommand, content: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "elect.json"
    file.write_text(content)
    kind = ["--election-type", "preferred"] if command is leader_election.main else []
    with FakeBroker({"t": 1}) as broker:
        words = ["--bootstrap-server", broker.bootstrap, *kind, "--path-to-json-file", str(file)]
        assert (command.run(words), broker.requests) == (ExitStatus.FAILURE, [])
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
