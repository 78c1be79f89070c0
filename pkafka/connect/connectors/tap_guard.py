"""A program of its own: runs a tap, and ends it with all that it has started when nobody wants it any more.

``tap_guard.py DIRECTORY GRACE_S COMMAND...``. Its standard input is a pipe of the worker's that nothing is written to.
It ends when the worker closes it or dies, by SIGKILL too; then the tap is ended. The directory, which has the tap's
settings and with them its secrets, is removed in the end. The status is the tap's; 128 and a number for a signal. It
knows the standard library only, so that it starts in a few milliseconds.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

NOT_STARTED: Final = 126
"""The status when there is no tap."""
PID: Final = "tap.pid"
"""The file in the directory that tells the tap's process group, for whoever finds that this program was killed."""


def main(directory: str, grace_s: float, command: Sequence[str]) -> int:
    """Run a tap.

    Args:
        directory: of its files.
        grace_s: how long it may take to end itself when it is asked to.
        command: of the tap.

    Returns:
        Its status.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)  # not SIG_IGN, which the tap would inherit
    try:
        try:
            tap = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=partial(_introduce, directory, os.getpid()),
            )
        except (OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{command[0]} cannot be run: {getattr(error, 'strerror', error)}\n")
            return NOT_STARTED
        threading.Thread(target=_end_when_unwanted, args=(tap.pid, grace_s), daemon=True).start()
        os.waitid(os.P_PID, tap.pid, os.WEXITED | os.WNOWAIT)  # its id is its group's until it is waited for
        _send(tap.pid, signal.SIGKILL)
        status = tap.wait()
        return status if status >= 0 else 128 - status
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _introduce(directory: str, guard: int) -> None:
    """In the tap's process, before the tap's program runs: write its group into the file :data:`PID`.

    The process ends when the guard is dead by then. When the guard is killed later, the file is there, and the worker
    ends the group that it names (:mod:`pkafka.connect.connectors.tap_process`).
    """
    Path(directory, PID).write_text(str(os.getpid()))
    if os.getppid() != guard:
        os._exit(NOT_STARTED)


def _end_when_unwanted(group: int, grace_s: float) -> None:
    while os.read(0, 1024):
        pass
    _send(group, signal.SIGTERM)
    time.sleep(grace_s)
    _send(group, signal.SIGKILL)


def _send(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The worker says when it is time, by closing the pipe."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
