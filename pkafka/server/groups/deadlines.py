"""When what of a group is due: a heap that is put right late.

A heartbeat moves a member's deadline by writing a number; the heap learns of it when the old time comes. So a heartbeat
costs the same in a group of 2,000, and the price is that :attr:`Deadlines.earliest_ms` may be too early.
"""

import heapq
from enum import IntEnum
from typing import TypeAlias

from pkafka.model import Millis


class DeadlineKind(IntEnum):
    """What ends; those due at the same time come in this order."""

    JOIN = 0
    SYNC = 1
    SESSION = 2
    PENDING = 3


DeadlineKey: TypeAlias = tuple[DeadlineKind, str]
"""With the member's id, or "" for what the whole group has one of."""


class Deadlines:
    """At most one deadline per key. Without any it holds no memory: there may be many groups that nobody is in."""

    __slots__ = ("_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[DeadlineKey, Millis] = {}
        self._queued: dict[DeadlineKey, Millis] = {}
        self._heap: list[tuple[Millis, DeadlineKey]] = []

    def __contains__(self, key: DeadlineKey) -> bool:
        return key in self._due

    def set(self, key: DeadlineKey, at_ms: Millis) -> None:
        """Make ``key`` due at ``at_ms``, instead of whenever it was."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heapq.heappush(self._heap, (at_ms, key))

    def cancel(self, key: DeadlineKey) -> None:
        """Nothing is due for ``key``, if anything was."""
        self._due.pop(key, None)
        if not self._due:
            self.clear()

    def clear(self) -> None:
        """Nothing is due at all."""
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    @property
    def earliest_ms(self) -> Millis | None:
        """When to ask :meth:`pop` again; None without deadlines."""
        while self._heap:
            at_ms, key = self._heap[0]
            if self._queued.get(key) == at_ms:
                if key in self._due:
                    return at_ms
                del self._queued[key]
            heapq.heappop(self._heap)
        return None

    def pop(self, now_ms: Millis) -> DeadlineKey | None:
        """Take one that is due; None when no other is."""
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._queued.get(key) != at_ms:
                continue  # an earlier time of the same key was queued after this one
            del self._queued[key]
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due[key]
                if not self._due:
                    self.clear()
                return key
            self.set(key, due_ms)
        return None
