"""Operations that cannot answer yet, and the timer that ends their waiting (Kafka's purgatory and timing wheels).

An operation waits under the keys of what can complete it (a partition, a group) and in the timer. Whatever comes first
completes it, once. One purgatory belongs to one process and one event loop, so there are no locks: an operation is
removed from every list at the moment it completes, and no cleaner has to look for finished ones.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from pkafka.server.ipc.turns import TURN_S
from pkafka.server.replicas.timing_wheel import TICK_MS, TimerTask, TimingWheel

log = logging.getLogger(__name__)


class Timer:
    """A timing wheel driven by the event loop.

    Tasks that are due at the same time run in short turns: after a process stood still, there may be tens of thousands.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wheel = TimingWheel(self.now_ms())
        self._armed: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._due: deque[TimerTask] = deque()
        """Tasks that run in later turns of the loop."""

    def now_ms(self) -> int:
        """The event loop's monotonic clock in milliseconds."""
        return int(self._loop.time() * 1000)

    def after(self, delay_ms: int, action: Callable[[], None]) -> TimerTask:
        """Run ``action`` on the loop after ``delay_ms``; at the next turn of the loop when that is 0 or less."""
        # One tick more, so that a wait of N ms does not end before N ms are over.
        task = TimerTask(self.now_ms() + max(delay_ms, 0) + TICK_MS, action)
        if not self._wheel.add(task):
            self._loop.call_soon(task.run)
        else:
            self._arm()
        return task

    def in_next_turn(self, action: Callable[[], None]) -> None:
        """Run ``action`` before anything that the next turn of the loop brings."""
        self._loop.call_soon(action)

    def _arm(self) -> None:
        if self._due:
            return  # it is done after those
        expires_ms = self._wheel.next_expiry_ms()
        if self._armed is not None:
            if expires_ms is not None and self._armed_ms <= expires_ms:
                return
            self._armed.cancel()
            self._armed = None
        if expires_ms is not None:
            self._armed_ms = expires_ms
            self._armed = self._loop.call_at(expires_ms / 1000, self._fire)

    def _fire(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._due.extend(self._wheel.advance(self.now_ms()))
        turn_ends_s = self._loop.time() + TURN_S
        while self._due:
            try:
                self._due.popleft().run()
            except Exception:
                # The tasks behind it are due too, and the timer must be set again.
                log.exception("A task of the timer failed")
            if self._loop.time() >= turn_ends_s:
                break
        if self._due:
            self._loop.call_soon(self._fire)
        else:
            self._arm()


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class DelayedOperation:
    """Answers when a condition holds or its time is over. Subclasses define the condition.

    Completion happens exactly once: by :meth:`try_complete` returning True or by expiry, which then calls
    :meth:`on_expiration` first.
    """

    __slots__ = ("_keys", "_purgatory", "_timer_task", "completed")

    def __init__(self) -> None:
        self.completed = False
        self._keys: tuple[Hashable, ...] = ()
        self._purgatory: Purgatory | None = None
        self._timer_task: TimerTask | None = None

    def try_complete(self) -> bool:
        """Whether the condition holds now."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Give the answer. Called once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """The time is over; :meth:`on_complete` follows."""

    def on_failure(self, error: Exception) -> None:
        """Called when a bug in one of the other methods was logged; no other call follows."""

    def force_complete(self) -> bool:
        """Complete now whatever the condition; False when it was completed before."""
        if self.completed:
            return False
        self.completed = True
        if self._purgatory is not None:
            self._purgatory._forget(self)
        self.on_complete()
        return True

    def abandon(self) -> None:
        """Forget the operation without an answer (its client has gone)."""
        if not self.completed:
            self.completed = True
            if self._purgatory is not None:
                self._purgatory._forget(self)


class Purgatory:
    """Holds the operations of one kind that wait in this process.

    Args:
        name: for metrics (PurgatorySize).
        timer: ends their waiting.
    """

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self.watched: Final[dict[Hashable, dict[DelayedOperation, None]]] = {}
        """What waits, by its keys. Others may look at it, to save a call where it is empty."""
        self._due: dict[Hashable, None] = {}
        """Keys that are looked at in the next turn of the event loop."""
        self.size = 0

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable], *, timeout_ms: int) -> None:
        """Let ``operation`` wait under ``keys`` for ``timeout_ms`` at the most.

        The caller has just seen that its condition does not hold: nothing can have happened since, as everything that
        completes operations runs on the same event loop.
        """
        operation._keys = tuple(keys)
        operation._purgatory = self
        for key in operation._keys:
            self.watched.setdefault(key, {})[operation] = None
        self.size += 1
        operation._timer_task = self._timer.after(timeout_ms, lambda: self.expire(operation))

    def check(self, key: Hashable) -> None:
        """Something happened to ``key``: complete the operations whose condition holds now.

        A bug in one of them fails that one alone, neither the others nor the caller.
        """
        watchers = self.watched.get(key)
        if watchers:
            for operation in list(watchers):
                try:
                    if not operation.completed and operation.try_complete():
                        operation.force_complete()
                except Exception as error:
                    log.exception("A delayed operation failed")
                    operation.abandon()
                    operation.on_failure(error)

    def check_soon(self, key: Hashable) -> None:
        """As :meth:`check`, once, when this turn of the event loop is over and all that comes in it has happened."""
        if not self._due:
            self._timer.in_next_turn(self._check_due)
        self._due[key] = None

    def _check_due(self) -> None:
        due, self._due = self._due, {}
        for key in due:
            self.check(key)

    def expire(self, operation: DelayedOperation) -> None:
        """Complete it with what there is: its time is over, or its connection wants its answer now."""
        try:
            if not operation.completed:
                operation.on_expiration()
                operation.force_complete()
        except Exception as error:
            log.exception("A delayed operation failed")
            operation.abandon()
            operation.on_failure(error)

    def _forget(self, operation: DelayedOperation) -> None:
        self.size -= 1
        if operation._timer_task is not None:
            operation._timer_task.cancel()
        for key in operation._keys:
            watchers = self.watched.get(key)
            if watchers is not None:
                watchers.pop(operation, None)
                if not watchers:
                    del self.watched[key]
