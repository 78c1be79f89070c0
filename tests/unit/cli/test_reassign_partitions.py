"""pk-reassign-partitions in this process: what is refused, and what is set, shown and undone at a scripted broker."""

from pathlib import Path

import pytest

from pkafka.cli.exit_status import ExitStatus
from pkafka.cli.reassign_partitions import main
from tests.fakes.broker import FakeBroker


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
