"""Long work on an event loop, done in short turns: clients, other processes and the sign of life come in between."""

import asyncio
from typing import Final

TURN_S: Final = 0.02
"""A turn ends with the step during which this time was up."""


class Turns:
    """One stretch of long work; it awaits :meth:`step` after each of its steps."""

    __slots__ = ("_began_s", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()

    async def step(self) -> None:
        """Let everything else that is due run when this turn has taken its time."""
        if self._loop.time() - self._began_s >= TURN_S:
            await asyncio.sleep(0)
            self._began_s = self._loop.time()
