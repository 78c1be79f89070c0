"""Sequence numbers of an idempotent producer: what a batch is sent with, and what an error says about it.

The part of Kafka's TransactionManager that is about batches (KIP-98, KIP-185, KIP-360). Decisions only: the sender
asks, sends and waits. Everything here belongs to the sender thread.
"""

import logging
from typing import Final

from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.queues import PartitionQueue
from pkafka.errors import ErrorCode

_EPOCH_MAX: Final = 0x7FFF
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NO_SEQUENCE: Final = -1
_log = logging.getLogger(__name__)


class Idempotence:
    """The producer id and epoch, and the sequences of every partition (kept in its queue).

    Args:
        transactional: whether the transaction coordinator alone changes the epoch: where sequences broke, the
            transaction is aborted and :meth:`adopt` begins anew.
    """

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self.producer: tuple[int, int] | None = None
        """Id and epoch; None while the broker has to be asked for an id."""
        self._to_restart: dict[PartitionQueue, None] = {}
        self._unresolved: dict[PartitionQueue, int] = {}

    # -- before a batch goes ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Do what the failures since the last call ask for: a new epoch, and sequences from 0 where they broke."""
        self._resolve()
        if not self._to_restart or self.producer is None:
            return
        producer_id, epoch = self.producer
        if epoch >= _EPOCH_MAX:
            self.producer = None  # a new id begins with epoch 0; nothing goes before it is there
            return
        self.producer = (producer_id, epoch + 1)
        self._restart()

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Take the id that a broker gave."""
        self.producer = (producer_id, epoch)
        if self._transactional:
            self._unresolved.clear()
        self._restart()

    def is_blocked(self, queue: PartitionQueue) -> bool:
        """Whether the first batch of a queue must wait for others of its partition."""
        batch = queue.batches[0]
        if batch.sequence == _NO_SEQUENCE:
            if queue in self._unresolved:
                return True
            # A leader that does not know this producer yet takes any sequence for the first. Were the first batch of
            # several in flight refused, because the leader was not ready, the next would take its place for good.
            if queue.tracked and queue.last_acked_sequence == _NO_SEQUENCE:
                return True
            return bool(queue.tracked) and queue.producer != self.producer
        # One that goes again goes alone, and in order: as Kafka, that leaves one request in flight.
        return bool(queue.tracked) and queue.tracked[0] is not batch

    def waits_for_another_leader(self, queue: PartitionQueue, leader_id: int) -> bool:
        """Whether the first batch of a queue must wait for answers of a broker that has led before.

        Brokers take any sequence of a producer that they do not know, and recognise only the last five batches when
        they come again. A new leader that is sent what follows, before the old one has let go of what it was sent,
        can do either: take the later for the first, or forget the earlier.
        """
        if queue.batches[0].sequence != _NO_SEQUENCE:
            return False
        return any(batch.last_leader[0] != leader_id for batch in queue.tracked)

    def assign(self, batch: ProducerBatch) -> None:
        """Give a batch that goes now its sequence, unless it keeps the one that it has."""
        assert self.producer is not None
        if batch.sequence != _NO_SEQUENCE:
            return
        queue = batch.queue
        if queue.producer != self.producer:
            queue.producer = self.producer
            queue.next_sequence = 0
            queue.last_acked_sequence = _NO_SEQUENCE
        batch.producer = self.producer
        batch.sequence = queue.next_sequence
        queue.next_sequence = _after(batch)
        queue.tracked.append(batch)

    # -- when it came back --------------------------------------------------------------------------------

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        """A batch is in the log."""
        queue = batch.queue
        if batch.producer == queue.producer:
            queue.last_acked_sequence = max(queue.last_acked_sequence, _after(batch) - 1 & _SEQUENCE_MASK)
        if base_offset >= 0:
            queue.last_acked_offset = max(queue.last_acked_offset, base_offset + batch.count - 1)
        self._forget(batch)

    def may_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether an error that depends on sequences will pass; asks for a new epoch where it needs one.

        Args:
            log_start_offset: of the answer; -1 when it does not say.
        """
        queue = batch.queue
        if self._transactional and code in (
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ):
            # What may pass is one before it that is to come again; all else is the transaction's end.
            is_early = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._is_next(batch)
            return is_early and queue not in self._unresolved
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset != -1 and not batch.sequence_was_reset:
                # The broker lost what it knew, with the head of the log or otherwise: sequences begin again.
                self._to_restart[queue] = None
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            unresolved = self._unresolved.get(queue)
            if unresolved is None and (batch.sequence_was_reset or not self._is_next(batch)):
                return True  # one before it is to come again
            if unresolved is None or unresolved == batch.sequence:
                self._to_restart[queue] = None  # there is a gap indeed
            return True
        return code.retriable

    def failed(self, batch: ProducerBatch, error: Exception, *, sequence_is_free: bool) -> None:
        """A batch was given up.

        Args:
            sequence_is_free: whether the broker said no; otherwise it may have taken the batch nevertheless.
        """
        self._forget(batch)
        if batch.sequence == _NO_SEQUENCE:
            return
        code = getattr(error, "code", None)
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            batch.queue.next_sequence = 0
            batch.queue.last_acked_sequence = _NO_SEQUENCE
        elif sequence_is_free or code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._to_restart[batch.queue] = None

    def expired(self, batch: ProducerBatch) -> None:
        """A batch was given up without an answer: where it has a sequence, whether that was used is not known."""
        self._forget(batch)
        if batch.sequence != _NO_SEQUENCE:
            queue = batch.queue
            self._unresolved[queue] = max(self._unresolved.get(queue, 0), _after(batch))

    def split(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """Two halves take the sequences of a batch that was too large."""
        tracked = batch.queue.tracked
        if batch not in tracked:
            return
        position = tracked.index(batch)
        tracked[position : position + 1] = halves
        sequence = batch.sequence
        for half in halves:
            half.producer = batch.producer
            half.sequence = sequence
            half.sequence_was_reset = batch.sequence_was_reset
            sequence = _after(half)

    # -- inside -------------------------------------------------------------------------------------------

    def _is_next(self, batch: ProducerBatch) -> bool:
        return batch.sequence == batch.queue.last_acked_sequence + 1 & _SEQUENCE_MASK

    def _forget(self, batch: ProducerBatch) -> None:
        if batch in batch.queue.tracked:
            batch.queue.tracked.remove(batch)

    def _resolve(self) -> None:
        """Look at partitions whose last batch ran out of time, once all before it have an outcome."""
        for queue in [each for each in self._unresolved if not each.tracked]:
            del self._unresolved[queue]
            if queue.next_sequence != queue.last_acked_sequence + 1 & _SEQUENCE_MASK:
                _log.info("the sequence of %s has a gap; it begins again with a new epoch", queue.partition)
                self._to_restart[queue] = None

    def _restart(self) -> None:
        """Number the batches under way of the partitions that asked for it from 0 on."""
        assert self.producer is not None
        for queue in self._to_restart:
            sequence = 0
            for batch in queue.tracked:
                batch.producer = self.producer
                batch.sequence = sequence
                batch.sequence_was_reset = True
                sequence = _after(batch)
            queue.producer = self.producer
            queue.next_sequence = sequence
            queue.last_acked_sequence = _NO_SEQUENCE
            self._unresolved.pop(queue, None)
        self._to_restart.clear()


def _after(batch: ProducerBatch) -> int:
    return batch.sequence + batch.count & _SEQUENCE_MASK
