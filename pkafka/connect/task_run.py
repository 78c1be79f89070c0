"""One task as it runs: its thread, what it is to do, and what it says about itself.

What a source task and a sink task do in between is in ``source_run`` and ``sink_run``.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pkafka.connect.connector import TaskMetric
from pkafka.connect.states import State, Target
from pkafka.connect.states import TaskName as TaskName
from pkafka.connect.tolerance import ErrorHandling
from pkafka.connect.traces import trace_of

log = logging.getLogger("org.apache.kafka.connect.runtime.WorkerTask")


Report = Callable[[TaskName, State, str | None], None]
"""Takes what became of a task, and the trace of a failure."""


class Counter(NamedTuple):
    """A number that only grows.

    Args:
        name: behind ``kafka_connect_``.
        about: for people.
    """

    name: str
    about: str
    value: int


class TaskCounts(NamedTuple):
    """What a task has counted."""

    counters: Sequence[Counter]
    own: Sequence[TaskMetric]
    """What the connector's task tells of itself."""


class TaskRun(ABC):
    """Runs a task in a thread of its own.

    Args:
        name: of the task.
        target: STARTED or PAUSED.
        report: hears of every change of state.
        errors: what becomes of the task's records that fail.
    """

    def __init__(self, name: TaskName, target: Target, report: Report, errors: ErrorHandling) -> None:
        self.name = name
        self.errors = errors
        self.stopping = threading.Event()
        """Set when the task is to end."""
        self._target = target
        self._changed = threading.Condition()
        self._report = report
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name=f"task-thread-{name}", daemon=True)

    def start(self) -> None:
        """Begin; what goes wrong is reported."""
        self._thread.start()

    def aim(self, target: Target) -> None:
        """Pause, or go on."""
        with self._changed:
            self._target = target
            self._changed.notify_all()
        self.nudge()

    def request_stop(self) -> None:
        """Make the task end; returns at once."""
        self.stopping.set()
        with self._changed:
            self._changed.notify_all()
        self.nudge()

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended; a task that takes longer is abandoned, and its reports count no more.

        Returns:
            Whether it has ended.
        """
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.error("Graceful stop of task %s failed.", self.name)
            self._is_abandoned = True
            self.abandon()
            return False
        return True

    def nudge(self) -> None:  # noqa: B027 - most wait for nothing but the condition
        """Make the thread look at its target soon."""

    def abandon(self) -> None:  # noqa: B027 - as above
        """Let go of clients that the thread still holds."""

    def counts(self) -> TaskCounts:
        """What the task has counted."""
        errors, group = self.errors, "task_error_metrics_total"
        counters = (
            *self.record_counters(),
            Counter(f"{group}_record_failures", "Steps that failed.", errors.failures),
            Counter(f"{group}_records_skipped", "Records that were left out.", errors.skipped),
            Counter(f"{group}_retries", "Steps that were tried again.", errors.retries),
            Counter(f"{group}_errors_logged", "Failures that were reported.", errors.reported),
        )
        return TaskCounts(counters, self.task_metrics())

    @abstractmethod
    def record_counters(self) -> Sequence[Counter]:
        """How many records came and went."""

    def task_metrics(self) -> Sequence[TaskMetric]:
        """What the connector's task tells of itself."""
        return ()

    @property
    def is_paused(self) -> bool:
        """Whether the task is to be paused."""
        return self._target is Target.PAUSED

    def say(self, state: State, trace: str | None = None) -> None:
        """Report a state, unless the task was abandoned."""
        if not self._is_abandoned:
            self._report(self.name, state, trace)

    def wait_while_paused(self) -> None:
        """Wait until the task is to go on, or to end."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_paused or self.stopping.is_set())

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            if not self.stopping.is_set():
                self.work()
        except BaseException as error:
            failure = error
            log.error(
                "%s Task threw an uncaught and unrecoverable exception. Task is being killed and will not recover until"
                " manually restarted.",
                self.name,
                exc_info=error,
            )
        try:
            self.close()
        except BaseException as error:
            log.error("%s Task threw an exception while it was closed.", self.name, exc_info=error)
            failure = failure or error
        if failure is not None:
            self.say(State.FAILED, trace_of(failure))
        elif self.stopping.is_set():
            self.say(State.UNASSIGNED)

    @abstractmethod
    def work(self) -> None:
        """Do what the task is for, until it is to end."""

    @abstractmethod
    def close(self) -> None:
        """End the task and let go of all that it holds; called once, after :meth:`work`."""
