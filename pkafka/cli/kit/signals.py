"""Ctrl-C and SIGTERM, for commands that end in order after a signal."""

import signal
from types import FrameType
from typing import Any, Self

from pkafka.cli.kit.exit_status import ExitStatus


class Signals:
    """Lets SIGINT and SIGTERM end a command, which still prints its result; a second signal ends it at once."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def came(self) -> bool:
        """Whether a signal came."""
        return self._number is not None

    def status(self) -> ExitStatus:
        """The exit status that a shell expects after the signal."""
        return ExitStatus.TERMINATED if self._number == signal.SIGTERM else ExitStatus.INTERRUPTED

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._number is not None:
            raise KeyboardInterrupt
        self._number = number
