"""What the controller does when brokers come, go, change, or lose a log directory."""

import logging
from collections.abc import Sequence

from pkafka.errors import ErrorCode
from pkafka.model import NO_EPOCH, BrokerId, TopicPartition
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from pkafka.server.controller import events, nodes
from pkafka.server.controller.channels import BrokerChannels
from pkafka.server.controller.context import PartitionState, Replica
from pkafka.server.controller.deletion import TopicDeletion
from pkafka.server.controller.machines import Machines
from pkafka.server.controller.reassignment import Reassignments
from pkafka.server.controller.watches import Watches

log = logging.getLogger("kafka.controller.KafkaController")


class BrokerChanges:
    """Follows the registrations of brokers. For the controller thread.

    Args:
        machines: state and machines.
        watches: of this term of office.
        channels: hear which brokers are live.
        deletion: waits for brokers that are away, and tries again when they come back.
        reassignments: go on when brokers join.
    """

    def __init__(
        self,
        machines: Machines,
        watches: Watches,
        channels: BrokerChannels,
        deletion: TopicDeletion,
        reassignments: Reassignments,
    ) -> None:
        self._context, self._states, self._batch, self._partitions, self._replicas = machines
        self._watches = watches
        self._channels = channels
        self._deletion = deletion
        self._reassignments = reassignments

    def load(self) -> None:
        """Read all registrations. A broker that was stopping is still stopping unless it registered anew."""
        context = self._context
        self._watch_all()
        brokers, former_epochs = self._states.read_brokers(), context.broker_epochs
        context.live_brokers = {broker: info for broker, (info, _) in brokers.items()}
        context.broker_epochs = {broker: epoch for broker, (_, epoch) in brokers.items()}
        context.shutting_down = {
            one
            for one in context.shutting_down
            if context.broker_epochs.get(one) == former_epochs.get(one, NO_EPOCH)
        }
        self._channels.brokers_changed(dict(context.live_brokers))

    def on_broker_change(self) -> None:
        """Read the registrations, and act on each broker that came, went, came back or changed."""
        context = self._context
        registered = self._watch_all()
        now = self._states.read_brokers()
        gone = context.live_brokers.keys() - now.keys()
        bounced = {
            one for one in context.live_brokers.keys() & now if context.broker_epochs[one] != now[one][1]
        }
        joined = (now.keys() - context.live_brokers.keys()) | bounced
        changed = [
            one
            for one in (context.live_brokers.keys() & now.keys()) - bounced
            if context.live_brokers[one] != now[one][0]
        ]
        for broker in gone - registered:  # a registration that cannot be read stays watched: it may be mended
            self._watches.unwatch(nodes.broker(broker))
        for broker in gone | bounced:
            del context.live_brokers[broker], context.broker_epochs[broker]
        if gone | bounced:
            # First without the brokers that bounced: the requests queued for them were meant for their former lives.
            self._channels.brokers_changed(dict(context.live_brokers))
            self._brokers_gone(gone | bounced)
        for broker in joined:
            context.live_brokers[broker], context.broker_epochs[broker] = now[broker]
        for broker in changed:
            context.live_brokers[broker] = now[broker][0]
        if joined or changed:
            self._channels.brokers_changed(dict(context.live_brokers))
        if joined:
            self._brokers_joined(joined)
        if changed:
            self._batch.add_update_metadata(context.live_brokers, ())
            self._batch.send()

    def on_log_dir_change(self) -> None:
        """Ask the brokers that lost a log directory for their replicas."""
        names, brokers = self._states.read_log_dir_notifications()
        if not names:
            return
        # The answers to LeaderAndIsr tell which replicas are lost.
        self._replicas.become_online(self._context.replicas_on(brokers))
        self._batch.send()
        self._states.delete_children(nodes.LOG_DIR_NOTIFICATIONS, names)

    def on_leader_and_isr_answered(self, event: events.LeaderAndIsrAnswered) -> None:
        """Note the replicas that a broker lost with a log directory, and elect other leaders."""
        if event.epoch != self._context.epoch or event.broker not in self._context.live_brokers:
            return
        if event.response.error_code != ErrorCode.NONE:
            log.error(
                "broker %d refused LeaderAndIsr: %s", event.broker, ErrorCode(event.response.error_code).name
            )
            return
        offline = self._context.offline_dirs.setdefault(event.broker, set())
        failed: list[Replica] = []
        for partition, error in self._partition_errors(event.response):
            if error == ErrorCode.KAFKA_STORAGE_ERROR and partition not in offline:
                offline.add(partition)
                failed.append(Replica(partition, event.broker))
            elif error == ErrorCode.NONE:
                offline.discard(partition)
        if failed:
            log.error("broker %d lost the log directory of %s", event.broker, ", ".join(map(str, failed)))
            self._replicas_offline(failed)

    # -- inside --

    def _brokers_joined(self, brokers: set[BrokerId]) -> None:
        log.info("brokers %s joined", sorted(brokers))
        context = self._context
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
        self._batch.add_update_metadata(context.live_brokers.keys() - brokers, ())
        self._batch.send()
        # The new brokers hear about the whole cluster before anything is asked of them.
        self._batch.add_update_metadata(brokers, context.partitions())
        self._batch.send()
        replicas = context.replicas_on(brokers)
        self._replicas.become_online(
            one for one in replicas if one.partition.topic not in context.deletion_begun
        )
        self._partitions.become_online_where_possible()
        self._batch.send()
        self._reassignments.brokers_joined(brokers)
        self._deletion.retry({one.partition.topic for one in replicas})
        self._batch.send()

    def _brokers_gone(self, brokers: set[BrokerId]) -> None:
        log.info("brokers %s are gone", sorted(brokers))
        for broker in brokers:
            self._context.offline_dirs.pop(broker, None)
            self._context.shutting_down.discard(broker)
        self._replicas_offline(self._context.replicas_on(brokers))

    def _replicas_offline(self, replicas: Sequence[Replica]) -> None:
        context = self._context
        leaderless = [
            one
            for one in context.leaderless()
            if context.partition_states.get(one) is not PartitionState.OFFLINE
        ]
        self._partitions.become_offline(leaderless)
        self._partitions.become_online_where_possible()
        self._batch.send()  # new leaders do not wait until the ISRs of all other partitions are written
        self._replicas.become_offline(
            one for one in replicas if one.partition.topic not in context.being_deleted
        )
        self._batch.send()
        self._deletion.failed(one for one in replicas if one.partition.topic in context.being_deleted)
        if not leaderless:
            # Without an election no request has told the brokers which of them are alive.
            self._batch.add_update_metadata(context.live_brokers, ())
        self._batch.send()

    def _partition_errors(self, response: LeaderAndIsrResponse) -> list[tuple[TopicPartition, int]]:
        found = [
            (
                TopicPartition(self._context.topic_names.get(topic.topic_id, ""), one.partition_index),
                one.error_code,
            )
            for topic in response.topics
            for one in topic.partition_errors
        ]
        found += [
            (TopicPartition(one.topic_name, one.partition_index), one.error_code)
            for one in response.partition_errors
        ]
        return found

    def _watch_all(self) -> set[BrokerId]:
        """Watch all registrations, before they are read, so that a later change makes an event."""
        ids = {int(name) for name in self._states.children(nodes.BROKER_IDS) if name.isdecimal()}
        for broker in ids:
            self._watches.watch_data(nodes.broker(broker), events.BrokerChange())
        return ids
