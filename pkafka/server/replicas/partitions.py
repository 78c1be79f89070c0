"""The replicas whose logs this worker owns: those that it leads, those that it follows, and those out of reach.

No other process writes these logs. :mod:`pkafka.server.replicas.decisions` changes their leaders.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import BrokerId, Millis, TopicPartition
from pkafka.server.replicas.partition import Partition, PartitionKey
from pkafka.storage.log import Log


def owner_of(topic: str, partition: int, workers: int) -> int:
    """The index of the worker that owns a partition, which every process computes alike.

    Neighbouring partitions of a topic go to different workers, and topics start at different ones.
    """
    return (zlib.crc32(topic.encode()) + partition) % workers


class Partitions:
    """Holds all replicas of one worker.

    Args:
        broker_id: this broker.
        index: this worker.
        workers: how many there are.
        changed: called with the key of a partition whose leadership or existence changed.
        now_ms: a monotonic clock.
        lag_max_ms: gives ``replica.lag.time.max.ms``.
        is_alive: whether a broker is registered.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        index: int,
        workers: int,
        changed: Callable[[PartitionKey], None],
        now_ms: Callable[[], Millis],
        lag_max_ms: Callable[[], Millis],
        is_alive: Callable[[BrokerId], bool],
    ) -> None:
        self.broker_id = broker_id
        self.index = index
        self._workers = workers
        self.changed = changed
        self.now_ms = now_ms
        self.lag_max_ms = lag_max_ms
        self.is_alive = is_alive
        self.resigned = False
        """Whether the logs are about to be closed, so that nothing may be led any more."""
        self.led: dict[PartitionKey, Partition] = {}
        """The replicas that this broker leads: clients read and write these."""
        self.hosted: dict[PartitionKey, Partition] = {}
        self.offline: set[PartitionKey] = set()
        """The replicas whose log is out of reach until the broker starts again."""
        self.unclaimed: dict[PartitionKey, Log] = {}
        """Logs found on disk that no LeaderAndIsr has named yet."""
        self._owners: dict[str, int] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.hosted.values())

    def owner(self, topic: str, partition: int) -> int:
        """The worker that owns a partition (:func:`owner_of`, remembered per topic)."""
        base = self._owners.get(topic)
        if base is None:
            if len(self._owners) > 10_000:
                self._owners.clear()
            base = self._owners[topic] = owner_of(topic, 0, self._workers)
        return (base + partition) % self._workers

    def leader_of(self, topic: str, partition: int) -> Partition:
        """The partition, when this broker leads it and this worker owns it.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER when another broker leads it, UNKNOWN_TOPIC_OR_PARTITION.
        """
        found = self.led.get((topic, partition))
        if found is None:
            if (topic, partition) in self.hosted:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def logs(self) -> Iterator[Log]:
        """The open logs of all replicas, also of those that the controller has not named yet; without future
        replicas."""
        yield from (partition.log for partition in self.hosted.values())
        yield from self.unclaimed.values()

    def found_on_disk(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Take over the logs that were opened at start."""
        self.unclaimed.update({(key.topic, key.partition): value for key, value in logs.items()})

    def resign(self) -> None:
        """Lead nothing from now on: the logs are about to be closed."""
        self.resigned = True
        self.led.clear()

    def set_aside(self, directory: Path) -> None:
        """A log directory failed: its partitions are served no more."""
        for partition in list(self.hosted.values()):
            if partition.log.directory.parent == directory:
                partition.fail()  # before it is gone: producers that wait for its replicas hear of the disk
                del self.hosted[partition.key]
                self.led.pop(partition.key, None)
                self.offline.add(partition.key)
                self.changed(partition.key)
        for key, found in list(self.unclaimed.items()):
            if found.directory.parent == directory:
                del self.unclaimed[key]
                self.offline.add(key)
