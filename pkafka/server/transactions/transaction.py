"""One transactional id: the producer that has it, its transaction, and what the producer's requests may change.

Pure. Facts and the time go in. What comes out is either the next facts, which take effect once their record is
committed, or the error for the client. The rules are those of Kafka's TransactionMetadata and TransactionCoordinator
(KIP-98, KIP-360, KIP-447, KIP-890 part 1). Transaction version 0, the only one in ZooKeeper mode: a producer keeps its
epoch from one transaction to the next.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import NO_PRODUCER_ID, NO_TIMESTAMP, Millis, ProducerId
from pkafka.server.transactions.states import MAY_FOLLOW, TransactionState

PartitionKey: TypeAlias = tuple[str, int]

NO_PRODUCER_EPOCH: Final = -1
_EPOCH_LAST: Final = 2**15 - 1
_EPOCH_EXHAUSTED: Final = _EPOCH_LAST - 1
"""A producer with this epoch gets another id. The last epoch is left for a fence of its open transaction."""


class Producer(NamedTuple):
    """Names a producer as its requests do."""

    producer_id: ProducerId
    epoch: int


class Facts(NamedTuple):
    """Holds what a record of __transaction_state says, and the epoch before a bump, which no record says."""

    state: TransactionState
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: Millis
    partitions: tuple[PartitionKey, ...]
    """Those that the transaction writes to, in the order in which they were added."""
    start_ms: Millis
    """When the transaction began; -1 for none."""
    update_ms: Millis
    """When the facts last changed."""
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that the producer bumped; it may ask again, as it may not have heard the answer (KIP-360)."""

    @property
    def producer(self) -> Producer:
        """The producer that has the id."""
        return Producer(self.producer_id, self.producer_epoch)


Decision: TypeAlias = Facts | ErrorCode
"""The facts to write, or what the client hears at once."""


class Transaction:
    """Decides what becomes of one transactional id.

    A request gets facts to write, and hears of its success by :meth:`stored` or :meth:`failed`. Until then all other
    requests that would change something hear CONCURRENT_TRANSACTIONS.

    Args:
        facts: what the log has, or :func:`unused` facts.
    """

    __slots__ = ("facts", "is_fenced", "pending", "previous_producer_id")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.pending: Facts | None = None
        """What is being written, or is going to be once all markers are."""
        self.previous_producer_id: ProducerId = NO_PRODUCER_ID
        """The producer id before the last change."""
        self.is_fenced = False
        """Whether an open transaction has the epoch of its fence already, written or not."""

    # -- requests of the producer --

    def needs_producer_id(self, expected: Producer | None) -> bool:
        """Whether :meth:`init` will give the producer another id, as its epochs are used up."""
        facts = self.facts
        return (
            self.pending is None
            and facts.state.is_idle
            and facts.producer_epoch >= _EPOCH_EXHAUSTED
            and (expected is None or expected.epoch == facts.producer_epoch)
        )

    def init(
        self,
        expected: Producer | None,
        *,
        timeout_ms: Millis,
        now_ms: Millis,
        new_producer_id: ProducerId | None = None,
    ) -> Decision:
        """Serve InitProducerId: give the producer a new epoch, which fences all that have the id.

        Args:
            expected: the producer's present identity, when it wants to go on with it (KIP-360).
            timeout_ms: of its transactions.
            now_ms: the wall clock.
            new_producer_id: one that is unused; where :meth:`needs_producer_id` says so.

        Returns:
            Facts in PREPARE_ABORT where the producer's predecessor left an open transaction: the caller writes them,
            ends the transaction and answers CONCURRENT_TRANSACTIONS.
        """
        facts = self.facts
        if self.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if expected is not None and not self._may_be(expected):
            return ErrorCode.PRODUCER_FENCED
        if facts.state.is_decided:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if facts.state is TransactionState.ONGOING:
            return self.fence(now_ms)
        identity = self._next_identity(expected, new_producer_id)
        if isinstance(identity, ErrorCode):
            return identity
        (producer_id, epoch), last_epoch = identity
        return self._to(
            Facts(
                TransactionState.EMPTY, producer_id, epoch, timeout_ms, (), NO_TIMESTAMP, now_ms, last_epoch
            )
        )

    def _may_be(self, expected: Producer) -> bool:
        """Whether a producer may be the one that has the id, or the one that had it before its epochs were used up."""
        return (
            self.facts.producer_epoch == NO_PRODUCER_EPOCH
            or expected.producer_id == self.facts.producer_id
            or (expected.producer_id == self.previous_producer_id and expected.epoch >= _EPOCH_EXHAUSTED)
        )

    def _next_identity(
        self, expected: Producer | None, new_producer_id: ProducerId | None
    ) -> tuple[Producer, int] | ErrorCode:
        """The next identity, and the epoch that the producer may name when it asks again."""
        facts = self.facts
        epoch = facts.producer_epoch
        if self.needs_producer_id(expected):
            assert new_producer_id is not None
            return Producer(new_producer_id, 0), NO_PRODUCER_EPOCH if expected is None else epoch
        if expected is not None and epoch not in (NO_PRODUCER_EPOCH, expected.epoch):
            # The answer to its last request may have been lost.
            is_repeated = expected.epoch == facts.last_epoch
            return (facts.producer, facts.last_epoch) if is_repeated else ErrorCode.PRODUCER_FENCED
        return Producer(facts.producer_id, epoch + 1), NO_PRODUCER_EPOCH if expected is None else epoch

    def add(self, producer: Producer, partitions: Iterable[PartitionKey], now_ms: Millis) -> Decision:
        """Serve AddPartitionsToTxn and AddOffsetsToTxn: begin a transaction, or widen it.

        Returns:
            NONE where the transaction has all partitions already.
        """
        facts = self.facts
        refusal = self._refusal(producer)
        if refusal is not ErrorCode.NONE:
            return refusal
        if self.pending is not None or facts.state.is_decided:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        wanted = tuple(dict.fromkeys((*facts.partitions, *partitions)))
        is_ongoing = facts.state is TransactionState.ONGOING
        if is_ongoing and wanted == facts.partitions:
            return ErrorCode.NONE
        return self._to(
            facts._replace(
                state=TransactionState.ONGOING,
                partitions=wanted,
                start_ms=facts.start_ms if is_ongoing else now_ms,
                update_ms=now_ms,
            )
        )

    def verify(
        self, producer: Producer, partitions: Iterable[PartitionKey]
    ) -> Mapping[PartitionKey, ErrorCode] | ErrorCode:
        """Serve the question of a partition's leader: does the transaction write to it (KIP-890)?

        Returns:
            An error that holds for all partitions, or NONE or TRANSACTION_ABORTABLE for each.
        """
        refusal = self._refusal(producer)
        if refusal is not ErrorCode.NONE:
            return refusal
        if self.facts.state.is_decided:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        known = self.facts.partitions
        return {
            one: ErrorCode.NONE if one in known else ErrorCode.TRANSACTION_ABORTABLE for one in partitions
        }

    def end(self, producer: Producer, now_ms: Millis, *, is_commit: bool) -> Decision:
        """Serve EndTxn: decide the transaction.

        Returns:
            NONE where the transaction has ended so already.
        """
        facts = self.facts
        refusal = self._refusal(producer)
        if refusal is not ErrorCode.NONE:
            return refusal
        if self.pending is not None:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        wanted = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        if facts.state is TransactionState.ONGOING:
            return self._to(facts._replace(state=wanted, update_ms=now_ms))
        if facts.state is wanted:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if facts.state is wanted.completed else ErrorCode.INVALID_TXN_STATE

    def _refusal(self, producer: Producer) -> ErrorCode:
        if producer.producer_id != self.facts.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if producer.epoch == self.facts.producer_epoch else ErrorCode.PRODUCER_FENCED

    # -- the coordinator's own --

    def fence(self, now_ms: Millis) -> Decision:
        """Abort an open transaction with a new epoch, as its producer is silent or has a successor.

        The epoch counts from now on. A fence that could not be written keeps it: the record may be committed yet, and
        another epoch each time would use them up (KAFKA-9666). No producer has the last epoch. Where the log says that
        an open transaction has it all the same, the transaction is aborted with it; Kafka could not end it.
        """
        if self.pending is not None or self.facts.state is not TransactionState.ONGOING:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if not self.is_fenced:
            self.facts = self.facts._replace(
                producer_epoch=min(self.facts.producer_epoch + 1, _EPOCH_LAST), last_epoch=NO_PRODUCER_EPOCH
            )
            self.is_fenced = True
        return self._to(self.facts._replace(state=TransactionState.PREPARE_ABORT, update_ms=now_ms))

    def complete(self, now_ms: Millis) -> Facts:
        """Begin to end a decided transaction; the facts are written once all its markers are."""
        self.is_fenced = False
        facts = self.facts
        return self._to(facts._replace(state=facts.state.completed, partitions=(), update_ms=now_ms))

    def is_timed_out(self, now_ms: Millis) -> bool:
        """Whether the producer has had its time for the open transaction."""
        facts = self.facts
        return facts.state is TransactionState.ONGOING and facts.start_ms + facts.timeout_ms < now_ms

    def is_expired(self, now_ms: Millis, expiration_ms: Millis) -> bool:
        """Whether the id was not used for so long that it may be forgotten."""
        facts = self.facts
        return self.pending is None and facts.state.is_idle and facts.update_ms + expiration_ms <= now_ms

    def expire(self) -> None:
        """Begin to forget the id; meanwhile its producer hears CONCURRENT_TRANSACTIONS."""
        self.pending = self.facts._replace(state=TransactionState.DEAD)

    # -- what became of facts --

    def _to(self, facts: Facts) -> Facts:
        assert self.facts.state in MAY_FOLLOW[facts.state], (self.facts.state, facts.state)
        self.pending = facts
        return facts

    def stored(self) -> None:
        """The record of the pending facts is committed."""
        assert self.pending is not None
        self.previous_producer_id = self.facts.producer_id
        self.facts, self.pending = self.pending, None

    def failed(self) -> None:
        """The record of the pending facts could not be written, as far as this coordinator knows."""
        self.pending = None


def unused(producer_id: ProducerId, timeout_ms: Millis, now_ms: Millis) -> Facts:
    """Facts of an id that no producer has had yet."""
    return Facts(TransactionState.EMPTY, producer_id, NO_PRODUCER_EPOCH, timeout_ms, (), NO_TIMESTAMP, now_ms)
