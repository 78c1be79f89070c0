"""When a process of tasks is too busy, and which tasks leave it then. Pure.

Processes cost memory, and a process has one core at most for the code of its tasks. So a worker makes another process
when one that it has was busy for a while, and starts a part of the tasks anew there.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pkafka.connect.states import TaskName

_BUSY: Final = 0.75
"""Of a core. A process that waits for the lock of its interpreter has hardly more."""
_LOOKS: Final = 2
"""So many looks in a row have to find a process busy: a task that begins is busy for a moment."""


class Load(NamedTuple):
    """What a process tells of itself.

    Args:
        cpu_s: all that it has used.
        records: which each of its tasks has had, since it began.
    """

    cpu_s: float
    records: Mapping[TaskName, int]


class Watch:
    """Looks at one process from time to time."""

    def __init__(self) -> None:
        self._last: tuple[float, Load] | None = None
        self._busy_looks = 0
        self.shares: Mapping[TaskName, int] = {}
        """How many records each task has had between the last two looks."""

    @property
    def is_busy(self) -> bool:
        """Whether the process was busy for a while."""
        return self._busy_looks >= _LOOKS

    def look(self, now_s: float, load: Load) -> None:
        """Take in what the process tells.

        Args:
            now_s: by a clock that never goes back.
        """
        if self._last is not None:
            since_s, last = self._last
            busy = load.cpu_s - last.cpu_s >= _BUSY * (now_s - since_s)
            self._busy_looks = self._busy_looks + 1 if busy else 0
            self.shares = {task: count - last.records.get(task, 0) for task, count in load.records.items()}
        self._last = (now_s, load)

    def begin_again(self) -> None:
        """Forget that the process was busy: it is about to have less to do."""
        self._busy_looks = 0


def leavers(shares: Mapping[TaskName, int]) -> list[TaskName]:
    """The tasks that leave a busy process, so that those that stay and those that leave have about as much to do.

    Args:
        shares: how many records each has had lately.
    """
    staying = leaving = 0
    found: list[TaskName] = []
    for number, (task, share) in enumerate(sorted(shares.items(), key=lambda item: (-item[1], item[0]))):
        # Tasks that had nothing take turns.
        if leaving < staying or (leaving == staying and number % 2):
            leaving += share
            found.append(task)
        else:
            staying += share
    return found
