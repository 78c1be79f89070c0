"""Carries out what the machines of a coordinator decide, one event of a machine at a time, and brings them the time.

A machine decides for one entry. It has no clock, no socket and no log: facts and the time go in, effects come out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from pkafka.model import Millis
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.timing_wheel import TimerTask

EffectT = TypeVar("EffectT")
EffectT_co = TypeVar("EffectT_co", covariant=True)


class Machine(Protocol[EffectT_co]):
    """Decides for one entry."""

    @property
    def deadline_ms(self) -> Millis | None:
        """When to call :meth:`expire`; None for never. It may be too early."""
        ...

    def expire(self, now_ms: Millis) -> None:
        """End what is due."""
        ...

    def take_effects(self) -> Sequence[EffectT_co]:
        """Give away the effects of the events since the last call, in order."""
        ...


@dataclass(slots=True, eq=False)
class Settled:
    """Holds what :class:`Settler` has to know of an entry."""

    timer: TimerTask | None = field(default=None, init=False)
    timer_ms: Millis = field(default=0, init=False)
    is_settling: bool = field(default=False, init=False)


EntryT = TypeVar("EntryT", bound=Settled)


class Settler(Generic[EntryT, EffectT]):
    """Performs the effects of machines, and sets one timer for each.

    Args:
        timer: of the worker.
        machine_of: gives the machine of an entry.
        perform: carries out one effect. It may lead to another event of the same machine, which is settled next.
    """

    def __init__(
        self,
        timer: Timer,
        machine_of: Callable[[EntryT], Machine[EffectT]],
        perform: Callable[[EntryT, EffectT], None],
    ) -> None:
        self._timer = timer
        self._machine_of = machine_of
        self._perform = perform

    def settle(self, entry: EntryT) -> None:
        """Perform the effects of an event and those that follow from their outcomes, then set the timer."""
        if entry.is_settling:
            return
        machine = self._machine_of(entry)
        entry.is_settling = True
        try:
            while effects := machine.take_effects():
                for effect in effects:
                    self._perform(entry, effect)
        finally:
            entry.is_settling = False
        self._arm(entry, machine.deadline_ms)

    def end(self, entry: EntryT) -> None:
        """Settle an entry that is given up, for the last time."""
        self.settle(entry)
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def _arm(self, entry: EntryT, deadline_ms: Millis | None) -> None:
        if entry.timer is not None:
            if deadline_ms is not None and entry.timer_ms <= deadline_ms:
                return  # the timer that is set comes earlier; it sets the next one
            entry.timer.cancel()
            entry.timer = None
        if deadline_ms is not None:
            entry.timer_ms = deadline_ms
            entry.timer = self._timer.after(deadline_ms - self._timer.now_ms(), partial(self._fire, entry))

    def _fire(self, entry: EntryT) -> None:
        entry.timer = None
        self._machine_of(entry).expire(self._timer.now_ms())
        self.settle(entry)
