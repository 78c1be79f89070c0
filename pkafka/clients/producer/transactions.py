"""A producer's transactions as a pure machine: what to ask the coordinators next, and what their answers mean.

The transactional half of Kafka's TransactionManager (KIP-98, KIP-360, KIP-447, KIP-588, KIP-890). No socket, no clock,
no thread: ``transaction_channel.py`` drives it, calls come from the application, answers and failed batches from the
sender. What is asked next follows from the state; one request is under way at a time:

UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> COMMITTING or ABORTING -> READY

A failed batch, and what a coordinator says of the transaction, lead to ABORTABLE_ERROR: only an abort leads out. After
a batch that may still be on its way the epoch is bumped then, so that it cannot reach the next transaction. Another
producer with the same id leads to FATAL_ERROR, which nothing leads out of.

Where the cluster has finalized transaction.version 2, the coordinator bumps the epoch at the end of every transaction,
and says so in the answer. Each transaction keeps to the version that was finalized when the one before it ended.
"""

import logging
from collections.abc import Callable
from typing import Final

from pkafka.clients.errors import CommitFailedError, IllegalStateError, UnsupportedApiError
from pkafka.clients.offsets import ConsumerGroupMetadata
from pkafka.clients.producer.errors import ProducerFencedError, TransactionAbortedError, TransactionError
from pkafka.clients.producer.transaction_errors import (
    ABORTABLE,
    COORDINATOR_GONE,
    FATAL,
    FATAL_OF_BATCHES,
    FENCED,
    ID_EXPIRED,
    ID_UNKNOWN,
    NOT_A_MEMBER,
    error_of_adding,
    error_of_calls,
    not_authorized_for_group,
    speaks_for_all,
)
from pkafka.clients.producer.transaction_parts import Parts
from pkafka.clients.producer.transaction_requests import (
    Ask,
    Coordinator,
    Coordinators,
    ProducerIdentity,
    Request,
    kind_of,
)
from pkafka.clients.producer.transaction_states import (
    CAN_BE_ABORTED,
    COMPLETING,
    SOURCES,
    Offsets,
    Outcome,
    State,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from pkafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from pkafka.protocol.schema import Message

_NO_PRODUCER: Final = (-1, -1)
_EPOCH_BUMP_VERSION: Final = 3
_IMPLICIT_VERSION: Final = 2  # of the feature transaction.version
_FIRST_ADD_BACKOFF_MS: Final = 20  # the transaction before is being ended, which does not take long

_log = logging.getLogger(__name__)


class Transactions:
    """The machine of one transactional producer. The caller holds one lock for all of it.

    Args:
        transactional_id: of the producer.
        timeout_ms: after so long the coordinator aborts a transaction on its own.
        retry_backoff_ms, retry_backoff_max_ms: how long to wait before something is asked again.
        jitter: gives the factor that spreads retries of many clients, about 1.
        finalized_version: gives the level of transaction.version that the cluster has finalized; 0 for none.
    """

    def __init__(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        jitter: Callable[[], float] = lambda: 1.0,
        finalized_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.producer = _NO_PRODUCER
        """Id and epoch, once the coordinator gave them."""
        self.error: Exception | None = None
        """What led to one of the error states."""
        self.trouble: str | None = None
        """Why something is asked again; None when the last answer was a good one."""
        self.not_before_ms = 0
        """When to ask again."""
        self._timeout_ms = timeout_ms
        self._backoff_ms = (retry_backoff_ms, retry_backoff_max_ms)
        self._jitter = jitter
        self._finalized_version = finalized_version
        self._coordinators = Coordinators(transactional_id)
        self._awaited: Request | None = None
        self._failures = 0
        self._call: Outcome | None = None
        """Of the last of the calls that change the state and wait."""
        self._can_bump = False
        self._bump_wanted = False
        self._is_ending = False
        """Whether the coordinator was asked to end it."""
        self._parts = Parts()

    # -- calls --------------------------------------------------------------------------------------------

    def init(self) -> Outcome:
        """Get the producer id, and fence the producer that had it before (``init_transactions``)."""
        return self._called("init_transactions", State.INITIALIZING)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            IllegalStateError, TransactionError, ApiError: as :meth:`check_send`.
        """
        self._raise_if_unfinished("begin_transaction")
        self._raise_error()
        self._move(State.IN_TRANSACTION)

    def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> Outcome:
        """Store offsets of a group with the transaction; the same ones again wait for the same outcome."""
        self._raise_if_unfinished("send_offsets_to_transaction")
        self._raise_error()
        if self.state is not State.IN_TRANSACTION:
            raise IllegalStateError(
                f"Cannot send offsets if a transaction is not in progress (currentState= {self.state.value})"
            )
        return self._parts.add_offsets(offsets, group)

    def commit(self) -> Outcome:
        """End the transaction once everything is sent."""
        return self._called("commit_transaction", State.COMMITTING_TRANSACTION)

    def abort(self) -> Outcome:
        """End the transaction; what is not sent is to be dropped."""
        return self._called("abort_transaction", State.ABORTING_TRANSACTION)

    def abort_for_good(self) -> None:
        """Abort what ``close()`` finds open, whatever call was under way."""
        if self._call is not None:
            self._call.taken = True
        self.abort().taken = True

    def check_send(self) -> None:
        """Whether a record may be sent now.

        Raises:
            IllegalStateError: there is no transaction.
            ProducerFencedError: another producer took over.
            TransactionError: an error came before.
        """
        if self.state is State.IN_TRANSACTION and self._call is None:
            return
        self._raise_error()
        self._raise_if_unfinished("send")
        if self.state in (State.UNINITIALIZED, State.INITIALIZING):
            raise IllegalStateError(
                "Cannot add partition to transaction before completing a call to init_transactions"
            )
        if self.state is not State.IN_TRANSACTION:
            raise IllegalStateError(f"Cannot add partition to transaction while in state {self.state.value}")

    # -- for the sender -----------------------------------------------------------------------------------

    @property
    def is_completing(self) -> bool:
        """Whether a commit or an abort is under way."""
        return self.state in COMPLETING

    @property
    def is_ongoing(self) -> bool:
        """Whether there is a transaction that is not ended."""
        return self.state in COMPLETING or self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    @property
    def is_fatal(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.state is State.FATAL_ERROR

    @property
    def drop_reason(self) -> Exception | None:
        """Why what is not under way is not to be sent any more; None while it is."""
        if self.state is State.ABORTING_TRANSACTION:
            return TransactionAbortedError()
        return self.error

    @property
    def is_implicit(self) -> bool:
        """Whether Produce requests put their partitions into the transaction (transaction.version 2)."""
        return self._parts.are_implicit

    def admits(self, partition: TopicPartition) -> bool:
        """Whether batches of a partition may go; it is put into the transaction otherwise."""
        may_grow = self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION)
        return self._parts.admits(partition, may_grow=may_grow)

    def failed(self, error: Exception, *, was_sent: bool) -> None:
        """A record was given up: the transaction cannot be committed without it.

        Args:
            was_sent: whether its batch had a sequence number, and may be on its way still.
        """
        if not self.is_ongoing or self._is_ending:
            return  # a record of no transaction; one that is being ended has all that it will have
        code = getattr(error, "code", None)
        if code in FATAL_OF_BATCHES or (self.is_implicit and code is ID_EXPIRED):
            self._fatal(error)
        elif self.is_implicit:
            self._abortable(error)  # the end of the transaction bumps the epoch
        elif was_sent and not self._can_bump:
            fatal = TransactionError(
                "The client hasn't received acknowledgment for some previously sent messages and can no longer "
                "retry them. It isn't safe to continue.",
                is_abortable=False,
            )
            fatal.__cause__ = error
            self._fatal(fatal)
        else:
            self._bump_wanted |= was_sent
            self._abortable(error)

    def close(self, error: Exception) -> None:
        """Nothing will be asked any more: end the calls that wait."""
        if self.state is not State.FATAL_ERROR:
            self._fatal(error)

    def next(self, now_ms: int, *, has_unsettled: bool) -> Ask | None:
        """What to send now, if anything; it is under way then.

        Args:
            has_unsettled: whether batches have no outcome yet: a transaction ends behind them.
        """
        if self._awaited is not None or now_ms < self.not_before_ms:
            return None
        request = self._next_request(has_unsettled=has_unsettled)
        if request is None:
            return None
        ask = self._coordinators.ask(request, is_implicit=self.is_implicit)
        self._awaited = ask.request
        if ask.to is None:
            return ask  # a lookup
        self._parts.was_asked(request)
        self._is_ending = isinstance(request, EndTxnRequest)
        return ask

    # -- answers ------------------------------------------------------------------------------------------

    def answered(self, sent: Request, answer: Message, now_ms: int, *, version: int) -> None:
        """Take an answer.

        Args:
            version: of the answer.
        """
        self._awaited = None
        trouble, self.trouble = self.trouble, None
        if isinstance(sent, FindCoordinatorRequest):
            assert isinstance(answer, FindCoordinatorResponse)
            self._on_coordinator(sent, answer, now_ms)
        elif isinstance(sent, InitProducerIdRequest):
            assert isinstance(answer, InitProducerIdResponse)
            self._on_producer_id(sent, answer, now_ms, can_bump=version >= _EPOCH_BUMP_VERSION)
        elif isinstance(sent, AddPartitionsToTxnRequest):
            assert isinstance(answer, AddPartitionsToTxnResponse)
            self._on_partitions_added(sent, answer, now_ms)
        elif isinstance(sent, AddOffsetsToTxnRequest):
            assert isinstance(answer, AddOffsetsToTxnResponse)
            self._on_group_added(sent, ErrorCode(answer.error_code), now_ms)
        elif isinstance(sent, TxnOffsetCommitRequest):
            assert isinstance(answer, TxnOffsetCommitResponse)
            self._on_offsets_stored(sent, answer, now_ms)
        else:
            assert isinstance(answer, EndTxnResponse)
            self._on_ended(sent, answer, now_ms)
        if self.trouble is None and isinstance(sent, FindCoordinatorRequest):
            # That a coordinator is known again does not mean that it has become better.
            self.trouble = trouble
        elif self.trouble is None:
            self._failures = 0

    def unanswered(self, sent: Request, error: Exception, now_ms: int) -> None:
        """A request got no answer: the connection was lost, time ran out, or the broker does not know it."""
        self._awaited = None
        if isinstance(sent, FindCoordinatorRequest):
            if isinstance(error, UnsupportedApiError) and sent.coordinator_keys:
                self._coordinators.ask_for_one_key()
                return
        else:
            self._coordinators.forget(sent)
        if getattr(error, "retriable", False):
            self._again(str(error), now_ms)
        else:
            self._fatal(error)

    def _on_coordinator(
        self, sent: FindCoordinatorRequest, answer: FindCoordinatorResponse, now_ms: int
    ) -> None:
        found = answer.coordinators[0] if sent.coordinator_keys else answer
        code = ErrorCode(found.error_code)
        _, key = self._coordinators.key_of(sent)
        if code is ErrorCode.NONE:
            self._coordinators.found(sent, Coordinator(found.host, found.port))
        elif code is ErrorCode.INVALID_GROUP_ID:
            self._abortable(not_authorized_for_group(key))
        else:
            what = kind_of(sent)
            unexpected = (
                f"Could not find a coordinator with type {what} with key {key} due to unexpected error"
            )
            self._refused(sent, code, unexpected, now_ms)

    def _on_producer_id(
        self, sent: InitProducerIdRequest, answer: InitProducerIdResponse, now_ms: int, *, can_bump: bool
    ) -> None:
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            self._refused(sent, code, "Unexpected error in InitProducerIdResponse", now_ms)
            return
        if self.state is not State.INITIALIZING:
            return
        self.producer = (answer.producer_id, answer.producer_epoch)
        self._can_bump = can_bump
        self._bump_wanted = False
        self._choose_version()
        _log.info(
            "transactional id %s has producer id %d and epoch %d", self.transactional_id, *self.producer
        )
        self._ready()

    def _on_partitions_added(
        self, sent: AddPartitionsToTxnRequest, answer: AddPartitionsToTxnResponse, now_ms: int
    ) -> None:
        errors = {
            TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
            if each.partition_error_code
        }
        if not errors:
            self._parts.partitions_added()
            return
        told = [each for each in errors.values() if speaks_for_all(each)]
        if told:
            is_first = not self._parts.has_partitions and told[0] is ErrorCode.CONCURRENT_TRANSACTIONS
            is_missing = told[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not told[0].retriable or (is_missing and self.state is State.ABORTING_TRANSACTION):
                self._parts.partitions_refused()  # a topic that was deleted does not come for an abort
            self._refused(
                sent, told[0], "Could not add partitions to transaction", now_ms, is_first_add=is_first
            )
            return
        self._parts.partitions_refused()
        self._abortable(error_of_adding(errors))

    def _on_group_added(self, sent: AddOffsetsToTxnRequest, code: ErrorCode, now_ms: int) -> None:
        if code is ErrorCode.NONE:
            self._parts.group_added()
        elif not code.retriable:
            self._parts.group_refused()
        is_known = code is ErrorCode.NONE or not code.retriable
        if is_known and self.state is State.ABORTING_TRANSACTION:
            self._parts.forget_offsets()  # this was all that had to be known
        if code is ErrorCode.NONE:
            return
        self._refused(sent, code, "Unexpected error in AddOffsetsToTxnResponse", now_ms)

    def _on_offsets_stored(
        self, sent: TxnOffsetCommitRequest, answer: TxnOffsetCommitResponse, now_ms: int
    ) -> None:
        item = self._parts.offsets
        for topic in answer.topics:
            for each in topic.partitions:
                code = ErrorCode(each.error_code)
                partition = TopicPartition(topic.name, each.partition_index)
                if code is ErrorCode.NONE:
                    if item is not None:
                        item.left.pop(partition, None)
                elif code in NOT_A_MEMBER:
                    self._abortable(
                        CommitFailedError(
                            "Transaction offset Commit failed due to consumer group metadata mismatch: "
                            f"{code.message}"
                        )
                    )
                    return
                else:
                    if code is ErrorCode.REQUEST_TIMED_OUT:
                        self._coordinators.forget(sent)
                    unexpected = "Unexpected error in TxnOffsetCommitResponse"
                    self._refused(sent, code, unexpected, now_ms)
                    if not code.retriable:
                        return
        self._parts.offsets_stored()

    def _on_ended(self, sent: EndTxnRequest, answer: EndTxnResponse, now_ms: int) -> None:
        code = ErrorCode(answer.error_code)
        is_abort = self.state is State.ABORTING_TRANSACTION
        if code is ErrorCode.NONE:
            if answer.producer_id >= 0:
                self.producer = (answer.producer_id, answer.producer_epoch)
            self._ended()
        elif is_abort and self._is_unknown_id(code):
            self._bump_wanted = True
            self._ended()  # a coordinator that does not know the producer has nothing of it to abort
        elif is_abort and code is ErrorCode.TRANSACTION_ABORTABLE:
            error = TransactionError("Failed to abort transaction", is_abortable=False)
            error.__cause__ = ApiError(code)
            self._fatal(error)  # another abort would be answered in the same way
        else:
            self._refused(sent, code, "Unhandled error in EndTxnResponse", now_ms)

    def _refused(
        self, sent: Request, code: ErrorCode, unexpected: str, now_ms: int, *, is_first_add: bool = False
    ) -> None:
        """Do what an error asks for, in the same way whatever was asked.

        Args:
            unexpected: the text for codes that are not expected.
        """
        if code in COORDINATOR_GONE and not isinstance(sent, FindCoordinatorRequest):
            self._coordinators.forget(sent)
        if code.retriable:
            self._again(f"{code.name}: {code.message}", now_ms, _FIRST_ADD_BACKOFF_MS if is_first_add else 0)
        elif code in FENCED:
            self._fatal(ProducerFencedError())
        elif code in FATAL:
            self._fatal(ApiError(code))
        elif code in ABORTABLE:
            self._abortable(ApiError(code))
        elif self._is_unknown_id(code) and not isinstance(sent, InitProducerIdRequest) and self._can_bump:
            self._bump_wanted |= not self.is_implicit
            self._abortable(ApiError(code))
        elif code is ID_EXPIRED and self.is_implicit:
            self._fatal(ApiError(code))
        elif code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._abortable(not_authorized_for_group(self._coordinators.key_of(sent)[1]))
        else:
            error = TransactionError(f"{unexpected}; {code.message}", is_abortable=False)
            error.__cause__ = ApiError(code)
            self._fatal(error)

    # -- what to ask --------------------------------------------------------------------------------------

    def _next_request(self, *, has_unsettled: bool) -> Request | None:
        state = self.state
        if state is State.INITIALIZING:
            return self._identity.init(self._timeout_ms)
        if state not in COMPLETING and state is not State.IN_TRANSACTION:
            return None
        # In an abort nothing is left here but what the coordinator may have heard of: only if it has is there an end.
        request = self._parts.next_request(self._identity)
        if request is not None:
            return request
        if state is State.IN_TRANSACTION or has_unsettled:
            return None
        if self._must_be_ended():
            return self._identity.end(committed=state is State.COMMITTING_TRANSACTION)
        self._ended()
        return self._next_request(has_unsettled=has_unsettled) if self._is_initializing() else None

    @property
    def _identity(self) -> ProducerIdentity:
        return ProducerIdentity(self.transactional_id, *self.producer)

    def _must_be_ended(self) -> bool:
        # A coordinator that does not know the producer would only say so; from version 2 on it knows it all the same.
        is_unknown = getattr(self.error, "code", None) in ID_UNKNOWN
        return self._parts.is_started and (self.is_implicit or not is_unknown)

    def _is_unknown_id(self, code: ErrorCode) -> bool:
        """Whether the next epoch helps: from version 2 on nothing does when the coordinator has forgotten the id."""
        return code in ID_UNKNOWN and not (self.is_implicit and code is ID_EXPIRED)

    def _is_initializing(self) -> bool:
        return self.state is State.INITIALIZING

    # -- moving -------------------------------------------------------------------------------------------

    def _called(self, operation: str, to: State) -> Outcome:
        """A call that changes the state and waits; one that timed out is continued by the same call."""
        if self._call is not None and not self._call.taken:
            if self._call.operation != operation:
                self._raise_if_unfinished(operation)
            return self._call
        if self.state is not State.ABORTABLE_ERROR or to is not State.ABORTING_TRANSACTION:
            self._raise_error()
        self._move(to)
        if to is State.ABORTING_TRANSACTION:
            self._parts.drop_wanted()
            self._parts.drop_offsets(TransactionAbortedError(), keep_asked=True)
        self._call = Outcome(operation)
        return self._call

    def _move(self, to: State) -> None:
        if self.state not in SOURCES[to]:
            raise IllegalStateError(
                f"TransactionalId {self.transactional_id}: Invalid transition attempted from state "
                f"{self.state.value} to state {to.value}"
            )
        self.state = to

    def _raise_if_unfinished(self, operation: str) -> None:
        call = self._call
        if call is None:
            return
        if not call.taken:
            raise IllegalStateError(
                f"Cannot attempt operation `{operation}` because the previous call to `{call.operation}` "
                "timed out and must be retried"
            )
        self._call = None

    def _raise_error(self) -> None:
        if self.state not in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            return
        raise error_of_calls(self._identity, self.error, is_abortable=self.state is State.ABORTABLE_ERROR)

    def _again(self, trouble: str, now_ms: int, backoff_ms: int = 0) -> None:
        least_ms, most_ms = self._backoff_ms
        grown_ms = min(least_ms * 2 ** min(self._failures, 16), most_ms) * self._jitter()
        self._failures += 1
        self.trouble = trouble
        self.not_before_ms = now_ms + (backoff_ms or int(grown_ms))

    def _abortable(self, error: Exception) -> None:
        if self.state is State.ABORTING_TRANSACTION:
            _log.debug("skipping an error of a transaction that is being aborted: %s", error)
            return
        if self.state not in CAN_BE_ABORTED:
            return
        _log.info("the transaction of %s has to be aborted: %s", self.transactional_id, error)
        self.state = State.ABORTABLE_ERROR
        self.error = error
        self._parts.drop_wanted()
        self._parts.drop_offsets(error, keep_asked=True)
        if self._call is not None:
            self._call.settle(error)

    def _fatal(self, error: Exception) -> None:
        _log.info("the producer of %s cannot go on: %s", self.transactional_id, error)
        self.state = State.FATAL_ERROR
        self.error = error
        self._parts.drop_wanted()
        self._parts.partitions_refused()
        self._parts.drop_offsets(error, keep_asked=False)
        if self._call is not None:
            self._call.settle(error)

    def _ended(self) -> None:
        self._is_ending = False
        self._parts.clear()
        self.error = None
        was_implicit = self.is_implicit
        self._choose_version()
        if self.is_implicit and not was_implicit:
            self._bump_wanted = True  # what is late of this transaction must not put itself into the next one
        if self._bump_wanted or self.producer == _NO_PRODUCER:
            self.state = State.INITIALIZING  # the call ends with the new epoch
        else:
            self._ready()

    def _choose_version(self) -> None:
        self._parts.are_implicit = self._finalized_version() >= _IMPLICIT_VERSION

    def _ready(self) -> None:
        self.state = State.READY
        self.error = None
        if self._call is not None:
            self._call.settle()
