"""Requests that wait for a partition to move on, and what moves it: appends, followers, deaths of brokers."""

from collections.abc import Callable, Collection

from pkafka.model import BrokerId
from pkafka.server.replicas.delayed import Purgatory, Timer
from pkafka.server.replicas.leadership import IsrProposal
from pkafka.server.replicas.partition import Bound, Partition, PartitionKey
from pkafka.server.replicas.partitions import Partitions


class Progress:
    """The purgatories of one worker, and the events that wake what waits in them.

    Args:
        timer: ends waits.
        partitions: the replicas of this worker.
        propose: takes a change of an ISR that a follower's fetch calls for.
    """

    def __init__(
        self, timer: Timer, partitions: Partitions, propose: Callable[[Partition, IsrProposal], None]
    ) -> None:
        self.fetches = Purgatory("Fetch", timer)
        self.produces = Purgatory("Produce", timer)
        self.deletions = Purgatory("DeleteRecords", timer)
        self._partitions = partitions
        self._propose = propose

    def appended(self, partition: Partition) -> None:
        """Wake the requests that wait for records which this broker, the leader, has just appended."""
        leadership = partition.leadership
        if leadership is not None and leadership.has_followers:
            # One answer then takes all that comes in this turn: a follower asks half as often.
            self.fetches.check_soon(partition.end_key)
            self.let_read(partition)
        else:
            self._let_consumers_read(partition)  # and no producer waits for others

    def follower_fetched(self, partition: Partition, broker_id: int, offset: int, log_start: int) -> None:
        """Note that a follower has all records before ``offset``.

        That may commit records, and may bring the follower into the ISR.
        """
        proposal = partition.follower_fetched(broker_id, offset, log_start)
        if proposal is not None:
            self._propose(partition, proposal)
        self.let_read(partition)
        self.deletions.check(partition.key)

    def brokers_changed(self, brokers: Collection[BrokerId]) -> None:
        """Note that these brokers are gone, or have come: a leader does not wait for followers that are gone."""
        if not brokers:
            return
        for partition in list(self._partitions.led.values()):
            changed = [broker for broker in partition.replicas if broker in brokers]
            if changed:
                for broker in changed:
                    partition.broker_changed(broker)
                self.let_read(partition)
                self.deletions.check(partition.key)

    def let_read(self, partition: Partition) -> None:
        """Advance the high watermark: consumers get what is committed, and producers their answers."""
        if self._let_consumers_read(partition) or partition.log.failure is not None:
            self.produces.check(partition.key)

    def _let_consumers_read(self, partition: Partition) -> bool:
        """Advance the high watermark and the last stable offset, and wake the consumers that wait for either.

        Returns:
            Whether the high watermark moved. Without that the last stable offset does not move.
        """
        log = partition.log
        stable = log.last_stable_offset
        if not partition.advance_high_watermark():
            return False
        if self.fetches.watched:
            self.fetches.check(partition.key)
            if log.last_stable_offset != stable:
                self.fetches.check(partition.stable_key)
        return True

    def partition_changed(self, key: PartitionKey) -> None:
        """Look at all requests that wait for a partition whose leader, replicas or log have changed."""
        for bound in Bound:
            self.fetches.check(bound.key(*key))
        self.produces.check(key)
        self.deletions.check(key)
