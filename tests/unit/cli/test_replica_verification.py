"""What pk-replica-verification takes of a command line; what it finds is in tests/interop."""

import io
import re
from collections.abc import Callable

import pytest

from pkafka.cli import replica_verification
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import OutputFormat
from pkafka.model import TopicPartition
from pkafka.tools.cluster.replica_verification import Lag
from tests.fakes.broker import FakeBroker


@pytest.fixture(autouse=True)
def no_compat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PK_COMPAT", raising=False)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ([], ["ax", "b"]),
        (["--topic-white-list", "a.*"], ["ax"]),
        (["-topic-white-list=b"], ["b"]),
        (["--topic-white-list", "a.*", "--topics-include", "b"], ["b"]),
        (["--topics-include", "a.*", "--topic-white-list", "b"], ["ax"]),
    ],
)
def test_the_old_name_of_the_topics_counts_where_the_new_one_is_not_given(
    words: list[str],
    chosen: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def topics(_: object, is_included: Callable[[str], object]) -> None:
        raise CommandError(f"chosen: {[each for each in ('ax', 'b') if is_included(each)]}")

    monkeypatch.setattr(replica_verification, "_topics", topics)
    with FakeBroker() as broker:
        status = replica_verification.main.run(["--bootstrap-server", broker.bootstrap, *words])
    assert status == ExitStatus.FAILURE
    assert f"chosen: {chosen}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--time", "99999999999999999999"], "Cannot parse argument '99999999999999999999' of option time"),
        (["--time", "-3"], "--time -3 is no timestamp"),
        (["--fetch-size", "2147483648"], "'--fetch-size': 2147483648 is not in the range"),
        (["--max-wait-ms", "2147483648"], "'--max-wait-ms': 2147483648 is not in the range"),
    ],
)
def test_numbers_that_no_request_can_carry_are_wrong_use(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeBroker({"t": 1}) as broker:
        status = replica_verification.main.run(["--bootstrap-server", broker.bootstrap, *words])
        assert (status, broker.requests) == (ExitStatus.USAGE, [])
    assert text in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(form: OutputFormat | None, monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO) -> None:
    """What is said of one partition on the way, with a terminal as standard error."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    say = replica_verification._Voice(form)
    with say.bar():
        say.progress(1, 4)
        say.report(Lag(3, TopicPartition("t", 0), 1), 1)
        say.unreachable({7: "it is away"})
        say.progress(4, 4)


def test_a_terminal_has_a_bar_beside_kafkas_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    said(None, monkeypatch, terminal)
    (text,) = capsys.readouterr().out.splitlines()
    assert text.endswith(": max lag is 3 for partition t-0 at offset 1 among 1 partitions")
    assert "offsets compared" in terminal.getvalue()
    assert "\nbroker 7 does not answer" in re.sub(r"\x1b\[[\d?]*[a-zA-Z]|\r", "\n", terminal.getvalue())


@pytest.mark.parametrize(
    ("form", "terminal"), [(None, io.StringIO()), (OutputFormat.JSON, Terminal())], ids=["pipe", "JSON"]
)
def test_there_is_no_bar_in_a_pipe_nor_within_a_document(
    form: OutputFormat | None,
    terminal: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    said(form, monkeypatch, terminal)
    assert terminal.getvalue() == "broker 7 does not answer, its replicas count as behind: it is away\n"
