"""What other threads ask the herder's thread to do, now or later: the earliest first, equal times in their order."""

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class _Request(NamedTuple):
    due_s: float
    number: int
    action: Callable[[], Any]
    future: "Future[Any]"


class Requests:
    """Keeps requests until they are due. Any thread may submit; one thread carries them out.

    Args:
        clock: tells the time in seconds; it never goes back.
        wake: called when there is something earlier to do than before.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[_Request] = []
        self._closed: BaseException | None = None

    def submit(self, action: Callable[[], ResultT], delay_s: float = 0.0) -> "Future[ResultT]":
        """Have a function called by the herder's thread.

        Args:
            action: what it raises becomes the future's exception.
            delay_s: how long to wait before that.
        """
        future: Future[ResultT] = Future()
        with self._lock:
            if self._closed is not None:
                future.set_exception(self._closed)
                return future
            request = _Request(self._clock() + delay_s, next(self._numbers), action, future)
            heapq.heappush(self._waiting, request)
            is_first = self._waiting[0] is request
        if is_first:
            self._wake()
        return future

    def run_due(self) -> float | None:
        """Carry out what is due, what is submitted meanwhile too.

        Returns:
            When the next one is due, by the clock; None: there is none.
        """
        now_s = self._clock()
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                if self._waiting[0].due_s > now_s:
                    return self._waiting[0].due_s
                request = heapq.heappop(self._waiting)
            if request.future.set_running_or_notify_cancel():
                _run(request)

    def close(self, error: BaseException) -> None:
        """Refuse what waits and what comes.

        Args:
            error: what those who wait are told.
        """
        with self._lock:
            self._closed = error
            waiting, self._waiting = self._waiting, []
        for request in waiting:
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(error)


def _run(request: _Request) -> None:
    try:
        result = request.action()
    except Exception as error:  # noqa: BLE001 - who has asked gets it
        request.future.set_exception(error)
    else:
        request.future.set_result(result)
