"""Errors and delays in the system calls of a running process, as a bad or slow disk would give them (strace)."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from tests.faults.wire import eventually


@contextlib.contextmanager
def injected(process: psutil.Process, calls: str, what: str, paths: Sequence[Path] = ()) -> Iterator[None]:
    """While this lasts, system calls of ``process`` fail or wait.

    Args:
        process: all of its threads.
        calls: names of system calls, with commas between them.
        what: ``error=EIO``, ``delay_enter=200000`` (microseconds), and which of them (``when=1``): see strace(1).
        paths: only calls on these files; all without any.
    """
    if shutil.which("strace") is None:
        pytest.skip("needs strace (apt-get install strace)")
    chosen = [argument for path in paths for argument in ("-P", str(path))]
    with subprocess.Popen(
        [
            *["strace", "-f", "-q", "-o", os.devnull, "-p", str(process.pid)],
            *["-e", f"trace={calls}", "-e", f"inject={calls}:{what}", *chosen],
        ],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as tracer:
        try:
            eventually(lambda: tracer.poll() is not None or _is_traced(process, tracer.pid))
            if tracer.poll() is not None:
                assert tracer.stderr is not None
                pytest.skip(f"needs the right to trace other processes: {tracer.stderr.read().strip()}")
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(60)


def _is_traced(process: psutil.Process, tracer: int) -> bool:
    wanted = f"TracerPid:\t{tracer}\n"
    return all(
        wanted in Path(f"/proc/{process.pid}/task/{thread.id}/status").read_text()
        for thread in process.threads()
    )
