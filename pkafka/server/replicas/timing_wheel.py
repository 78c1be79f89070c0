"""Actions that are due at a time (Kafka's hierarchical timing wheels). Pure: the caller brings the time."""

import heapq
from collections.abc import Callable
from typing import Final

TICK_MS: Final = 1
WHEEL_SIZE: Final = 20


def _nothing() -> None:
    """Stands in for the action of a cancelled task."""


class TimerTask:
    """Holds an action that runs at a time; cancelling is O(1)."""

    __slots__ = ("_action", "_bucket", "expires_ms")

    def __init__(self, expires_ms: int, action: Callable[[], None]) -> None:
        self.expires_ms = expires_ms
        self._action = action
        self._bucket: _Bucket | None = None

    def run(self) -> None:
        """Run the action, unless the task was cancelled."""
        self._action()

    def cancel(self) -> None:
        """Cancel the task, even when it is due already; nothing happens when it has run."""
        self._action = _nothing
        if self._bucket is not None:
            self._bucket.tasks.pop(self, None)
            self._bucket = None


class _Bucket:
    """The tasks of one slot of a wheel. In the queue while it has an expiry."""

    __slots__ = ("expires_ms", "tasks")

    def __init__(self) -> None:
        self.expires_ms = -1
        self.tasks: dict[TimerTask, None] = {}


class TimingWheel:
    """A hierarchy of wheels: adding and cancelling cost O(1), and nothing ticks while nothing is due.

    Slots of the lowest wheel are one tick wide; what lies beyond it goes to a wheel whose tick is the whole lower
    wheel, and falls back down as its time nears. A heap holds only the slots in use.

    Args:
        start_ms: the clock's reading now; monotonic, or a step of the wall clock would fire everything at once.
    """

    def __init__(self, start_ms: int, *, tick_ms: int = TICK_MS, size: int = WHEEL_SIZE) -> None:
        self._size = size
        self._now_ms = start_ms - start_ms % tick_ms
        self._wheels: list[tuple[int, list[_Bucket]]] = [(tick_ms, [_Bucket() for _ in range(size)])]
        self._queue: list[tuple[int, int, _Bucket]] = []
        self._count = 0

    def add(self, task: TimerTask) -> bool:
        """Put the task in its slot; False when it is due already, and then it is the caller's to run."""
        level = 0
        while True:
            tick, buckets = self._wheels[level]
            now = self._now_ms - self._now_ms % tick
            if task.expires_ms < now + tick and level == 0:
                return False
            if task.expires_ms < now + tick * self._size:
                break
            level += 1
            if level == len(self._wheels):
                self._wheels.append((tick * self._size, [_Bucket() for _ in range(self._size)]))
        slot = task.expires_ms // tick
        bucket = buckets[slot % self._size]
        bucket.tasks[task] = None
        task._bucket = bucket
        expires_ms = slot * tick
        if bucket.expires_ms != expires_ms:
            bucket.expires_ms = expires_ms
            self._count += 1
            heapq.heappush(self._queue, (expires_ms, self._count, bucket))
        return True

    def next_expiry_ms(self) -> int | None:
        """When the first slot in use is due; None when there is none."""
        while self._queue:
            expires_ms, _count, bucket = self._queue[0]
            if bucket.tasks and bucket.expires_ms == expires_ms:
                return expires_ms
            heapq.heappop(self._queue)
            if bucket.expires_ms == expires_ms:
                bucket.expires_ms = -1
        return None

    def advance(self, now_ms: int) -> list[TimerTask]:
        """Move the time to ``now_ms``; the tasks that are due, in the order of their slots."""
        due: list[TimerTask] = []
        while (expires_ms := self.next_expiry_ms()) is not None and expires_ms <= now_ms:
            bucket = heapq.heappop(self._queue)[2]
            self._now_ms = max(self._now_ms, expires_ms)
            tasks, bucket.tasks = bucket.tasks, {}
            bucket.expires_ms = -1
            for task in tasks:
                task._bucket = None
                if not self.add(task):
                    due.append(task)
        self._now_ms = max(self._now_ms, now_ms - now_ms % TICK_MS)
        return due
