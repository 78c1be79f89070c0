"""A process in which connectors and tasks run, told by its worker what to do; it ends when the worker does."""

import faulthandler
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pkafka.connect.config_providers import load_providers
from pkafka.connect.connector_run import ConnectorRun
from pkafka.connect.errors import ConnectError
from pkafka.connect.hosts.channel import Channel
from pkafka.connect.hosts.messages import (
    AimConnector,
    AimTask,
    AskForTasks,
    ConnectorReached,
    ConnectorSaid,
    CountTasks,
    End,
    FailConnector,
    Fence,
    Message,
    SeeThatMine,
    SetLevel,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    TaskSaid,
    TellLoad,
    UsedTopic,
    WantsTasks,
    raised,
)  # fmt: skip
from pkafka.connect.hosts.offsets import WorkerOffsets
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest.loggers import Loggers
from pkafka.connect.runner import Guard
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.worker import Worker
from pkafka.connect.worker_config import WorkerConfig
from pkafka.net.parents import ORPHANED

log = logging.getLogger("org.apache.kafka.connect.runtime.Worker")

_LOOK_S: Final = 0.2
"""How soon a task that waits for a fencing sees that it is to end."""
_TELL_S: Final = 1.0
"""How often the worker hears that a task uses a topic: often enough for one who has emptied the list of topics."""


def run_host(config: WorkerConfig, plugins: Plugins, sock: socket.socket) -> int:
    """Do what the worker says, until it ends.

    Args:
        config: of the worker.
        plugins: there are.
        sock: the line to the worker.

    Returns:
        The exit code.
    """
    if sys.stderr is not None:
        faulthandler.enable()
    return Host(config, plugins, Channel(sock)).run()


class Host:
    """Runs connectors and tasks, and says what becomes of them.

    Args:
        config: of the worker.
        plugins: there are.
        channel: to the worker.
    """

    def __init__(self, config: WorkerConfig, plugins: Plugins, channel: Channel) -> None:
        self._channel = channel
        self._worker = Worker(
            config, plugins, load_providers(config.originals), WorkerOffsets(channel), _Topics(channel).used
        )
        self._loggers = Loggers()
        self._connectors: dict[int, ConnectorRun] = {}
        self._tasks: dict[int, TaskName] = {}
        self._has_ended = False
        self._answers: dict[type[Any], Callable[[Any], object]] = {
            StartConnector: self._start_connector,
            StopConnector: self._stop_connector,
            AskForTasks: self._ask_for_tasks,
            StartTask: self._start_task,
            StopTask: self._stop_task,
            CountTasks: self._count,
            TellLoad: self._load,
            End: self._end,
        }
        self._notes: dict[type[Any], Callable[[Any], object]] = {
            AimConnector: self._aim_connector,
            AimTask: self._aim_task,
            FailConnector: self._fail_connector,
            SetLevel: lambda told: self._loggers.set(told.logger, told.level),
        }

    def run(self) -> int:
        """Listen to the worker until it ends, or says that this process is to end.

        Returns:
            The exit code.
        """
        self._worker.start()
        self._channel.run(self)
        return 0 if self._has_ended else ORPHANED

    def hear(self, message: Message) -> None:
        """Do what the worker says."""
        self._notes[type(message)](message)

    def answer(self, message: Message) -> object:
        """Do what the worker asks for."""
        return self._answers[type(message)](message)

    def _end(self, _asked: End) -> None:
        self._worker.stop()
        self._has_ended = True

    # -- connectors --

    def _start_connector(self, told: StartConnector) -> None:
        self._connectors[told.run] = self._worker.start_connector(
            told.name,
            told.configs,
            Target(told.target),
            report=lambda state, trace: self._channel.tell(ConnectorSaid(told.run, state.value, trace)),
            reconfigure=lambda: self._channel.tell(WantsTasks(told.run)),
            then=partial(self._reached, told.run),
        )

    def _reached(self, run: int, state: State) -> None:
        self._channel.tell(ConnectorReached(run, state.value))

    def _aim_connector(self, told: AimConnector) -> None:
        run = self._connectors.get(told.run)
        if run is not None:
            run.aim_soon(Target(told.target), partial(self._reached, told.run))

    def _fail_connector(self, told: FailConnector) -> None:
        run = self._connectors.get(told.run)
        if run is not None:
            run.failed(raised(told.kind, told.text, told.trace))

    def _ask_for_tasks(self, asked: AskForTasks) -> list[dict[str, str]]:
        run = self._connectors.get(asked.run)
        if run is None:
            raise ConnectError("The connector was stopped")
        return run.task_configs()

    def _stop_connector(self, told: StopConnector) -> bool:
        run = self._connectors.pop(told.run, None)
        return run is None or self._worker.stop_connector(run.name)

    # -- tasks --

    def _start_task(self, told: StartTask) -> None:
        name = TaskName(told.connector, told.number)

        def report(_task: TaskName, state: State, trace: str | None) -> None:
            self._channel.tell(TaskSaid(told.run, state.value, trace))

        self._worker.start_task(
            name,
            told.configs,
            told.task_configs,
            Target(told.target),
            report,
            self._guard(told.run) if told.is_exact else None,
        )
        self._tasks[told.run] = name

    def _guard(self, run: int) -> Guard:
        def before(stopping: threading.Event) -> None:
            asked = self._channel.ask(Fence(run))
            while not stopping.is_set():
                try:
                    asked.result(_LOOK_S)
                except TimeoutError:
                    if asked.done():
                        raise
                else:
                    return

        return Guard(before, lambda: self._channel.ask(SeeThatMine(run)).result())

    def _aim_task(self, told: AimTask) -> None:
        task = self._worker.tasks.get(self._tasks[told.run]) if told.run in self._tasks else None
        if task is not None:
            task.aim(Target(told.target))

    def _stop_task(self, told: StopTask) -> bool:
        name = self._tasks.pop(told.run, None)
        return name is None or self._worker.stop_tasks([name])

    def _count(self, _asked: CountTasks) -> list[object]:
        found: list[object] = []
        for name, counts in self._worker.counts().items():
            own = [[each.name, each.about, dict(each.tags), each.value] for each in counts.own]
            found.append([name.connector, name.number, [list(each) for each in counts.counters], own])
        return found

    def _load(self, _asked: TellLoad) -> list[object]:
        records = [
            [name.connector, name.number, sum(each.value for each in task.record_counters())]
            for name, task in list(self._worker.tasks.items())
        ]
        return [time.process_time(), records]


class _Topics:
    """Tells the worker which topics tasks use, but not for every record."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._told_s: dict[tuple[TaskName, str], float] = {}

    def used(self, task: TaskName, topic: str) -> None:
        """A task uses a topic. Any thread may call it."""
        now_s = time.monotonic()
        told_s = self._told_s.get((task, topic))
        if told_s is None or now_s - told_s >= _TELL_S:
            self._told_s[task, topic] = now_s
            self._channel.tell(UsedTopic(task.connector, task.number, topic))
