"""A thread that calls code of connectors: one call after the other, and none keeps the process from ending."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class CallerThread:
    """Calls functions in their order. Unlike an executor of the standard library it does not hold up the end of the
    process when a call hangs.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], ResultT]) -> "Future[ResultT]":
        """Have a function called."""
        future: Future[ResultT] = Future()
        self._calls.put((call, future))
        return future

    def close(self) -> None:
        """End after the calls that were submitted; returns at once."""
        self._calls.put(None)

    def _run(self) -> None:
        while (found := self._calls.get()) is not None:
            call, future = found
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the caller gets it, a SystemExit too
                future.set_exception(error)
