"""The herder of a standalone worker: everything runs in this process, and what there is to run is forgotten with it.

Offsets of sources are in a file. One change of a connector is made at a time; one that hangs holds up no other, and
what there is can be looked at all the while.
"""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pkafka.connect.caller_thread import CallerThread
from pkafka.connect.config_providers import load_providers
from pkafka.connect.connector_checks import ConnectorChecks, Created, patched
from pkafka.connect.connector_config import Validated
from pkafka.connect.connector_offsets import Offsets
from pkafka.connect.connector_run import same_configs
from pkafka.connect.offset_changes import OffsetChanges, refuse_unless_stopped
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest_errors import conflict, not_found
from pkafka.connect.states import State, Target
from pkafka.connect.storage.offset_store import OffsetStore
from pkafka.connect.task_run import TaskName
from pkafka.connect.traces import trace_of
from pkafka.connect.worker import Worker
from pkafka.connect.worker_config import WorkerConfig
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.runtime.standalone.StandaloneHerder")


@dataclass(slots=True)
class _Status:
    state: State
    trace: str | None = None


@dataclass(slots=True)
class _Entry:
    """One connector: what is wanted, and what is."""

    configs: dict[str, str]
    target: Target
    tasks: list[dict[str, str]] = field(default_factory=list)
    status: _Status = field(default_factory=lambda: _Status(State.UNASSIGNED))
    task_statuses: dict[int, _Status] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the connector is changed, which waits for its code; requests about others go on meanwhile."""


class StandaloneHerder:
    """Does what the REST API asks for.

    Args:
        config: of the worker.
        plugins: there are.
        worker_id: ``host:port`` of the REST API, by which statuses name this worker.
        store: keeps the offsets of sources.
        cluster_id: of the Kafka cluster.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        worker_id: str,
        store: OffsetStore,
        cluster_id: str | None,
    ) -> None:
        self.config = config
        self.plugins = plugins
        self.cluster_id = cluster_id
        self._providers = load_providers(config.originals)
        self._worker_id = worker_id
        self._store = store
        self._lock = threading.RLock()
        """Guards the table of connectors; never held while a connector's code runs."""
        self._entries: dict[str, _Entry] = {}
        self._worker = Worker(config, plugins, self._providers, store, self._used_topic)
        self._checks = ConnectorChecks(config, plugins, self._providers)
        self._offsets = OffsetChanges(self._worker, plugins, self._providers)
        self._later = CallerThread("standalone-herder")
        self.is_ready = False

    def start(self) -> None:
        """Begin."""
        self._worker.start()
        self.is_ready = True

    def stop(self) -> None:
        """End all that runs."""
        self._later.close()
        with self._lock:
            self._entries.clear()
        self._worker.stop()

    # -- what there is --

    def metrics(self) -> str:
        """What the worker counts, for Prometheus."""
        from pkafka.connect.metrics_page import page

        with self._lock:
            states = {name: entry.status.state.value for name, entry in self._entries.items()}
            task_states = {
                TaskName(name, number): status.state.value
                for name, entry in self._entries.items()
                for number, status in list(entry.task_statuses.items())
            }
            return page(self._worker.connectors, self._worker.counts(), states, task_states)

    def connectors(self) -> list[str]:
        """Their names."""
        with self._lock:
            return list(self._entries)

    def info(self, name: str) -> dict[str, object]:
        """Configuration and tasks of a connector.

        Raises:
            RestError: there is none.
        """
        with self._lock:
            entry = self._entry(name)
            return {
                "name": name,
                "config": dict(entry.configs),
                "tasks": [{"connector": name, "task": number} for number in range(len(entry.tasks))],
                "type": self.type_of(entry.configs),
            }

    def type_of(self, configs: Mapping[str, str]) -> str:
        """``source``, ``sink``, or ``unknown``."""
        return self._checks.type_of(configs)

    def configs(self, name: str) -> dict[str, str]:
        """The configuration of a connector.

        Raises:
            RestError: there is none.
        """
        with self._lock:
            return dict(self._entry(name).configs)

    def tasks(self, name: str) -> list[dict[str, str]]:
        """The configurations of its tasks; else as :meth:`configs`."""
        with self._lock:
            return [dict(each) for each in self._entry(name).tasks]

    def task_configs(self, name: str) -> list[dict[str, str]]:
        """The same; but as in Kafka's standalone worker, a connector without tasks is none.

        Raises:
            RestError: there is none, or it has no tasks.
        """
        found = self.tasks(name)
        if not found:
            raise not_found(f"Connector {name} not found")
        return found

    def status(self, name: str) -> dict[str, object]:
        """What a connector and its tasks do.

        Raises:
            RestError: there is none.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                raise not_found(f"No status found for connector {name}")
            return {
                "name": name,
                "connector": self._shown(entry.status),
                "tasks": [
                    {"id": number, **self._shown(status)}
                    for number, status in sorted(entry.task_statuses.items())
                ],
                "type": self.type_of(entry.configs),
            }

    def task_status(self, name: str, number: int) -> dict[str, object]:
        """What a task does; else as :meth:`status`."""
        with self._lock:
            entry = self._entries.get(name)
            status = None if entry is None else entry.task_statuses.get(number)
            if status is None:
                raise not_found(f"No status found for task {name}-{number}")
            return {"id": number, **self._shown(status)}

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has used."""
        entry = self._entries.get(name)
        return [] if entry is None else list(entry.topics)

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has used."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None:
                entry.topics.clear()

    def _shown(self, status: _Status) -> dict[str, object]:
        found: dict[str, object] = {"state": status.state.value, "worker_id": self._worker_id}
        if status.trace is not None:
            found["trace"] = status.trace
        return found

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise not_found(f"Connector {name} not found")
        return entry

    # -- changes --

    def validate(self, configs: Mapping[str, str]) -> Validated:
        """Look at a configuration; see :meth:`ConnectorChecks.validate`."""
        return self._checks.validate(configs)

    def put(
        self, name: str, configs: Mapping[str, str], *, allow_replace: bool, target: Target | None = None
    ) -> Created:
        """Create a connector, or change its configuration.

        Raises:
            RestError: the configuration is invalid, or the connector exists and must not.
            ConnectError: its class is unknown.
        """
        self._checks.see_to(configs)
        with self._lock:
            is_new = name not in self._entries
            if not is_new and not allow_replace:
                raise conflict(f"Connector {name} already exists")
            if is_new:
                self._entries[name] = _Entry(dict(configs), target or Target.STARTED)
        with self._changing(name, f"Connector {name} was deleted meanwhile") as entry:
            self._worker.stop_connector(name)
            entry.configs = dict(configs)
            self._start_connector(name, entry)
            self._update_tasks(name, entry)
            return Created(is_new, self.info(name))

    def patch(self, name: str, changes: Mapping[str, str | None]) -> dict[str, object]:
        """Change some settings of a connector; None takes one away.

        Returns:
            Configuration and tasks afterwards.

        Raises:
            RestError, ConnectError: as of :meth:`put`, and when there is none.
        """
        with self._changing(name, f"Connector {name} not found") as entry:
            return self.put(name, patched(entry.configs, changes), allow_replace=True).info

    def delete(self, name: str) -> None:
        """End a connector for good; its offsets stay.

        Raises:
            RestError: there is none.
        """
        with self._changing(name, f"Connector {name} not found"):
            self._remove_tasks(name)
            self._worker.stop_connector(name)
            with self._lock:
                del self._entries[name]

    def aim(self, name: str, target: Target) -> None:
        """Pause, resume or stop a connector.

        Raises:
            RestError: there is none.
        """
        with self._changing(name, f"Unknown connector {name}") as entry:
            entry.target = target
            run = self._worker.connectors.get(name)
            if target is Target.STOPPED:
                self._remove_tasks(name)
                entry.tasks = []
            if run is not None:
                run.aim(target)
            if target is Target.STARTED and not entry.tasks:
                self._update_tasks(name, entry)
            for number in range(len(entry.tasks)):
                task = self._worker.tasks.get(TaskName(name, number))
                if task is not None:
                    task.aim(target)

    # -- restarts --

    def restart_connector(self, name: str) -> None:
        """Start a connector anew, without its tasks.

        Raises:
            RestError: there is none.
        """
        with self._changing(name, f"Connector {name} not found") as entry:
            self._worker.stop_connector(name)
            self._start_connector(name, entry)

    def restart_task(self, name: str, number: int) -> None:
        """Start a task anew.

        Raises:
            RestError: there is none.
        """
        missing = f"Task {name}-{number} not found"
        with self._changing(name, missing) as entry:
            if not 0 <= number < len(entry.tasks):
                raise not_found(missing)
            self._worker.stop_tasks([TaskName(name, number)])
            self._start_task(name, entry, number)

    def restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> dict[str, object]:
        """Start a connector and its tasks anew, as far as they are meant (KIP-745).

        Returns:
            The status as the restart begins: what starts anew is RESTARTING.

        Raises:
            RestError: there is none.
        """
        with self._changing(name, f"Unknown connector: {name}") as entry:

            def is_meant(status: _Status) -> bool:
                return not only_failed or status.state is State.FAILED

            with_connector = is_meant(entry.status)
            numbers = [
                number for number, status in entry.task_statuses.items() if include_tasks and is_meant(status)
            ]
            if with_connector:
                entry.status.state = State.RESTARTING
            for number in numbers:
                entry.task_statuses[number].state = State.RESTARTING
            shown = self.status(name)
            self._later.submit(lambda: self._restart_now(name, entry, with_connector, numbers))
            return shown

    def _restart_now(self, name: str, entry: _Entry, with_connector: bool, numbers: Sequence[int]) -> None:
        with entry.lock:
            if self._entries.get(name) is not entry:
                return
            self._worker.stop_tasks([TaskName(name, number) for number in numbers])
            if with_connector:
                self._worker.stop_connector(name)
                self._start_connector(name, entry)
            for number in numbers:
                if number < len(entry.tasks):
                    self._start_task(name, entry, number)

    # -- offsets --

    def offsets(self, name: str) -> dict[str, object]:
        """How far a connector has come.

        Raises:
            RestError: there is none.
            ConnectError: the offsets cannot be read.
        """
        with self._lock:
            configs = self._entry(name).configs
        return self._offsets.shown(name, configs)

    def alter_offsets(self, name: str, offsets: Offsets | None) -> dict[str, object]:
        """Set offsets of a stopped connector; None: forget all.

        Raises:
            RestError: there is none, or it is not stopped.
            ConnectError: it refuses them, or they cannot be stored.
        """
        with self._changing(name, f"Connector {name} not found") as entry:
            refuse_unless_stopped(name, is_stopped=entry.target is Target.STOPPED and not entry.tasks)
            return self._offsets.alter(name, entry.configs, offsets)

    # -- carrying it out; the connector's lock is held --

    @contextmanager
    def _changing(self, name: str, missing: str) -> Iterator[_Entry]:
        """A connector that no other request changes meanwhile.

        Args:
            missing: what to say when there is none.

        Raises:
            RestError: there is none.
        """
        while True:
            with self._lock:
                entry = self._entries.get(name)
            if entry is None:
                raise not_found(missing)
            with entry.lock:
                if self._entries.get(name) is entry:
                    yield entry
                    return

    def _start_connector(self, name: str, entry: _Entry) -> None:
        def report(state: State, trace: str | None) -> None:
            entry.status = _Status(state, trace)

        def reconfigure() -> None:
            self._later.submit(lambda: self._reconfigure(name, entry))

        try:
            self._worker.start_connector(
                name, entry.configs, entry.target, report=report, reconfigure=reconfigure
            )
        except PkafkaError as error:
            log.exception("Failed to start connector %s", name)
            report(State.FAILED, trace_of(error))

    def _reconfigure(self, name: str, entry: _Entry) -> None:
        with entry.lock:
            if self._entries.get(name) is entry and entry.target is Target.STARTED:
                self._update_tasks(name, entry, only_changed=True)

    def _update_tasks(self, name: str, entry: _Entry, *, only_changed: bool = False) -> None:
        """Start the tasks that the connector wants; ``only_changed``: unless it wants what it has."""
        run = self._worker.connectors.get(name)
        if run is None or run.state is not State.RUNNING:
            return
        try:
            wanted = run.task_configs()
        except Exception as error:
            log.exception("Failed to make the tasks of connector %s", name)
            run.failed(error)
            return
        if only_changed and same_configs(wanted, entry.tasks):
            return
        self._remove_tasks(name)
        entry.tasks = wanted
        for number in range(len(wanted)):
            self._start_task(name, entry, number)

    def _start_task(self, name: str, entry: _Entry, number: int) -> None:
        entry.task_statuses[number] = _Status(State.UNASSIGNED)
        task = TaskName(name, number)

        def report(_task: TaskName, state: State, trace: str | None) -> None:
            entry.task_statuses[number] = _Status(state, trace)

        try:
            self._worker.start_task(task, entry.configs, entry.tasks[number], entry.target, report)
        except Exception as error:
            log.exception("Failed to start task %s", task)
            report(task, State.FAILED, trace_of(error))

    def _remove_tasks(self, name: str) -> None:
        entry = self._entries[name]
        self._worker.stop_tasks([each for each in list(self._worker.tasks) if each.connector == name])
        entry.task_statuses.clear()

    def _used_topic(self, task: TaskName, topic: str) -> None:
        entry = self._entries.get(task.connector)
        if entry is not None and topic not in entry.topics and self.config.parsed["topic.tracking.enable"]:
            entry.topics[topic] = None
