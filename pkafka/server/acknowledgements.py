"""Producers that wait for all replicas in sync, and are answered when these have their records (PURG-3, acks=all)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import LeaderEpoch, Millis, Offset
from pkafka.server.delayed import DelayedOperation
from pkafka.server.partition import Partition, PartitionKey

if TYPE_CHECKING:
    from pkafka.server.worker import Worker

Appended: TypeAlias = tuple[Partition, Offset]
"""A partition, and the offset behind what was appended to it."""
Done: TypeAlias = Callable[[Mapping[PartitionKey, ErrorCode]], None]


class _DelayedProduce(DelayedOperation):
    __slots__ = ("_codes", "_done", "_open")

    def __init__(self, appended: Sequence[Appended], done: Done) -> None:
        super().__init__()
        self._open: dict[PartitionKey, tuple[Partition, Offset, LeaderEpoch]] = {
            partition.key: (partition, end, partition.leader_epoch) for partition, end in appended
        }
        self._codes: dict[PartitionKey, ErrorCode] = {}
        self._done = done

    def try_complete(self) -> bool:
        for key, (partition, end, leader_epoch) in list(self._open.items()):
            code = partition.acknowledges(end, leader_epoch)
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


def wait_until_committed(
    worker: "Worker", appended: Sequence[Appended], *, timeout_ms: Millis, done: Done
) -> None:
    """Call back with a code for each partition when all in sync have what was appended; at once when they have.

    Args:
        worker: the owner of the partitions.
        timeout_ms: then those that are not there yet are answered with REQUEST_TIMED_OUT.
    """
    operation = _DelayedProduce(appended, done)
    if operation.try_complete():
        operation.force_complete()
    else:
        keys = [partition.key for partition, _ in appended]
        worker.produces.watch(operation, keys, timeout_ms=timeout_ms)
