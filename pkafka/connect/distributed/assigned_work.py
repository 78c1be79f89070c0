"""The connectors and tasks that a worker of a cluster was given: started and stopped, many at a time.

Only the herder's thread calls it. Code of connectors runs on other threads; what the herder waits for is bounded: tasks
and connectors get ``task.shutdown.graceful.timeout.ms`` to end.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pkafka.connect.errors import ConnectError
from pkafka.connect.runner import Guard, Runner
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.storage.config_state import ClusterConfig, Configs
from pkafka.connect.traces import trace_of

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

_AT_ONCE: Final = 8
"""How many connectors and tasks are made or ended at a time."""

ReportConnector = Callable[[str, State, str | None], None]
GuardOf = Callable[[TaskName, int], Guard]
"""Takes a task, and of which generation of its connector's tasks it is."""
ReportTask = Callable[[TaskName, State, str | None], None]


class AssignedWork:
    """Runs what the worker was given.

    Args:
        worker: runs connectors and tasks.
        report_connector, report_task: hear of every change of state, with the trace of a failure; on any thread.
        wants_tasks: a connector is to be asked for its tasks: it has started, or says that they have changed; on any
            thread.
        guard_of: makes what lets a task of a source write exactly once; None: sources do not.
    """

    def __init__(
        self,
        worker: Runner,
        report_connector: ReportConnector,
        report_task: ReportTask,
        wants_tasks: Callable[[str], None],
        guard_of: GuardOf | None = None,
    ) -> None:
        self._worker = worker
        self._report_connector = report_connector
        self._report_task = report_task
        self._wants_tasks = wants_tasks
        self._guard_of = guard_of
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="start-and-stop")
        self.connectors: set[str] = set()
        """Those that were started and not taken away since, whatever became of them."""
        self.tasks: set[TaskName] = set()

    def start(self, configs: ClusterConfig, connectors: Iterable[str], tasks: Iterable[TaskName]) -> None:
        """Start connectors and tasks, and return when all are made. What cannot be made is reported as FAILED."""
        new_connectors, new_tasks = list(connectors), list(tasks)
        self.connectors |= set(new_connectors)
        self.tasks |= set(new_tasks)
        made = [self._pool.submit(self._start_connector, configs, name) for name in new_connectors]
        made += [self._pool.submit(self._start_task, configs, task) for task in new_tasks]
        for future in made:
            future.result()

    def stop(self, connectors: Iterable[str], tasks: Iterable[TaskName]) -> None:
        """Stop connectors and tasks; those that take longer than they may are left behind."""
        old_connectors, old_tasks = list(connectors), list(tasks)
        ended = [self._pool.submit(self._worker.stop_connector, name) for name in old_connectors]
        if old_tasks:
            self._worker.stop_tasks(old_tasks)
        for future in ended:
            future.result()
        self.connectors -= set(old_connectors)
        self.tasks -= set(old_tasks)

    def aim(self, connector: str, target: Target) -> None:
        """Bring a connector and its tasks, as far as they are here, to a new target."""
        run = self._worker.connectors.get(connector)
        if run is not None:
            run.aim_soon(target, lambda state: self._reached(connector, state))
        if target is Target.STOPPED:
            return  # the tasks were taken away by their configurations
        for name, task in list(self._worker.tasks.items()):
            if name.connector == connector:
                task.aim(target)

    def close(self) -> None:
        """End everything."""
        self.stop(list(self.connectors), list(self.tasks))
        self._worker.stop()
        self._pool.shutdown(wait=False)

    def _start_connector(self, configs: ClusterConfig, name: str) -> None:
        def report(state: State, trace: str | None) -> None:
            self._report_connector(name, state, trace)

        log.info("Starting connector %s", name)
        try:
            self._worker.start_connector(
                name,
                _there(configs.connector(name), name),
                configs.target(name) or Target.STARTED,
                report=report,
                reconfigure=lambda: self._wants_tasks(name),
                then=lambda state: self._reached(name, state),
            )
        except Exception as error:
            log.exception("Failed to start connector %s", name)
            report(State.FAILED, trace_of(error))

    def _start_task(self, configs: ClusterConfig, task: TaskName) -> None:
        log.info("Starting task %s", task)
        try:
            self._worker.start_task(
                task,
                _there(configs.connector(task.connector), task.connector),
                _there(configs.task(task), task),
                configs.target(task.connector) or Target.STARTED,
                self._report_task,
                self._guard(configs, task),
            )
        except Exception as error:
            log.exception("Failed to start task %s", task)
            self._report_task(task, State.FAILED, trace_of(error))

    def _guard(self, configs: ClusterConfig, task: TaskName) -> Guard | None:
        if self._guard_of is None:
            return None
        return self._guard_of(task, configs.task_config_generations.get(task.connector, 0))

    def _reached(self, connector: str, state: State) -> None:
        if state is State.RUNNING:
            self._wants_tasks(connector)


def _there(configs: Configs | None, name: object) -> Configs:
    """A configuration that the leader has counted on."""
    if configs is None:
        raise ConnectError(f"There is no configuration of {name}")
    return configs
