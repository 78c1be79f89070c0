"""What answers and failures mean for a transaction: the decisions of Kafka's TransactionManager, without a broker."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.errors import (
    ClosedError,
    CommitFailedError,
    DisconnectedError,
    IllegalStateError,
    UnsupportedApiError,
)
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.producer.errors import (
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from pkafka.clients.producer.transaction_requests import Ask, Coordinator
from pkafka.clients.producer.transaction_states import Outcome, State
from pkafka.clients.producer.transactions import Transactions
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages import add_partitions_to_txn as adding
from pkafka.protocol.messages import txn_offset_commit as offset_commit
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.played_transactions import GROUP, ONE, TWO, Played

FAILURE = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def code_of(error: Exception | None) -> ErrorCode | None:
    return getattr(error, "code", None)


# -- the way of a good transaction --------------------------------------------------------------------------------


def test_a_transaction_asks_for_what_it_needs_and_no_more() -> None:
    play = Played(initialized=False)
    init = play.rules.init()
    play.settle()
    assert (init.done, init.error, play.rules.state) == (True, None, State.READY)
    assert play.asked == ["FindCoordinatorRequest", "InitProducerIdRequest"]
    assert play.rules.producer == (7, 0)
    init.taken = True
    play.rules.begin()
    play.settle()
    assert not play.rules.admits(ONE)
    assert not play.rules.admits(TWO)
    add = play.expect(adding.AddPartitionsToTxnRequest)
    assert [(each.name, each.partitions) for each in add.v3_and_below_topics] == [("t", [0]), ("u", [3])]
    play.answer(add)
    assert play.rules.admits(ONE)
    assert play.rules.admits(TWO)
    play.asked.clear()
    stored = play.rules.send_offsets({ONE: OffsetAndMetadata(5, "m", 2)}, GROUP)
    play.answer(play.expect(AddOffsetsToTxnRequest))
    request = play.expect(offset_commit.TxnOffsetCommitRequest)
    assert (request.generation_id, request.member_id, request.group_instance_id) == (4, "member", None)
    row = request.topics[0].partitions[0]
    assert (row.committed_offset, row.committed_metadata, row.committed_leader_epoch) == (5, "m", 2)
    assert not stored.done
    play.answer(request)
    assert stored.done
    commit = play.rules.commit()
    assert play.next(has_unsettled=True) is None, "what is sent comes first"
    end = play.expect(EndTxnRequest)
    assert end.committed
    play.answer(end)
    assert (commit.done, commit.error, play.rules.state) == (True, None, State.READY)
    commit.taken = True
    play.rules.begin()
    assert not play.rules.admits(ONE), "each transaction is told of its partitions"


@pytest.mark.parametrize("end", [Transactions.commit, Transactions.abort])
def test_the_coordinator_hears_nothing_of_an_empty_transaction(
    end: Callable[[Transactions], Outcome],
) -> None:
    play = Played()
    play.rules.begin()
    outcome = end(play.rules)
    play.settle()
    assert (play.asked, outcome.done, outcome.error) == ([], True, None)
    assert play.rules.state is State.READY


def test_partitions_that_come_late_are_added_before_the_commit() -> None:
    play = Played(begun=True)
    commit = play.rules.commit()
    assert not play.rules.admits(TWO)
    assert isinstance(play.next(has_unsettled=True), Ask)
    assert not commit.done


def test_old_brokers_are_asked_for_one_coordinator() -> None:
    play = Played(initialized=False)
    play.rules.init()
    first = play.next()
    assert first is not None
    play.rules.unanswered(first.request, UnsupportedApiError("no"), play.now_ms)
    second = play.next()
    assert second is not None
    assert isinstance(second.request, FindCoordinatorRequest)
    assert (second.request.key, second.request.coordinator_keys, second.max_version) == ("id", [], 3)
    play.answer(second.request)
    third = play.next()
    assert third is not None
    assert third.to == Coordinator("h", 9)


# -- calls that do not fit ----------------------------------------------------------------------------------------


def test_calls_out_of_order_are_refused() -> None:
    play = Played(initialized=False)
    rules = play.rules
    for early in (rules.begin, rules.commit, rules.abort, rules.check_send):
        with pytest.raises(IllegalStateError):
            early()
    play = Played()
    rules = play.rules
    for early in (rules.init, rules.commit, rules.abort, rules.check_send):
        with pytest.raises(IllegalStateError):
            early()
    with pytest.raises(IllegalStateError, match="currentState= READY"):
        rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    rules.begin()
    rules.check_send()
    for late in (rules.begin, rules.init):
        with pytest.raises(IllegalStateError, match="Invalid transition attempted from state IN_TRANSACTION"):
            late()


def test_a_call_that_was_not_waited_for_has_to_be_made_again() -> None:
    play = Played(begun=True)
    rules = play.rules
    commit = rules.commit()
    for other in (rules.abort, rules.begin, rules.check_send):
        with pytest.raises(IllegalStateError, match="previous call to `commit_transaction` timed out"):
            other()
    assert rules.commit() is commit
    play.settle()
    assert rules.commit() is commit
    commit.taken = True
    rules.begin()
    offsets = rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    assert rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP) is offsets
    assert rules.send_offsets({ONE: OffsetAndMetadata(2)}, GROUP) is not offsets


# -- errors that pass ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", RETRIED)
def test_what_passes_is_asked_again(code: ErrorCode) -> None:
    play = Played(initialized=False)
    init = play.rules.init()
    play.answer(play.expect(InitProducerIdRequest), code)
    assert play.rules.trouble is not None
    assert code.name in play.rules.trouble
    play.settle()
    assert init.error is None
    init.taken = True
    play.rules.begin()
    play.rules.admits(ONE)
    play.answer(play.expect(adding.AddPartitionsToTxnRequest), code)
    assert not play.rules.admits(ONE)
    play.settle()
    assert play.rules.admits(ONE)
    stored = play.rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    play.answer(play.expect(AddOffsetsToTxnRequest), code)
    play.answer(play.expect(AddOffsetsToTxnRequest))
    play.answer(play.expect(offset_commit.TxnOffsetCommitRequest), code)
    play.settle()
    assert (stored.done, stored.error) == (True, None)
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest), code)
    play.asked.clear()
    play.settle()
    gone = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert play.asked == (["FindCoordinatorRequest"] if gone else []) + ["EndTxnRequest"]
    assert (commit.done, commit.error) == (True, None)
    assert play.rules.trouble is None


def test_a_lost_connection_is_a_lost_coordinator() -> None:
    play = Played(begun=True)
    commit = play.rules.commit()
    end = play.expect(EndTxnRequest)
    play.rules.unanswered(end, DisconnectedError("gone"), play.now_ms)
    play.settle()
    assert play.asked == ["FindCoordinatorRequest", "EndTxnRequest"]
    assert (commit.done, commit.error) == (True, None)


def test_the_first_partitions_need_not_wait_long_for_the_transaction_before() -> None:
    play = Played()
    play.rules.begin()
    play.rules.admits(ONE)
    play.answer(play.expect(adding.AddPartitionsToTxnRequest), ErrorCode.CONCURRENT_TRANSACTIONS)
    assert play.rules.not_before_ms == play.now_ms + 20
    play.settle()
    play.rules.admits(TWO)
    play.answer(play.expect(adding.AddPartitionsToTxnRequest), ErrorCode.CONCURRENT_TRANSACTIONS)
    assert play.rules.not_before_ms == play.now_ms + 100


def test_waiting_grows_while_nothing_gets_better() -> None:
    play = Played(initialized=False)
    play.rules.init()
    waits = []
    for _ in range(6):
        ask = play.next()
        assert ask is not None
        play.answer(ask.request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        waits.append(play.rules.not_before_ms - play.now_ms)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


# -- errors that end the transaction ------------------------------------------------------------------------------


def test_a_failed_batch_leaves_an_abort_and_a_new_epoch() -> None:
    play = Played(begun=True)
    play.rules.failed(FAILURE, was_sent=True)
    assert play.rules.drop_reason is FAILURE
    for refused in (play.rules.commit, play.rules.begin, play.rules.check_send):
        with pytest.raises(TransactionError) as failed:
            refused()
        assert failed.value.__cause__ is FAILURE
        assert failed.value.is_abortable
    assert play.next() is None
    abort = play.rules.abort()
    assert isinstance(play.rules.drop_reason, TransactionAbortedError)
    end = play.expect(EndTxnRequest)
    assert not end.committed
    play.answer(end)
    assert not abort.done
    bump = play.expect(InitProducerIdRequest)
    assert (bump.producer_id, bump.producer_epoch) == (7, 0)
    play.answer(bump)
    assert (abort.done, abort.error, play.rules.producer) == (True, None, (7, 1))
    assert play.rules.drop_reason is None


def test_what_was_never_sent_needs_no_new_epoch() -> None:
    play = Played(begun=True)
    play.rules.failed(FAILURE, was_sent=False)
    abort = play.rules.abort()
    play.settle()
    assert play.asked == ["EndTxnRequest"]
    assert (abort.error, play.rules.producer) == (None, (7, 0))


def test_a_batch_that_fails_in_a_commit_fails_the_commit() -> None:
    play = Played(begun=True)
    commit = play.rules.commit()
    play.rules.failed(FAILURE, was_sent=True)
    assert commit.error is FAILURE
    commit.taken = True
    abort = play.rules.abort()
    play.settle()
    assert (abort.error, play.rules.producer) == (None, (7, 1))


def test_a_batch_that_fails_in_an_abort_asks_for_a_new_epoch_alone() -> None:
    play = Played(begun=True)
    abort = play.rules.abort()
    play.rules.failed(FAILURE, was_sent=True)
    play.settle()
    assert (abort.done, abort.error, play.rules.producer) == (True, None, (7, 1))


def test_without_new_epochs_a_batch_that_may_be_under_way_is_the_end() -> None:
    play = Played(begun=True, version=2)
    play.rules.failed(FAILURE, was_sent=True)
    with pytest.raises(TransactionError, match="error state") as failed:
        play.rules.abort()
    assert not failed.value.is_abortable
    assert "isn't safe" in str(play.rules.error)


def test_failures_outside_a_transaction_mean_nothing() -> None:
    play = Played()
    play.rules.failed(FAILURE, was_sent=False)
    play.rules.begin()


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_offsets_of_a_zombie_member_are_refused(code: ErrorCode) -> None:
    play = Played(begun=True)
    stored = play.rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    play.answer(play.expect(AddOffsetsToTxnRequest))
    play.answer(play.expect(offset_commit.TxnOffsetCommitRequest), code)
    assert isinstance(stored.error, CommitFailedError)
    assert play.rules.state is State.ABORTABLE_ERROR


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    ],
)
def test_what_an_abort_heals(code: ErrorCode) -> None:
    play = Played(begun=True)
    stored = play.rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    play.answer(play.expect(AddOffsetsToTxnRequest))
    play.answer(play.expect(offset_commit.TxnOffsetCommitRequest), code)
    assert code_of(stored.error) is code
    abort = play.rules.abort()
    play.asked.clear()
    play.settle()
    assert play.asked == ["EndTxnRequest"]
    assert abort.error is None


def test_partitions_that_may_not_be_written_are_named() -> None:
    play = Played()
    play.rules.begin()
    play.rules.admits(ONE)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    play.answer(play.expect(adding.AddPartitionsToTxnRequest), refused)
    assert str(play.rules.drop_reason) == "Not authorized to access topics: [t]"
    abort = play.rules.abort()
    play.asked.clear()
    play.settle()
    assert (play.asked, abort.error) == ([], None)
    play = Played()
    play.rules.begin()
    play.rules.admits(ONE)
    play.answer(play.expect(adding.AddPartitionsToTxnRequest), ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert "due to errors: {t-0=INVALID_TOPIC_EXCEPTION}" in str(play.rules.drop_reason)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_producer_that_the_coordinator_forgot_begins_anew_without_an_end(code: ErrorCode) -> None:
    play = Played(begun=True)
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest), code)
    assert code_of(commit.error) is code
    commit.taken = True
    abort = play.rules.abort()
    play.asked.clear()
    play.settle()
    assert play.asked == ["InitProducerIdRequest"]
    assert (abort.error, play.rules.state) == (None, State.READY)


def test_an_abort_asks_again_for_what_may_have_been_added() -> None:
    """The coordinator may know of a partition whose answer was lost: then there is something to end."""
    play = Played()
    play.rules.begin()
    play.rules.admits(ONE)
    add = play.expect(adding.AddPartitionsToTxnRequest)
    play.rules.unanswered(add, DisconnectedError("gone"), play.now_ms)
    play.rules.abort()
    play.settle()
    assert play.asked == ["FindCoordinatorRequest", "AddPartitionsToTxnRequest", "EndTxnRequest"]
    play = Played()
    play.rules.begin()
    play.rules.admits(ONE)
    play.rules.abort()
    play.settle()
    assert play.asked == []


def test_an_abort_does_not_wait_for_a_topic_that_was_deleted() -> None:
    play = Played()
    play.rules.begin()
    play.rules.admits(ONE)
    for _ in range(3):
        play.answer(play.expect(adding.AddPartitionsToTxnRequest), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    play.rules.failed(FAILURE, was_sent=False)
    abort = play.rules.abort()
    play.answer(play.expect(adding.AddPartitionsToTxnRequest), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    play.settle()
    assert (play.asked, abort.done, abort.error) == ([], True, None)


def test_an_abort_forgets_offsets_and_ends_what_their_group_began() -> None:
    play = Played()
    play.rules.begin()
    stored = play.rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    group = play.expect(AddOffsetsToTxnRequest)
    play.rules.abort()
    play.answer(group)
    play.asked.clear()
    play.settle()
    assert play.asked == ["EndTxnRequest"]
    assert isinstance(stored.error, TransactionAbortedError)


# -- errors that end the producer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("where", ["add", "offsets", "store", "end", "bump"])
def test_a_zombie_hears_that_it_is_one(code: ErrorCode, where: str) -> None:
    play = Played(begun=where != "add")
    outcome: Outcome | None = None
    if where == "add":
        play.rules.begin()
        play.rules.admits(ONE)
        play.answer(play.expect(adding.AddPartitionsToTxnRequest), code)
    elif where in ("offsets", "store"):
        outcome = play.rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
        group = play.expect(AddOffsetsToTxnRequest)
        play.answer(group, code if where == "offsets" else ErrorCode.NONE)
        if where == "store":
            play.answer(play.expect(offset_commit.TxnOffsetCommitRequest), code)
    elif where == "end":
        outcome = play.rules.commit()
        play.answer(play.expect(EndTxnRequest), code)
    else:
        play.rules.failed(FAILURE, was_sent=True)
        outcome = play.rules.abort()
        play.answer(play.expect(EndTxnRequest))
        play.answer(play.expect(InitProducerIdRequest), code)
    assert play.rules.is_fatal
    assert outcome is None or isinstance(outcome.error, ProducerFencedError)
    if outcome is not None:
        outcome.taken = True
    for refused in (play.rules.commit, play.rules.abort, play.rules.begin, play.rules.check_send):
        with pytest.raises(ProducerFencedError, match=r"'id' and \(producerId=7, epoch=0\) has been fenced"):
            refused()
    assert play.next() is None


def test_an_old_epoch_that_only_a_partition_leader_saw_may_be_no_zombie() -> None:
    """KIP-588: the coordinator has the last word, which the abort asks for."""
    play = Played(begun=True)
    play.rules.failed(ApiError(ErrorCode.INVALID_PRODUCER_EPOCH), was_sent=True)
    with pytest.raises(ApiError, match="attempted to produce with an old epoch") as old:
        play.rules.commit()
    assert old.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not play.rules.is_fatal
    play.rules.abort()
    play.settle()
    assert play.rules.producer == (7, 1)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            "Unexpected error in InitProducerIdResponse; The transaction",
        ),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "uthoriz"),
    ],
)
def test_an_id_that_cannot_be_had(code: ErrorCode, text: str) -> None:
    play = Played(initialized=False)
    init = play.rules.init()
    play.answer(play.expect(InitProducerIdRequest), code)
    assert play.rules.is_fatal
    assert text in str(init.error)


def test_an_init_that_can_be_aborted_is_made_again_by_the_abort() -> None:
    play = Played(initialized=False)
    init = play.rules.init()
    play.answer(play.expect(InitProducerIdRequest), ErrorCode.TRANSACTION_ABORTABLE)
    assert code_of(init.error) is ErrorCode.TRANSACTION_ABORTABLE
    init.taken = True
    abort = play.rules.abort()
    play.settle()
    assert (abort.error, play.rules.producer) == (None, (7, 0))


def test_a_transaction_in_the_wrong_state_is_a_broken_producer() -> None:
    play = Played(begun=True)
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest), ErrorCode.INVALID_TXN_STATE)
    assert code_of(commit.error) is ErrorCode.INVALID_TXN_STATE
    assert play.rules.is_fatal


_CODES = st.sampled_from(
    [
        *[ErrorCode.NONE] * 6,
        *RETRIED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
)
# Those of a transaction that goes well come more often: what fails is to meet many of them.
_EVENTS = st.one_of(
    st.tuples(st.sampled_from(["begin", "partition", "offsets", "commit", "abort", "ask", "lost"])),
    st.tuples(st.sampled_from(["begin", "partition", "commit"])),
    st.tuples(st.just("answer"), st.just(ErrorCode.NONE)),
    st.tuples(st.just("failed"), st.booleans()),
    st.tuples(st.just("finalize"), st.sampled_from([0, 1, 2])),
    st.tuples(st.just("answer"), _CODES),
)


class Random(Played):
    """Plays events in any order; calls that do not fit are refused, and change nothing."""

    def __init__(self, finalized: int) -> None:
        super().__init__(finalized=finalized)
        self.number = 0
        """Of the transaction."""
        self.users: dict[tuple[int, int], int] = {}
        """The last transaction with records of a producer id and epoch."""
        self.call: Outcome | None = None
        self.stored: list[Outcome] = []
        self.has_failed = False
        self.pending: Ask | None = None
        """What is under way, and not answered yet."""

    def happen(self, name: str, *values: Any) -> None:
        rules = self.rules
        if self.call is not None and self.call.done:
            self.call.taken = True
        try:
            if name == "begin":
                rules.begin()
                self.has_failed = False
                self.number += 1
            elif name == "finalize":
                self.finalized = values[0]
            elif name == "partition":
                self._send()
            elif name == "offsets":
                self.stored.append(rules.send_offsets({ONE: OffsetAndMetadata(len(self.stored))}, GROUP))
            elif name in ("commit", "abort"):
                self.call = rules.commit() if name == "commit" else rules.abort()
            elif name == "failed":
                rules.failed(FAILURE, was_sent=values[0])
                self.has_failed |= rules.state is State.ABORTABLE_ERROR
            elif name == "ask":
                self.pending = self.pending or self.next()
            else:
                self._come_back(*values)
        except (IllegalStateError, TransactionError, ApiError):
            return

    def _send(self) -> None:
        if not self.rules.admits(ONE):
            return
        if self.rules.is_implicit:
            number = self.users.get(self.rules.producer, self.number)
            assert number == self.number, "late records of one transaction could get into another"
        self.users[self.rules.producer] = self.number

    def _come_back(self, code: ErrorCode | None = None) -> None:
        ask = self.pending or self.next()
        self.pending = None
        if ask is None:
            return
        ends = isinstance(ask.request, EndTxnRequest) and ask.request.committed
        assert not (ends and self.has_failed), "a transaction with a failure is not committed"
        if code is None:
            self.rules.unanswered(ask.request, DisconnectedError("gone"), self.now_ms)
            return
        self.answer(ask.request, code)
        if ends and code is ErrorCode.NONE:
            assert self.call is not None
            assert self.call.error is None
            is_bump = (
                self.rules.state is State.INITIALIZING
            )  # the cluster was upgraded; the call waits for that, too
            assert self.call.done != is_bump, "a commit that happened is told"


@given(finalized=st.sampled_from([0, 2]), events=st.lists(_EVENTS, min_size=20, max_size=60))
def test_whatever_happens_calls_end_and_nothing_is_committed_after_a_failure(
    finalized: int, events: list[tuple[Any, ...]]
) -> None:
    play = Random(finalized)
    for event in events:
        play.happen(*event)
    if play.pending is not None:
        play.happen("answer", ErrorCode.NONE)
    play.settle()
    if play.rules.is_ongoing:
        if play.call is not None:
            play.call.taken = True
        play.call = play.rules.abort()
        play.settle()
    assert play.rules.state in (State.READY, State.FATAL_ERROR)
    assert play.call is None or play.call.done
    assert all(each.done for each in play.stored)


def test_a_record_that_comes_too_late_does_not_fail_the_commit_that_is_under_way() -> None:
    play = Played(begun=True)
    commit = play.rules.commit()
    end = play.expect(EndTxnRequest)
    play.rules.failed(FAILURE, was_sent=False)
    play.answer(end)
    assert (commit.done, commit.error, play.rules.state) == (True, None, State.READY)


def test_closing_lets_everybody_go() -> None:
    play = Played(begun=True)
    stored = play.rules.send_offsets({ONE: OffsetAndMetadata(1)}, GROUP)
    commit = play.rules.commit()
    play.rules.close(ClosedError("closed"))
    assert isinstance(stored.error, ClosedError)
    assert isinstance(commit.error, ClosedError)
