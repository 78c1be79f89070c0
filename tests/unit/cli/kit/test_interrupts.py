"""Ctrl-C whenever it comes: one status, and no traceback."""

import click
import pytest

from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command


@pytest.mark.parametrize("error", [CommandError("it does not work"), click.UsageError("not like that")])
def test_ctrl_c_while_it_is_said_what_went_wrong(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    @command("pk-failing")
    def failing() -> None:
        raise error

    def interrupted(_line: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "note", interrupted)
    assert failing.run([]) == ExitStatus.INTERRUPTED
