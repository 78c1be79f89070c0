"""A thread that makes the calls of one client that wait, one after the other, for coroutines."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pkafka.clients.errors import ClosedError

T = TypeVar("T")
_Call = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class CallThread:
    """Makes calls in their order; the thread begins with the first.

    Args:
        loop: whose coroutines wait. All methods but :meth:`serve` are called on its thread.
        name: of the thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop: Final = loop
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def call(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Have a call made.

        Returns:
            What it returns or raises. Cancelling this future does not keep the call from being made.

        Raises:
            ClosedError: :meth:`close` was called.
        """
        if self._is_closed:
            raise ClosedError("the client was closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((function, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self.serve, name=self._name, daemon=True)
            self._thread.start()
        return future

    def serve(self) -> None:
        """Make calls until :meth:`stop_serving`; of the thread itself.

        A call under way may serve others while it waits for a coroutine that needs them.
        """
        while (call := self._calls.get()) is not None:
            function, future = call
            try:
                result, error = function(), None
            except BaseException as raised:  # noqa: BLE001 - whoever waits for the call gets it
                result, error = None, raised
            self._tell(future, result, error)
            del call, function, future, result, error  # nothing is kept alive while there is nothing to do

    def stop_serving(self) -> None:
        """End the innermost :meth:`serve`, behind the calls made before."""
        self._calls.put(None)

    def close(self) -> None:
        """End the thread behind its last call, which the caller has waited for: so this takes no time."""
        self._is_closed = True
        if self._thread is not None:
            self.stop_serving()
            self._thread.join()
            self._thread = None

    def _tell(self, future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


def _settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
