"""The requests to brokers that follow from one event: collected first, then sent, one of each kind to a broker at most.

They go in Kafka's order, on which brokers rely: LeaderAndIsr first, so that a leader serves before clients hear of it,
then UpdateMetadata, then StopReplica. The controller thread owns the batch.
"""

from collections.abc import Callable, Iterable
from typing import Final

from pkafka.model import NO_EPOCH, NO_TOPIC_ID, BrokerId, TopicPartition
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.server.cluster.control_requests import ControlResponse
from pkafka.server.cluster.metadata import LEADER_DURING_DELETE, live_broker
from pkafka.server.cluster.state_change import partition_state_text
from pkafka.server.controller.channels import BrokerChannels
from pkafka.server.controller.context import Assignment, ControllerContext, Leadership

EPOCH_DURING_DELETE: Final = -2
"""The leader epoch in a StopReplica for a topic that is being deleted; it overrides every other."""

_CHANGES_ONLY: Final = 0
"""``type`` of the requests: a controller in ZooKeeper mode never claims that a request is complete."""


class RequestBatch:
    """Collects the requests that follow from an event, and sends them.

    Args:
        broker_id: this controller's broker.
        inter_broker_listener: the listener whose addresses LeaderAndIsr carries.
        context: read when requests are made, never written.
        channels: send the requests.
        on_leader_and_isr: gets each broker's answer to LeaderAndIsr, on any thread; must only enqueue.
        on_stop_replica: the same for a StopReplica that deletes, with the partitions to be deleted.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        inter_broker_listener: str,
        context: ControllerContext,
        channels: BrokerChannels,
        *,
        on_leader_and_isr: Callable[[BrokerId, LeaderAndIsrResponse], None],
        on_stop_replica: Callable[[BrokerId, tuple[TopicPartition, ...], StopReplicaResponse], None],
    ) -> None:
        self._broker_id = broker_id
        self._listener = inter_broker_listener
        self._context = context
        self._channels = channels
        self._on_leader_and_isr = on_leader_and_isr
        self._on_stop_replica = on_stop_replica
        self.clear()

    def clear(self) -> None:
        """Forget the requests that were not sent."""
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._update_brokers: set[BrokerId] = set()
        self._update_partitions: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        self._stop_replica: dict[BrokerId, dict[TopicPartition, StopReplicaPartitionState]] = {}

    # -- collecting --

    def add_leader_and_isr(
        self,
        brokers: Iterable[BrokerId],
        partition: TopicPartition,
        leadership: Leadership,
        assignment: Assignment,
        *,
        is_new: bool,
    ) -> None:
        """Tell replicas their leader, and all brokers by the metadata."""
        for broker in brokers:
            if broker < 0:
                continue
            states = self._leader_and_isr.setdefault(broker, {})
            earlier = states.get(partition)
            states[partition] = LeaderAndIsrPartitionState(
                topic_name=partition.topic,
                partition_index=partition.partition,
                controller_epoch=leadership.controller_epoch,
                leader=leadership.leader,
                leader_epoch=leadership.leader_epoch,
                isr=list(leadership.isr),
                partition_epoch=leadership.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                # A partition that is once new in this batch stays new for the broker that gets the batch.
                is_new=is_new or (earlier is not None and earlier.is_new),
                leader_recovery_state=int(leadership.recovering),
            )
        self.add_update_metadata(self._context.live_brokers, (partition,))

    def add_update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition]) -> None:
        """Tell brokers about partitions, and always about the live brokers. Partitions never led are left out."""
        self._update_brokers.update(broker for broker in brokers if broker >= 0)
        for partition in partitions:
            leadership = self._context.leadership.get(partition)
            if leadership is not None:
                self._update_partitions[partition] = self._metadata_state(partition, leadership)

    def add_stop_replica(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, *, delete: bool
    ) -> None:
        """Tell brokers to stop replicas and, where ``delete``, to remove their files."""
        leadership = self._context.leadership.get(partition)
        if partition.topic in self._context.being_deleted:
            epoch = EPOCH_DURING_DELETE
        else:
            epoch = leadership.leader_epoch if leadership is not None else NO_EPOCH
        for broker in brokers:
            if broker < 0:
                continue
            states = self._stop_replica.setdefault(broker, {})
            earlier = states.get(partition)
            states[partition] = StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=epoch,
                delete_partition=delete or (earlier is not None and earlier.delete_partition),
            )

    # -- sending --

    def send(self) -> None:
        """Send all requests and begin with an empty batch."""
        for broker, isr_states in sorted(self._leader_and_isr.items()):
            if broker in self._context.live_brokers:
                self._log_leader_and_isr(broker, isr_states)
                self._send_leader_and_isr(broker, isr_states)
        told = sorted(self._update_brokers & self._context.live_brokers.keys())
        if told:
            self._context.state_changes.info(
                "Sending UpdateMetadata request to brokers %s for %d partitions",
                told,
                len(self._update_partitions),
            )
        for broker in told:
            self._channels.send(broker, self._update_request(broker))
        for broker, stop_states in sorted(self._stop_replica.items()):
            if broker in self._context.live_brokers:
                self._log_stop_replica(broker, stop_states)
                self._send_stop_replica(broker, stop_states)
        self.clear()

    def _log_leader_and_isr(
        self, broker: BrokerId, states: dict[TopicPartition, LeaderAndIsrPartitionState]
    ) -> None:
        changes = self._context.state_changes
        if changes.is_tracing:
            for partition, state in sorted(states.items()):
                changes.trace(
                    "Sending %s LeaderAndIsr request %s to broker %d for partition %s",
                    "become-leader" if state.leader == broker else "become-follower",
                    partition_state_text(state),
                    broker,
                    partition,
                )
        leading = sum(state.leader == broker for state in states.values())
        changes.info(
            "Sending LeaderAndIsr request to broker %d with %d become-leader and %d become-follower partitions",
            broker,
            leading,
            len(states) - leading,
        )

    def _log_stop_replica(
        self, broker: BrokerId, states: dict[TopicPartition, StopReplicaPartitionState]
    ) -> None:
        changes = self._context.state_changes
        if changes.is_tracing:
            for partition, state in sorted(states.items()):
                changes.trace(
                    "Sending StopReplica request %s to broker %d for partition %s",
                    partition_state_text(state),
                    broker,
                    partition,
                )
        changes.info("Sending StopReplica request for %d replicas to broker %d", len(states), broker)

    def _send_leader_and_isr(
        self, broker: BrokerId, states: dict[TopicPartition, LeaderAndIsrPartitionState]
    ) -> None:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for partition, state in sorted(states.items()):
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = LeaderAndIsrTopicState(
                    topic_name=partition.topic,
                    topic_id=self._context.topic_ids.get(partition.topic, NO_TOPIC_ID),
                )
            topic.partition_states.append(state)
        request = LeaderAndIsrRequest(
            controller_id=self._broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.broker_epochs.get(broker, NO_EPOCH),
            type=_CHANGES_ONLY,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders({state.leader for state in states.values()}),
        )

        def on_response(response: ControlResponse) -> None:
            assert isinstance(response, LeaderAndIsrResponse)
            self._on_leader_and_isr(broker, response)

        self._channels.send(broker, request, on_response)

    def _live_leaders(self, leaders: set[BrokerId]) -> list[LeaderAndIsrLiveLeader]:
        found = []
        for leader in sorted(leaders & self._context.live_brokers.keys()):
            endpoint = self._context.live_brokers[leader].endpoints.get(self._listener)
            if endpoint is not None:
                found.append(
                    LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                )
        return found

    def _update_request(self, broker: BrokerId) -> UpdateMetadataRequest:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition, state in sorted(self._update_partitions.items()):
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = UpdateMetadataTopicState(
                    topic_name=partition.topic,
                    topic_id=self._context.topic_ids.get(partition.topic, NO_TOPIC_ID),
                )
            topic.partition_states.append(state)
        return UpdateMetadataRequest(
            controller_id=self._broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.broker_epochs.get(broker, NO_EPOCH),
            type=_CHANGES_ONLY,
            topic_states=list(topics.values()),
            live_brokers=[live_broker(one) for _, one in sorted(self._context.live_brokers.items())],
        )

    def _metadata_state(
        self, partition: TopicPartition, leadership: Leadership
    ) -> UpdateMetadataPartitionState:
        context = self._context
        deleting = partition.topic in context.being_deleted
        replicas = context.replicas_of(partition)
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETE if deleting else leadership.leader,
            leader_epoch=0 if deleting else leadership.leader_epoch,
            isr=list(leadership.isr),
            zk_version=0 if deleting else leadership.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[one for one in replicas if not context.is_online(partition, one)],
        )

    def _send_stop_replica(
        self, broker: BrokerId, states: dict[TopicPartition, StopReplicaPartitionState]
    ) -> None:
        topics: dict[str, StopReplicaTopicState] = {}
        for partition, state in sorted(states.items()):
            topics.setdefault(
                partition.topic, StopReplicaTopicState(topic_name=partition.topic)
            ).partition_states.append(state)
        request = StopReplicaRequest(
            controller_id=self._broker_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.broker_epochs.get(broker, NO_EPOCH),
            topic_states=list(topics.values()),
        )

        def on_response(response: ControlResponse) -> None:
            assert isinstance(response, StopReplicaResponse)
            self._on_stop_replica(broker, deleted, response)

        deleted = tuple(partition for partition, state in sorted(states.items()) if state.delete_partition)
        self._channels.send(broker, request, on_response if deleted else None)
