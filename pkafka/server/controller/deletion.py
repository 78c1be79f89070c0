"""Topic deletion: from a node under /admin/delete_topics to nothing left of the topic.

Clients hear of it first (leader -2). Then the brokers stop and delete their replicas and confirm that. After the last
confirmation the controller removes the topic's nodes, and at the end the node that asks for the deletion. A topic with
a replica that is away or failed waits ("ineligible"), and is tried again when the broker comes back. Every step can be
repeated, so the next controller goes on with the deletion.
"""

import logging
from collections.abc import Callable, Iterable

from pkafka.server.controller.context import Replica, ReplicaState
from pkafka.server.controller.machines import Machines

log = logging.getLogger("kafka.controller.TopicDeletionManager")


class TopicDeletion:
    """Carries out the deletions. Owned by the controller thread.

    Args:
        machines: state and machines; the context holds which topics are queued, begun and ineligible.
        send: sends the batch; called between steps whose order brokers must see.
        on_deleted: called with each topic that is gone.
    """

    def __init__(
        self,
        machines: Machines,
        *,
        send: Callable[[], None],
        on_deleted: Callable[[str], None],
    ) -> None:
        self._context, self._states, self._batch, self._partitions, self._replicas = machines
        self._send = send
        self._on_deleted = on_deleted

    def enqueue(self, topics: Iterable[str], *, ineligible: Iterable[str] = ()) -> None:
        """Queue topics, some of which have to wait."""
        self._context.being_deleted.update(topics)
        self._context.deletion_ineligible.update(self._context.being_deleted.intersection(ineligible))

    def retry(self, topics: Iterable[str]) -> None:
        """Try these topics again: what they waited for may be over."""
        topics = self._context.being_deleted.intersection(topics)
        if topics:
            self._context.deletion_ineligible -= topics
            self.resume()

    def succeeded(self, replicas: Iterable[Replica]) -> None:
        """Note replicas that a broker has deleted."""
        self._replicas.deletion_succeeded(self._started(replicas))
        self.resume()

    def failed(self, replicas: Iterable[Replica]) -> None:
        """Note replicas that a broker could not delete, or whose broker is away."""
        replicas = [one for one in replicas if one.partition.topic in self._context.being_deleted]
        if not replicas:
            return
        for replica in replicas:
            self._context.deletion_ineligible.add(replica.partition.topic)
        log.info("deletion waits for %s", ", ".join(map(str, replicas)))
        self._replicas.deletion_ineligible(
            one
            for one in replicas
            if self._context.replica_states.get(one) in (ReplicaState.DELETION_STARTED, ReplicaState.OFFLINE)
        )
        self.resume()

    def resume(self) -> None:
        """Move every deletion on as far as it goes now."""
        retried: list[Replica] = []
        eligible: list[str] = []
        for topic in sorted(self._context.being_deleted):
            if topic not in self._context.assignments or self._is_deleted_everywhere(topic):
                self._finish(topic)
                continue
            if self._context.in_state(topic, ReplicaState.DELETION_STARTED):
                continue
            if topic not in self._context.deletion_ineligible:
                retried.extend(self._context.in_state(topic, ReplicaState.DELETION_INELIGIBLE))
                eligible.append(topic)
        self._replicas.become_offline(retried)
        if eligible:
            self._begin(eligible)

    # -- inside --

    def _begin(self, topics: list[str]) -> None:
        fresh = [topic for topic in topics if topic not in self._context.deletion_begun]
        if fresh:
            log.info("deleting %s", ", ".join(fresh))
            partitions = self._context.partitions_of(fresh)
            self._partitions.become_offline(partitions)
            self._partitions.become_non_existent(partitions)
            self._context.deletion_begun.update(fresh)
            self._batch.add_update_metadata(self._context.live_brokers, partitions)
            self._send()
        dead: list[Replica] = []
        alive: list[Replica] = []
        for replica in self._context.replicas(topics):
            if self._context.replica_states.get(replica) is ReplicaState.DELETION_SUCCESSFUL:
                continue
            online = self._context.is_online(replica.partition, replica.broker)
            (alive if online else dead).append(replica)
        # Followers stop first and leave the ISR in silence; only then is anything removed.
        self._replicas.become_offline(alive)
        self._send()
        self._replicas.start_deletion(alive)
        self._send()
        if dead:
            self._context.deletion_ineligible.update(one.partition.topic for one in dead)
            self._replicas.become_offline(
                one for one in dead if self._context.replica_states.get(one) is not ReplicaState.OFFLINE
            )
            self._replicas.deletion_ineligible(dead)
            self._send()

    def _is_deleted_everywhere(self, topic: str) -> bool:
        return all(
            self._context.replica_states.get(one) is ReplicaState.DELETION_SUCCESSFUL
            for one in self._context.replicas((topic,))
        )

    def _finish(self, topic: str) -> None:
        self._replicas.become_non_existent(self._context.in_state(topic, ReplicaState.DELETION_SUCCESSFUL))
        self._states.delete_topic(topic)
        self._context.forget_topic(topic)
        self._on_deleted(topic)
        log.info("topic %s is deleted", topic)

    def _started(self, replicas: Iterable[Replica]) -> list[Replica]:
        return [
            one for one in replicas if self._context.replica_states.get(one) is ReplicaState.DELETION_STARTED
        ]
