"""Becoming a daemon as Kafka's scripts do: output goes to a file in $LOG_DIR; the caller can wait for the start."""

import contextlib
import os
import select
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus

LOG_DIRECTORY_VARIABLE: Final = "LOG_DIR"
_READY: Final = b"+"
_WORD_BYTES_MAX: Final = 65_536


def log_directory() -> Path:
    """$LOG_DIR, ./logs without it."""
    return Path(os.environ.get(LOG_DIRECTORY_VARIABLE, "logs")).absolute()


class Daemon:
    """The body of the ``with`` statement runs in the background; the process that entered it ends before the body.

    Args:
        output_file: where standard output and error go, in the log directory.
        wait: the process that entered waits for :meth:`is_ready`, and fails when the daemon ends without it.
        wait_ms: how long it waits at most; then it fails too, and the daemon goes on. None: for as long as it takes.

    Raises:
        OSError: the log directory cannot be written (on entering, in the foreground).
    """

    def __init__(self, output_file: str, *, wait: bool = False, wait_ms: int | None = None) -> None:
        self._output = log_directory() / output_file
        self._wait = wait
        self._wait_s = None if wait_ms is None else wait_ms / 1_000
        self._parent = -1

    def __enter__(self) -> Self:
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as out, Path(os.devnull).open("rb") as nothing:
            ours, self._parent = os.pipe()
            sys.stdout.flush()
            child = os.fork()
            if child:
                os.close(self._parent)
                os._exit(self._await(child, ours) if self._wait else ExitStatus.OK)
            os.close(ours)
            os.setsid()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.dup2(nothing.fileno(), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(b"" if error is None else str(error).encode())

    def is_ready(self, line: str) -> None:
        """The start succeeded: let the waiting process print this line and end."""
        self._tell(_READY + line.encode())

    def _tell(self, word: bytes) -> None:
        if self._parent >= 0:
            with contextlib.suppress(BrokenPipeError):  # the parent does not wait
                os.write(self._parent, word)
            os.close(self._parent)
            self._parent = -1

    def _await(self, child: int, word_from: int) -> int:
        name = Path(sys.argv[0]).name
        if not select.select([word_from], [], [], self._wait_s)[0]:
            output.note(
                f"{name}: it is not ready after {self._wait_s:g} s, and goes on starting"
                f" (more in {self._output.parent})"
            )
            return ExitStatus.FAILURE
        # One read: the broker's other processes inherit the pipe and keep it open.
        word = os.read(word_from, _WORD_BYTES_MAX)
        if word.startswith(_READY):
            output.line(word[1:].decode())
            return ExitStatus.OK
        os.waitpid(child, 0)  # or commands that look for brokers next would still find the one that failed
        output.note(
            f"{name}: {word.decode() or 'it ended before it was ready'} (more in {self._output.parent})"
        )
        return ExitStatus.FAILURE
