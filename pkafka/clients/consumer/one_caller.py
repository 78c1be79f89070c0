"""A consumer's calls come one at a time: a second thread is refused, and after ``close()`` every call is."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pkafka.clients.consumer.errors import ConcurrentModificationError
from pkafka.clients.consumer.network import Gate
from pkafka.clients.errors import ClosedError


class OneCaller:
    """Which thread is inside the consumer's calls.

    Args:
        gate: keeps the heartbeat thread out meanwhile.
    """

    def __init__(self, gate: Gate) -> None:
        self.is_closed = False
        self._gate = gate
        self._lock = threading.Lock()
        self._thread: int | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call of the application's, from its beginning to its end.

        Raises:
            ClosedError: the consumer was closed.
            ConcurrentModificationError: another thread's call is under way.
        """
        if self.is_closed:
            raise ClosedError("This consumer has already been closed.")
        me = threading.get_ident()
        is_outermost = self._thread != me
        if is_outermost:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentModificationError("the consumer is not safe for multi-threaded access")
            self._thread = me
        self._gate.enter()
        try:
            yield
        finally:
            self._gate.leave()
            if is_outermost:
                self._thread = None
                self._lock.release()
