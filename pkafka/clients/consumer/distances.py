"""How far the positions of a consumer are from the ends of their logs: its lag and lead, as metrics and for callers."""

from collections.abc import Callable

from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.consumer.subscription import Subscription
from pkafka.model import TopicPartition


class Distances:
    """The lag and the lead of each partition.

    Args:
        read_committed: whether the end is that of the last transaction which ended.
    """

    def __init__(self, subscription: Subscription, metrics: ConsumerMetrics, *, read_committed: bool) -> None:
        self._subscription = subscription
        self._metrics = metrics
        self._read_committed = read_committed
        self._changes = 0
        self._watched: set[TopicPartition] = set()

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end that was last seen; None before one was.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        state = self._subscription.state(partition)
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position)

    def lead(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is ahead of the beginning that was last seen; None before one was.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        state = self._subscription.state(partition)
        start = state.log_start_offset
        if start is None or start < 0 or state.position is None:
            return None
        return max(0, state.position - start)

    def record(self, partition: TopicPartition) -> None:
        """Records of a partition are handed out."""
        self._metrics.distances(partition, self.lag(partition), self.lead(partition))

    def watch(self) -> None:
        """Show the lag and lead of every partition that is assigned now, and of no other."""
        if self._changes == self._subscription.changes:
            return
        self._changes = self._subscription.changes
        assigned = set(self._subscription.partitions)
        for partition in self._watched - assigned:
            self._metrics.forget_distances(partition)
        for partition in assigned - self._watched:
            self._metrics.watch_distances(
                partition, self._gauge(partition, self.lag), self._gauge(partition, self.lead)
            )
        self._watched = assigned

    def _gauge(
        self, partition: TopicPartition, distance: Callable[[TopicPartition], int | None]
    ) -> Callable[[], float]:
        def read() -> float:
            found = distance(partition) if self._subscription.get(partition) is not None else None
            return float("nan") if found is None else found

        return read
