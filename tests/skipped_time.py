"""Time that a test moves on: what shall be over by then is over, however busy the machine is.

Time-outs are much longer than a test, so nothing but the test lets them go off.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pkafka.clock import SystemClock

P = ParamSpec("P")
T = TypeVar("T")


class LoopTime:
    """Moves on the time of the running loop, beside which the real time passes too."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        real = loop.time
        self._skipped_s = 0.0
        loop.time = lambda: real() + self._skipped_s  # type: ignore[method-assign]

    async def skip(self, seconds: float) -> None:
        """Let so many seconds pass at once, and all that was to happen in them happen."""
        self._skipped_s += seconds
        for _ in range(3):
            await asyncio.sleep(0)


class LaterClock(SystemClock):
    """The machine's clock, with a monotonic side that a test moves on."""

    def __init__(self) -> None:
        self.skipped_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.skipped_ms

    def skips_at(self, call: int, handler: Callable[P, T]) -> Callable[P, T]:
        """A handler that does as another one, and lets an hour pass in the call of that number, from 1 on."""
        calls = itertools.count(1)

        def handle(*args: P.args, **named: P.kwargs) -> T:
            if next(calls) == call:
                self.skipped_ms += 3_600_000
            return handler(*args, **named)

        return handle
