"""Producers with acks=all, which get their answer when all replicas in sync have their records."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import Millis, Offset
from pkafka.server.replicas.delayed import DelayedOperation, Purgatory
from pkafka.server.replicas.leadership import Leadership
from pkafka.server.replicas.partition import Partition, PartitionKey

Done: TypeAlias = Callable[[Mapping[PartitionKey, ErrorCode]], None]
"""Called once with the codes of partitions; NONE stands for those that it does not name."""


class Unacknowledged(NamedTuple):
    """Records in a leader's log that all replicas in sync have to have.

    Attributes:
        partition: of the records.
        end: the offset behind them.
        leadership: the leadership when they were appended. Once this broker has followed another one, its records may
            have been cut off, and others committed in their place.
    """

    partition: Partition
    end: Offset
    leadership: Leadership | None

    @classmethod
    def up_to(cls, partition: Partition, end: Offset) -> "Unacknowledged":
        """What a partition has now before an offset."""
        return cls(partition, end, partition.leadership)


class DelayedProduce(DelayedOperation):
    """Waits until all replicas in sync have the records that were appended.

    When the leader epoch rises while this broker leads on, the records keep waiting: the controller raises the epoch
    whenever a broker dies and its replica leaves the ISR.

    Args:
        appended: what.
        done: called back with a code for each partition.
    """

    __slots__ = ("_codes", "_done", "_open")

    def __init__(self, appended: Iterable[Unacknowledged], done: Done) -> None:
        super().__init__()
        self._open = {one.partition.key: one for one in appended}
        self._codes: dict[PartitionKey, ErrorCode] = {}
        self._done = done

    def fail(self, key: PartitionKey, code: ErrorCode) -> None:
        """Wait for a partition no longer, as its records are not safe here."""
        self._open.pop(key, None)
        self._codes[key] = code

    def begin(self, waiting: Purgatory, *, timeout_ms: Millis) -> None:
        """Call back when all have what was appended; at once when they have.

        Args:
            waiting: the producers that wait for the partitions of this worker.
            timeout_ms: then those that are not there yet are answered with REQUEST_TIMED_OUT.
        """
        keys = list(self._open)
        if self.try_complete():
            self.force_complete()
        else:
            waiting.watch(self, keys, timeout_ms=timeout_ms)

    def try_complete(self) -> bool:
        for key, (partition, end, leadership) in list(self._open.items()):
            code = partition.acknowledges(end, leadership)
            if code is not None:
                self._codes[key] = code
                del self._open[key]
        return not self._open

    def on_expiration(self) -> None:
        # The records are in the leader's log and may well be committed later: a retry of an idempotent producer finds
        # them, any other writes them again.
        self._codes.update(dict.fromkeys(self._open, ErrorCode.REQUEST_TIMED_OUT))

    def on_complete(self) -> None:
        self._done(self._codes)

    def on_failure(self, error: Exception) -> None:
        self._done(self._codes | dict.fromkeys(self._open, ErrorCode.UNKNOWN_SERVER_ERROR))
