"""What the tests of connections share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[], Awaitable[None]]], None]]:
    """Runs a test's coroutine; a connection must never leave the loop an exception to report."""
    problems: list[Any] = []

    def run_it(test: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
            await test()

        asyncio.run(main())

    yield run_it
    assert not problems
