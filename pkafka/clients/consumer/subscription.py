"""What a consumer reads and how far it is, per partition (CONS-5). Knows no socket."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pkafka.model import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1


@dataclass(slots=True)
class PartitionState:
    """How far one partition is read."""

    position: int | None = None
    reset_to: int | None = None
    """The time to look an offset up for, when there is no position: EARLIEST, LATEST or milliseconds."""
    paused: bool = False
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    leader_epoch: int = -1
    retry_at_ms: int = 0


class Subscription:
    """The partitions of a consumer with their states."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the partitions; those that stay keep their position (CONS-11)."""
        self._states = {each: self._states.get(each) or PartitionState() for each in partitions}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The assigned partitions, in the order of the assignment."""
        return list(self._states)

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition.

        Raises:
            ValueError: it is not assigned.
        """
        try:
            return self._states[partition]
        except KeyError:
            raise ValueError(f"No current assignment for partition {partition}") from None

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition, None when it is not assigned (any more)."""
        return self._states.get(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        state = self.state(partition)
        state.position, state.reset_to, state.retry_at_ms = offset, None, 0

    def reset(self, partition: TopicPartition, to: int) -> None:
        """Forget the position and look it up by time before the next fetch."""
        state = self.state(partition)
        state.position, state.reset_to, state.retry_at_ms = None, to, 0

    def topics(self) -> set[str]:
        """The topics of the assigned partitions."""
        return {partition.topic for partition in self._states}

    def fetchable(self, now_ms: int) -> list[TopicPartition]:
        """The partitions that have a position and are neither paused nor waiting to be tried again."""
        return [
            partition
            for partition, state in self._states.items()
            if state.position is not None and not state.paused and state.retry_at_ms <= now_ms
        ]

    def without_position(self) -> list[TopicPartition]:
        """The partitions that need an offset looked up."""
        return [partition for partition, state in self._states.items() if state.position is None]
