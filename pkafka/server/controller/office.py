"""The requests of brokers and administrators to the active controller: other ISRs, other leaders.

Runs on the controller thread. One object serves one term of office.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_EPOCH, BrokerEpoch, BrokerId, TopicPartition
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.controller import nodes
from pkafka.server.controller.context import Leadership, PartitionState
from pkafka.server.controller.election import Strategy
from pkafka.server.controller.isr_requests import WantedIsr, is_so_already, refusal
from pkafka.server.controller.machines import Machines
from pkafka.server.controller.reassignment import Reassignments, moves
from pkafka.server.controller.stats import Work, counted_as

log = logging.getLogger("kafka.controller.KafkaController")

Election: TypeAlias = BrokerId | ApiError
"""The new leader of a partition, or the reason why there is none."""

_NO_LEADER: Final = -1
_FAILED: Final[Mapping[Strategy, tuple[ErrorCode, str]]] = {
    Strategy.PREFERRED_REPLICA: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "PreferredReplicaPartitionLeaderElectionStrategy",
    ),
    Strategy.OFFLINE_PARTITION_UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "OfflinePartitionLeaderElectionStrategy(true)",
    ),
}
"""Kafka's texts for partitions without an eligible replica."""


class Office:
    """Serves the requests to the active controller.

    Args:
        machines: state and machines.
        reassignments: the partitions that move.
        config: gives the present settings.
        on_isrs_decided: called with moving partitions whose proposed ISR is written. Their moves go on only after the
            answer to the leader: if the LeaderAndIsr that ends the move came first, the leader would give its proposal
            up, and not count that its ISR grew.
    """

    def __init__(
        self,
        machines: Machines,
        reassignments: Reassignments,
        config: Callable[[], BrokerConfig],
        on_isrs_decided: Callable[[tuple[TopicPartition, ...]], None],
    ) -> None:
        self._context, self._states, self._batch, self._partitions, self._replicas = machines
        self.reassignments = reassignments
        self._config = config
        self._on_isrs_decided = on_isrs_decided

    # -- what leaders ask --

    @counted_as(Work.ISR_CHANGE)
    def alter_isrs(
        self,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
        wanted: Mapping[TopicPartition, WantedIsr],
        *,
        version: int,
    ) -> dict[TopicPartition, Leadership | ErrorCode]:
        """Change ISRs as their leader proposes.

        Args:
            broker: the leader.
            broker_epoch: of its registration.
            wanted: the proposals.
            version: of its AlterPartition request.

        Returns:
            For each partition its present state, or the error with which the proposal is refused.

        Raises:
            ApiError: STALE_BROKER_EPOCH: the request is of an earlier life of that broker.
            StoreError: the store failed.
        """
        context = self._context
        if context.broker_epochs.get(broker) != broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        live = context.live_brokers.keys() - context.shutting_down
        answers: dict[TopicPartition, Leadership | ErrorCode] = {}
        changes: dict[TopicPartition, Leadership] = {}
        for partition, one in wanted.items():
            now = context.leadership.get(partition)
            if now is None:
                answers[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif is_so_already(one, broker, now):
                answers[partition] = now
            elif code := refusal(one, now, live, version=version):
                answers[partition] = code
            else:
                changes[partition] = now._replace(
                    isr=one.isr, controller_epoch=context.epoch, recovering=one.recovering
                )
        outcome = self._states.update_leadership(changes)
        written = outcome.written
        answers.update(dict.fromkeys(outcome.failed, ErrorCode.UNKNOWN_SERVER_ERROR))
        # The node has another version than known. Perhaps this controller wrote it, and the answer was lost.
        for partition, now in self._states.read_leadership(outcome.conflicts).items():
            context.leadership[partition] = now
            if is_so_already(wanted[partition], broker, now):
                written[partition] = now
        answers.update(dict.fromkeys(outcome.conflicts, ErrorCode.INVALID_UPDATE_VERSION))
        context.leadership.update(written)
        answers.update(written)
        if written:
            self._batch.add_update_metadata(context.live_brokers, written)
            self._batch.send()
            moving = tuple(each for each in written if moves(context.assignment(each)))
            if moving:
                self._on_isrs_decided(moving)
        return answers

    # -- what any broker asks --

    def check_registered(self, broker: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Refuse a request that does not come from the present life of a broker.

        Raises:
            ApiError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        """
        known = self._context.broker_epochs.get(broker)
        if known is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        if known != broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)

    # -- what brokers that stop ask --

    @counted_as(Work.CONTROLLED_SHUTDOWN)
    def release_broker(self, broker: BrokerId, broker_epoch: BrokerEpoch) -> list[TopicPartition]:
        """Move leaders off a broker that is about to stop, and it out of ISRs (controlled shutdown).

        Args:
            broker: which.
            broker_epoch: of its registration; -1 of brokers that do not say.

        Returns:
            The replicated partitions that it still leads, as no other member of their ISR is live.

        Raises:
            ApiError: STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
            StoreError: the store failed.
        """
        context = self._context
        if broker not in context.live_brokers:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE)
        if NO_EPOCH < broker_epoch < context.broker_epochs[broker]:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
        log.info("Shutting down broker %d", broker)
        context.shutting_down.add(broker)
        replicas = [
            one
            for one in context.replicas_on((broker,))
            if len(context.replicas_of(one.partition)) > 1
            and one.partition in context.leadership
            and one.partition.topic not in context.being_deleted
        ]
        led = [one.partition for one in replicas if context.leadership[one.partition].leader == broker]
        self._partitions.become_online(led, Strategy.CONTROLLED_SHUTDOWN)
        self._batch.send()
        self._replicas.become_offline(
            one for one in replicas if context.leadership[one.partition].leader != broker
        )
        self._batch.send()
        return [one for one in led if context.leadership[one].leader == broker]

    def bury_broker(self, broker: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Remove the registration of a broker whose processes are all dead; all watches of it fire then.

        Args:
            broker: the dead broker.
            broker_epoch: of the registration; a later registration stays.

        Raises:
            StoreError: the store failed.
        """
        self._states.delete_registration(broker, broker_epoch)

    # -- what administrators ask --

    @counted_as(Work.MANUAL_BALANCE)
    def elect_leaders(
        self, partitions: Iterable[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, Election]:
        """Elect preferred leaders, or with ``unclean`` any live replica for partitions without a leader (KIP-460).

        Args:
            partitions: the partitions.
            unclean: accept a leader that lacks records.

        Returns:
            For each the new leader, or the reason why none was elected.

        Raises:
            StoreError: the store failed.
        """
        context = self._context
        answers: dict[TopicPartition, Election] = {}
        wanted: list[TopicPartition] = []
        for partition in partitions:
            if partition not in context.partition_states:
                answers[partition] = ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                )
            elif partition.topic in context.being_deleted:
                answers[partition] = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
            elif self._wants_election(partition, unclean=unclean):
                wanted.append(partition)
            else:
                answers[partition] = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        strategy = Strategy.OFFLINE_PARTITION_UNCLEAN if unclean else Strategy.PREFERRED_REPLICA
        elected = self._partitions.become_online(wanted, strategy)
        self._batch.send()
        code, name = _FAILED[strategy]
        for partition in wanted:
            answers[partition] = (
                context.leadership[partition].leader
                if partition in elected
                else ApiError(code, f"Failed to elect leader for partition {partition} under strategy {name}")
            )
        return answers

    def elect_written(self) -> None:
        """Elect the preferred leaders that /admin/preferred_replica_election asks for, and remove it.

        Raises:
            StoreError: the store failed.
        """
        found = self._states.read_wish(nodes.PREFERRED_REPLICA_ELECTION)
        if found is None:
            return
        data, version = found
        try:
            partitions = nodes.decode_elections(data)
        except ZnodeFormatError as error:
            log.warning("what %s asks for cannot be read: %s", nodes.PREFERRED_REPLICA_ELECTION, error)
            partitions = ()
        for partition, outcome in self.elect_leaders(partitions, unclean=False).items():
            if not isinstance(outcome, ApiError):
                log.info(
                    "Partition %s completed preferred replica leader election. New leader is %d",
                    partition,
                    outcome,
                )
            elif outcome.code is not ErrorCode.ELECTION_NOT_NEEDED:
                log.warning(
                    "Partition %s: no preferred replica leader election: %s", partition, outcome.message
                )
        self._states.answer_wish(nodes.PREFERRED_REPLICA_ELECTION, None, version)

    def _wants_election(self, partition: TopicPartition, *, unclean: bool) -> bool:
        context = self._context
        now = context.leadership.get(partition)
        leader = _NO_LEADER if now is None else now.leader
        if unclean:
            return leader == _NO_LEADER or leader not in context.live_brokers
        return leader != context.replicas_of(partition)[0]

    def balance(self) -> None:
        """Bring leaders back to their preferred replicas, for each broker that lacks too many of its leaders.

        Raises:
            StoreError: the store failed.
        """
        context = self._context
        by_preferred: dict[BrokerId, list[TopicPartition]] = {}
        for partition in context.partitions():
            if partition.topic not in context.being_deleted:
                by_preferred.setdefault(context.replicas_of(partition)[0], []).append(partition)
        if any(moves(context.assignment(one)) for one in context.partitions()):
            return  # moves in progress change leaders, too
        allowed = self._config().leader_imbalance_per_broker_percentage / 100
        for broker, partitions in sorted(by_preferred.items()):
            away = [
                one
                for one in partitions
                if one in context.leadership and context.leadership[one].leader != broker
            ]
            if len(away) / len(partitions) <= allowed:
                continue
            ready = [
                one
                for one in away
                if context.is_online(one, broker)
                and broker in context.leadership[one].isr
                and context.partition_states[one] is PartitionState.ONLINE
            ]
            if ready:
                log.info("Bringing %d leaders back to broker %d", len(ready), broker)
                self._partitions.become_online(ready, Strategy.PREFERRED_REPLICA)
                self._batch.send()
