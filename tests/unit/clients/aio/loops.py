"""Running coroutines so that what goes wrong behind their backs is seen."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

WAIT_S: Final = 60


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine on a loop of its own.

    Raises:
        AssertionError: the loop was told of an error that nobody took, or a thread is left.
        TimeoutError: it took longer than a minute.
    """
    before = set(threading.enumerate())
    problems: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with asyncio.timeout(WAIT_S):
            await main()

    asyncio.run(watched())
    assert problems == []
    left = [each for each in threading.enumerate() if each not in before and "-calls" in each.name]
    assert left == []


async def until(condition: Callable[[], object], waited_s: float = 30.0) -> None:
    """Let the loop go on until something holds."""
    async with asyncio.timeout(waited_s):
        while not condition():  # noqa: ASYNC110 - another thread brings it about
            await asyncio.sleep(0.002)
