"""What follows when a process ends under its connectors and tasks: they start again, but not for ever. Pure."""

import os
import signal
from collections import deque
from typing import Final

from pkafka.connect.hosts.placement import Name

WINDOW_S: Final = 600.0
"""Deaths that are longer ago count no more."""


class Deaths:
    """Counts the deaths under each connector and task.

    Args:
        most: how often one is started again in :data:`WINDOW_S`, ``pkafka.connect.restart.max``.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        """How often one is started again."""
        self._times: dict[Name, deque[float]] = {}

    def may_start_again(self, name: Name, now_s: float) -> bool:
        """Note a death under a connector or task.

        After the last one the count begins anew: whoever starts it by hand starts from nothing.

        Args:
            now_s: by a clock that never goes back.

        Returns:
            Whether it is started again.
        """
        times = self._times.setdefault(name, deque())
        times.append(now_s)
        while times[0] <= now_s - WINDOW_S:
            times.popleft()
        if len(times) <= self.most:
            return True
        del self._times[name]
        return False


def how_it_ended(status: int | None) -> str:
    """The end of a process in words.

    Args:
        status: as ``waitpid`` tells it; None: nobody knows.
    """
    if status is None:
        return "has ended"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"has ended with exit code {code}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    return f"was ended by signal {-code}{name}"
