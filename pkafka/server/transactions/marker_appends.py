"""Appends markers to the partitions of one worker, for the coordinators of this broker and of others."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC, NO_OFFSET, NO_PRODUCER_ID, Millis, Offset, ProducerId
from pkafka.records.control import build_end_marker
from pkafka.records.validation import trust
from pkafka.server.replicas.appending import Appended, Appending, Unsafe
from pkafka.server.replicas.disks import LOG_ERRORS, Disks
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.transaction import NO_PRODUCER_EPOCH, PartitionKey

_APART: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Refusals of one marker, which say nothing of the others."""
_NONE: Final = ErrorCode.NONE
"""Looked up once: the members of an enumeration are slow to get at."""


class ProducerAt(NamedTuple):
    """Says what the log of a partition knows of a producer; the defaults stand for a producer that it does not know."""

    producer_epoch: int = -1
    coordinator_epoch: int = -1
    transaction_first_offset: Offset = NO_OFFSET

    @property
    def is_open(self) -> bool:
        """Whether the producer has an open transaction in the partition."""
        return self.transaction_first_offset != NO_OFFSET


class Offsets(Protocol):
    """The committed offsets of this worker's groups, which count when a transaction ends."""

    def refusal(self, partition: int) -> ErrorCode:
        """Why no transaction can end in a partition of __consumer_offsets at the moment; NONE when it can."""
        ...

    def complete_transaction(self, partition: int, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Take over, or forget, what a transaction committed to groups of a partition; its marker is committed."""
        ...


class MarkerAppends:
    """Appends markers, and says when they are committed.

    Args:
        partitions: the replicas of this worker.
        appending: appends to them, and waits.
        disks: of the broker.
        offsets: of this worker's groups.
        clock: wall clock, for the markers' timestamps.
    """

    def __init__(
        self,
        partitions: Partitions,
        appending: Appending,
        disks: Disks,
        offsets: Offsets,
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._appending = appending
        self._disks = disks
        self._offsets = offsets
        self._clock = clock

    def append(
        self,
        key: PartitionKey,
        markers: Sequence[Marker],
        done: Callable[[Sequence[ErrorCode]], None],
        *,
        timeout_ms: Millis,
    ) -> None:
        """Append markers to one partition, in one write where all are accepted; now or later, call back.

        Args:
            done: gets a code for each marker, once the replicas in sync have it and, in __consumer_offsets, its groups
                have what the transaction committed.
            timeout_ms: how long to wait for replicas.
        """
        codes: list[ErrorCode] = []
        unsafe: Unsafe | None = None
        try:
            for outcome in self._append_all(self._led(key), markers):
                if isinstance(outcome, ErrorCode):
                    codes.append(outcome)
                else:
                    codes.append(_NONE)
                    unsafe = outcome[1] or unsafe
        except LOG_ERRORS as error:
            done([self._disks.refused(*key, error)] * len(markers))
            return
        if unsafe is None:
            self._safe(key, markers, codes, done, {})
        else:
            # The last one waits for all before it.
            safe = partial(self._safe, key, markers, codes, done)
            self._appending.when_safe([unsafe], safe, timeout_ms=timeout_ms)

    def _safe(
        self,
        key: PartitionKey,
        markers: Sequence[Marker],
        codes: list[ErrorCode],
        done: Callable[[Sequence[ErrorCode]], None],
        failures: Mapping[PartitionKey, ErrorCode],
    ) -> None:
        """Markers are as safe as they will be: those without a code yet are committed unless there is a failure."""
        if failures:
            failure = failures.get(key, _NONE)
            codes = [code or failure for code in codes]
        if key[0] == CONSUMER_OFFSETS_TOPIC:
            for code, marker in zip(codes, markers, strict=True):
                if not code:
                    self._offsets.complete_transaction(key[1], marker.producer_id, is_commit=marker.is_commit)
        done(codes)

    def producer_at(self, key: PartitionKey, producer_id: ProducerId) -> ProducerAt | None:
        """What the log of a partition knows of a producer; None when this worker does not lead the partition."""
        partition = self._partitions.led.get(key)
        if partition is None:
            return None
        entry = partition.log.producers.entries.get(producer_id)
        if entry is None:
            return ProducerAt()
        return ProducerAt(entry.producer_epoch, entry.coordinator_epoch, entry.transaction_first_offset)

    def _led(self, key: PartitionKey) -> Partition:
        partition = self._partitions.led.get(key)
        if partition is None:
            # Kafka looks at its replicas, not at the metadata: a partition that lives on other brokers is unknown.
            is_here = key in self._partitions.hosted
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if is_here else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if key[0] == CONSUMER_OFFSETS_TOPIC and (refusal := self._offsets.refusal(key[1])):
            raise ApiError(refusal)
        partition.check_enough_in_sync()
        return partition

    def _append_all(self, partition: Partition, markers: Sequence[Marker]) -> list[Appended | ErrorCode]:
        try:
            return [self._append(partition, markers)] * len(markers)
        except ApiError as error:
            if error.code not in _APART:
                raise
            if len(markers) == 1:
                return [ErrorCode(error.code)]
        return [outcome for marker in markers for outcome in self._append_all(partition, [marker])]

    def _append(self, partition: Partition, markers: Sequence[Marker]) -> Appended:
        now_ms = self._clock.now_ms()
        data = bytearray()
        for marker in markers:
            if _is_nonsense(marker):
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            data += build_end_marker(
                committed=marker.is_commit,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=now_ms,
            )
        return self._appending.append(partition, trust(data), needs_all=True, now_ms=now_ms)


def _is_nonsense(marker: Marker) -> bool:
    """Whether a marker names no producer. Kafka cannot make a batch of it, and says UNKNOWN_SERVER_ERROR."""
    return marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH
