"""Which process takes a connector or a task. Pure.

The worker makes another process, up to its limit, when every process is taken: it has tasks, or it was busy for a while
(see :mod:`~pkafka.connect.hosts.relief`). Else a task goes to the process with the fewest tasks. When a process ends,
the worker cannot see which of its tasks was to blame, so all of them are suspects for a while: the worker keeps them
away from other tasks, and parts them at each death, until the task to blame is alone. It may have more processes
meanwhile.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pkafka.connect.states import TaskName

_PARTS: Final = 4
"""Into so many parts come the suspects at a death. A culprit that may start again three times is alone then, if it was
one of 64."""
_ROOM: Final = 10
"""How many processes there may be beyond the others at least, while suspects are kept apart: with each death that one
culprit causes, four take the place of one."""

Name = str | TaskName
"""A connector, or a task."""


class HostLoad(NamedTuple):
    """What a process has that takes work."""

    number: int
    connectors: int
    tasks: int
    party: int | None = None
    """The suspects that it was made for; None: it is for everybody."""
    is_taken: bool = False
    """Whether the next task is rather for another one."""


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
    if is_task and has_room and len(common) < most and all(each.is_taken for each in common):
        return None
    return _idlest(common, is_task=is_task)


def to_relieve(hosts: Sequence[HostLoad], most: int) -> int | None:
    """The process of which a part of the tasks should start anew in another one, by its number; None: none.

    Args:
        hosts: those that take work; of them are taken those that were busy for a while.
        most: how many there are to be.
    """
    common = [each for each in hosts if each.party is None]
    busy = [each for each in common if each.is_taken and each.tasks > 1]
    if not busy or len(common) >= most or len(hosts) >= most_with_suspects(most):
        return None
    return max(busy, key=lambda each: (each.tasks, -each.number)).number


def most_with_suspects(most: int) -> int:
    """How many processes there may be while suspects are kept apart."""
    return most + max(most, _ROOM)


def parted(names: Iterable[Name]) -> list[list[Name]]:
    """The suspects after the death of their process, in parts that are to be kept away from each other."""
    ordered = sorted(names, key=lambda name: (isinstance(name, TaskName), name))
    return [part for part in (ordered[start::_PARTS] for start in range(_PARTS)) if part]


def _idlest(hosts: Sequence[HostLoad], *, is_task: bool) -> int:
    def load(host: HostLoad) -> tuple[int, int, int, int]:
        if is_task:
            return (host.is_taken, host.tasks, host.connectors, host.number)
        return (host.connectors, host.tasks, 0, host.number)

    return min(hosts, key=load).number
