"""Effects of machines, carried out in order, and the timer of each."""

import asyncio
from dataclasses import dataclass, field

import pytest

from pkafka.server.coordinator.settling import Settled, Settler
from pkafka.server.replicas.delayed import Timer
from tests.unit.server.workers import until


class Countdown:
    """Wants a number said, and then the next lower one, once it hears that the number was said."""

    def __init__(self) -> None:
        self.deadline_ms: int | None = None
        self.expired: list[int] = []
        self._effects: list[int] = []

    def begin(self, number: int) -> None:
        self._effects.append(number)

    def said(self, number: int) -> None:
        if number:
            self._effects += [number - 1]

    def take_effects(self) -> list[int]:
        effects, self._effects = self._effects, []
        return effects

    def expire(self, now_ms: int) -> None:
        self.expired.append(now_ms)
        self.deadline_ms = None
        self.begin(0)


@dataclass(slots=True, eq=False)
class Entry(Settled):
    machine: Countdown = field(default_factory=Countdown)


class Bench:
    """A settler that says numbers, and tells a machine at once when one was said."""

    def __init__(self) -> None:
        self.said: list[int] = []
        self.timer = Timer(asyncio.get_running_loop())
        self.entry = Entry()
        self.settler: Settler[Entry, int] = Settler(self.timer, lambda entry: entry.machine, self.say)

    def say(self, entry: Entry, number: int) -> None:
        self.said.append(number)
        if number < 0:
            raise ValueError(number)
        entry.machine.said(number)
        self.settler.settle(entry)


def test_what_follows_from_an_effect_comes_after_the_effects_before_it() -> None:
    async def body() -> None:
        bench = Bench()
        bench.entry.machine.begin(2)
        bench.entry.machine.begin(1)
        bench.settler.settle(bench.entry)
        assert bench.said == [2, 1, 1, 0, 0]

    asyncio.run(body())


def test_an_entry_goes_on_after_an_effect_that_failed() -> None:
    async def body() -> None:
        bench = Bench()
        bench.entry.machine.begin(-1)
        with pytest.raises(ValueError, match="-1"):
            bench.settler.settle(bench.entry)
        bench.entry.machine.begin(0)
        bench.settler.settle(bench.entry)
        assert bench.said == [-1, 0]

    asyncio.run(body())


def test_a_machine_is_called_when_its_time_comes_and_never_once_its_entry_has_ended() -> None:
    async def body() -> None:
        bench = Bench()
        machine, now_ms = bench.entry.machine, bench.timer.now_ms()
        machine.deadline_ms = now_ms + 60_000
        bench.settler.settle(bench.entry)
        machine.deadline_ms = now_ms + 5
        bench.settler.settle(bench.entry)
        await until(lambda: bool(machine.expired))
        assert machine.expired[0] >= now_ms + 5
        assert bench.said == [0]
        machine.deadline_ms = bench.timer.now_ms() + 1
        bench.settler.settle(bench.entry)
        bench.settler.end(bench.entry)
        await asyncio.sleep(0.02)  # nothing is to happen: only waiting shows that
        assert len(machine.expired) == 1

    asyncio.run(body())
