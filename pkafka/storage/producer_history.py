"""What the producers of one log wrote: their states, the snapshots of these, and how far back the log knows them."""

from collections.abc import Callable

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import Millis, Offset
from pkafka.records.validation import ValidatedBatch
from pkafka.storage.batch_scan import StoredBatch
from pkafka.storage.log_values import LogParts
from pkafka.storage.producer_rebuild import rebuild, replay
from pkafka.storage.producer_state import BatchMetadata, CompletedTransaction, advance_sequence
from pkafka.storage.producer_trial import ProducerTrial
from pkafka.storage.resends import remember_resends
from pkafka.storage.transaction_index import AbortedTransaction, TransactionIndex


class ProducerHistory:
    """The producers of one log, kept in step with what is appended and cut.

    Args:
        parts: the producers, as recovered.
    """

    __slots__ = ("_forgotten_below", "_producers", "_segments", "_snapshots")

    def __init__(self, parts: LogParts) -> None:
        self._producers = parts.producers
        self._snapshots = parts.snapshots
        self._segments = parts.segments
        self._forgotten_below = parts.log_end_offset
        """Of what producers wrote before, only the last batch of each is known; the log start when all is."""

    def recall(self, batch: ValidatedBatch, refusal: ApiError, log_start_offset: Offset) -> BatchMetadata:
        """The original of a batch that is neither new nor known, when the log has it nevertheless.

        Looked for once after a start or a cut, when a producer sends such a batch: most logs never have to look.

        Raises:
            ApiError: ``refusal``, when there is no such batch.
            OSError: the disk refused.
        """
        if (
            refusal.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and self._forgotten_below > log_start_offset
        ):
            below, self._forgotten_below = self._forgotten_below, log_start_offset
            remember_resends(self._producers, self._segments, below)
            original = self._producers.get(batch.producer_id).find_duplicate(
                batch.producer_epoch,
                batch.base_sequence,
                advance_sequence(batch.base_sequence, batch.last_offset_delta),
            )
            if original is not None:
                return original
        raise refusal

    def commit(self, trial: ProducerTrial, index: TransactionIndex) -> None:
        """The batches of a trial were written; ``index`` is that of the active segment."""
        self._producers.entries.update(trial.entries)
        if self._producers.verifications:
            for producer_id in trial.entries:
                self._producers.end_verification(producer_id)
        for producer_id, first_offset in trial.begun:
            self._producers.begin(producer_id, first_offset)
        for transaction in trial.completed:
            self._complete(transaction, index)

    def replay(self, batch: StoredBatch, index: TransactionIndex) -> None:
        """A leader's batch was written; ``index`` is that of the active segment."""
        completed = replay(self._producers, batch)
        if self._producers.verifications:
            self._producers.end_verification(batch.producer_id)
        if completed is not None:
            self._complete(completed, index)

    def rebuild(
        self, log_start_offset: Offset, end_offset: Offset, now_ms: Callable[[], Millis], expiration_ms: int
    ) -> None:
        """The log was cut to ``end_offset``: know what it still holds."""
        rebuild(
            self._producers,
            self._snapshots,
            self._segments,
            log_start_offset=log_start_offset,
            end_offset=end_offset,
            now_ms=now_ms,
            expiration_ms=expiration_ms,
        )
        self._forgotten_below = end_offset

    def clear(self) -> None:
        """Know no producer: the log was emptied."""
        self._producers.clear()
        self._snapshots.remove(self._snapshots.offsets)

    def begin_at(self, offset: Offset) -> None:
        """The log begins anew, empty, at an offset."""
        self._snapshots.latest_taken = self._forgotten_below = offset

    def take_snapshot(self, offset: Offset, *, durable: bool) -> None:
        """Write the producers down as of an offset."""
        self._snapshots.take(self._producers, offset, durable=durable)

    def _complete(self, transaction: CompletedTransaction, index: TransactionIndex) -> None:
        if transaction.is_aborted:
            index.append(
                AbortedTransaction(
                    transaction.producer_id,
                    transaction.first_offset,
                    transaction.last_offset,
                    self._producers.stable_offset_after(transaction),
                )
            )
        self._producers.complete(transaction)
