"""The herder's thread: keeps this worker in the group, takes up what changes, and has the work done that it was given.

Everything here happens on that one thread, so that nothing needs a lock; other threads submit requests. The steps and
their order are those of ``DistributedHerder.tick`` in Kafka 3.9.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from pkafka.connect.distributed.assigned_work import AssignedWork
from pkafka.connect.distributed.changes import StagedChanges
from pkafka.connect.distributed.cluster_statuses import ClusterStatuses
from pkafka.connect.distributed.elsewhere import ElsewhereError, RebalanceNeededError
from pkafka.connect.distributed.group_protocol import Compatibility, ExtendedAssignment
from pkafka.connect.distributed.keys import SessionKeys
from pkafka.connect.distributed.rebalance_figures import RebalanceFigures
from pkafka.connect.distributed.requests import Requests
from pkafka.connect.errors import ConnectError
from pkafka.connect.runner import Fallen
from pkafka.connect.states import Target, TaskName
from pkafka.connect.storage.config_state import ClusterConfig
from pkafka.connect.storage.config_topic import ConfigTopic, FencedError
from pkafka.connect.storage.topic_log import LogTimeoutError

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

_BACKOFF_RETRIES: Final = 5
_SESSIONED: Final = 2
_POLL_S: Final = 60.0
_FENCED_BACKOFF_S: Final = 0.25


class Member(Protocol):
    """This worker's place in the group; see :class:`~pkafka.connect.distributed.group_member.GroupMember`."""

    @property
    def member_id(self) -> str: ...
    @property
    def protocol_version(self) -> int: ...
    def ensure_active(self) -> bool: ...
    def poll(self, timeout_s: float) -> None: ...
    def request_rejoin(self, reason: str) -> None: ...
    def leave(self, reason: str) -> None: ...
    def wakeup(self) -> None: ...
    def revoke(self, connectors: Collection[str], tasks: Collection[TaskName]) -> None: ...
    def owner_url(self, work: str | TaskName) -> str | None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Timing(NamedTuple):
    """The herder's settings that are times, in seconds."""

    sync_timeout_s: float
    """``worker.sync.timeout.ms``: how long to wait for the end of the configuration topic."""
    unsync_backoff_s: float
    """``worker.unsync.backoff.ms``: how long to stay out of an eager group after that."""
    rebalance_delay_s: float
    """``scheduled.rebalance.max.delay.ms``."""


class Stage(NamedTuple):
    """What the herder's thread is doing, for requests that wait too long."""

    text: str
    since_s: float
    """By the wall clock."""


class HerderLoop:
    """Runs the herder's thread.

    Args:
        topic: the configuration topic.
        work: what runs here.
        statuses: of connectors and tasks.
        keys: with which workers sign what they ask of each other.
        timing: of the worker.
        settled: called on this thread whenever the group has come together and the work is begun.
    """

    def __init__(
        self,
        topic: ConfigTopic,
        work: AssignedWork,
        statuses: ClusterStatuses,
        keys: SessionKeys,
        timing: Timing,
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        self.configs = ClusterConfig()
        """The cluster's configuration as this thread last looked at it."""
        self.assignment: ExtendedAssignment | None = None
        self.generation = -1
        self.stage = Stage("awaiting startup", time.time())
        self.figures = RebalanceFigures()
        self.is_ready = False
        self.requests = Requests(time.monotonic, self._wake)
        self.staged = StagedChanges(lambda name: self.configs.contains(name), self._wake)
        self._topic = topic
        self._work = work
        self._statuses = statuses
        self._keys = keys
        self._timing = timing
        self._settled = settled
        self._member: Member | None = None
        self._stopping = threading.Event()
        self._is_resolved = True
        """Whether the work of the last assignment was begun."""
        self._has_revoked = False
        """Whether the last assignment took something away, so that another round has to give it to somebody."""
        self._hears_of_ends = False
        """Whether somebody has said that something has ended, which may be no more."""
        self._can_read_configs = True
        self._is_fenced = False
        self._rebalance_due_s: float | None = None
        self._retries_left = _BACKOFF_RETRIES

    # -- the thread --

    def run(self, member: Member, start: Callable[[], None]) -> None:
        """Be the herder until :meth:`stop`.

        Args:
            member: of the group.
            start: begins what the herder stands on; waits for the ends of the internal topics.
        """
        self._member = member
        member.start()
        with self._doing("initializing and reading to the end of internal topics"):
            start()
        self.configs = self._topic.snapshot()
        while not self._stopping.is_set():
            self.tick()
            if not self.is_ready and self.assignment is not None:
                self.is_ready = True
                log.info("Herder started")

    def stop(self) -> None:
        """Have the thread end; returns at once."""
        self._stopping.set()
        self._wake()

    @property
    def is_stopping(self) -> bool:
        """Whether the thread is to end."""
        return self._stopping.is_set()

    def tick(self) -> None:
        """One turn."""
        if not self._can_read_configs:
            if not self._read_configs():
                return
            self._can_read_configs = True
        with self._doing("ensuring membership in the cluster"):
            if not self.member.ensure_active():
                return  # somebody wants something, maybe the end; nothing can be done for them out of the group
        if self._stopping.is_set() or not self._resolve():
            return
        if self._is_fenced and not self._claim_writes_again():
            return
        if not self._see_to_key():
            return
        if self.is_leader and self._hears_of_ends:
            self._hears_of_ends = False
            self._statuses.forget_ended(self._topic.snapshot())
        due_s = [self.requests.run_due(), self._rebalance_due_s, self._keys_due_s()]
        self._restart_as_asked()
        if self._rebalance_due_s is not None:
            self._is_resolved = False
        if self._take_up_changes():
            return
        known_s = [each for each in due_s if each is not None]
        wait_s = max(0.0, min([*known_s, time.monotonic() + _POLL_S]) - time.monotonic())
        text = f"for up to {wait_s * 1000:.0f}ms or until interrupted"
        with self._doing(f"polling the group coordinator {text}"):
            self.member.poll(wait_s)
        self._resolve()

    def heard_of_an_end(self) -> None:
        """Somebody has said that a connector or a task has ended. Any thread may call it."""
        self._hears_of_ends = True
        if self.is_leader:
            self._wake()

    def _wake(self) -> None:
        if self._member is not None:
            self._member.wakeup()

    @property
    def member(self) -> Member:
        """This worker's place in the group."""
        assert self._member is not None
        return self._member

    @contextmanager
    def _doing(self, text: str) -> Iterator[None]:
        self.stage = Stage(text, time.time())
        yield
        self.stage = Stage("running", time.time())

    # -- what the member says, on this thread --

    def on_assigned(self, assignment: ExtendedAssignment, generation: int) -> None:
        """A round of the group has ended."""
        log.info(
            "Joined group at generation %d with protocol version %d and got assignment: %s with rebalance delay: %d",
            generation,
            self.member.protocol_version,
            assignment,
            assignment.delay_ms,
        )
        self.assignment = assignment
        self.generation = generation
        delay_s = assignment.delay_ms / 1000
        self._rebalance_due_s = time.monotonic() + delay_s if delay_s > 0 else None
        self._is_resolved = False
        self.figures.began()
        self._has_revoked = bool(assignment.revoked_connectors or assignment.revoked_tasks)
        if self.is_leader:
            # Only now: workers of the generation before have said the last about what they had.
            self._statuses.forget_all_but(self._topic.snapshot())
            self._claim_writes()

    def on_revoked(self, leader: str, connectors: Collection[str], tasks: Collection[TaskName]) -> None:
        """Connectors and tasks are taken away, by this leader: they have to be stopped before the group goes on."""
        log.info("Revoked by leader %s: connectors %s, tasks %s", leader, list(connectors), list(tasks))
        if not self._is_resolved and self.member.protocol_version == 0:
            log.info(
                "Wasn't able to resume work after last rebalance, can skip stopping connectors and tasks"
            )
            return
        with self._doing(f"stopping {len(connectors)} connectors and {len(tasks)} tasks"):
            self._work.stop(
                self._work.connectors.intersection(connectors), self._work.tasks.intersection(tasks)
            )
        gone = {*connectors, *(each.connector for each in tasks)}
        for name in gone:
            if not self.configs.contains(name):
                self._statuses.forget_topics(name)
        with self._doing("flushing updates to the status topic"):
            self._statuses.flush()

    # -- the group --

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group."""
        return self.assignment is not None and self.member.member_id == self.assignment.leader

    @property
    def leader_url(self) -> str | None:
        """Of the worker that leads the group; None: it is not known."""
        return None if self.assignment is None else self.assignment.leader_url

    @property
    def protocol_name(self) -> str:
        """Of the protocol that the group uses, as Kafka's metrics have it."""
        return "" if self._member is None else Compatibility(self._member.protocol_version).name

    @property
    def signs(self) -> bool:
        """Whether workers sign what they ask of each other: all of them know how to."""
        return self.member.protocol_version >= _SESSIONED

    def see_that_leads(self, message: str) -> None:
        """Refuse what only the leader does.

        Raises:
            ElsewhereError: another worker leads.
        """
        if not self.is_leader:
            raise ElsewhereError(message, self.leader_url)

    def see_that_settled(self) -> None:
        """Refuse what asks for the worker that owns something while that is about to change.

        Raises:
            RebalanceNeededError: it is.
        """
        if self.staged.needs_rebalance:
            raise RebalanceNeededError("Request cannot be completed because a rebalance is expected")

    def _resolve(self) -> bool:
        """Begin the work of the last assignment, or see to what keeps it from beginning.

        Returns:
            False: the group has to come together again first.
        """
        if self._is_resolved:
            return True
        assert self.assignment is not None
        if not self._catch_up():
            return False
        if self.configs.offset != self.assignment.config_offset:
            self.member.request_rejoin(
                f"the configuration is at {self.configs.offset}, the assignment at {self.assignment.config_offset}"
            )
            return False
        self._start_work()
        self.figures.ended()
        self._is_resolved = True
        if self._has_revoked:
            self._has_revoked = False
            self.member.request_rejoin("what was revoked has to be given to somebody")
            return False
        self._settled()
        return True

    def _catch_up(self) -> bool:
        """Read the configurations that the assignment is about; False: the group has to come together again."""
        assert self.assignment is not None
        rejoin = ""
        behind = self.configs.offset < self.assignment.config_offset
        if self.assignment.failed:
            rejoin = "the assignment failed"
            log.warning(
                "Join group completed, but assignment failed (leader: %s, behind: %s)", self.is_leader, behind
            )
            behind = behind or self.is_leader
        elif behind:
            log.warning("Catching up to assignment's config offset.")
        if self._rebalance_due_s is not None and self._rebalance_due_s <= time.monotonic():
            self._rebalance_due_s = None
            rejoin = rejoin or "the delay before a rebalance is over"
        if behind:
            self._can_read_configs = self._read_configs()
            if not self._can_read_configs:
                rejoin = rejoin or "the configurations could not be read"
        if rejoin:
            self.member.request_rejoin(rejoin)
        return not rejoin

    def _start_work(self) -> None:
        assert self.assignment is not None
        connectors = set(self.assignment.connectors) - self._work.connectors
        tasks = set(self.assignment.tasks) - self._work.tasks
        log.info("Starting connectors and tasks using config offset %d", self.assignment.config_offset)
        with self._doing(
            f"starting {len(connectors) + len(tasks)} connector(s) and task(s) after a rebalance"
        ):
            self._work.start(self.configs, sorted(connectors), sorted(tasks))
        log.info("Finished starting connectors and tasks")

    # -- configurations --

    def refresh(self) -> bool:
        """Look at the configurations as they are by now; False: they could not be read in time."""
        with self._doing("reading to the end of the config topic"):
            try:
                self._topic.refresh(self._timing.sync_timeout_s)
            except LogTimeoutError as error:
                log.warning("Didn't reach end of config log quickly enough: %s", error)
                self._can_read_configs = False
                return False
        self.configs = self._topic.snapshot()
        return True

    def _read_configs(self) -> bool:
        if self.refresh():
            self._retries_left = _BACKOFF_RETRIES
            return True
        self.member.leave("taking too long to read the log")
        self._back_off()
        return False

    def _back_off(self) -> None:
        if self.member.protocol_version == 0:
            self._pause(self._timing.unsync_backoff_s)
        elif self._retries_left > 0:
            self._pause(self._timing.rebalance_delay_s / 10 / self._retries_left)
            self._retries_left -= 1
        else:
            log.info("Revoking what runs here, since the worker has not caught up with the configurations")
            self.member.revoke(frozenset(self._work.connectors), frozenset(self._work.tasks))
            self._retries_left = _BACKOFF_RETRIES

    def _pause(self, seconds: float) -> None:
        with self._doing(f"sleeping for a backoff duration of {seconds * 1000:.0f}ms"):
            self._stopping.wait(seconds)

    def write_as_leader(self, text: str, write: Callable[[], None]) -> None:
        """Write to the configuration topic what only the leader may write.

        Raises:
            ConnectError: another leader has written since.
        """
        try:
            with self._doing(text):
                write()
        except FencedError as error:
            self._is_fenced = True
            raise ConnectError(
                "Failed to write to config topic; this may be due to a transient error and the request can be safely"
                " retried"
            ) from error

    def _claim_writes(self) -> None:
        try:
            with self._doing("claiming write privileges for the config topic"):
                self._topic.claim_write_privileges()
            self._is_fenced = False
        except ConnectError:
            self._is_fenced = True
            log.exception("Unable to claim write privileges for config topic after being elected leader")

    def _claim_writes_again(self) -> bool:
        """Claim what another leader has taken, unless that one leads; False: it is to be tried again."""
        if not self.is_leader:
            self._is_fenced = False
            return True
        self._claim_writes()
        if self._is_fenced:
            self._pause(_FENCED_BACKOFF_S)
        return not self._is_fenced

    def _see_to_key(self) -> bool:
        """Have the leader give the workers a new key when it is time; False: that failed."""
        if not (self.signs and self.is_leader and self._keys.is_due(self._topic.snapshot().session_key)):
            return True
        try:
            self.write_as_leader(
                "writing a new session key to the config topic",
                lambda: self._topic.put_session_key(self._keys.new()),
            )
        except ConnectError as error:
            log.info(
                "Failed to write new session key to config topic, which is read again before the next try: %s",
                error,
            )
            self._can_read_configs = False
            return False
        return True

    def _keys_due_s(self) -> float | None:
        if not (self.signs and self.is_leader):
            return None
        wait_s = self._keys.due_in_s(self._topic.snapshot().session_key)
        return None if wait_s is None else time.monotonic() + wait_s

    def _take_up_changes(self) -> bool:
        """Do what changed configurations ask for; True: the group has to come together first."""
        taken = self.staged.take()
        if taken is None:
            return False
        self.configs = self._topic.snapshot()
        if taken.needs_rebalance:
            self.member.request_rejoin("connectors or tasks have changed")
            if self.member.protocol_version == 0:
                return True  # every worker starts everything anew
        self._start_changed(taken.connectors)
        for name in taken.targets:
            if self.configs.contains(name):
                self._work.aim(name, self.configs.target(name) or Target.STARTED)
        if self.member.protocol_version > 0:
            self._stop_changed_tasks(taken.tasks)
        return taken.needs_rebalance

    def _start_changed(self, connectors: frozenset[str]) -> None:
        mine = connectors & self._work.connectors
        if not mine:
            return
        with self._doing(f"restarting {len(mine)} reconfigured connectors"):
            self._work.stop(mine, ())
            remaining = [name for name in sorted(mine) if self.configs.contains(name)]
            self._work.start(self.configs, remaining, ())

    def _stop_changed_tasks(self, connectors: frozenset[str]) -> None:
        mine = {task for task in self._work.tasks if task.connector in connectors}
        if not mine:
            return
        log.info("Stopping tasks %s, which start again after the rebalance if they stay here", sorted(mine))
        with self._doing(f"stopping {len(mine)} reconfigured tasks"):
            self._work.stop((), mine)

    def _restart_as_asked(self) -> None:
        for asked in self.staged.take_restarts():
            with self._doing(f"handling restart request for connector {asked.connector}"):
                self._restart(
                    asked.connector, only_failed=asked.only_failed, include_tasks=asked.include_tasks
                )

    def _restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> None:
        plan = self._statuses.restart_plan(name, only_failed=only_failed, include_tasks=include_tasks)
        if plan is None:
            return
        connectors = {name} & self._work.connectors if plan.connector else set()
        tasks = {TaskName(name, number) for number in plan.tasks} & self._work.tasks
        self._work.stop(connectors, tasks)
        self._statuses.restarting(connectors, tasks)
        self._work.start(self.configs, connectors, tasks)

    def see_that_mine(self, task: TaskName, generation: int) -> None:
        """Refuse to have a task of an exactly-once source write that is of the past.

        Args:
            generation: of the connector's tasks when the task was made.

        Raises:
            ConnectError: there are newer tasks, or another worker has this one.
        """
        cannot = f"Cannot start source task {task}"
        if self.configs.task_config_generations.get(task.connector, 0) != generation:
            raise ConnectError(
                f"{cannot} with exactly-once support as the connector has already generated a new set of task configs"
            )
        if not self.has_task(task):
            raise ConnectError(f"{cannot} as it has already been revoked from this worker")

    # -- restarts of one thing --

    def restart_connector(self, name: str) -> None:
        """Start a connector that is here anew."""
        self._work.stop([name], ())
        self._work.start(self.configs, [name], ())

    def restart_task(self, task: TaskName) -> None:
        """Start a task that is here anew."""
        self._work.stop((), [task])
        self._work.start(self.configs, (), [task])

    def start_again(self, fallen: Fallen) -> None:
        """Start what has ended with its process, as far as it was not taken away meanwhile."""
        connectors = {
            name for name in fallen.connectors & self._work.connectors if self.configs.contains(name)
        }
        tasks = {task for task in fallen.tasks & self._work.tasks if self.configs.task(task) is not None}
        self._statuses.restarting(connectors, tasks)
        self._work.start(self.configs, sorted(connectors), sorted(tasks))

    def has_connector(self, name: str) -> bool:
        """Whether a connector was given to this worker."""
        return self.assignment is not None and name in self.assignment.connectors

    def has_task(self, task: TaskName) -> bool:
        """Whether a task was given to this worker."""
        return self.assignment is not None and task in self.assignment.tasks
