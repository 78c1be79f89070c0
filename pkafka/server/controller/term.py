"""A term of office of the controller: it builds the deciding parts, reads the store and hands each event to a part."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pkafka.coordination.store import Store
from pkafka.model import BrokerId, TopicPartition
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaResponse
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.controller import events, nodes
from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.brokers import BrokerChanges
from pkafka.server.controller.channels import BrokerChannels
from pkafka.server.controller.context import ControllerContext
from pkafka.server.controller.deletion import TopicDeletion
from pkafka.server.controller.machines import Machines
from pkafka.server.controller.office import Office
from pkafka.server.controller.partition_state import PartitionStates
from pkafka.server.controller.reassignment import Reassignments
from pkafka.server.controller.replica_state import ReplicaStates
from pkafka.server.controller.state_store import StateStore
from pkafka.server.controller.topics import TopicChanges
from pkafka.server.controller.watches import Watches

_WATCHED: Final[Mapping[str, events.Event]] = {
    nodes.BROKER_IDS: events.BrokerChange(),
    nodes.TOPICS: events.TopicChange(),
    nodes.DELETE_TOPICS: events.TopicDeletionWish(),
    nodes.ISR_NOTIFICATIONS: events.IsrChange(),
    nodes.LOG_DIR_NOTIFICATIONS: events.LogDirChange(),
}
"""The nodes whose children the active controller watches, and the events of these watches."""

_WISHES: Final[Mapping[str, events.Event]] = {
    nodes.REASSIGN_PARTITIONS: events.ReassignmentWish(),
    nodes.PREFERRED_REPLICA_ELECTION: events.ElectionWish(),
}


class Term:
    """Does the work of the active controller, from an election on, or from the moment when the controller reads
    everything anew. For the controller thread.

    Args:
        context: what this controller knows; epoch and version are those of the election.
        store: the store of the present session.
        watches: of this term; they last longer than this object when the controller reads everything anew.
        config: gives the present settings.
        channels: the way to the brokers.
        put: queues an event; called on any thread.

    Attributes:
        context: as given.
        watches: as given.
        office: serves the requests of brokers and administrators.
    """

    def __init__(
        self,
        context: ControllerContext,
        store: Store,
        watches: Watches,
        *,
        config: Callable[[], BrokerConfig],
        channels: BrokerChannels,
        put: Callable[[events.Event], None],
    ) -> None:
        epoch = context.epoch

        def on_leader_and_isr(broker: BrokerId, response: LeaderAndIsrResponse) -> None:
            put(events.LeaderAndIsrAnswered(broker, epoch, response))

        def on_stop_replica(
            broker: BrokerId, deleted: tuple[TopicPartition, ...], response: StopReplicaResponse
        ) -> None:
            put(events.StopReplicaAnswered(broker, epoch, deleted, response))

        self.context = context
        self.watches = watches
        self._config = config
        self._states = StateStore(store, epoch=epoch, epoch_version=context.epoch_version)
        self._batch = RequestBatch(
            context.controller_id,
            config().inter_broker_listener_name,
            context,
            channels,
            on_leader_and_isr=on_leader_and_isr,
            on_stop_replica=on_stop_replica,
        )
        self._partitions = PartitionStates(context, self._states, self._batch, self._unclean_allowed)
        self._replicas = ReplicaStates(context, self._states, self._batch)
        machines = Machines(context, self._states, self._batch, self._partitions, self._replicas)
        self._deletion = TopicDeletion(
            machines,
            send=self._batch.send,
            on_deleted=lambda topic: watches.unwatch(nodes.topic(topic)),
        )
        self._reassignments = Reassignments(machines, self._deletion)
        self.office = Office(
            machines,
            self._reassignments,
            config,
            on_isrs_decided=lambda partitions: put(events.IsrsDecided(partitions)),
        )
        self._brokers = BrokerChanges(machines, watches, channels, self._deletion, self._reassignments)
        self._topics = TopicChanges(machines, watches, self._deletion, config)
        self._handlers: Final[Mapping[type, Callable[[Any], None]]] = {
            events.BrokerChange: lambda _: self._brokers.on_broker_change(),
            events.LogDirChange: lambda _: self._brokers.on_log_dir_change(),
            events.LeaderAndIsrAnswered: self._brokers.on_leader_and_isr_answered,
            events.TopicChange: lambda _: self._topics.on_topic_change(),
            events.PartitionChange: self._topics.on_partition_change,
            events.TopicDeletionWish: lambda _: self._topics.on_deletion_wish(),
            events.StopReplicaAnswered: self._topics.on_stop_replica_answered,
            events.ReassignmentWish: lambda _: self._on_reassignment_wish(),
            events.ElectionWish: lambda _: self._on_election_wish(),
            events.IsrChange: lambda _: self._on_isr_change(),
            events.IsrsDecided: self._on_isrs_decided,
            events.UncleanElectionAllowed: self._on_unclean_election_allowed,
        }

    def begin(self) -> None:
        """Read everything and begin, in the order of KafkaController.onControllerFailover.

        Raises:
            StoreError: the store failed.
            ControllerMovedError: another broker became the controller.
        """
        for path, event in _WATCHED.items():
            self.watches.watch_children(path, event)
        for path, event in _WISHES.items():
            self.watches.watch_data(path, event)
        # The changes that the notifications announce are read anyway.
        for parent, (names, _) in (
            (nodes.ISR_NOTIFICATIONS, self._states.read_isr_notifications()),
            (nodes.LOG_DIR_NOTIFICATIONS, self._states.read_log_dir_notifications()),
        ):
            self._states.delete_children(parent, names)
        self._states.enable_features()
        self._brokers.load()
        self._topics.load()
        self._batch.add_update_metadata(self.context.live_brokers, ())
        self._batch.send()
        online, offline = self._replicas.start()
        self._replicas.become_online(online)
        self._replicas.become_offline(
            one for one in offline if one.partition.topic not in self.context.being_deleted
        )
        self._batch.send()
        self._partitions.start()
        self._partitions.become_online_where_possible()
        self._batch.send()
        self._reassignments.resume()
        self._deletion.resume()
        self.office.elect_written()

    def handle(self, event: events.Event) -> None:
        """Work on an event that is for the active controller.

        Raises:
            StoreError: the store failed.
            ControllerMovedError: another broker became the controller.
        """
        self._handlers[type(event)](event)

    # -- inside --

    def _on_reassignment_wish(self) -> None:
        # The wish may have overtaken the news that the topic exists.
        self._topics.on_topic_change()
        self._reassignments.begin_written()

    def _on_election_wish(self) -> None:
        self._topics.on_topic_change()
        self.office.elect_written()

    def _on_isr_change(self) -> None:
        names, partitions = self._states.read_isr_notifications()
        if not names:
            return
        known = [one for one in partitions if one in self.context.leadership]
        self.context.leadership.update(self._states.read_leadership(known))
        self._batch.add_update_metadata(self.context.live_brokers, known)
        self._batch.send()
        self._reassignments.isr_changed(known)
        self._states.delete_children(nodes.ISR_NOTIFICATIONS, names)

    def _on_isrs_decided(self, event: events.IsrsDecided) -> None:
        self._reassignments.isr_changed(event.partitions)

    def _on_unclean_election_allowed(self, event: events.UncleanElectionAllowed) -> None:
        self._partitions.become_online_where_possible(event.topic)
        self._batch.send()

    def _unclean_allowed(self, topics: Sequence[str]) -> Mapping[str, bool]:
        key, default = "unclean.leader.election.enable", self._config().unclean_leader_election_enable
        return {
            name: config[key].strip().lower() == "true" if key in config else default
            for name, config in self._states.read_topic_configs(topics).items()
        }
