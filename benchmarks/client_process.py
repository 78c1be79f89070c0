"""Runs one client of Python in a process of its own, so that clients that are compared share nothing."""

import json
import os
import subprocess
import sys
from typing import Final

_MARGIN_S: Final = 120


def run(module: str, *arguments: object, seconds: float, pure: bool = False) -> dict[str, float]:
    """Run ``python -m module arguments... seconds``.

    Args:
        seconds: how long it measures; the process is given two minutes more.
        pure: whether pkafka's loops are plain Python in it.

    Returns:
        The JSON object on its last line: records, seconds, CPU seconds.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments), str(seconds)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + _MARGIN_S,
        env=dict(os.environ, PKAFKA_PURE="1" if pure else "0"),
    )
    if done.returncode:
        raise RuntimeError(f"{module} {arguments[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
