"""Between the machine of transactions and the world: sends what it asks for, and lets callers wait for the outcome.

Calls come from any thread, :meth:`TransactionChannel.advance` and answers from the sender thread alone.
"""

import logging
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.connection import Address, Pending
from pkafka.clients.errors import ClientError, ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.transaction_requests import Ask, Request
from pkafka.clients.producer.transaction_states import Outcome
from pkafka.clients.producer.transactions import Transactions
from pkafka.model import TopicPartition

_POLL_MS_MAX: Final = 1_000
_FEATURE: Final = "transaction.version"
_IMPLICIT_PRODUCE_VERSION_MAX: Final = 12  # with 11 the broker takes the transaction for an older one
_log = logging.getLogger(__name__)


class TransactionChannel:
    """Drives the machine of transactions for one producer.

    Args:
        cluster: polled by the sender thread.
        config: its ``transactional.id`` is set.
        wake_sender: called when there is something to do.
    """

    def __init__(self, cluster: Cluster, config: ProducerConfig, wake_sender: Callable[[], None]) -> None:
        assert config.transactional_id is not None
        self._cluster = cluster
        self._clock = cluster.clock
        self._max_block_ms = config.max_block_ms
        self._wake_sender = wake_sender
        self._changed = threading.Condition()
        self._end_by_ms: int | None = None
        self._machine = Transactions(
            config.transactional_id,
            timeout_ms=config.transaction_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            jitter=lambda: random.uniform(0.8, 1.2),  # noqa: S311 - spreads retries, guards nothing
            finalized_version=lambda: cluster.network.features.levels.get(_FEATURE, 0),
        )

    # -- for any thread -----------------------------------------------------------------------------------

    def check_send(self) -> None:
        """As :meth:`Transactions.check_send`."""
        with self._changed:
            self._machine.check_send()

    def begin(self) -> None:
        """As :meth:`Transactions.begin`."""
        with self._changed:
            self._machine.begin()

    def failed(self, error: Exception, *, was_sent: bool) -> None:
        """As :meth:`Transactions.failed`."""
        with self._changed:
            self._machine.failed(error, was_sent=was_sent)
        self._wake_sender()

    def call(self, begin: Callable[[Transactions], Outcome], timeout_ms: int | None = None) -> None:
        """Begin something, and wait until it has come to an end.

        Args:
            begin: called with the machine.
            timeout_ms: ``max.block.ms`` when left out.

        Raises:
            ClientTimeoutError: it goes on; the same call waits for it again.
            ClosedError: the producer was closed meanwhile.
            IllegalStateError, TransactionError, ApiError, ClientError: what it came to.
        """
        wait_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        with self._changed:
            outcome = begin(self._machine)
        self._wake_sender()
        with self._changed:
            if not self._changed.wait_for(lambda: outcome.done, wait_ms / 1000):
                raise self._timed_out(outcome, wait_ms)
            outcome.taken = True
        if outcome.error is not None:
            raise outcome.error

    # -- for the sender -----------------------------------------------------------------------------------

    @property
    def producer(self) -> tuple[int, int] | None:
        """Id and epoch; None before the coordinator gave them."""
        producer = self._machine.producer
        return producer if producer[0] >= 0 else None

    @property
    def is_completing(self) -> bool:
        """Whether all that waits is to be sent at once, because the transaction ends behind it."""
        return self._machine.is_completing

    @property
    def drop_reason(self) -> Exception | None:
        """As :attr:`Transactions.drop_reason`."""
        with self._changed:
            return self._machine.drop_reason

    @property
    def can_be_aborted(self) -> bool:
        """Whether there is a transaction that is neither ended nor being ended."""
        return self._machine.is_ongoing and not self._machine.is_completing

    @property
    def is_fatal(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._machine.is_fatal

    @property
    def produce_version_max(self) -> int | None:
        """Up to which version Produce requests go; None where Kafka 3.9's will do."""
        return _IMPLICIT_PRODUCE_VERSION_MAX if self._machine.is_implicit else None

    def admits(self, partition: TopicPartition) -> bool:
        """As :meth:`Transactions.admits`."""
        with self._changed:
            return self._machine.admits(partition)

    def advance(self, now_ms: int, has_unsettled: Callable[[], bool]) -> int:
        """Send what is due to a coordinator.

        Args:
            has_unsettled: whether batches have no outcome yet; asked where no commit can come in between.

        Returns:
            In how many milliseconds to look again.
        """
        machine = self._machine
        while True:
            if now_ms < machine.not_before_ms:
                return machine.not_before_ms - now_ms
            with self._changed:
                ask = machine.next(now_ms, has_unsettled=has_unsettled())
                self._changed.notify_all()
            if ask is None or not self._send(ask, now_ms):
                return _POLL_MS_MAX

    def is_over(self, now_ms: int, *, has_unsettled: bool) -> bool:
        """For a producer that is closed: whether its transaction is ended.

        An open one is aborted once everything is sent, as in Kafka; for max.block.ms at most, then the coordinator's
        time-out will do. What was sent outside of a transaction, by a thread that did not know, is not waited for.

        Args:
            has_unsettled: whether batches have no outcome yet.
        """
        machine = self._machine
        if machine.is_ongoing and has_unsettled:
            return False
        if self._end_by_ms is None:
            self._end_by_ms = now_ms + self._max_block_ms
        with self._changed:
            if self.can_be_aborted:
                _log.info("aborting the transaction that close() finds open")
                machine.abort_for_good()
        return not machine.is_ongoing or now_ms >= self._end_by_ms

    def close(self) -> None:
        """The sender ends: end the calls that wait."""
        with self._changed:
            self._machine.close(ClosedError("The producer closed forcefully"))
            self._changed.notify_all()

    # -- inside -------------------------------------------------------------------------------------------

    def _send(self, ask: Ask, now_ms: int) -> bool:
        """Send a request.

        Returns:
            Whether it has come to its end already, which only a failure does.
        """
        address = self._cluster.any_address() if ask.to is None else Address(ask.to.host, ask.to.port)
        pending = self._cluster.network.send(
            address, ask.request, max_version=ask.max_version, on_done=partial(self._on_done, ask.request)
        )
        return pending.done and now_ms >= self._machine.not_before_ms

    def _on_done(self, request: Request, pending: Pending) -> None:
        now_ms = self._clock.monotonic_ms()
        with self._changed:
            if pending.error is not None:
                self._machine.unanswered(request, pending.error, now_ms)
            else:
                assert pending.response is not None
                self._machine.answered(request, pending.response, now_ms, version=pending.version)
            self._changed.notify_all()

    def _timed_out(self, outcome: Outcome, wait_ms: int) -> ClientError:
        text = f"Timeout expired after {wait_ms}ms while awaiting {outcome.operation}"
        trouble = self._machine.trouble
        if trouble is None and self._cluster.last_refresh_error is not None:
            trouble = self._cluster.last_refresh_error.message
        hint = f"call {outcome.operation}() again to go on waiting, or close the producer"
        return ClientTimeoutError(Stage.REQUEST, f"{text}: {trouble}" if trouble else text, hint=hint)
