"""What a partition knows of its producers: sequences, epochs and open transactions.

Rules only, kept in memory; producer_snapshot.py has the file format, the log decides when snapshots are taken. Sequence
numbers wrap from 2^31-1 to 0. The last five batches of each producer are remembered, so that a resend is answered with
the offset of the original instead of being written twice.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_OFFSET

BATCHES_REMEMBERED: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_COORDINATOR_EPOCH: Final = -1
_new_tuple: Final = tuple.__new__


class BatchMetadata(NamedTuple):
    """One remembered batch."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset that a duplicate is answered with."""
        return self.last_offset - self.offset_delta


class ProducerBatch(NamedTuple):
    """What the rules need of a batch that is about to be written, its offsets already chosen."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    is_transactional: bool


class CompletedTransaction(NamedTuple):
    """A transaction whose marker was written at ``last_offset``."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Verification:
    """Stands for the attempts to verify a producer's transaction in a partition (KIP-890).

    There is one from the first attempt until the transaction begins in the log, or a marker comes. An answer that was
    asked for under one that is there no more says nothing of a transaction of today (KAFKA-14884).
    """

    __slots__ = ("epoch", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches that wait, or were refused: none with a higher sequence may come before that one."""
        self.since_ms = now_ms

    def attempt(self, epoch: int, sequence: int) -> None:
        """Note one more batch that is to be verified."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

    def check_sequence(self, batch: ProducerBatch) -> None:
        """Whether a client's batch is not ahead of one that is still to be verified.

        Raises:
            ApiError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if batch.producer_epoch == self.epoch and batch.first_sequence > self.lowest_sequence:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id} at offset {batch.base_offset}: "
                f"{batch.first_sequence} (incoming seq. number), {self.lowest_sequence} (earliest seen sequence)",
            )


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.batches: tuple[BatchMetadata, ...] = ()

    def copy(self) -> "ProducerEntry":
        """A copy to try a batch on."""
        other = ProducerEntry(self.producer_id)
        other.producer_epoch = self.producer_epoch
        other.coordinator_epoch = self.coordinator_epoch
        other.last_timestamp = self.last_timestamp
        other.transaction_first_offset = self.transaction_first_offset
        other.batches = self.batches
        return other

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 before the first."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The offset of the last record that is no marker, -1 before the first."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The remembered batch with exactly these sequences."""
        if epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None

    def check_sequence(self, batch: ProducerBatch) -> None:
        """Whether a client's batch, of an epoch that is not an old one, follows the batches before it.

        Raises:
            ApiError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        first = batch.first_sequence
        if batch.producer_epoch != self.producer_epoch:
            # A producer that is not known any more (its records are gone) may begin anywhere.
            if first != 0 and self.producer_epoch != NO_PRODUCER_EPOCH:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {self.producer_id} at offset "
                    f"{batch.base_offset}: {batch.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{self.producer_epoch} (current producer epoch)",
                )
        elif first != advance_sequence(self.last_sequence, 1):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {self.producer_id} at offset {batch.base_offset}: "
                f"{first} (incoming seq. number), {self.last_sequence} (current end sequence number)",
            )

    def add(self, batch: ProducerBatch) -> bool:
        """Remember a data batch.

        Returns:
            Whether it began a transaction.

        Raises:
            ApiError: INVALID_TXN_STATE for a batch outside the producer's own open transaction.
        """
        (_, epoch, first_sequence, last_sequence, base_offset, last_offset, timestamp, is_transactional) = (
            batch
        )
        if self.transaction_first_offset != NO_OFFSET and not is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {self.producer_id} at offset {base_offset}",
            )
        if epoch != self.producer_epoch:
            self._take_epoch(epoch)
        # Made without the call of their class, like the batches of batch_scan.
        remembered: BatchMetadata = _new_tuple(
            BatchMetadata, (first_sequence, last_sequence, last_offset, last_offset - base_offset, timestamp)
        )
        self.batches = (*self.batches[1 - BATCHES_REMEMBERED :], remembered)
        self.last_timestamp = timestamp
        if is_transactional and self.transaction_first_offset == NO_OFFSET:
            self.transaction_first_offset = base_offset
            return True
        return False

    def end_transaction(
        self,
        *,
        producer_epoch: int,
        coordinator_epoch: int,
        is_aborted: bool,
        offset: int,
        timestamp: int,
        check: bool,
    ) -> CompletedTransaction | None:
        """Take a marker.

        Returns:
            The transaction that it ended, None for an empty one.

        Raises:
            ApiError: with ``check``, INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        if check:
            self.check_epoch(producer_epoch, offset)
            if self.coordinator_epoch > coordinator_epoch:
                raise ApiError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"Invalid coordinator epoch for producerId {self.producer_id} at offset {offset}: "
                    f"{coordinator_epoch} (zombie), {self.coordinator_epoch} (current)",
                )
        completed = None
        if self.transaction_first_offset != NO_OFFSET:
            completed = CompletedTransaction(
                self.producer_id, self.transaction_first_offset, offset, is_aborted
            )
        self._take_epoch(producer_epoch)
        self.transaction_first_offset = NO_OFFSET
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp  # also when it is before that of a record, as in Kafka
        return completed

    def check_epoch(self, epoch: int, offset: int) -> None:
        """Whether a batch is of an epoch that is not an old one.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH.
        """
        if epoch < self.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {self.producer_id} at offset {offset} is {epoch}, which is smaller than the "
                f"last seen epoch {self.producer_epoch}",
            )

    def _take_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches = ()


class Producers:
    """All producers of one partition and its open transactions."""

    __slots__ = ("_ongoing", "_undecided", "entries", "verifications")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.verifications: dict[int, Verification] = {}
        """By producer id, for transactions that have not begun in the log yet. Not a part of snapshots; it stays when
        the log is cut, as the next leader's log has every marker that is committed."""
        # Both keyed by first offset. Ongoing ones are added in log order, so the first key is the lowest. A completed
        # one stays until its marker is replicated: until then a new leader could still lack it.
        self._ongoing: dict[int, int] = {}
        self._undecided: dict[int, CompletedTransaction] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, producer_id: int) -> ProducerEntry:
        """The entry of a producer; a new one, not kept yet, for an unknown producer."""
        return self.entries.get(producer_id) or ProducerEntry(producer_id)

    def put(self, entry: ProducerEntry) -> None:
        """Keep the entry that a batch was tried on."""
        self.entries[entry.producer_id] = entry

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer's transaction has begun in the log under this epoch, or a later one, and has not ended."""
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.transaction_first_offset != NO_OFFSET
            and epoch <= entry.producer_epoch
        )

    def verify(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> Verification:
        """Note that a producer's batch is to be verified.

        Args:
            sequence: the first of the batch.
            now_ms: the wall clock.

        Returns:
            What the attempt is made under. The batch may be written while :attr:`verifications` has the same object.
        """
        found = self.verifications.get(producer_id)
        if found is None:
            found = self.verifications[producer_id] = Verification(epoch, sequence, now_ms)
        else:
            found.attempt(epoch, sequence)
        return found

    def end_verification(self, producer_id: int) -> None:
        """A transactional batch or a marker of a producer was written."""
        if self.verifications:
            self.verifications.pop(producer_id, None)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A transaction began at ``first_offset``."""
        self._ongoing[first_offset] = producer_id

    def complete(self, transaction: CompletedTransaction) -> None:
        """Its marker is written; it counts as open until the high watermark passes the marker."""
        self._ongoing.pop(transaction.first_offset, None)
        self._undecided[transaction.first_offset] = transaction

    def stable_offset_after(self, transaction: CompletedTransaction) -> int:
        """The last stable offset once ``transaction`` is complete: what its index entry records."""
        for first_offset in self._ongoing:
            if first_offset != transaction.first_offset:
                return first_offset
        return transaction.last_offset + 1

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open or whose marker is not replicated."""
        if not self._undecided:
            return next(iter(self._ongoing), None)
        first = min(self._undecided)
        return min(first, next(iter(self._ongoing), first))

    @property
    def of_oldest_transaction(self) -> ProducerEntry | None:
        """The producer of the open transaction that began first; None where none is open."""
        producer_id = next(iter(self._ongoing.values()), None)
        return None if producer_id is None else self.get(producer_id)

    def has_late_transaction(self, now_ms: int, late_after_ms: int) -> bool:
        """Whether the producer of the oldest open transaction has been silent for longer than any transaction may take.

        Args:
            now_ms: the wall clock.
            late_after_ms: how long that is.
        """
        entry = self.of_oldest_transaction
        return entry is not None and 0 < entry.last_timestamp < now_ms - late_after_ms

    def on_high_watermark(self, high_watermark: int) -> int | None:
        """Markers below it are replicated. Returns the first unstable offset that is left."""
        if self._undecided:
            self._undecided = {
                first: done for first, done in self._undecided.items() if done.last_offset >= high_watermark
            }
        elif not self._ongoing:
            return None
        return self.first_unstable_offset

    def on_log_start(self, log_start_offset: int) -> None:
        """Completed transactions below the start need no watching; sequences are kept until they expire."""
        self._undecided = {
            first: done for first, done in self._undecided.items() if done.last_offset >= log_start_offset
        }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without a write for ``expiration_ms`` (KIP-854).

        Returns:
            How many.
        """
        gone = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        forgotten = [
            producer_id
            for producer_id, one in self.verifications.items()
            if now_ms - one.since_ms >= expiration_ms
        ]
        for producer_id in forgotten:
            del self.verifications[producer_id]
        return len(gone)

    def clear(self) -> None:
        """Forget everything."""
        self.entries.clear()
        self._ongoing.clear()
        self._undecided.clear()

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Take the entries of a snapshot."""
        self.clear()
        for entry in entries:
            self.entries[entry.producer_id] = entry
        open_ones = [entry for entry in self.entries.values() if entry.transaction_first_offset != NO_OFFSET]
        for entry in sorted(open_ones, key=lambda one: one.transaction_first_offset):
            self._ongoing[entry.transaction_first_offset] = entry.producer_id


def advance_sequence(sequence: int, step: int) -> int:
    """``sequence`` moved by ``step`` (either way), wrapping from 2^31-1 to 0; -1 plus 1 is 0."""
    return (sequence + step) & SEQUENCE_MAX if sequence >= 0 else sequence + step
