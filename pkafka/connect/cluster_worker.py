"""A worker of a cluster but for its REST API: herder, three internal topics, its place in the group."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Final

from pkafka.connect.caller_thread import CallerThread
from pkafka.connect.config_providers import load_providers
from pkafka.connect.connector_checks import ConnectorChecks
from pkafka.connect.distributed.assigned_work import AssignedWork
from pkafka.connect.distributed.assignor import Assignors, Configured
from pkafka.connect.distributed.cluster_statuses import ClusterStatuses
from pkafka.connect.distributed.connector_rules import ClusterRules
from pkafka.connect.distributed.elsewhere import ElsewhereError
from pkafka.connect.distributed.fencing import Fencings
from pkafka.connect.distributed.group_member import GroupMember, MemberSettings
from pkafka.connect.distributed.group_protocol import Compatibility
from pkafka.connect.distributed.herder import DistributedHerder
from pkafka.connect.distributed.herder_loop import HerderLoop, Timing
from pkafka.connect.distributed.keys import SessionKeys
from pkafka.connect.distributed.task_configs import TaskConfigs
from pkafka.connect.errors import ConnectError
from pkafka.connect.hosts.hosted_worker import HostedWorker, hosts_grow, hosts_of
from pkafka.connect.hosts.maker import HostMaker
from pkafka.connect.offset_changes import OffsetChanges
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest.calls import Handler
from pkafka.connect.rest.forwarding import passing_on, post_tasks, put_fence
from pkafka.connect.rest.internal import Internal
from pkafka.connect.rest_errors import RestError
from pkafka.connect.runner import Guard, Runner
from pkafka.connect.states import TaskName
from pkafka.connect.storage.config_state import Change, LoggerLevel
from pkafka.connect.storage.config_topic import ConfigTopic
from pkafka.connect.storage.offset_topic import OffsetTopic
from pkafka.connect.storage.status_topic import StatusTopic
from pkafka.connect.worker import Worker
from pkafka.connect.worker_config import WorkerConfig
from pkafka.connect.worker_server import Address

log = logging.getLogger("org.apache.kafka.connect.cli.ConnectDistributed")

_FENCING_S: Final = 90.0
"""How long a task waits until former producers are fenced."""
_FENCING_RETRY_S: Final = 0.25
_AGAIN: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.BAD_GATEWAY})
"""Answers of a leader that may be another one soon."""
_NO_LEADER_URL: Final = (
    "Request to leader to reconfigure connector tasks failed because the URL of the leader's REST interface is"
    " empty!"
)
_UNREACHABLE: Final = (
    "This worker is not able to communicate with the leader of the cluster, which is required for"
    " dynamically-reconfiguring connectors and for exactly-once source tasks. If running MirrorMaker 2 in dedicated"
    " mode, consider enabling inter-worker communication via the 'dedicated.mode.enable.internal.rest' property."
)
_END_S: Final = 30.0
"""How long the herder's thread may take to end, beside what connectors and tasks may take."""


class ClusterWorker:
    """Runs until it is stopped, or until its herder cannot go on.

    Args:
        config: of the worker.
        plugins: there are.
        address: by which the other workers reach this one, whose REST API others serve.
        cluster_id: of the Kafka cluster.
        ended: called when the herder's thread ends by itself.
        set_level: sets the level of a logger, which another worker has asked for.
        is_reachable: whether the workers of this cluster serve requests of each other.
        maker: makes the processes in which connectors and tasks run; None: they run in this one.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        address: Address,
        cluster_id: str | None,
        ended: Callable[[], None],
        *,
        set_level: Callable[[str, str], None],
        is_reachable: bool = True,
        maker: HostMaker | None = None,
    ) -> None:
        self._config = config
        self._is_exact = config.parsed["exactly.once.source.support"].lower() == "enabled"
        self._ended = ended
        self._set_level = set_level
        self._is_reachable = is_reachable
        self.address = address
        self.settled: Callable[[ClusterWorker], None] = lambda _worker: None
        """Called on the herder's thread whenever the group has come together and the work is begun."""
        self.failure: BaseException | None = None
        """Why the herder's thread has ended."""
        providers = load_providers(config.originals)
        client_id = f"{config.parsed['client.id'] or 'connect-' + self.address.worker_id}-"
        self._topic = ConfigTopic.of(config, self._changed, client_id=client_id)
        self._offsets = OffsetTopic.of(config, client_id=client_id)
        self._status_topic = StatusTopic.of(config, client_id=client_id)
        self._statuses = ClusterStatuses(
            self._status_topic,
            self.address.worker_id,
            lambda: self._loop.generation,
            tracks_topics=config.parsed["topic.tracking.enable"],
        )
        self._worker = Worker(config, plugins, providers, self._offsets, self._statuses.used_topic)
        self._hosted = None if maker is None else self._beside(maker)
        self._runner: Runner = self._hosted or self._worker
        self._forwarder = CallerThread("forward-request")
        keys = SessionKeys(config)
        self._keys = keys
        self._work = AssignedWork(
            self._runner,
            self._statuses.connector,
            self._statuses.task,
            lambda name: self._tasks.ask(name),
            self._guard if self._is_exact else None,
        )
        self._loop = HerderLoop(
            self._topic, self._work, self._statuses, keys, _timing(config), lambda: self.settled(self)
        )
        self._status_topic.heard_of_an_end = self._loop.heard_of_an_end
        self._tasks = TaskConfigs(self._loop, self._topic, self._runner.connectors, self._forward)
        self._fencings = Fencings(
            self._loop, self._topic, self._worker.fence, lambda found: checks.type_of(found) == "source"
        )
        checks = ConnectorChecks(config, plugins, providers, ClusterRules(config, plugins).refuse)
        self.herder = DistributedHerder(
            self._loop,
            self._topic,
            self._statuses,
            self._tasks,
            self._fencings,
            checks,
            OffsetChanges(self._worker, plugins, providers),
            keys,
            plugins,
            cluster_id,
            self._runner,
        )
        self._thread = threading.Thread(target=self._run, name="DistributedHerder", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether the worker has read the internal topics and has been in the group."""
        return self._loop.is_ready

    def start(self) -> None:
        """Become a member of the group."""
        self._runner.start()
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, end connectors and tasks, store offsets."""
        self._loop.stop()
        self._thread.join(_END_S + self._worker.graceful_s)
        self._forwarder.close()
        self._fencings.close()

    def _beside(self, maker: HostMaker) -> HostedWorker:
        """What runs connectors and tasks in processes beside this one."""

        def fallen() -> None:
            asked = self._loop.requests.submit(lambda: self._loop.start_again(hosted.take_fallen()))
            asked.add_done_callback(self._tell)

        def broken() -> None:
            self.failure = ConnectError("The process that makes those of connectors and tasks has ended")
            self._ended()

        hosted = HostedWorker(
            self._config,
            hosts_of(self._config),
            maker,
            self._offsets,
            self._statuses.used_topic,
            fallen,
            broken,
            spreads=not hosts_grow(self._config),
        )
        return hosted

    def _tell(self, asked: "Future[None]") -> None:
        error = asked.exception()
        if error is not None and not self._loop.is_stopping:
            log.error("What ended with its process could not be started again", exc_info=error)

    def set_level(self, logger: str, level: int) -> None:
        """Set the level of a logger in the processes beside this one."""
        if self._hosted is not None:
            self._hosted.set_level(logger, level)

    # -- the herder's thread --

    def _run(self) -> None:
        member: GroupMember | None = None
        try:
            member = self._member()
            self._loop.run(member, self._start_topics)
        except BaseException as error:
            log.exception("Uncaught exception in herder work thread, exiting: ")
            self.failure = error
        finally:
            self._end(member)
            if self.failure is not None:
                self._ended()

    def _start_topics(self) -> None:
        self._offsets.start(waits_for_transactions=False)
        self._status_topic.start()
        self._topic.start()

    def _end(self, member: GroupMember | None) -> None:
        self._loop.requests.close(ConnectError("Worker is shutting down"))
        ends: list[Callable[[], object]] = [self._work.close, self._statuses.flush]
        if member is not None:
            ends.append(member.stop)
        for end in (*ends, self._status_topic.stop, self._topic.stop, self._offsets.stop):
            try:
                end()
            except Exception:
                log.exception("Ignoring a failure while the worker ends")

    def _member(self) -> GroupMember:
        parsed = self._config.parsed
        settings = MemberSettings(
            group_id=parsed["group.id"],
            url=self.address.url,
            compatibility=Compatibility.of(parsed["connect.protocol"]),
            session_timeout_ms=parsed["session.timeout.ms"],
            heartbeat_interval_ms=parsed["heartbeat.interval.ms"],
            rebalance_timeout_ms=parsed["rebalance.timeout.ms"],
        )
        return GroupMember(
            self._config.clients("worker"),
            settings,
            self._configured,
            Assignors(parsed["scheduled.rebalance.max.delay.ms"]).assign,
            self._loop,
        )

    def _configured(self) -> Configured:
        """What there is to share out, as far as the configuration was read."""
        configs = self._topic.snapshot()
        return Configured(configs.offset, {name: len(configs.tasks(name)) for name in configs.connectors()})

    def _changed(self, change: Change) -> None:
        """A change of the cluster's configuration, on the thread that reads it."""
        if isinstance(change, LoggerLevel):
            self._set_level(change.namespace, change.level)
        else:
            self._loop.staged.put(change)

    # -- other workers --

    def _forward(self, connector: str, tasks: list[dict[str, str]]) -> "Future[object]":
        """Send tasks of a connector to the leader."""
        url = self._loop.leader_url
        if url is None or not self._is_reachable:
            failed: Future[object] = Future()
            failed.set_exception(ConnectError(_NO_LEADER_URL if self._is_reachable else _UNREACHABLE))
            return failed
        key = self._topic.snapshot().session_key if self._loop.signs else None
        return self._forwarder.submit(
            lambda: post_tasks(
                url,
                connector,
                tasks,
                lambda body: {} if key is None else self._keys.headers(key, body),
            )
        )

    def _guard(self, task: TaskName, generation: int) -> Guard:
        """What lets a task of a source write exactly once; its functions wait, on the task's thread."""

        def after() -> None:
            self._topic.refresh(_FENCING_S)

            def look() -> None:
                self._loop.refresh()
                self._loop.see_that_mine(task, generation)

            self._loop.requests.submit(look).result(_FENCING_S)

        return Guard(lambda stopping: self._fence(task.connector, stopping), after)

    def _fence(self, connector: str, stopping: threading.Event) -> None:
        """Have former producers fenced, by whoever leads. One that dies meanwhile is no failure of the task."""
        deadline_s = time.monotonic() + _FENCING_S
        while not stopping.is_set():
            try:
                self._fence_once(connector)
            except (ElsewhereError, RestError) as error:
                status = error.status if isinstance(error, RestError) else HTTPStatus.CONFLICT
                if status not in _AGAIN or time.monotonic() >= deadline_s:
                    raise
                log.info("Zombies of %s are not fenced yet, which is tried again: %s", connector, error)
                stopping.wait(_FENCING_RETRY_S)
            else:
                return

    def _fence_once(self, connector: str) -> None:
        try:
            self._fencings.ask(connector).result(_FENCING_S)
        except ElsewhereError as elsewhere:
            if not self._is_reachable:
                raise ConnectError(_UNREACHABLE) from elsewhere
            if elsewhere.url is None:
                raise
            key = self._topic.snapshot().session_key if self._loop.signs else None
            put_fence(elsewhere.url, connector, {} if key is None else self._keys.headers(key, b""))

    def put_as_leader(self, connectors: Mapping[str, Mapping[str, str]]) -> None:
        """Write connectors as they are to be, where they are not; on the herder's thread, and only as the leader.

        Args:
            connectors: configurations by name.

        Raises:
            ConnectError: they cannot be written.
        """
        if not self._loop.is_leader:
            return
        for name, configs in connectors.items():
            if self._loop.configs.connector(name) != configs:
                self._loop.write_as_leader(
                    f"writing a config for connector {name} to the config topic",
                    partial(self._topic.put_connector, name, configs),
                )

    def set_cluster_level(self, logger: str, level: str) -> None:
        """Set the level of a logger in all workers."""
        self._topic.put_logger_level(logger, level)

    def internal_routes(self) -> dict[tuple[str, str], Handler]:
        """By method and path, what answers requests of other workers."""
        found = Internal(self.herder).routes()
        return {at: passing_on(handler, at[0]) for at, handler in found.items()}


def _timing(config: WorkerConfig) -> Timing:
    parsed = config.parsed
    return Timing(
        parsed["worker.sync.timeout.ms"] / 1000,
        parsed["worker.unsync.backoff.ms"] / 1000,
        parsed["scheduled.rebalance.max.delay.ms"] / 1000,
    )
