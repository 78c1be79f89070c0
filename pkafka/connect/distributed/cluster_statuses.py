"""What connectors and tasks do, all over the cluster: what this worker says of its own, and what the REST API shows."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from pkafka.connect.errors import ConnectError
from pkafka.connect.rest_errors import not_found
from pkafka.connect.states import State, TaskName
from pkafka.connect.storage.config_state import ClusterConfig
from pkafka.connect.storage.status_topic import StatusTopic
from pkafka.connect.storage.statuses import ConnectorStatus, Status, TaskStatus, TopicStatus

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

_FLUSH_S: Final = 10.0
_OF_THE_PAST: Final = frozenset({State.UNASSIGNED, State.FAILED})
"""Said when something ends: they must not hide what a new owner has said since."""


class RestartPlan(NamedTuple):
    """What a request to start a connector anew is about."""

    connector: bool
    """Whether the connector itself."""
    tasks: frozenset[int]
    """The tasks, by number."""


class ClusterStatuses:
    """Says and shows what connectors and tasks do.

    Args:
        topic: the status topic.
        worker_id: of this worker, ``host:port``.
        generation: of the group, as this worker is in it.
        tracks_topics: ``topic.tracking.enable``.
    """

    def __init__(
        self, topic: StatusTopic, worker_id: str, generation: Callable[[], int], *, tracks_topics: bool
    ) -> None:
        self._topic = topic
        self._worker_id = worker_id
        self._generation = generation
        self._tracks_topics = tracks_topics

    # -- what this worker says --

    def connector(self, name: str, state: State, trace: str | None = None) -> None:
        """Say what a connector does here. Any thread may call it."""
        self._put(ConnectorStatus(name, state, self._worker_id, self._generation(), trace))

    def task(self, task: TaskName, state: State, trace: str | None = None) -> None:
        """Say what a task does here. Any thread may call it."""
        self._put(TaskStatus(task, state, self._worker_id, self._generation(), trace))

    def _put(self, status: Status) -> None:
        if status.state in _OF_THE_PAST:
            self._topic.put_safe(status)
        else:
            self._topic.put(status)

    def restarting(self, connectors: Iterable[str], tasks: Iterable[TaskName]) -> None:
        """Say that they are about to start anew."""
        for name in connectors:
            self.connector(name, State.RESTARTING)
        for task in tasks:
            self.task(task, State.RESTARTING)

    def used_topic(self, task: TaskName, topic: str) -> None:
        """Note that a task uses a topic. Any thread may call it."""
        if self._tracks_topics and self._topic.topic(task.connector, topic) is None:
            self._topic.put_topic(TopicStatus(topic, task.connector, task.number, int(time.time() * 1000)))

    def flush(self) -> None:
        """Wait until all that was said is in the topic; what takes longer is left to the producer."""
        try:
            self._topic.refresh(_FLUSH_S)
        except ConnectError as error:
            log.warning("Statuses may not be in their topic yet: %s", error)

    def forget_topics(self, connector: str) -> None:
        """Forget which topics a connector has used."""
        for each in self._topic.topics(connector):
            self._topic.delete_topic(connector, each.topic)

    def forget_all_but(self, configs: ClusterConfig) -> None:
        """Forget what was said of connectors and tasks that are no more."""
        for name in self._topic.connectors():
            if not configs.contains(name):
                self.connector(name, State.DESTROYED)
            for each in self._topic.tasks(name):
                self._forget_if_gone(each, configs)

    def forget_ended(self, configs: ClusterConfig) -> None:
        """Forget those of them of which the last word is that they have ended.

        Some say so only after the leader has forgotten what is no more, which would stay for good then: Java's workers
        leave it.
        """
        for each in self._topic.ended():
            self._forget_if_gone(each, configs)

    def _forget_if_gone(self, status: Status, configs: ClusterConfig) -> None:
        if isinstance(status, ConnectorStatus):
            if not configs.contains(status.name):
                self.connector(status.name, State.DESTROYED)
            return
        task = status.name
        if not configs.contains(task.connector) or task.number >= configs.task_count(task.connector):
            self.task(task, State.DESTROYED)

    # -- what the REST API shows --

    def topics(self, connector: str) -> list[str]:
        """The topics that a connector has used."""
        return sorted(each.topic for each in self._topic.topics(connector))

    def shown(self, name: str, kind: str, plan: RestartPlan | None = None) -> dict[str, object]:
        """A connector and its tasks.

        Args:
            kind: ``source``, ``sink`` or ``unknown``.
            plan: what is about to start anew, which is RESTARTING.

        Raises:
            RestError: nothing is known of it.
        """
        status = self._topic.connector(name)
        if status is None:
            raise not_found(f"No status found for connector {name}")
        return {
            "name": name,
            "connector": _shown(status, restarting=plan is not None and plan.connector),
            "tasks": [
                {
                    "id": each.name.number,
                    **_shown(each, restarting=plan is not None and each.name.number in plan.tasks),
                }
                for each in self._topic.tasks(name)
            ],
            "type": kind,
        }

    def shown_task(self, task: TaskName) -> dict[str, object]:
        """A task.

        Raises:
            RestError: nothing is known of it.
        """
        found = self._topic.task(task)
        if found is None:
            raise not_found(f"No status found for task {task}")
        return {"id": task.number, **_shown(found)}

    def states(self) -> tuple[dict[str, str], dict[TaskName, str]]:
        """The states of all connectors and tasks of the cluster."""
        names = self._topic.connectors()
        connectors = {name: status.state.value for name in names if (status := self._topic.connector(name))}
        tasks = {each.name: each.state.value for name in names for each in self._topic.tasks(name)}
        return connectors, tasks

    def restart_plan(self, name: str, *, only_failed: bool, include_tasks: bool) -> RestartPlan | None:
        """What of a connector and its tasks is to start anew (KIP-745); None: nothing is known of it."""
        status = self._topic.connector(name)
        if status is None:
            return None

        def is_meant(each: Status) -> bool:
            return not only_failed or each.state is State.FAILED

        tasks = [each.name.number for each in self._topic.tasks(name) if include_tasks and is_meant(each)]
        return RestartPlan(is_meant(status), frozenset(tasks))


def _shown(status: Status, *, restarting: bool = False) -> dict[str, object]:
    if restarting:
        status = replace(status, state=State.RESTARTING)
    found: dict[str, object] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.trace is not None:
        found["trace"] = status.trace
    return found
