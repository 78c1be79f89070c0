"""Which process takes a connector or a task. Pure.

There are as many processes as the worker may have, and each next task goes to the one that has the fewest. What ran in
a process that ended is suspect for a while, since nobody can see which of its tasks was to blame: suspects are kept
away from the others, and parted at each death, so that the one to blame is soon alone. For that there may be more
processes for a while.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pkafka.connect.states import TaskName

_ROOM: Final = 4
"""How many processes there may be beyond the others at least, while suspects are kept apart: with each death that one
culprit causes, two take the place of one."""

Name = str | TaskName
"""A connector, or a task."""


class HostLoad(NamedTuple):
    """What a process has that takes work."""

    number: int
    connectors: int
    tasks: int
    party: int | None = None
    """The suspects that it was made for; None: it is for everybody."""


def place(
    hosts: Sequence[HostLoad], most: int, *, party: int | None = None, is_task: bool = True
) -> int | None:
    """The process for a connector or a task, by its number; None: one is to be made for it.

    Args:
        hosts: those that take work.
        most: how many there are to be; see :func:`most_with_suspects`.
        party: of suspects, to which it belongs; None: nothing is held against it.
        is_task: a connector does little, so that no process is made for it while there is one.
    """
    has_room = len(hosts) < most_with_suspects(most)
    if party is not None:
        own = [each for each in hosts if each.party == party]
        return own[0].number if own else None if has_room else _idlest(hosts, is_task=is_task)
    common = [each for each in hosts if each.party is None]
    if not common:
        return None if has_room else _idlest(hosts, is_task=is_task)
    if is_task and has_room and len(common) < most and all(each.tasks for each in common):
        return None
    return _idlest(common, is_task=is_task)


def most_with_suspects(most: int) -> int:
    """How many processes there may be while suspects are kept apart."""
    return most + max(most, _ROOM)


def parted(names: Iterable[Name]) -> list[list[Name]]:
    """The suspects after the death of their process: two halves, or the one that is left."""
    ordered = sorted(names, key=lambda name: (isinstance(name, TaskName), name))
    middle = (len(ordered) + 1) // 2
    return [half for half in (ordered[:middle], ordered[middle:]) if half]


def _idlest(hosts: Sequence[HostLoad], *, is_task: bool) -> int:
    def load(host: HostLoad) -> tuple[int, int, int]:
        few = (host.tasks, host.connectors) if is_task else (host.connectors, host.tasks)
        return (*few, host.number)

    return min(hosts, key=load).number
