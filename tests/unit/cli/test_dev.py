"""pk-dev run and signals: whenever they come, they end the command."""

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from pkafka.cli import dev


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_while_the_command_is_started_reaches_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen

    def popen(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = real(*args, **options)
        os.kill(os.getpid(), number)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    with dev._Signals() as signals:
        assert signals.run(["sleep", "60"], os.environ) == -number


def test_before_and_after_the_command_a_signal_ends_us() -> None:
    with dev._Signals() as signals:
        assert signals.run(["true"], os.environ) == 0
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 143
