"""What a worker knows of a partition that a client names: its replica, its leader, the best broker to read from."""

from typing import Final

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.hot import CurrentLeader
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.selection import Selector, replica_views

_LEADER: Final = -1


class Lookup:
    """Finds partitions, topics and leaders by what requests say of them.

    Args:
        partitions: the replicas of this worker.
        metadata: what the controller says of the whole cluster.
        selector: chooses the replica for a consumer (``replica.selector.class``); None: always the leader.
        clock: tells how long ago followers fetched.
    """

    def __init__(
        self, partitions: Partitions, metadata: MetadataCache, selector: Selector | None, clock: Clock
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._selector = selector
        self._clock = clock

    def topic_name(self, topic: str | bytes) -> str | None:
        """The name of a topic that a request names or gives the id of; None when the id is unknown."""
        return topic if isinstance(topic, str) else self._metadata.topic_name(topic)

    def knows(self, topic: str | bytes) -> bool:
        """Whether there is a topic of that name or id."""
        return self.topic_name(topic) in self._metadata.topics

    def preferred_replica(self, partition: Partition, offset: int, rack: str, listener: str) -> int:
        """The broker from which a consumer had better read, -1 when that is this one (KIP-392).

        Args:
            partition: one that this worker leads.
            offset: from where the consumer reads.
            rack: of the consumer.
            listener: of the consumer's connection; the other broker must have the same listener.
        """
        leadership = partition.leadership
        if self._selector is None or not rack or leadership is None or not leadership.has_followers:
            return _LEADER
        racks = {
            broker: info.rack for broker, info in self._metadata.brokers.items() if listener in info.endpoints
        }
        now_ms = self._clock.monotonic_ms()
        views = replica_views(leadership, partition.log.log_end_offset, racks, offset, now_ms)
        best = self._selector(rack, views[0], views)
        return _LEADER if best == leadership.broker_id else best

    def current_leader(self, topic: str, partition: int) -> CurrentLeader | None:
        """The leader of a partition that this worker would own, for a client that asks the wrong broker (KIP-951).

        The controller tells replicas first, so what this broker knows as a replica counts for more than its metadata.
        """
        known = self._partitions.hosted.get((topic, partition)) or self._metadata.partition(topic, partition)
        return None if known is None else CurrentLeader(known.leader, known.leader_epoch)

    def replica_at(
        self, topic: str, partition: int, current_leader_epoch: int, *, led_only: bool
    ) -> Partition:
        """A replica that this worker owns, for a client that believes in a leader epoch.

        As in Kafka, epochs are compared before the leader is: a client with an old epoch gets that error first.

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH; NOT_LEADER_OR_FOLLOWER when another broker leads it;
                or why there is no such replica.
        """
        found = self._partitions.hosted.get((topic, partition))
        if found is None:
            raise self.missing_partition(topic, partition)
        found.check_epoch(current_leader_epoch)
        if led_only and (topic, partition) not in self._partitions.led:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def missing_partition(self, topic: str, partition: int) -> ApiError:
        """Why this worker does not lead a partition that it would own."""
        if (topic, partition) in self._partitions.offline:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._metadata.partition(topic, partition) is not None:
            return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
