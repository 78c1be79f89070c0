"""How a child process hears of its parent's end, and what it is called in ``ps``: what the kernel does for both."""

import ctypes
import os
import signal
import sys
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_TITLE_CHARS_MAX: Final = 15
ORPHANED: Final = 4
"""The exit code of a child that ends because its parent has."""


def load_death_signal() -> Any:  # noqa: ANN401 - a C function
    """The C library's prctl, looked up before the fork; None where there is no such call (macOS)."""
    if not sys.platform.startswith("linux"):
        return None
    return ctypes.CDLL(None, use_errno=True).prctl


def set_title(prctl: Any, name: str) -> None:  # noqa: ANN401 - a C function
    """Have ps show this process as ``pkafka-NAME`` (``pk-NAME`` where that is longer than Linux allows)."""
    if prctl is not None:
        title = f"pkafka-{name}"
        prctl(_PR_SET_NAME, (title if len(title) <= _TITLE_CHARS_MAX else f"pk-{name}").encode(), 0, 0, 0)


def die_with_parent(
    prctl: Any,  # noqa: ANN401 - a C function
    parent: int,
    number: signal.Signals = signal.SIGKILL,
) -> None:
    """Have the kernel kill this process when its parent dies, even while its event loop is stuck."""
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ORPHANED)
