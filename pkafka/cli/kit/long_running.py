"""A command that runs until it is told to end: its log, in the foreground or the background, and the signals."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from pkafka.cli.kit import output
from pkafka.cli.kit.daemon import Daemon, log_directory
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError

_LOOK_S: Final = 0.5


class Worker(Protocol):
    """What runs."""

    @property
    def failure(self) -> BaseException | None:
        """Why it has ended by itself; None: it has not."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


def run_logged(run: Callable[[], int], output_file: str, *, in_background: bool) -> int:
    """Call a function whose log goes to standard error, or in the background to ``$LOG_DIR``.

    Args:
        output_file: in that directory, for what the process prints.
    """
    if not in_background:
        _log_to(None)
        return run()
    with Daemon(output_file):
        _log_to(log_directory())
        return run()


def asked_to_end() -> threading.Event:
    """An event that SIGINT and SIGTERM set."""
    asked = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return asked


def wait_for(asked: threading.Event) -> None:
    """Wait in the main thread until :func:`asked_to_end` is answered.

    It is this thread that handles signals, and the system may give one to any other: that ends no wait of this thread,
    so it looks now and then.
    """
    while not asked.wait(_LOOK_S):
        pass


def run_until_asked(worker: Worker, asked: threading.Event, text: str) -> int:
    """Run until a signal comes, or the worker ends by itself.

    Args:
        asked: of :func:`asked_to_end`; the worker sets it when it ends by itself.
        text: is printed when it has started.

    Returns:
        The exit status.

    Raises:
        CommandError: it has ended by itself.
    """
    from pkafka.connect.traces import root_text

    worker.start()
    output.line(text)
    wait_for(asked)
    worker.stop()
    if worker.failure is not None:
        raise CommandError(f"The worker has ended: {root_text(worker.failure)}")
    return ExitStatus.OK


def _log_to(directory: Path | None) -> None:
    from pkafka.tools.servers.broker_logging import log_to_files, log_to_standard_error

    if directory is None:
        log_to_standard_error()
    else:
        log_to_files(directory)
