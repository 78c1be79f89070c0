"""The deadlines of a group, in a heap that is corrected late.

A heartbeat changes only the time that is noted for its member; the heap is corrected when the member's old time comes.
So a heartbeat costs no more in a group of 2,000 members. The price: :attr:`Deadlines.earliest_ms` may be too early.
"""

import heapq
from enum import IntEnum
from typing import TypeAlias

from pkafka.model import Millis


class DeadlineKind(IntEnum):
    """Says what ends; deadlines of the same time come in this order."""

    JOIN = 0
    SYNC = 1
    SESSION = 2
    PENDING = 3


DeadlineKey: TypeAlias = tuple[DeadlineKind, str]
"""The kind, with the member's id, or with "" for a deadline of the whole group."""


class Deadlines:
    """Holds at most one deadline per key, and no memory without deadlines: there may be many groups without members."""

    __slots__ = ("_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[DeadlineKey, Millis] = {}
        self._queued: dict[DeadlineKey, Millis] = {}
        self._heap: list[tuple[Millis, DeadlineKey]] = []

    def __contains__(self, key: DeadlineKey) -> bool:
        return key in self._due

    def set(self, key: DeadlineKey, at_ms: Millis) -> None:
        """Make ``key`` due at ``at_ms``; an earlier deadline of the key is replaced."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heapq.heappush(self._heap, (at_ms, key))

    def cancel(self, key: DeadlineKey) -> None:
        """Remove the deadline of ``key``, if it has one."""
        self._due.pop(key, None)
        if not self._due:
            self.clear()

    def clear(self) -> None:
        """Remove all deadlines."""
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
        """Take the next deadline that is due; None when there is none."""
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
