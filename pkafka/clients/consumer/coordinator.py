"""The consumer's part in its group: drives ``membership.py`` over the network and runs the user's callbacks.

What needs the user's code runs in :meth:`ConsumerCoordinator.advance`, on the application's thread; what must happen in
time runs in :meth:`ConsumerCoordinator.background`, on the thread that is inside the consumer.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pkafka.clients.cluster import Cluster, ClusterView
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.consumer.assignors.api import (
    Assignment,
    Assignor,
    PartitionRacks,
    RebalanceProtocol,
)
from pkafka.clients.consumer.assignors.api import (
    Subscription as MemberSubscription,
)
from pkafka.clients.consumer.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pkafka.clients.consumer.commits import Commits
from pkafka.clients.consumer.errors import IllegalStateError
from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.consumer.group_channel import GroupChannel
from pkafka.clients.consumer.membership_driver import MembershipDriver
from pkafka.clients.consumer.membership_steps import (
    Complete,
    Join,
    Lead,
    MemberState,
    Prepare,
    Request,
    Response,
)
from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.consumer.rebalance import after_join, before_join, moved_too_early
from pkafka.clients.consumer.subscription import Mode, Subscription
from pkafka.clients.errors import WakeupError
from pkafka.errors import ErrorCode, PkafkaError, ProtocolError
from pkafka.model import TopicPartition
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.messages.join_group import JoinGroupRequest
from pkafka.protocol.messages.sync_group import SyncGroupRequest

log = logging.getLogger(__name__)

# It looks at generations too: what one member says it has may be older than what another has.
_CAREFUL: Final = "cooperative-sticky"
Snapshot = dict[str, frozenset[PartitionRacks]]


class ConsumerCoordinator:
    """The part that a consumer has in its group.

    Args:
        channel: to the group's coordinator.
        assignors: of ``partition.assignment.strategy``, in their order.
        protocol: how members rebalance that use these assignors.
        forget: drops what was fetched of partitions that are given up.
    """

    def __init__(
        self,
        channel: GroupChannel,
        config: ConsumerConfig,
        subscription: Subscription,
        commits: Commits,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
        metrics: ConsumerMetrics,
        forget: Callable[[Iterable[TopicPartition]], None],
    ) -> None:
        self._net = channel.net
        self._cluster: Cluster = channel.net.cluster
        self._membership = channel.membership
        self._config = config
        self._subscription = subscription
        self._commits = commits
        self._assignors = list(assignors)
        self._protocol = protocol
        self._metrics = metrics
        self._forget = forget
        self._driver = MembershipDriver(channel, config.request_timeout_ms, log, self._on_answer)
        self._snapshot: Snapshot = {}
        self._snapshot_of: tuple[int, int] = (-1, -1)
        self._assigned_snapshot: Snapshot | None = None
        self._joined_topics: frozenset[str] | None = None
        self._lead_from_generation = -1
        self._fresh_from_generation: int | None = None
        self._prepare_commit: RequestFuture[None] | None = None
        self._prepare_began_ms: int | None = None
        self._prepare_retry_ms = 0

    # -- the application's thread -------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Do what is to be done now: callbacks of commits, a step of a rebalance, automatic commits; never waits.

        Raises:
            ApiError: joining does not work, or another process took this one's instance id.
            Exception: what a callback of the user's raised.
        """
        self._commits.run_callbacks()
        membership = self._membership
        if not self._subscription.is_automatic:
            self._commits.auto_commit(now_ms)
            return
        membership.heartbeat.polled(now_ms)
        membership.want_coordinator()
        self._driver.start()
        self._note_metadata()
        self._ask_for_rejoin()
        while self._is_join_possible() and (step := membership.next_step(now_ms)) is not None:
            if not self._perform(step, now_ms):
                break
            now_ms = self._net.now_ms
            self._ask_for_rejoin()
        if not membership.is_join_needed:
            self._commits.auto_commit(now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """How long :meth:`advance` has nothing to do, as long as no answer comes."""
        wait_ms = min(self._membership.wait_ms(now_ms), self._commits.wait_ms(now_ms))
        if self._prepare_began_ms is not None:
            wait_ms = min(wait_ms, max(1, self._prepare_retry_ms - now_ms))
        return wait_ms

    def leave(self, reason: str, deadline_ms: int | None = None) -> None:
        """Give partitions up and leave the group; a static member only forgets its membership.

        Args:
            deadline_ms: wait so long for the coordinator's answer; not at all when left out.

        Raises:
            Exception: what the user's listener raised; the group was left nevertheless.
        """
        error = self._give_all_up()
        self._driver.leave(reason, deadline_ms)
        self._joined_topics = self._assigned_snapshot = None
        self._prepare_commit = self._prepare_began_ms = self._fresh_from_generation = None
        if error is not None:
            raise error

    def close(self, deadline_ms: int) -> None:
        """Commit, leave the group unless the member is static, end the heartbeat thread.

        Raises:
            Exception: what the user's listener or a callback raised; everything else was done nevertheless.
        """
        failure: Exception | None = None
        with self._net.without_wakeup():
            try:
                self._commit_before_close(deadline_ms)
            except Exception as error:
                log.exception("while closing")
                failure = error
            finally:
                self._driver.stop()
            try:
                if self._config.internal_leave_group_on_close:
                    self.leave("the consumer is being closed", deadline_ms)
            except Exception as error:
                log.exception("while leaving the group")
                failure = failure or error
        if failure is not None:
            raise failure

    def enforce_rebalance(self, reason: str | None) -> None:
        """Join again at the next poll (KIP-568)."""
        self._membership.request_rejoin(reason or "rebalance enforced by user")

    # -- either thread ------------------------------------------------------------------------------------

    def background(self, now_ms: int) -> int:
        """Send what is due: lookups of the coordinator, heartbeats, commits that waited; never waits.

        Returns:
            How long nothing is due, in milliseconds.
        """
        self._driver.send_due(now_ms)
        self._commits.send_waiting()
        self._driver.log_notes()
        return self._membership.wait_ms(now_ms)

    def _on_answer(self, request: Request, answer: Response, latency_ms: int) -> None:
        membership, metrics = self._membership, self._metrics
        if isinstance(request, HeartbeatRequest):
            metrics.heartbeat(latency_ms)
        elif isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            (metrics.joined if isinstance(request, JoinGroupRequest) else metrics.synced)(latency_ms)
            code = getattr(answer, "error_code", 0)
            if code and code != ErrorCode.MEMBER_ID_REQUIRED:
                metrics.rebalance_failed()
            elif isinstance(request, SyncGroupRequest) and membership.state is MemberState.STABLE:
                if membership.rebalance_began_ms is not None:
                    metrics.rebalanced(self._net.now_ms - membership.rebalance_began_ms)
                membership.rebalance_began_ms = None

    # -- metadata -----------------------------------------------------------------------------------------

    def _note_metadata(self) -> None:
        """Look whether topics or partitions came or went."""
        subscription, cluster = self._subscription, self._cluster
        is_new = self._snapshot_of != (cluster.generation, subscription.topic_changes)
        if is_new and subscription.mode is Mode.PATTERN and cluster.generation_of_all == cluster.generation:
            assert subscription.pattern is not None
            matching = [
                view.name
                for view in cluster.view.topics.values()
                if not (view.is_internal and self._config.exclude_internal_topics)
                and subscription.pattern.fullmatch(view.name)
            ]
            subscription.set_matching(matching)
        if is_new:
            self._snapshot_of = (cluster.generation, subscription.topic_changes)
            rack = self._config.client_rack
            self._snapshot = {
                topic: frozenset(each if rack else each._replace(racks=frozenset()) for each in partitions)
                for topic, partitions in _partitions(cluster.view, subscription.topics()).items()
            }

    def _ask_for_rejoin(self) -> None:
        membership, assigned = self._membership, self._assigned_snapshot
        if assigned is not None and assigned is not self._snapshot and assigned != self._snapshot:
            membership.request_rejoin("cached metadata has changed")
        if self._joined_topics is not None and self._joined_topics != self._subscription.wanted_topics:
            membership.request_rejoin("subscription has changed")

    def _is_join_possible(self) -> bool:
        """Whether a join may begin: one by pattern waits for metadata, so that all members see the same topics."""
        membership = self._membership
        if self._subscription.mode is not Mode.PATTERN or not membership.is_join_to_begin:
            return True
        if self._fresh_from_generation is None:
            self._fresh_from_generation = self._cluster.generation
            self._cluster.want_refresh()
        return self._cluster.generation_of_all > self._fresh_from_generation

    # -- steps of a rebalance -----------------------------------------------------------------------------

    def _perform(self, step: Prepare | Join | Lead | Complete, now_ms: int) -> bool:
        """Do a step.

        Returns:
            False where something must be waited for first.
        """
        if isinstance(step, Prepare):
            return self._prepare(step, now_ms)
        if isinstance(step, Join):
            self._join(now_ms)
            return False
        if isinstance(step, Lead):
            return self._assign(step)
        self._complete(step)
        return True

    def _prepare(self, step: Prepare, now_ms: int) -> bool:
        if not step.lost and not self._is_committed(now_ms):
            return False
        self._prepare_commit = self._prepare_began_ms = None
        subscription = self._subscription
        given = before_join(
            self._protocol,
            lost=step.lost,
            owned=subscription.partitions,
            topics=subscription.wanted_topics,
        )
        error = None
        try:
            if given.lost:
                error = self._tell("lost", given.lost)
                self._keep(given.kept)
            elif given.revoked is not None:
                error = self._tell("revoked", given.revoked)
                self._keep(given.kept)
        except WakeupError:
            # As in Kafka: the listener was told, and is not told again; what is owned changes with the assignment.
            self._membership.prepared()
            raise
        subscription.reset_group_topics()
        self._membership.prepared()
        if error is not None:
            raise error
        return True

    def _is_committed(self, now_ms: int) -> bool:
        """Store the positions before partitions go to another member.

        Returns:
            Whether there is nothing to wait for.
        """
        if not self._config.enable_auto_commit:
            return True
        if self._prepare_began_ms is None:
            self._prepare_began_ms = now_ms
            if self._protocol is RebalanceProtocol.EAGER:
                self._subscription.mark_pending_revocation(self._subscription.partitions)
            self._prepare_commit = self._commits.auto_commit_now()
        if now_ms >= self._prepare_began_ms + self._config.max_poll_interval_ms:
            return True
        future = self._prepare_commit
        if future is None or future.succeeded:
            return True
        if not future.done:
            self._prepare_retry_ms = now_ms + self._config.retry_backoff_ms
            return False
        if not future.retriable:
            log.error("Asynchronous auto-commit before a rebalance failed: %s", future.error)
            return True
        if now_ms >= self._prepare_retry_ms:
            self._prepare_retry_ms = now_ms + self._config.retry_backoff_ms
            self._prepare_commit = self._commits.auto_commit_now()
        return False

    def _join(self, now_ms: int) -> None:
        subscription = self._subscription
        self._joined_topics = subscription.wanted_topics
        owned = subscription.partitions
        generation = self._membership.generation.id
        rack = self._config.client_rack or None
        protocols = []
        for each in self._assignors:
            user_data = each.subscription_user_data(self._joined_topics)
            told = MemberSubscription(sorted(self._joined_topics), user_data, owned, generation, rack)
            protocols.append((each.name, encode_subscription(told)))
        self._driver.send(self._membership.join(protocols, now_ms), now_ms)

    def _assign(self, step: Lead) -> bool:
        """Decide which member reads which partitions.

        Returns:
            False while metadata of the group's topics is awaited.
        """
        subscription, cluster = self._subscription, self._cluster
        try:
            told = {
                each.member_id: decode_subscription(each.metadata)._replace(
                    group_instance_id=each.group_instance_id
                )
                for each in step.members
            }
        except ProtocolError as error:
            self._membership.abandon(f"rebalance failed due to {error}")
            raise
        topics = {topic for each in told.values() for topic in each.topics}
        # The leader watches all topics that any member reads, so that one member sees each of them change.
        if subscription.add_group_topics(topics):
            self._lead_from_generation = cluster.generation
            cluster.want_refresh()
        if cluster.generation <= self._lead_from_generation:
            return False
        self._note_metadata()
        if step.skip:
            # KIP-814: the coordinator kept the assignment of a static leader that came back.
            self._membership.assign(())
            self._assigned_snapshot = self._snapshot
            return True
        assignor = self._assignor(step.protocol)
        try:
            given = assignor.assign(_partitions(cluster.view, topics), told)
            if self._protocol is RebalanceProtocol.COOPERATIVE and assignor.name != _CAREFUL:
                owned = {member: each.owned_partitions for member, each in told.items()}
                early = moved_too_early(owned, {member: each.partitions for member, each in given.items()})
                if early:
                    raise IllegalStateError(
                        f"Assignor {assignor.name} supporting the COOPERATIVE protocol violates its requirements: "
                        f"{sorted(early)} are given to members before others gave them up"
                    )
        except Exception as error:
            self._membership.abandon(f"rebalance failed due to {error}")
            raise
        if subscription.add_group_topics({at.topic for each in given.values() for at in each.partitions}):
            self._note_metadata()
        self._assigned_snapshot = self._snapshot
        self._membership.assign(
            [(member, encode_assignment(Assignment(*each))) for member, each in given.items()]
        )
        return True

    def _complete(self, step: Complete) -> None:
        membership, subscription = self._membership, self._subscription
        if not membership.is_leader:
            self._assigned_snapshot = None
        assignor = self._assignor(step.generation.protocol or "")
        assignment = decode_assignment(step.assignment)
        assigned = assignment.partitions
        if not subscription.matches(assigned):
            membership.completed()
            membership.request_rejoin("received assignment does not match the current subscription")
            return
        taken = after_join(self._protocol, owned=subscription.partitions, assigned=assigned)
        error: Exception | None = None
        if taken.revoked:
            error = self._tell("revoked", taken.revoked)
            membership.request_rejoin("need to revoke partitions and re-join")
        if subscription.mode is Mode.PATTERN:
            # The leader may know topics already that match and were not seen here yet.
            found = {each.topic for each in assigned} | subscription.wanted_topics
            subscription.set_matching(found)
            self._joined_topics = frozenset(found)
        try:
            assignor.on_assignment(assignment, step.generation.id)
        except Exception as problem:
            log.exception("the assignor %s could not take an assignment", assignor.name)
            error = error or problem
        self._commits.restart_auto_commit(self._net.now_ms)
        self._keep(assigned)
        self._fresh_from_generation = None
        error = self._tell("assigned", taken.added) or error
        if error is not None:
            # As in Kafka, the assignment is taken over again at the next poll.
            raise error
        membership.completed()

    def _give_all_up(self) -> Exception | None:
        subscription = self._subscription
        owned = subscription.partitions
        if not subscription.is_automatic or not owned:
            return None
        gone = self._membership.is_lost or self._membership.is_rebalancing
        error = self._tell("lost" if gone else "revoked", owned)
        self._keep(())
        return error

    def _keep(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        self._forget(set(self._subscription.partitions) - set(wanted))
        self._subscription.assign_from_group(wanted)

    def _tell(self, what: str, partitions: list[TopicPartition]) -> Exception | None:
        """Call the user's listener.

        Returns:
            What it raised, for later.
        """
        log.info("%s partitions: %s", what, ", ".join(map(str, partitions)) or "none")
        listener = self._subscription.listener
        if listener is None:
            return None
        call = getattr(listener, f"on_partitions_{what}")
        began_ms = self._net.now_ms
        try:
            with self._net.gate.outside():
                call(partitions)
        except WakeupError:
            raise
        except Exception as error:
            log.exception("User provided listener failed on partitions %s", what)
            return error
        finally:
            self._metrics.called_back(what, self._net.now_ms - began_ms)
        return None

    # -- inside -------------------------------------------------------------------------------------------

    def _commit_before_close(self, deadline_ms: int) -> None:
        if self._config.enable_auto_commit:
            consumed = self._commits.consumed()
            try:
                if consumed and not self._commits.commit_sync(consumed, deadline_ms):
                    log.warning("Synchronous auto-commit of offsets %s timed out", consumed)
            except PkafkaError as error:
                log.warning("Synchronous auto-commit of offsets %s failed: %s", consumed, error)
        self._commits.await_pending(deadline_ms)

    def _assignor(self, name: str) -> Assignor:
        for each in self._assignors:
            if each.name == name:
                return each
        raise IllegalStateError(f"Coordinator selected invalid assignment protocol: {name}")


def _partitions(view: ClusterView, topics: Iterable[str]) -> dict[str, list[PartitionRacks]]:
    """The partitions of those of the topics that exist."""
    found: dict[str, list[PartitionRacks]] = {}
    for topic in topics:
        known = view.topics.get(topic)
        if known is None or known.error is not ErrorCode.NONE:
            continue
        found[topic] = [
            PartitionRacks(
                each.partition,
                frozenset(
                    rack
                    for replica in each.replicas
                    if (broker := view.brokers.get(replica)) is not None and (rack := broker.rack)
                ),
            )
            for each in known.partitions
        ]
    return found
