"""Transactions where the cluster has finalized transaction.version 2 (KIP-890, part 2): the machine's decisions."""

import pytest

from pkafka.clients.errors import CommitFailedError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.producer.errors import ProducerFencedError, TransactionError
from pkafka.clients.producer.transaction_states import State
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.played_transactions import GROUP, LAST_EPOCH, ONE, TWO, Played

FAILURE = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
OFFSETS = {ONE: OffsetAndMetadata(5)}


def begun() -> Played:
    """In a transaction, with records of a partition."""
    play = Played(finalized=2)
    play.rules.begin()
    assert play.rules.admits(ONE)
    return play


def committed(play: Played) -> None:
    outcome = play.rules.commit()
    play.answer(play.expect(EndTxnRequest))
    assert (outcome.done, outcome.error) == (True, None)
    outcome.taken = True


# -- the way of a good transaction --------------------------------------------------------------------------------


def test_records_and_offsets_put_themselves_into_the_transaction() -> None:
    play = begun()
    assert play.rules.is_implicit
    assert play.rules.admits(TWO)
    assert play.next() is None, "the coordinator hears of partitions from their leaders"
    stored = play.rules.send_offsets(OFFSETS, GROUP)
    ask = play.next()
    while ask is not None and not isinstance(ask.request, TxnOffsetCommitRequest):
        play.answer(ask.request)
        ask = play.next()
    assert ask is not None
    assert ask.max_version == 5
    play.answer(ask.request)
    assert (stored.done, stored.error) == (True, None)
    commit = play.rules.commit()
    assert play.next(has_unsettled=True) is None, "what is sent comes first"
    ask = play.next()
    assert ask is not None
    assert isinstance(ask.request, EndTxnRequest)
    assert (ask.max_version, ask.request.committed, ask.request.producer_epoch) == (5, True, 0)
    play.answer(ask.request)
    assert (commit.done, commit.error, play.rules.producer, play.rules.state) == (
        True,
        None,
        (7, 1),
        State.READY,
    )


def test_each_transaction_has_an_epoch_of_its_own() -> None:
    play = begun()
    committed(play)
    play.rules.begin()
    assert play.rules.admits(ONE)
    abort = play.rules.abort()
    end = play.expect(EndTxnRequest)
    assert (end.committed, end.producer_epoch) == (False, 1)
    play.answer(end)
    assert (abort.error, play.rules.producer) == (None, (7, 2))
    assert not play.rules.admits(ONE), "there is no transaction"


def test_the_coordinator_hears_nothing_of_an_empty_transaction() -> None:
    play = Played(finalized=2)
    for end in (play.rules.commit, play.rules.abort):
        play.rules.begin()
        outcome = end()
        play.settle()
        assert (play.asked, outcome.done, outcome.error, play.rules.producer) == ([], True, None, (7, 0))
        outcome.taken = True


def test_offsets_alone_are_a_transaction() -> None:
    play = Played(finalized=2)
    play.rules.begin()
    play.rules.send_offsets(OFFSETS, GROUP)
    play.answer(play.expect(TxnOffsetCommitRequest))
    committed(play)
    assert play.rules.producer == (7, 1)


def test_offsets_that_were_not_sent_are_dropped_by_an_abort() -> None:
    play = Played(finalized=2)
    play.rules.begin()
    play.rules.send_offsets(OFFSETS, GROUP)
    abort = play.rules.abort()
    end = play.expect(EndTxnRequest)
    assert not end.committed
    play.answer(end)
    assert (abort.done, abort.error) == (True, None)


def test_after_the_last_epoch_comes_another_id() -> None:
    play = begun()
    play.rules.producer = (7, LAST_EPOCH)
    committed(play)
    assert play.rules.producer == (8, 0)
    play.rules.begin()
    assert play.rules.admits(ONE)
    play.rules.abort()
    end = play.expect(EndTxnRequest)
    assert (end.producer_id, end.producer_epoch) == (8, 0)


# -- failures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_the_abort_after_a_failed_batch_brings_the_new_epoch_itself(code: ErrorCode) -> None:
    play = begun()
    play.rules.failed(ApiError(code), was_sent=True)
    with pytest.raises(TransactionError) as failed:
        play.rules.commit()
    assert failed.value.is_abortable
    abort = play.rules.abort()
    end = play.expect(EndTxnRequest)
    assert (end.committed, end.producer_epoch) == (False, 0)
    play.answer(end)
    assert (abort.done, abort.error, play.rules.producer) == (True, None, (7, 1))
    assert play.next() is None, "no InitProducerId"


def test_a_batch_that_fails_in_an_abort_asks_for_nothing_more() -> None:
    play = begun()
    abort = play.rules.abort()
    play.rules.failed(FAILURE, was_sent=True)
    play.answer(play.expect(EndTxnRequest))
    assert (abort.done, abort.error, play.rules.producer) == (True, None, (7, 1))


@pytest.mark.parametrize(
    "code", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR], ids=lambda code: code.name
)
def test_what_passes_is_asked_again_in_the_same_version(code: ErrorCode) -> None:
    play = begun()
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest), code)
    assert not commit.done
    play.answer(play.expect(EndTxnRequest))
    assert (commit.error, play.rules.producer) == (None, (7, 1))


def test_a_commit_that_is_refused_can_be_aborted() -> None:
    play = begun()
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest), ErrorCode.TRANSACTION_ABORTABLE)
    assert isinstance(commit.error, ApiError)
    commit.taken = True
    abort = play.rules.abort()
    play.answer(play.expect(EndTxnRequest))
    assert (abort.error, play.rules.producer) == (None, (7, 1))


@pytest.mark.parametrize("finalized", [0, 2])
def test_an_abort_that_is_refused_is_the_end_of_the_producer(finalized: int) -> None:
    play = Played(begun=True, finalized=finalized)
    abort = play.rules.abort()
    play.answer(play.expect(EndTxnRequest), ErrorCode.TRANSACTION_ABORTABLE)
    assert isinstance(abort.error, TransactionError)
    assert "Failed to abort transaction" in str(abort.error)
    assert play.rules.state is State.FATAL_ERROR
    assert play.next() is None


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION], ids=lambda code: code.name
)
def test_offsets_of_a_zombie_member_leave_an_abort(code: ErrorCode) -> None:
    play = Played(finalized=2)
    play.rules.begin()
    stored = play.rules.send_offsets(OFFSETS, GROUP)
    play.answer(play.expect(TxnOffsetCommitRequest), code)
    assert isinstance(stored.error, CommitFailedError)
    play.rules.abort()
    play.answer(play.expect(EndTxnRequest))
    assert play.rules.producer == (7, 1)


@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH], ids=lambda code: code.name
)
def test_a_fenced_producer_is_at_its_end(code: ErrorCode) -> None:
    play = begun()
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest), code)
    assert isinstance(commit.error, ProducerFencedError)
    assert play.rules.state is State.FATAL_ERROR


def test_an_id_that_the_coordinator_has_forgotten_is_the_end() -> None:
    """As for Kafka 4's own producer; before version 2 the next epoch helps."""
    in_batch = begun()
    in_batch.rules.failed(ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING), was_sent=True)
    assert in_batch.rules.state is State.FATAL_ERROR
    at_end = begun()
    commit = at_end.rules.commit()
    at_end.answer(at_end.expect(EndTxnRequest), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert getattr(commit.error, "code", None) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert at_end.rules.state is State.FATAL_ERROR


# -- a cluster that changes ---------------------------------------------------------------------------------------


def test_a_transaction_ends_as_it_began_when_the_cluster_is_upgraded_meanwhile() -> None:
    play = Played(begun=True)
    play.finalized = 2
    assert not play.rules.is_implicit
    commit = play.rules.commit()
    ask = play.next()
    assert ask is not None
    assert isinstance(ask.request, EndTxnRequest)
    assert ask.max_version is None
    play.answer(ask.request)
    assert not commit.done, "what is late of the old transaction must not put itself into the next one"
    bump = play.expect(InitProducerIdRequest)
    assert (bump.producer_id, bump.producer_epoch) == (7, 0)
    play.answer(bump)
    assert (commit.done, commit.error, play.rules.producer) == (True, None, (7, 1))
    assert play.rules.is_implicit
    commit.taken = True
    play.rules.begin()
    assert play.rules.admits(ONE)


def test_an_empty_transaction_is_enough_for_the_upgrade() -> None:
    play = Played()
    play.rules.begin()
    play.finalized = 2
    play.rules.commit()
    play.settle()
    assert play.asked == ["InitProducerIdRequest"]
    assert play.rules.is_implicit


def test_a_cluster_that_takes_the_feature_back_gets_the_older_requests() -> None:
    play = begun()
    play.finalized = 1
    commit = play.rules.commit()
    play.answer(play.expect(EndTxnRequest))
    assert (commit.done, play.rules.producer) == (True, (7, 1))
    commit.taken = True
    assert not play.rules.is_implicit
    play.rules.begin()
    assert not play.rules.admits(ONE)
    play.settle()
    assert play.asked == ["AddPartitionsToTxnRequest"]
    assert play.rules.admits(ONE)
