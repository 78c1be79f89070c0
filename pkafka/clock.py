"""The clock port: everything that asks for the time gets one of these, so that tests can drive it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall clock for record timestamps, a monotonic one for every time-out."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may step when an operator or NTP sets the machine's clock."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary point; never steps back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to; lives here because simulations and tests share it."""

    def __init__(self, *, now_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, *, ms: int) -> None:
        """Move both clocks forward by ``ms`` milliseconds."""
        self._now_ms += ms
        self._monotonic_ms += ms

    def step_wall_clock(self, *, ms: int) -> None:
        """Move only the wall clock, as an operator or NTP would; ``ms`` may be negative."""
        self._now_ms += ms
