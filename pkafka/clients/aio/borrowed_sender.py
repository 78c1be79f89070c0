"""A producer's sender at work on the event loop, so that no other thread has to be woken for a request and its answer.

The sender's own thread finds the cluster and connects. Once nothing is left that could take long, the loop borrows its
turns: it sends when a turn of its own is over, and takes answers in as it does for any socket. The thread goes on when
a connection is to be made, at the end, and where the loop is busy with something else for too long.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from pkafka.clients.producer.sender import Sender
from pkafka.clock import Clock

_LATE_MS: Final = 250
"""So long the loop may let a turn wait that is due; then the sender's thread takes the turns back."""


class BorrowedSender:
    """The turns of one sender, lent to an event loop.

    Args:
        loop: all methods without another note are called on its thread.
        lends: whether the loop may have the turns at all. What takes long in them has to be none: compression, logins.
        told: called after each turn on the loop.
    """

    def __init__(
        self,
        sender: Sender,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[], None],
        *,
        lends: bool,
    ) -> None:
        self._sender = sender
        self._clock = clock
        self._loop = loop
        self._told = told
        self._lends = lends and not _can_be_interrupted()
        self._thread = threading.get_ident()
        self._is_due = False
        """Whether the loop will look after the sender when its turn is over."""
        self._lock = threading.Lock()
        """Held for a turn on the loop, and while the turns change hands."""
        self._is_lent = False
        self._due_ms = 0
        """When the loop should have the next turn, on the monotonic clock."""
        self._returned = threading.Event()
        self._error: BaseException | None = None
        self._descriptor = -1
        """What the loop watches: a copy, since the sender may close its own while the loop is busy."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_lent(self) -> bool:
        """Whether the loop has the turns."""
        return self._is_lent

    def wake(self) -> None:
        """There is something to send; called on any thread.

        What the loop's thread sends goes out when the turn of the loop is over: all of that goes together.
        """
        if threading.get_ident() != self._thread:
            self._sender.wake()
        elif not self._is_due:
            self._is_due = True
            self._due_ms = self._clock.monotonic_ms()
            self._loop.call_soon(self._wake_now)

    def _wake_now(self) -> None:
        self._is_due = False
        if self._is_lent:
            self._step(polls=False)
        else:
            if self._lends:
                self._sender.borrower = self._lend
            self._sender.wake()

    def _lend(self) -> None:
        """Let the loop have the turns until it gives them back, or does not take them when it should.

        Raises:
            BaseException: what ended a turn on the loop.
        """
        # On the sender's thread.
        self._returned.clear()
        self._due_ms = self._clock.monotonic_ms()
        self._is_lent = True
        self._tell_loop(self._begin)
        while not self._returned.wait(_LATE_MS / 1_000):
            if self._loop.is_closed() or self._clock.monotonic_ms() - self._due_ms > _LATE_MS:
                with self._lock:
                    self._is_lent = False
                self._sender.borrower = None  # not before the loop has shown that it goes on
                self._tell_loop(self._end)
                break
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _begin(self) -> None:
        if self._is_lent and self._descriptor < 0:
            self._descriptor = os.dup(self._sender.fileno())
            self._loop.add_reader(self._descriptor, self._step)
        self._step()

    def _on_timer(self) -> None:
        self._timer = None
        self._step()

    def _end(self) -> None:
        """Look no more for what comes, unless the turns were lent again."""
        if not self._is_lent and self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._forget_descriptor()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _step(self, *, polls: bool = True) -> None:
        wait_ms: int | None = None
        with self._lock:
            if not self._is_lent:
                return
            try:
                wait_ms = self._sender.step(polls=polls)
            except BaseException as error:
                self._error = error  # which ends the producer, as one on the sender's thread does
                if not isinstance(error, Exception):
                    raise
            finally:
                if wait_ms is None:
                    self._is_lent = False
                    self._end()
                    self._returned.set()
        if wait_ms is not None:
            self._plan(wait_ms)
        self._told()

    def _plan(self, wait_ms: int) -> None:
        """Have the next turn in time. A timer that ends earlier may stay: it costs less than a new one each time."""
        self._due_ms = self._clock.monotonic_ms() + wait_ms
        due_s = self._loop.time() + wait_ms / 1_000
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._on_timer)

    def _tell_loop(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the program has closed the loop, which watches nothing any more
            self._forget_descriptor()


def _can_be_interrupted() -> bool:
    """Whether a Ctrl-C raises on this thread, wherever it is; asyncio.run() has it cancel the main task."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
