"""The time of an event loop, moved on by a test: what shall be over by then is over, however busy the machine is."""

import asyncio


class LoopTime:
    """Moves on the time of the running loop, beside which the real time passes too.

    With time-outs much longer than a test, nothing but :meth:`skip` lets one go off.
    """

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
