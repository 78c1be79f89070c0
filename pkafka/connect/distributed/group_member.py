"""A worker's place in the group of its Connect cluster (``WorkerGroupMember`` and ``WorkerCoordinator`` of Kafka 3.9).

The machine, its driver and its heartbeats are those of a consumer's membership. The herder's thread is what the
application's thread is there: the :class:`Listener` hears what the group decides inside
:meth:`GroupMember.ensure_active` and :meth:`GroupMember.poll`, on the thread that calls these, and
:meth:`GroupMember.wakeup` ends either, from any thread. A thread of the member's own sends heartbeats meanwhile, also
while the listener stops connectors and tasks.
"""

import logging
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig
from pkafka.clients.consumer.group_channel import GroupChannel
from pkafka.clients.consumer.membership import Membership, MembershipSettings
from pkafka.clients.consumer.membership_driver import MembershipDriver
from pkafka.clients.consumer.membership_steps import Complete, Join, Lead, MemberState, Prepare, Step
from pkafka.clients.consumer.network import ConsumerNetwork
from pkafka.clients.errors import WakeupError
from pkafka.clock import Clock, SystemClock
from pkafka.connect.distributed.assignor import Configured, Round, Shared, leader_knows
from pkafka.connect.distributed.group_protocol import (
    PROTOCOL_TYPE,
    Compatibility,
    ExtendedAssignment,
    WorkerState,
    decode_assignment,
    decode_state,
    offered,
)
from pkafka.connect.states import TaskName
from pkafka.errors import PkafkaError

log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.WorkerCoordinator")

_WAIT_MS_MAX: Final = 60_000
_STOP_MS: Final = 2_000


class MemberSettings(NamedTuple):
    """What a worker's configuration says of its membership.

    Args:
        group_id: ``group.id``.
        url: of the worker's REST API, as the others reach it.
        compatibility: ``connect.protocol``.
        session_timeout_ms: without a heartbeat for so long, the worker is taken for dead.
        heartbeat_interval_ms: between two heartbeats; without a coordinator for so long, the worker stops its work.
        rebalance_timeout_ms: a worker has so long to join when the group comes together, and between two calls.
    """

    group_id: str
    url: str
    compatibility: Compatibility = Compatibility.SESSIONED
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000


class Listener(Protocol):
    """Hears what the group decides; may take its time, and may call the member."""

    def on_assigned(self, assignment: ExtendedAssignment, generation: int) -> None:
        """The worker has this from now on: what is new to it, and what it keeps. It may have failed."""

    def on_revoked(self, leader: str, connectors: Collection[str], tasks: Collection[TaskName]) -> None:
        """The worker must have stopped this when the call returns."""


class GroupMember:
    """The member.

    Args:
        clients: settings of the client that talks to the group's coordinator.
        settings: of the membership.
        configured: the configuration that the worker has read so far; must not wait.
        assign: shares work out when this worker leads: takes the protocol, the round and the time in milliseconds, as
            :meth:`pkafka.connect.distributed.assignor.Assignors.assign` does.
        listener: hears what is decided.
        clock: for time-outs.

    Raises:
        ConfigError: a setting of the client has a bad value.
    """

    def __init__(
        self,
        clients: Mapping[str, object],
        settings: MemberSettings,
        configured: Callable[[], Configured],
        assign: Callable[[str, Round, int], Shared],
        listener: Listener,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._configured = configured
        self._assign = assign
        self._listener = listener
        config = ClientConfig.from_properties(clients)
        self._net = ConsumerNetwork(Cluster(config, clock=clock or SystemClock()))
        self._membership = Membership(
            _membership_settings(settings, config),
            jitter=lambda: random.uniform(0.8, 1.2),  # noqa: S311 - spreads retries
        )
        self._driver = MembershipDriver(
            GroupChannel(self._net, self._membership), config.request_timeout_ms, log
        )
        self._net.background = self._background
        self._read = Configured(-1, {})
        """The configuration as the worker told the group when it joined."""
        self._owned: ExtendedAssignment | None = None
        self._owners: _Owners | None = None
        self._last_completed = -1
        self._without_coordinator_since_ms: int | None = None
        self._is_assigned = False
        """Whether the listener heard of an assignment since the call under way began."""
        self._is_stopped = False

    # -- the herder's thread ------------------------------------------------------------------------------

    def start(self) -> None:
        """Send heartbeats from now on, once the worker is a member."""
        self._driver.start()

    def ensure_active(self) -> bool:
        """Be a member of the group: returns when the worker is, when it got an assignment, or on a wake-up.

        Returns:
            False on a wake-up.

        Raises:
            PkafkaError: the group cannot be joined, and trying again does not help.
        """
        return self._run(None)

    def poll(self, timeout_s: float) -> None:
        """Do what the group asks for: returns when the time is up, when there is an assignment, or on a wake-up.

        Args:
            timeout_s: in seconds.

        Raises:
            PkafkaError: the group cannot be joined, and trying again does not help.
        """
        self._run(max(0, int(timeout_s * 1000)))

    def request_rejoin(self, reason: str) -> None:
        """Have the group come together, at the next call of :meth:`ensure_active` or :meth:`poll`.

        Args:
            reason: for the coordinator's log (KIP-800).
        """
        self._membership.request_rejoin(reason)

    def revoke(self, connectors: Collection[str], tasks: Collection[TaskName]) -> None:
        """Give work up by the worker's own decision: the listener is told, and the group when it comes together."""
        owned = self._owned
        self._listener.on_revoked("" if owned is None else owned.leader, connectors, tasks)
        if owned is not None:
            self._owned = replace(
                owned,
                connectors=tuple(each for each in owned.connectors if each not in connectors),
                tasks=tuple(each for each in owned.tasks if each not in tasks),
            )

    def leave(self, reason: str) -> None:
        """Leave the group, without waiting for an answer. The worker keeps its work until its next assignment.

        Args:
            reason: for the coordinator's log.
        """
        self._net.gate.enter()
        try:
            self._driver.leave(reason)
        finally:
            self._net.gate.leave()

    def stop(self) -> None:
        """Leave the group for good, and close the connections; again: nothing happens."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._driver.stop()
        try:
            with self._net.without_wakeup():
                self._driver.leave("the worker is stopping", self._net.now_ms + _STOP_MS)
        except PkafkaError as error:
            log.warning("The group hears only when the session ends that this worker has left: %s", error)
        finally:
            self._driver.log_notes()
            self._net.cluster.close()

    @property
    def member_id(self) -> str:
        """By which the coordinator knows this worker; empty while it does not."""
        membership = self._membership
        return membership.generation.member_id if membership.state is MemberState.STABLE else ""

    @property
    def protocol_version(self) -> int:
        """Of the protocol that the group used last; before, of the one that the worker likes best."""
        return int(self._compatibility)

    def owner_url(self, work: str | TaskName) -> str | None:
        """The REST API of the worker that has a connector or a task.

        Returns:
            None: nobody has it, this worker does not lead, or that is about to change.
        """
        if self._owners is None or self._membership.is_join_needed:
            return None
        return self._owners.url_of(work)

    # -- any thread ---------------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Make the call under way, or else the next one, return soon."""
        self._net.wakeup()

    # -- inside the gate ----------------------------------------------------------------------------------

    def _run(self, timeout_ms: int | None) -> bool:
        """Do what is to be done.

        Args:
            timeout_ms: for so long; None: until the worker is a member.

        Returns:
            False on a wake-up.
        """
        net, membership = self._net, self._membership
        net.gate.enter()
        self._is_assigned = False
        deadline_ms = net.now_ms + (timeout_ms or 0)
        try:
            while True:
                self._advance()
                is_over = timeout_ms is not None or not membership.is_join_needed
                left_ms = deadline_ms - net.now_ms
                if self._is_assigned or (is_over and left_ms <= 0):
                    net.poll(0)
                    return True
                wait_ms = min(membership.wait_ms(net.now_ms), _WAIT_MS_MAX, self._patience_ms())
                net.poll(wait_ms if timeout_ms is None else min(wait_ms, left_ms))
        except WakeupError:
            return False
        finally:
            self._driver.log_notes()
            net.gate.leave()

    def _advance(self) -> None:
        """Perform the steps that the machine asks for, as far as nothing has to be waited for."""
        membership = self._membership
        membership.heartbeat.polled(self._net.now_ms)
        membership.want_coordinator()
        self._mind_coordinator()
        while not self._is_assigned and (step := membership.next_step(self._net.now_ms)) is not None:
            if not self._perform(step):
                return

    def _perform(self, step: Step) -> bool:
        """Do a step.

        Returns:
            False where the answer to a request must be waited for.
        """
        if isinstance(step, Prepare):
            self._prepare()
        elif isinstance(step, Join):
            self._join()
            return False
        elif isinstance(step, Lead):
            self._lead(step)
        else:
            self._complete(step)
        return True

    def _prepare(self) -> None:
        log.info("Rebalance started")
        self._owners = None
        owned = self._owned
        if owned is not None and self._compatibility is Compatibility.EAGER and not owned.failed:
            # The eager protocol gives everything anew; in the others the worker keeps its work meanwhile.
            self._give_all_up(owned)
        self._membership.prepared()

    def _join(self) -> None:
        self._read = self._configured()
        state = WorkerState(self._settings.url, self._read.offset, self._owned)
        now_ms = self._net.now_ms
        protocols = offered(self._settings.compatibility, state)
        self._driver.send(self._membership.join(protocols, now_ms), now_ms)

    def _lead(self, step: Lead) -> None:
        membership, generation = self._membership, self._membership.generation
        try:
            members = {each.member_id: decode_state(each.metadata)[1] for each in step.members}
            if not leader_knows(self._read, members.values()):
                self._read = self._configured()  # more may have been read since this worker joined
            given = Round(members, generation.member_id, self._read, generation.id, self._last_completed)
            shared = self._assign(step.protocol, given, self._net.now_ms)
        except Exception as error:
            membership.abandon(f"rebalance failed due to {type(error).__name__}")
            raise
        self._owners = _Owners.of(members, shared)
        membership.assign(shared.encoded())

    def _complete(self, step: Complete) -> None:
        """Take the leader's decision over."""
        generation, gate = step.generation, self._net.gate
        given = decode_assignment(step.assignment)
        connectors, tasks = given.revoked_connectors, given.revoked_tasks
        if Compatibility.of_protocol(generation.protocol or "") is not Compatibility.EAGER:
            after = given.after(self._owned)
        else:
            after = given
            if (owned := self._owned) is not None:
                # The group has just gone over to the eager protocol. Java's workers stop nothing then, and so run what
                # others were given.
                connectors = tuple(each for each in owned.connectors if each not in given.connectors)
                tasks = tuple(each for each in owned.tasks if each not in given.tasks)
        if connectors or tasks:
            with gate.outside():
                self._listener.on_revoked(given.leader, connectors, tasks)
        self._owned = after
        self._last_completed = generation.id
        self._membership.completed()
        self._is_assigned = True
        if given.failed:
            self._membership.request_rejoin("the leader could not assign: its configuration is behind")
        with gate.outside():
            self._listener.on_assigned(after, generation.id)

    # -- without a coordinator --

    def _mind_coordinator(self) -> None:
        """Stop all work when no coordinator is found for a while: the group goes on without this worker."""
        now_ms = self._net.now_ms
        if self._membership.coordinator is not None:
            self._without_coordinator_since_ms = None
        elif self._without_coordinator_since_ms is None:
            self._without_coordinator_since_ms = now_ms
        elif self._patience_ms() == 0 and (owned := self._owned) is not None:
            log.info(
                "Broker coordinator was unreachable for %dms. Revoking previous assignment %s to avoid running tasks "
                "while not being a member the group",
                now_ms - self._without_coordinator_since_ms,
                owned,
            )
            self._membership.request_rejoin("the coordinator was unreachable")
            if owned.failed:
                self._owned = None
            else:
                self._give_all_up(owned)

    def _patience_ms(self) -> int:
        """How long work may go on without a coordinator."""
        since_ms = self._without_coordinator_since_ms
        if since_ms is None or self._owned is None:
            return _WAIT_MS_MAX
        return max(0, since_ms + self._settings.heartbeat_interval_ms - self._net.now_ms)

    def _give_all_up(self, owned: ExtendedAssignment) -> None:
        self._owned = None
        with self._net.gate.outside():
            self._listener.on_revoked(owned.leader, owned.connectors, owned.tasks)

    # -- either thread --

    def _background(self, now_ms: int) -> int:
        if not self._net.gate.in_background:
            self._membership.heartbeat.polled(now_ms)  # the herder's thread is inside, and so not late
        self._driver.send_due(now_ms)
        return self._membership.wait_ms(now_ms)

    @property
    def _compatibility(self) -> Compatibility:
        protocol = self._membership.joined.protocol
        return self._settings.compatibility if protocol is None else Compatibility.of_protocol(protocol)


class _Owners(NamedTuple):
    """Which worker has what, as the leader has decided; by the URLs of their REST APIs."""

    connectors: Mapping[str, str]
    tasks: Mapping[TaskName, str]

    @classmethod
    def of(cls, members: Mapping[str, WorkerState], shared: Shared) -> "_Owners":
        connectors: dict[str, str] = {}
        tasks: dict[TaskName, str] = {}
        for member, owned in shared.owned.items():
            connectors |= dict.fromkeys(owned.connectors, members[member].url)
            tasks |= dict.fromkeys(owned.tasks, members[member].url)
        return cls(connectors, tasks)

    def url_of(self, work: str | TaskName) -> str | None:
        return self.tasks.get(work) if isinstance(work, TaskName) else self.connectors.get(work)


def _membership_settings(settings: MemberSettings, config: ClientConfig) -> MembershipSettings:
    return MembershipSettings(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.rebalance_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        protocol_type=PROTOCOL_TYPE,
        kind="worker",
        poll_expired=(
            "worker poll timeout has expired: the herder was busy for longer than rebalance.timeout.ms, for example "
            "with connectors and tasks that take long to stop; the worker has left its group, and joins it again"
        ),
    )
