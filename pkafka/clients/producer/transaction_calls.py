"""The calls of a producer that are about transactions."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from pkafka.clients.errors import ClientError, IllegalArgumentError, IllegalStateError
from pkafka.clients.offsets import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_store
from pkafka.clients.producer.metadata import closed_error
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.sender import Sender
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.producer.transaction_channel import TransactionChannel

_log = logging.getLogger("pkafka.clients.producer.producer")  # the name that operators know


class TransactionCalls:
    """A part of :class:`~pkafka.clients.producer.producer.Producer`, which has what is declared here."""

    _closed: bool
    _sender: Sender
    _sensors: ProducerMetrics
    _transactions: "TransactionChannel | None"

    def init_transactions(self, timeout_s: float | None = None) -> None:
        """Become the one producer with this ``transactional.id``: fence others, and see what they began ended.

        Once, before all other calls about transactions.

        Args:
            timeout_s: ``max.block.ms`` when left out, as in the other calls.

        Raises:
            IllegalStateError: there is no ``transactional.id``, or this was called before.
            ClientTimeoutError: no coordinator answered in time; the same call may be made again, and waits on.
            ApiError: no permission. TransactionError: the coordinator refused, as for a time-out of the transaction
                that is too long.
            ClosedError: the producer was closed.
        """
        transactions = self._need_transactions()
        with self._sensors.transaction_call("init"):
            transactions.call(lambda each: each.init(), _ms(timeout_s))

    def begin_transaction(self) -> None:
        """Begin a transaction; records sent from now on are a part of it.

        Raises:
            IllegalStateError: :meth:`init_transactions` was not called, or the last transaction is not ended.
            ProducerFencedError: another producer has the id now.
            TransactionError: the last transaction has to be aborted first, or the producer to be closed.
            ClosedError: the producer was closed.
        """
        transactions = self._need_transactions()
        with self._sensors.transaction_call("begin"):
            transactions.begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_s: float | None = None,
    ) -> None:
        """Store a group's offsets with the transaction: they count when it is committed, and only then.

        Args:
            offsets: of the next record to read, per partition.
            group_metadata: of the consumer (``consumer.group_metadata()``), which fences zombies of the group; or the
                id of a group whose partitions are not assigned by it.

        Raises:
            IllegalStateError: no transaction is begun.
            ValueError: the metadata has a generation and no member, or an offset is negative.
            CommitFailedError: the consumer is no member of the group any more; abort. Also FENCED_INSTANCE_ID
                and GROUP_AUTHORIZATION_FAILED (ApiError) leave nothing but an abort.
            ProducerFencedError, TransactionError, ClosedError: as :meth:`begin_transaction`.
            ClientTimeoutError: the same call may be made again, and waits on.
        """
        transactions = self._need_transactions()
        group = ConsumerGroupMetadata(group_metadata) if isinstance(group_metadata, str) else group_metadata
        if group.generation_id > 0 and not group.member_id:
            raise IllegalArgumentError(
                f"Passed in group metadata {group} has generationId > 0 but member.id is unknown"
            )
        if not offsets:
            return
        wanted = offsets_to_store(offsets)
        with self._sensors.transaction_call("send-offsets"):
            transactions.call(lambda each: each.send_offsets(wanted, group), _ms(timeout_s))

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        """Send what is left, then commit: read_committed consumers see all of the transaction, or nothing.

        Raises:
            IllegalStateError: no transaction is begun.
            ProducerFencedError: another producer has the id now; nothing was committed.
            TransactionError, ApiError, ClientError: a record or the coordinator failed; abort.
            ClientTimeoutError: whether it will be committed is open; the same call may be made again, and waits on.
            ClosedError: the producer was closed.
        """
        transactions = self._need_transactions()
        with self._sensors.transaction_call("commit"):
            transactions.call(lambda each: each.commit(), _ms(timeout_s))

    def abort_transaction(self, timeout_s: float | None = None) -> None:
        """Drop what is not sent (its futures fail with TransactionAbortedError), and abort.

        Raises:
            IllegalStateError: no transaction is begun.
            ProducerFencedError: another producer has the id now, and has aborted this transaction.
            TransactionError, ApiError: the producer can only be closed.
            ClientTimeoutError: the same call may be made again, and waits on.
            ClosedError: the producer was closed.
        """
        transactions = self._need_transactions()
        with self._sensors.transaction_call("abort"):
            transactions.call(lambda each: each.abort(), _ms(timeout_s))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction as a ``with`` block: committed at its end, aborted when it or the commit raises something.

        Raises:
            What left the block, or what :meth:`begin_transaction` and :meth:`commit_transaction` raise. After a
            ClientTimeoutError of the commit, call :meth:`commit_transaction` again.
        """
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self._abort_after_failure()
            raise
        try:
            self.commit_transaction()
        except (ApiError, ClientError):
            self._abort_after_failure()  # not while the commit goes on
            raise

    def _need_transactions(self) -> "TransactionChannel":
        if self._closed:
            raise closed_error()
        if self._transactions is None:
            raise IllegalStateError(
                "Transactional method invoked on a non-transactional producer.",
                hint="transactional.id makes it a transactional one",
            )
        if self._sender.is_current_thread():
            raise ClientError(
                "a callback cannot wait for transactions: they wait for that callback to return"
            )
        return self._transactions

    def _abort_after_failure(self) -> None:
        """Abort, where that is possible: the failure that asks for it says more than that it is not."""
        if self._closed or self._transactions is None or not self._transactions.can_be_aborted:
            return
        try:
            self.abort_transaction()
        except (ApiError, ClientError) as error:
            _log.warning("the transaction could not be aborted: %s", error)


def _ms(timeout_s: float | None) -> int | None:
    return None if timeout_s is None else int(timeout_s * 1_000)
