"""The offsets that members of groups store in transactions: TxnOffsetCommit, from its verification to its record."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.server.coordinator.topic_log import TransactionalProducer
from pkafka.server.groups.commits import Commits, Outcomes, Waiting, accepted, records_of, told_of
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.hosted import Entry

log = logging.getLogger(__name__)


class Committing(NamedTuple):
    """Holds who stores offsets, and in which transaction.

    Attributes:
        member_id: empty, and no ``instance_id`` and a negative ``generation``, for a producer that names no member:
            before version 3, or a consumer that assigns partitions itself.
        transactional_id: of the producer.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    transactional_id: str
    producer: TransactionalProducer


Verify: TypeAlias = Callable[[str, TransactionalProducer, int, Callable[[ErrorCode], None]], None]
"""Makes sure that a transaction has a partition of __consumer_offsets, by its coordinator's word (KIP-890).

Gets the transactional id, the producer, the partition, and what to call, once, now or later: with NONE when the
transaction has the partition, and then the append has to be done before the call returns; else with the error of the
transaction's coordinator, or why it does not answer.
"""


class TransactionalOffsets:
    """Serves TxnOffsetCommit for the groups of this worker.

    Args:
        groups: of the worker.
        verify: asks the transactions' coordinators.
    """

    def __init__(self, groups: GroupCoordinator, verify: Verify) -> None:
        self._groups = groups
        self._verify = verify

    def commit(self, committing: Committing, commits: Commits) -> "Outcomes | asyncio.Future[Outcomes]":
        """Store offsets, which count when the transaction commits (:meth:`GroupCoordinator.complete_transaction`).

        As in Kafka a group that is missing is made before the transaction is verified, so a refused request may leave
        an empty group, which the next check for expired offsets removes.

        Returns:
            The outcome of each partition.
        """
        error, entry = self._groups.look_up(committing.group_id)
        if error:
            return dict.fromkeys(commits, error)
        entry = entry or self._groups.create(committing.group_id)
        waiting = Waiting({})

        def verified(error: ErrorCode) -> None:
            if error:
                waiting.end(dict.fromkeys(commits, told_of(error)))
            else:
                self._commit(entry, committing, commits, waiting)

        self._verify(committing.transactional_id, committing.producer, entry.partition, verified)
        return waiting.outcomes()

    def _commit(self, entry: Entry, committing: Committing, commits: Commits, waiting: Waiting) -> None:
        """Store offsets of a transaction that is known to be open, where the member may do that."""
        now_ms = self._groups.timer.now_ms()
        error = entry.group.check_commit(
            committing.member_id,
            committing.instance_id,
            committing.generation,
            now_ms,
            transactional=True,
        )
        self._groups.settle(entry)
        refused, good = accepted(commits, self._groups.settings.offset_metadata_chars_max)
        if error:
            waiting.end(dict.fromkeys(commits, error))
        elif good:
            self._store(entry, committing.producer, good, refused, waiting)
        else:
            waiting.end(refused)

    def _store(
        self,
        entry: Entry,
        producer: TransactionalProducer,
        commits: Commits,
        refused: Outcomes,
        waiting: Waiting,
    ) -> None:
        group_id = entry.group.group_id

        def committed(error: ErrorCode, _batch_offset: int) -> None:
            if error:
                log.log(
                    # A zombie is no reason to wake an operator.
                    logging.INFO if error is ErrorCode.INVALID_PRODUCER_EPOCH else logging.ERROR,
                    "Offsets of group %s in a transaction of producer %d could not be written: %s",
                    group_id,
                    producer.producer_id,
                    error.name,
                )
            else:
                self._groups.counters.offset_commits += len(commits)
            waiting.end({**refused, **dict.fromkeys(commits, told_of(error))})

        batch_offset = self._groups.log.append(
            entry.partition,
            records_of(group_id, commits, self._groups.clock.now_ms()),
            committed,
            producer=producer,
        )
        if batch_offset is not None:
            # Also when the replicas do not answer in time: the marker counts for all that is in the log before it.
            self._groups.add_pending(entry, producer.producer_id, commits, batch_offset)
