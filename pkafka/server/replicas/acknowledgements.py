"""Producers with acks=all, which get their answer when all replicas in sync have their records."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import Millis, Offset
from pkafka.server.replicas.delayed import DelayedOperation
from pkafka.server.replicas.leadership import Leadership
from pkafka.server.replicas.partition import Partition, PartitionKey

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker

Appended: TypeAlias = tuple[Partition, Offset]
"""A partition, and the offset behind what was appended to it."""
Done: TypeAlias = Callable[[Mapping[PartitionKey, ErrorCode]], None]


class DelayedProduce(DelayedOperation):
    """Waits until all replicas in sync have the records that were appended just now.

    It must be made before anything else is waited for: once this broker has followed another one, its records may have
    been cut off, and others committed in their place. When the leader epoch rises while this broker leads on, the
    records keep waiting: the controller raises the epoch whenever a broker dies and its replica leaves the ISR.

    Args:
        appended: what.
        done: called back with a code for each partition.
    """

    __slots__ = ("_codes", "_done", "_open")

    def __init__(self, appended: Sequence[Appended], done: Done) -> None:
        super().__init__()
        self._open: dict[PartitionKey, tuple[Partition, Offset, Leadership | None]] = {
            partition.key: (partition, end, partition.leadership) for partition, end in appended
        }
        self._codes: dict[PartitionKey, ErrorCode] = {}
        self._done = done

    def begin(self, worker: "Worker", *, timeout_ms: Millis) -> None:
        """Call back when all have what was appended; at once when they have.

        Args:
            worker: the owner of the partitions.
            timeout_ms: then those that are not there yet are answered with REQUEST_TIMED_OUT.
        """
        keys = list(self._open)
        if self.try_complete():
            self.force_complete()
        else:
            worker.progress.produces.watch(self, keys, timeout_ms=timeout_ms)

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
