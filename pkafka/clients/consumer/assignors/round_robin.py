"""RoundRobinAssignor: all partitions, sorted, dealt in turn to the members that subscribe their topic."""

from collections.abc import Mapping

from pkafka.clients.consumer.assignors.api import Assignment, Assignor, PartitionsByTopic, Subscription
from pkafka.clients.consumer.assignors.members import sorted_members
from pkafka.model import TopicPartition


class RoundRobinAssignor(Assignor):
    """Deals partitions to members in turn."""

    name = "roundrobin"

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """See :meth:`Assignor.assign`."""
        topics = {member: frozenset(each.topics) for member, each in subscriptions.items()}
        members = sorted_members(subscriptions, subscriptions)
        given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        turn = 0
        for topic in sorted(frozenset().union(*topics.values()) & partitions.keys()):
            for partition in partitions[topic]:
                while topic not in topics[members[turn]]:
                    turn = (turn + 1) % len(members)
                given[members[turn]].append(TopicPartition(topic, partition.partition))
                turn = (turn + 1) % len(members)
        return {member: Assignment(each) for member, each in given.items()}
