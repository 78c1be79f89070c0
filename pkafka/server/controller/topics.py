"""What the controller does when topics and partitions are made, and when a topic is to be deleted."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pkafka.errors import ErrorCode
from pkafka.model import NO_TOPIC_ID, TopicPartition
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.controller import events, nodes
from pkafka.server.controller.context import Replica
from pkafka.server.controller.deletion import TopicDeletion
from pkafka.server.controller.election import Strategy
from pkafka.server.controller.machines import Machines
from pkafka.server.controller.reassignment import moves
from pkafka.server.controller.state_store import Topic
from pkafka.server.controller.watches import Watches
from pkafka.topic_ids import new_topic_id

log = logging.getLogger("kafka.controller.KafkaController")


class TopicChanges:
    """Follows the topics' nodes and the wishes to delete topics. For the controller thread.

    Args:
        machines: state and machines.
        watches: of this term of office.
        deletion: carries the deletions out.
        config: gives the present settings.
    """

    def __init__(
        self,
        machines: Machines,
        watches: Watches,
        deletion: TopicDeletion,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._context, self._states, self._batch, self._partitions, self._replicas = machines
        self._watches = watches
        self._deletion = deletion
        self._config = config

    def load(self) -> None:
        """Read all topics, their leadership and the wishes to delete topics; the brokers are known already."""
        context = self._context
        self._read_topics(self._states.read_topic_names())
        context.leadership.update(self._states.read_leadership(context.partitions()))
        wishes = self._states.read_deletions()
        self._states.delete_children(
            nodes.DELETE_TOPICS, [one for one in wishes if not self._may_be_deleted(one)]
        )
        accepted = [one for one in wishes if self._may_be_deleted(one)]
        self._deletion.enqueue(
            accepted,
            ineligible=self._topics_that_move(accepted) | self._topics_with_replicas_away(accepted),
        )

    def on_topic_change(self) -> None:
        """Read the names of the topics; begin new topics and forget those that are gone."""
        names = self._states.read_topic_names()
        gone = self._context.assignments.keys() - set(names)
        for name in gone:
            self._watches.unwatch(nodes.topic(name))
            self._context.forget_topic(name)
        new = [name for name in names if name not in self._context.assignments]
        if new:
            self._read_topics(new)
            self._begin_partitions(self._context.partitions_of(new))

    def on_partition_change(self, event: events.PartitionChange) -> None:
        """Begin the partitions that were added to a topic."""
        context, name = self._context, event.topic
        found = self._states.read_topics([name]).get(name)
        known = context.assignments.get(name)
        if found is None or known is None:
            return
        added = {number: one for number, one in found.assignments.items() if number not in known}
        if not added:
            return
        if name in context.being_deleted:
            log.warning("no partitions can be added to %s, which is being deleted", name)
            self._states.write_topic(name, Topic(found.topic_id, known))
            return
        partitions = [TopicPartition(name, number) for number in sorted(added)]
        for partition in partitions:
            context.assign(partition, added[partition.partition])
        self._begin_partitions(partitions)

    def on_deletion_wish(self) -> None:
        """Read the wishes to delete topics; begin what may be deleted and refuse the others."""
        # The wish may have overtaken the news that the topic exists.
        self.on_topic_change()
        wishes = [one for one in self._states.read_deletions() if one not in self._context.being_deleted]
        refused = [one for one in wishes if not self._may_be_deleted(one)]
        self._states.delete_children(nodes.DELETE_TOPICS, refused)
        accepted = [one for one in wishes if self._may_be_deleted(one)]
        if accepted:
            self._deletion.enqueue(accepted, ineligible=self._topics_that_move(accepted))
            self._deletion.resume()
            self._batch.send()

    def on_stop_replica_answered(self, event: events.StopReplicaAnswered) -> None:
        """Note which replicas a broker deleted and which it could not delete."""
        if event.epoch != self._context.epoch:
            return
        failed = {
            TopicPartition(one.topic_name, one.partition_index)
            for one in event.response.partition_errors
            if one.error_code != ErrorCode.NONE
        }
        if event.response.error_code != ErrorCode.NONE:
            failed = set(event.deleted)
        self._deletion.failed([Replica(one, event.broker) for one in event.deleted if one in failed])
        self._deletion.succeeded([Replica(one, event.broker) for one in event.deleted if one not in failed])
        self._batch.send()

    # -- inside --

    def _begin_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        counts = Counter(one.topic for one in partitions)
        log.info("new partitions: %s", ", ".join(f"{count} of {name}" for name, count in counts.items()))
        replicas = [Replica(one, broker) for one in partitions for broker in self._context.replicas_of(one)]
        self._partitions.become_new(partitions)
        self._replicas.become_new(replicas)
        self._partitions.become_online(partitions, Strategy.OFFLINE_PARTITION)
        self._replicas.become_online(replicas)
        self._batch.send()

    def _may_be_deleted(self, topic: str) -> bool:
        return topic in self._context.assignments and self._config().delete_topic_enable

    def _topics_that_move(self, topics: Iterable[str]) -> set[str]:
        return {
            partition.topic
            for partition in self._context.partitions_of(topics)
            if moves(self._context.assignment(partition))
        }

    def _topics_with_replicas_away(self, topics: Iterable[str]) -> set[str]:
        return {
            one.partition.topic
            for one in self._context.replicas(topics)
            if not self._context.is_online(one.partition, one.broker)
        }

    def _read_topics(self, names: Sequence[str]) -> None:
        for name in names:
            # The watch is set before reading, so that a change after the reading makes an event.
            self._watches.watch_data(nodes.topic(name), events.PartitionChange(name))
        for name, topic in self._states.read_topics(names).items():
            if topic.topic_id == NO_TOPIC_ID:
                topic = Topic(new_topic_id(), topic.assignments)
                self._states.write_topic(name, topic)
            self._context.set_topic_id(name, topic.topic_id)
            self._context.assignments.setdefault(name, {})
            for number, assignment in topic.assignments.items():
                self._context.assign(TopicPartition(name, number), assignment)
