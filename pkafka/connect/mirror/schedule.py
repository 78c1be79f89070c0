"""A thread that does what a connector does now and then: ``Scheduler``. What fails is logged, and done again later."""

import heapq
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.mirror.Scheduler")

Task = Callable[[], None]
RETRY_S: Final = 10.0
_CLOSE_S: Final = 4.0


class _Job:
    def __init__(self, task: Task, what: str, interval_s: float | None) -> None:
        self.task = task
        self.what = what
        self.interval_s = interval_s
        self.done = threading.Event()
        self.has_failed = False


class Schedule:
    """Runs tasks one after the other.

    Args:
        name: of the thread.
        retry_s: after so long, a first step that failed is tried again.
    """

    def __init__(self, name: str, *, retry_s: float = RETRY_S) -> None:
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._jobs: list[tuple[float, int, _Job]] = []
        self._number = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, task: Task, what: str, timeout_s: float) -> bool:
        """Have a task done now, and wait for it.

        Returns:
            Whether it is done; else the log says why it is not, or it is under way still.
        """
        job = _Job(task, what, None)
        self._add(job, 0.0)
        if not job.done.wait(timeout_s):
            log.error("%s timed out running task: %s", self._thread.name, what)
            return False
        return not job.has_failed

    def every(self, task: Task, what: str, interval_s: float | None, *, after_s: float = 0.0) -> None:
        """Have a task done again and again.

        Args:
            interval_s: from one beginning to the next; None: never.
            after_s: the first time.
        """
        if interval_s is not None:
            self._add(_Job(task, what, interval_s), after_s)

    def until_done(self, task: Task, what: str) -> None:
        """Have a task done that has failed, as often as it fails."""

        def again() -> None:
            try:
                task()
            except Exception:
                self._add(_Job(again, what, None), self._retry_s)
                raise

        self._add(_Job(again, what, None), self._retry_s)

    def close(self) -> None:
        """End; waits a little for a task that runs."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)

    def _add(self, job: _Job, after_s: float) -> None:
        with self._changed:
            self._number += 1
            heapq.heappush(self._jobs, (time.monotonic() + after_s, self._number, job))
            self._changed.notify_all()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            started_s = time.monotonic()
            try:
                job.task()
            except PkafkaError as error:
                job.has_failed = True
                log.error("%s caught exception in scheduled task: %s: %s", self._thread.name, job.what, error)
            except Exception:
                job.has_failed = True
                log.exception("%s caught exception in scheduled task: %s", self._thread.name, job.what)
            else:
                log.info("%s took %d ms", job.what, (time.monotonic() - started_s) * 1000)
            job.done.set()
            if job.interval_s is not None:
                self._add(job, max(0.0, started_s + job.interval_s - time.monotonic()))

    def _next(self) -> _Job | None:
        """The next job when it is due; None: there is no more to do."""
        with self._changed:
            while not self._is_closed:
                due_s = self._jobs[0][0] - time.monotonic() if self._jobs else None
                if due_s is not None and due_s <= 0:
                    return heapq.heappop(self._jobs)[2]
                self._changed.wait(due_s)
        return None
