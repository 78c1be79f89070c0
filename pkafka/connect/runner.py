"""What a herder of a cluster needs of what runs connectors and tasks: the worker's own process, or others beside it."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.task_run import Report, TaskCounts


class Guard(NamedTuple):
    """What lets a task write exactly once."""

    before: Callable[[threading.Event], None]
    """Fences former producers, before the task has its own; gives up when the event is set: the task is to end."""
    after: Callable[[], None]
    """Looks whether the task may run still, once nobody else writes."""


class ConnectorHandle(Protocol):
    """A connector that runs; see :class:`~pkafka.connect.connector_run.ConnectorRun`."""

    @property
    def state(self) -> State: ...
    def aim_soon(self, target: Target, then: Callable[[State], None]) -> None: ...
    def task_configs_soon(self) -> "Future[list[dict[str, str]]]": ...
    def failed(self, error: BaseException) -> None: ...


class TaskHandle(Protocol):
    """A task that runs; see :class:`~pkafka.connect.task_run.TaskRun`."""

    def aim(self, target: Target) -> None: ...


class Runner(Protocol):
    """Runs connectors and tasks; see :class:`~pkafka.connect.worker.Worker`."""

    @property
    def connectors(self) -> Mapping[str, ConnectorHandle]: ...
    @property
    def tasks(self) -> Mapping[TaskName, TaskHandle]: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def start_connector(
        self,
        name: str,
        configs: Mapping[str, str],
        target: Target,
        *,
        report: Callable[[State, str | None], None],
        reconfigure: Callable[[], None],
        then: Callable[[State], None],
    ) -> object: ...
    def stop_connector(self, name: str) -> object: ...
    def start_task(
        self,
        name: TaskName,
        configs: Mapping[str, str],
        task_configs: Mapping[str, str],
        target: Target,
        report: Report,
        guard: Guard | None = None,
    ) -> None: ...
    def stop_tasks(self, names: Iterable[TaskName]) -> object: ...
    def counts(self) -> Mapping[TaskName, TaskCounts]: ...


class Fallen(NamedTuple):
    """What ran in a process that has ended, and is to start again."""

    connectors: frozenset[str]
    tasks: frozenset[TaskName]
