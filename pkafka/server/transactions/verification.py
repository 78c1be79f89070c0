"""Verifies that a producer's transaction writes to a partition before its first batch is appended (KIP-890, part 1).

Otherwise a batch that comes late, after the end of its transaction, would begin one that no coordinator knows, and that
holds back the readers of committed records for ever. Once the transaction has begun in the log, nothing is asked.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.transactions.questions import CoordinatorQuestions, Vouched
from pkafka.server.transactions.transaction import PartitionKey, Producer
from pkafka.storage.log import Log
from pkafka.storage.producer_state import NO_SEQUENCE, Verification

Done: TypeAlias = Callable[[ErrorCode], None]


class _Attempt:
    """Waits for one answer, with the batches that came meanwhile."""

    __slots__ = ("log", "verification", "waiting")

    def __init__(self, log: Log, verification: Verification) -> None:
        self.log = log
        self.verification = verification
        self.waiting: list[Done] = []


class Verifier:
    """Verifies batches for partitions of this worker. Belongs to one event loop.

    Args:
        partitions: the replicas of this worker.
        questions: asks the coordinators.
        is_enabled: gives ``transaction.partition.verification.enable``.
        clock: wall clock.
    """

    def __init__(
        self,
        partitions: Partitions,
        questions: CoordinatorQuestions,
        is_enabled: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._questions = questions
        self._is_enabled = is_enabled
        self._clock = clock
        self._attempts: dict[tuple[PartitionKey, str, Producer], _Attempt] = {}

    def is_needed(self, partition: Partition, producer_id: int, epoch: int) -> bool:
        """Whether a transactional batch of a producer has to be verified before it is appended.

        A later epoch is verified in an open transaction, too. Kafka 3.9 appends it, and the marker of the transaction
        is refused for ever then: it has the epoch of the transaction.
        """
        return not partition.log.producers.has_open_transaction(producer_id, epoch) and self._is_enabled()

    def vouch(
        self, transactional_id: str, producer: Producer, keys: Sequence[PartitionKey]
    ) -> Sequence[Vouched] | None:
        """As :meth:`CoordinatorQuestions.vouch`; None as well where nothing is verified."""
        return self._questions.vouch(transactional_id, producer, keys) if self._is_enabled() else None

    def is_vouched(self, partition: Partition, producer: Producer, word: Vouched) -> bool:
        """Whether the word of another worker, which came with a batch, does for the coordinator's answer.

        It was true when the batch was sent. Were the transaction over by now, its marker would have come before the
        batch: what one worker sends another keeps its order, so it is not by that worker. By a later coordinator it
        has a later epoch; to an earlier leader, or an earlier topic of the name, it went under another leader epoch
        or topic id. What is unusual in any way is asked, as are batches behind one that waits.
        """
        coordinator_epoch, leader_epoch, topic_id = word
        log = partition.log
        producers = log.producers
        if producer.producer_id in producers.verifications:
            return False
        entry = producers.get(producer.producer_id)
        return (
            entry.coordinator_epoch <= coordinator_epoch
            and entry.producer_epoch <= producer.epoch
            and partition.leader_epoch == leader_epoch
            and log.topic_id == topic_id
        )

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        key: PartitionKey,
        done: Done,
        *,
        sequence: int = NO_SEQUENCE,
    ) -> None:
        """Verify a batch where that is needed. A batch that comes while another of its producer waits, waits behind it.

        Args:
            transactional_id: that the request names.
            producer: of the batch.
            key: the partition that it is for, one that this worker leads.
            done: called once, now or later. With NONE the batch has to be appended before it returns. Else:
                INVALID_PRODUCER_EPOCH; TRANSACTION_ABORTABLE or INVALID_TXN_STATE where the transaction does not
                write to the partition, or has ended meanwhile; NOT_LEADER_OR_FOLLOWER; or what the coordinator said,
                NETWORK_EXCEPTION when it is silent, COORDINATOR_NOT_AVAILABLE when there is none.
            sequence: the first of the batch, where the log checks sequences.
        """
        partition = self._partitions.led.get(key)
        if partition is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if not self.is_needed(partition, *producer):
            done(ErrorCode.NONE)
            return
        log = partition.log
        verification = log.producers.verify(*producer, sequence, self._clock.now_ms())
        name = key, transactional_id, producer
        attempt = self._attempts.get(name)
        if attempt is None or attempt.verification is not verification:
            # A marker has come since an earlier attempt: its answer is about a transaction that is over.
            attempt = self._attempts[name] = _Attempt(log, verification)
            attempt.waiting.append(done)
            self._ask(name, attempt)
        else:
            attempt.waiting.append(done)

    def _ask(self, name: tuple[PartitionKey, str, Producer], attempt: _Attempt) -> None:
        key, transactional_id, producer = name

        def answered(code: ErrorCode) -> None:
            if self._attempts.get(name) is attempt:
                del self._attempts[name]
            # Once for all: nothing but these batches can come between them.
            code = code or self._state_of(key, producer, attempt)
            for done in attempt.waiting:
                done(code)

        self._questions.ask(transactional_id, producer, key, answered)

    def _state_of(self, key: PartitionKey, producer: Producer, attempt: _Attempt) -> ErrorCode:
        """Whether what the coordinator has confirmed still holds here."""
        partition = self._partitions.led.get(key)
        if partition is None or partition.log is not attempt.log:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        producers = attempt.log.producers
        if producer.epoch < producers.get(producer.producer_id).producer_epoch:
            # Before the other: clients survive this, and give up after INVALID_TXN_STATE (KAFKA-19690).
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_current = producers.verifications.get(producer.producer_id) is attempt.verification
        return ErrorCode.NONE if is_current else ErrorCode.INVALID_TXN_STATE
