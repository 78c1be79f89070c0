"""The herder of a worker that shares connectors and tasks with others: what the REST API asks for.

What is asked is looked up or carried out by the herder's thread (``herder_loop``), one request after the other. What
only the leader, or only the owner of a connector may do is refused with that worker's URL, to which the REST API passes
it on.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final, TypeVar

from pkafka.connect.connector_checks import ConnectorChecks, Created, patched
from pkafka.connect.connector_config import Validated
from pkafka.connect.connector_offsets import Offsets
from pkafka.connect.distributed.cluster_statuses import ClusterStatuses
from pkafka.connect.distributed.elsewhere import ElsewhereError
from pkafka.connect.distributed.fencing import Fencings
from pkafka.connect.distributed.herder_loop import HerderLoop
from pkafka.connect.distributed.keys import SessionKeys
from pkafka.connect.distributed.task_configs import TaskConfigs
from pkafka.connect.offset_changes import OffsetChanges, refuse_unless_stopped
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest_errors import RestError, conflict, not_found
from pkafka.connect.runner import Runner
from pkafka.connect.states import Target, TaskName
from pkafka.connect.storage.config_topic import ConfigTopic

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

ResultT = TypeVar("ResultT")

PATIENCE_S: Final = 90.0
"""How long a request waits for the herder's thread."""


class DistributedHerder:
    """Does what the REST API asks for.

    Args:
        loop: the herder's thread.
        topic: the configuration topic.
        statuses: of connectors and tasks.
        tasks: writes configurations of tasks.
        fencings: keep former tasks of exactly-once sources from writing.
        checks: looks at configurations of connectors.
        offsets: shows and sets offsets.
        keys: with which workers sign what they ask of each other.
        plugins: there are.
        cluster_id: of the Kafka cluster.
        runner: whose connectors and tasks are counted.
    """

    def __init__(
        self,
        loop: HerderLoop,
        topic: ConfigTopic,
        statuses: ClusterStatuses,
        tasks: TaskConfigs,
        fencings: Fencings,
        checks: ConnectorChecks,
        offsets: OffsetChanges,
        keys: SessionKeys,
        plugins: Plugins,
        cluster_id: str | None,
        runner: Runner,
    ) -> None:
        self.plugins = plugins
        self.cluster_id = cluster_id
        self._loop = loop
        self._topic = topic
        self._statuses = statuses
        self._tasks = tasks
        self._fencings = fencings
        self._checks = checks
        self._offsets = offsets
        self._keys = keys
        self._runner = runner

    def metrics(self) -> str:
        """What the worker counts, for Prometheus."""
        from pkafka.connect.distributed.group_metrics import InGroup, group_metrics
        from pkafka.connect.metrics_page import page

        connectors, tasks = self._statuses.states()
        loop = self._loop
        place = InGroup(loop.protocol_name, loop.leader_url, loop.generation, loop.figures.rounds())
        return page(self._runner.connectors, self._runner.counts(), connectors, tasks, group_metrics(place))

    @property
    def is_ready(self) -> bool:
        """Whether the worker has read the internal topics and has been in the group."""
        return self._loop.is_ready

    # -- what there is --

    def connectors(self) -> list[str]:
        """Their names."""
        return self._ask_settled(lambda: self._loop.configs.connectors())

    def info(self, name: str) -> dict[str, object]:
        """Configuration and tasks of a connector.

        Raises:
            RestError: there is none.
        """
        return self._ask_settled(lambda: self._info(name, self._configs(name)))

    def configs(self, name: str) -> dict[str, str]:
        """The configuration of a connector; else as :meth:`info`."""
        return self._ask_settled(lambda: self._configs(name))

    def tasks(self, name: str) -> list[dict[str, str]]:
        """The configurations of its tasks; else as :meth:`info`."""

        def look() -> list[dict[str, str]]:
            self._loop.see_that_settled()
            self._configs(name)
            return [dict(each) for each in self._loop.configs.all_task_configs(name)]

        return self._ask(look)

    def task_configs(self, name: str) -> list[dict[str, str]]:
        """The same."""
        return self.tasks(name)

    def status(self, name: str) -> dict[str, object]:
        """What a connector and its tasks do, wherever they are.

        Raises:
            RestError: nothing is known of it.
        """
        return self._statuses.shown(name, self._type_of(name))

    def task_status(self, name: str, number: int) -> dict[str, object]:
        """What a task does; else as :meth:`status`."""
        return self._statuses.shown_task(TaskName(name, number))

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has used."""
        return self._statuses.topics(name)

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has used."""
        self._statuses.forget_topics(name)

    def type_of(self, configs: Mapping[str, str]) -> str:
        """``source``, ``sink``, or ``unknown``."""
        return self._checks.type_of(configs)

    def _type_of(self, name: str) -> str:
        configs = self._topic.snapshot().connector(name)
        return "unknown" if configs is None else self.type_of(configs)

    def _info(self, name: str, configs: Mapping[str, str]) -> dict[str, object]:
        return {
            "name": name,
            "config": dict(configs),
            "tasks": [
                {"connector": name, "task": number} for number in range(self._loop.configs.task_count(name))
            ],
            "type": self.type_of(configs),
        }

    def _configs(self, name: str, missing: str | None = None) -> dict[str, str]:
        configs = self._loop.configs.connector(name)
        if configs is None:
            raise not_found(missing or f"Connector {name} not found")
        return dict(configs)

    # -- changes --

    def validate(self, configs: Mapping[str, str]) -> Validated:
        """Look at a configuration; see :meth:`ConnectorChecks.validate`."""
        return self._checks.validate(configs)

    def put(
        self, name: str, configs: Mapping[str, str], *, allow_replace: bool, target: Target | None = None
    ) -> Created:
        """Create a connector, or change its configuration. It is started by whom the group gives it to.

        Raises:
            RestError: the configuration is invalid, or the connector exists and must not.
            ElsewhereError: another worker leads.
            ConnectError: its class is unknown, or the configuration cannot be written.
        """
        self._checks.see_to(configs)

        def write() -> Created:
            self._loop.see_that_leads("Only the leader can set connector configs.")
            is_new = not self._loop.configs.contains(name)
            if not is_new and not allow_replace:
                raise conflict(f"Connector {name} already exists")
            self._loop.write_as_leader(
                f"writing a config for connector {name} to the config topic",
                lambda: self._topic.put_connector(name, configs, target),
            )
            return Created(is_new, self._info(name, configs))

        return self._ask(write)

    def patch(self, name: str, changes: Mapping[str, str | None]) -> dict[str, object]:
        """Change some settings of a connector; None takes one away.

        Returns:
            Configuration and tasks afterwards.

        Raises:
            RestError, ConnectError: as of :meth:`put`, and when there is none.
        """

        def look() -> dict[str, str]:
            self._loop.see_that_leads("Only the leader can set connector configs.")
            return self._configs(name)

        return self.put(name, patched(self._ask(look), changes), allow_replace=True).info

    def delete(self, name: str) -> None:
        """End a connector for good; its offsets stay.

        Raises:
            RestError: there is none.
            ElsewhereError: another worker leads.
        """

        def write() -> None:
            self._loop.see_that_leads("Only the leader can delete connector configs.")
            self._configs(name)
            self._loop.write_as_leader(
                f"removing the config for connector {name} from the config topic",
                lambda: self._topic.remove_connector(name),
            )

        self._ask(write)

    def aim(self, name: str, target: Target) -> None:
        """Pause, resume or stop a connector.

        Raises:
            RestError: there is none.
            ElsewhereError: it is to be stopped, and another worker leads.
        """
        if target is not Target.STOPPED:
            if not self._topic.snapshot().contains(name):
                raise not_found(f"Unknown connector {name}")
            self._topic.put_target(name, target)
            return

        def write() -> None:
            self._configs(name, f"Unknown connector {name}")
            self._loop.see_that_leads("Only the leader can transition connectors to the STOPPED state.")
            # Tasks first: a connector that runs without tasks is no harm, one that is stopped with tasks is.
            self._tasks.write(name, [])
            self._topic.put_target(name, Target.STOPPED)
            self._loop.refresh()

        self._ask(write)

    # -- restarts --

    def restart_connector(self, name: str) -> None:
        """Start a connector anew, without its tasks.

        Raises:
            RestError: there is none.
            ElsewhereError: another worker has it.
        """

        def act() -> None:
            self._loop.see_that_settled()
            self._configs(name, f"Unknown connector: {name}")
            if self._loop.has_connector(name):
                self._loop.restart_connector(name)
                return
            self._loop.see_that_leads("Only the leader can process restart requests.")
            raise ElsewhereError(
                "Cannot restart connector since it is not assigned to this member",
                self._loop.member.owner_url(name),
            )

        self._ask(act)

    def restart_task(self, name: str, number: int) -> None:
        """Start a task anew; else as :meth:`restart_connector`."""
        task = TaskName(name, number)

        def act() -> None:
            self._loop.see_that_settled()
            self._configs(name, f"Unknown connector: {name}")
            if number >= self._loop.configs.task_count(name):
                raise not_found(f"Unknown task: {task}")
            if self._loop.has_task(task):
                self._loop.restart_task(task)
                return
            not_here = "Cannot restart task since it is not assigned to this member"
            self._loop.see_that_leads(not_here)
            raise ElsewhereError(not_here, self._loop.member.owner_url(task))

        self._ask(act)

    def restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> dict[str, object]:
        """Start a connector and its tasks anew, as far as they are meant (KIP-745).

        Returns:
            The status as the restart begins: what starts anew is RESTARTING.

        Raises:
            RestError: there is none, or nothing is known of what it does.
            ElsewhereError: another worker leads.
        """

        def act() -> dict[str, object]:
            self._loop.see_that_settled()
            self._configs(name, f"Unknown connector: {name}")
            self._loop.see_that_leads("Only the leader can process restart requests.")
            self._topic.put_restart(name, only_failed=only_failed, include_tasks=include_tasks)
            plan = self._statuses.restart_plan(name, only_failed=only_failed, include_tasks=include_tasks)
            if plan is None:
                raise not_found(f"Status for connector {name} not found")
            return self._statuses.shown(name, self._type_of(name), plan)

        return self._ask(act)

    # -- offsets --

    def offsets(self, name: str) -> dict[str, object]:
        """How far a connector has come.

        Raises:
            RestError: there is none.
            ConnectError: the offsets cannot be read.
        """
        return self._offsets.shown(name, self._ask(lambda: self._configs(name)))

    def alter_offsets(self, name: str, offsets: Offsets | None) -> dict[str, object]:
        """Set offsets of a stopped connector; None: forget all.

        Raises:
            RestError: there is none, or it is not stopped.
            ElsewhereError: another worker leads.
            ConnectError: it refuses them, or they cannot be stored.
        """

        def look() -> dict[str, str]:
            self._loop.see_that_settled()
            self._loop.see_that_leads("Only the leader can process external offsets modification requests")
            if not self._loop.refresh():
                raise RestError(
                    500, "Failed to read to end of config topic before modifying connector offsets"
                )
            configs = self._configs(name)
            refuse_unless_stopped(
                name,
                is_stopped=self._loop.configs.target(name) is Target.STOPPED
                and not self._loop.configs.task_count(name),
            )
            return configs

        return self._offsets.alter(name, self._ask(look), offsets)

    # -- what other workers ask --

    def put_tasks(
        self, name: str, tasks: Sequence[Mapping[str, str]], body: bytes, headers: Mapping[str, str]
    ) -> None:
        """Write tasks of a connector that runs in another worker.

        Args:
            body: of the request, which is signed.
            headers: of the request.

        Raises:
            RestError: it is not signed as it has to be, or there is no such connector.
            ElsewhereError: another worker leads.
        """
        self.see_that_signed(body, headers)

        def write() -> None:
            self._loop.see_that_leads("Only the leader may write task configurations.")
            self._configs(name)
            self._tasks.write(name, tasks)

        self._ask(write)

    def fence(self, name: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Fence the producers of former tasks of a connector that runs in another worker; else as :meth:`put_tasks`."""
        self.see_that_signed(body, headers)
        self._await(self._fencings.ask(name))

    def see_that_signed(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Refuse a request of another worker that is not signed with the cluster's key.

        Raises:
            RestError: 400, 503 or 403, as Kafka's worker answers.
        """
        if self._loop.signs:
            self._keys.verify(self._topic.snapshot().session_key, body, headers)

    def set_cluster_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in all workers (KIP-976)."""
        self._topic.put_logger_level(logger, level)

    # -- the herder's thread --

    def _ask_settled(self, action: Callable[[], ResultT]) -> ResultT:
        """The same for what is refused while a rebalance is expected, as Kafka refuses it."""

        def act() -> ResultT:
            self._loop.see_that_settled()
            return action()

        return self._ask(act)

    def _ask(self, action: Callable[[], ResultT]) -> ResultT:
        """Have the herder's thread carry something out, and wait for it.

        Raises:
            RestError: it takes longer than a request may.
            Exception: what it raised.
        """
        return self._await(self._loop.requests.submit(action))

    def _await(self, future: "Future[ResultT]") -> ResultT:
        try:
            return future.result(PATIENCE_S)
        except FutureTimeoutError:
            if future.done():
                raise
            future.cancel()
            stage = self._loop.stage
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stage.since_s))
            raise RestError(
                500, f"Request timed out. The worker is currently {stage.text}, which began at {since}"
            ) from None
