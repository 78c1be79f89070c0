"""When an offset sync is sent (``OffsetSyncWriter``): at once, with the next commit, or when others are acknowledged.

Pure.
"""

import threading
from collections.abc import Iterator
from typing import Final

from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition

OUTSTANDING_MAX: Final = 10


class PartitionState:
    """What was copied of a partition, and whether its next record needs a sync.

    Args:
        lag_max: ``offset.lag.max``: by so many records may a translation be behind.
    """

    __slots__ = ("_downstream", "_lag_max", "_synced", "_upstream")

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._upstream = -1
        self._downstream = -1
        self._synced = -1
        """The offset downstream of the last sync that was due."""

    def is_due(self, upstream: int, downstream: int) -> bool:
        """Note a record that was copied.

        Returns:
            Whether to tell of it at once: it is the first, the last translation is too far behind (one past the last
            sync), the source has a gap or went back, or the target went back.
        """
        due = (
            self._synced == -1
            or downstream - (self._synced + 1) >= self._lag_max
            or upstream - self._upstream != 1
            or downstream < self._downstream
        )
        if due:
            self._synced = downstream
        self._upstream, self._downstream = upstream, downstream
        return due

    def dues(self, upstream: int, downstream: int, count: int) -> list[int]:
        """As :meth:`is_due` for records that follow each other at both ends.

        Args:
            upstream, downstream: offsets of the first.
            count: of the records, at least one.

        Returns:
            Which of them are due, counted from 0.
        """
        found = [0] if self.is_due(upstream, downstream) else []
        step = max(1, self._lag_max + 1)
        index = max(1, self._synced + step - downstream)
        while index < count:
            found.append(index)
            self._synced = downstream + index
            index += step
        self._upstream, self._downstream = upstream + count - 1, downstream + count - 1
        return found


class OffsetSyncQueue:
    """Keeps syncs until they may be sent, of each partition the latest. Any thread may call it.

    Args:
        lag_max: as of :class:`PartitionState`.
        outstanding_max: so many may be unacknowledged.
    """

    def __init__(self, lag_max: int, outstanding_max: int = OUTSTANDING_MAX) -> None:
        self._lag_max = lag_max
        self._free = outstanding_max
        self._lock = threading.Lock()
        self._states: dict[TopicPartition, PartitionState] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}

    def note(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        """A record of a partition of the source is in its copy."""
        sync = OffsetSync(partition, upstream, downstream)
        with self._lock:
            if self._state(partition).is_due(upstream, downstream):
                self._delayed.pop(partition, None)
                self._pending[partition] = sync
            else:
                self._delayed[partition] = sync

    def note_run(
        self, partition: TopicPartition, upstream: int, downstream: int, count: int
    ) -> Iterator[None]:
        """Records that follow each other are in the copy, from these offsets on.

        Yields:
            After each that is due, so that it is sent before the next takes its place.
        """
        with self._lock:
            dues = self._state(partition).dues(upstream, downstream, count)
        for index in dues:
            with self._lock:
                self._delayed.pop(partition, None)
                self._pending[partition] = OffsetSync(partition, upstream + index, downstream + index)
            yield
        if not dues or dues[-1] != count - 1:
            with self._lock:
                last = OffsetSync(partition, upstream + count - 1, downstream + count - 1)
                self._delayed[partition] = last

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._states.get(partition)
        if state is None:
            state = self._states[partition] = PartitionState(self._lag_max)
        return state

    def promote(self) -> None:
        """Let go what waits for a commit, so that a partition with few records does not stay behind."""
        with self._lock:
            self._pending.update(self._delayed)
            self._delayed.clear()

    def take(self) -> OffsetSync | None:
        """The next to send, which :meth:`settled` has to follow; None: none is due, or too many are unacknowledged."""
        with self._lock:
            if not self._pending or not self._free:
                return None
            self._free -= 1
            return self._pending.pop(next(iter(self._pending)))

    def settled(self) -> None:
        """One that was taken was acknowledged, or has failed."""
        with self._lock:
            self._free += 1
