"""What errors say about sequence numbers: the decisions of Kafka's TransactionManager, played without a broker."""

import pytest

from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.idempotence import Idempotence
from pkafka.clients.producer.queues import PartitionQueue, TopicQueues
from pkafka.errors import ApiError, ErrorCode
from pkafka.records.builder import BatchBuilder

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN = ErrorCode.UNKNOWN_PRODUCER_ID


class Played:
    """A producer with id 7 and one partition; batches are made, sent and come back as the test says."""

    def __init__(self) -> None:
        self.rules = Idempotence()
        self.rules.adopt(7, 0)
        self.queue = PartitionQueue(TopicQueues("t", 16_384), 0)

    def new(self, count: int, queue: PartitionQueue | None = None) -> ProducerBatch:
        builder = BatchBuilder(10_000)
        for _ in range(count):
            builder.append(1, None, b"x")
        return ProducerBatch(queue or self.queue, builder, now_ms=0, deadline_ms=9, reserved_bytes=0)

    def send(self, count: int, queue: PartitionQueue | None = None) -> ProducerBatch:
        batch = self.new(count, queue)
        self.rules.assign(batch)
        return batch

    def again(self, batch: ProducerBatch, leader_id: int = -1) -> bool:
        """Put a batch at the head of its queue; whether it may go."""
        queue = batch.queue
        queue.batches.clear()
        queue.batches.append(batch)
        return not (self.rules.is_blocked(queue) or self.rules.waits_for_another_leader(queue, leader_id))


def state(batch: ProducerBatch) -> tuple[int, int]:
    """Epoch and sequence."""
    return batch.producer[1], batch.sequence


def test_sequences_count_records_and_wrap_around() -> None:
    play = Played()
    assert [state(play.send(count)) for count in (3, 2, 1)] == [(0, 0), (0, 3), (0, 5)]
    play.queue.next_sequence = 2**31 - 2
    assert [state(play.send(count)) for count in (3, 1)] == [(0, 2**31 - 2), (0, 1)]


def test_what_goes_again_keeps_its_sequence_and_its_turn() -> None:
    play = Played()
    first, second = play.send(1), play.send(1)
    assert play.again(first)
    assert not play.again(second)
    play.rules.assign(first)
    assert (state(first), state(second)) == ((0, 0), (0, 1))
    play.rules.acknowledged(first, 10)
    assert play.again(second)


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    """A leader that does not know a producer takes any sequence from it for the first."""
    play = Played()
    first = play.send(2)
    assert not play.again(play.new(1))
    play.rules.acknowledged(first, 0)
    assert play.again(play.new(1))
    play.send(1)
    assert play.again(play.new(1))


def test_what_follows_waits_until_the_leader_before_has_answered() -> None:
    play = Played()
    play.rules.acknowledged(play.send(1), 0)
    first, second = play.send(2), play.send(1)
    first.last_leader = second.last_leader = (1, 0)
    assert not play.again(play.new(1), leader_id=2)
    assert play.again(play.new(1), leader_id=1)
    assert play.again(first, leader_id=2)
    first.last_leader = (2, 1)
    play.rules.acknowledged(first, 1)
    assert not play.again(play.new(1), leader_id=2)
    assert play.again(second, leader_id=2)
    second.last_leader = (2, 1)
    assert play.again(play.new(1), leader_id=2)


def test_a_gap_behind_one_that_goes_again_is_no_gap() -> None:
    play = Played()
    play.send(1)
    second = play.send(1)
    assert play.rules.may_retry(second, OUT_OF_ORDER, -1)
    play.rules.refresh()
    assert play.rules.producer == (7, 0)


def test_a_true_gap_bumps_the_epoch_and_begins_again() -> None:
    play = Played()
    play.rules.acknowledged(play.send(2), 0)
    second, third = play.send(1), play.send(4)
    assert play.rules.may_retry(second, OUT_OF_ORDER, -1)
    play.rules.refresh()
    assert play.rules.producer == (7, 1)
    assert [state(each) for each in (second, third)] == [(1, 0), (1, 1)]
    assert state(play.send(1)) == (1, 5)
    # The answers to what was sent with the old epoch do not ask for yet another one.
    assert play.rules.may_retry(third, OUT_OF_ORDER, -1)
    assert play.rules.may_retry(third, UNKNOWN, 5)
    play.rules.refresh()
    assert play.rules.producer == (7, 1)


def test_other_partitions_change_the_epoch_when_they_have_nothing_under_way() -> None:
    play = Played()
    other = PartitionQueue(TopicQueues("u", 16_384), 0)
    old = play.send(3, other)
    assert play.rules.may_retry(play.send(1), UNKNOWN, 0)
    play.rules.refresh()
    assert not play.again(play.new(1, other))
    assert state(old) == (0, 0)
    play.rules.acknowledged(old, 0)
    assert play.again(play.new(1, other))
    assert state(play.send(1, other)) == (1, 0)


def test_an_unknown_producer_is_asked_again_while_the_start_of_the_log_is_not_known() -> None:
    play = Played()
    assert play.rules.may_retry(play.send(1), UNKNOWN, -1)
    play.rules.refresh()
    assert play.rules.producer == (7, 0)


def test_a_refused_batch_leaves_a_gap_that_a_new_epoch_closes() -> None:
    play = Played()
    refused, next_one = play.send(2), play.send(1)
    assert not play.rules.may_retry(refused, ErrorCode.INVALID_RECORD, -1)
    play.rules.failed(refused, ApiError(ErrorCode.INVALID_RECORD), sequence_is_free=True)
    play.rules.refresh()
    assert state(next_one) == (1, 0)
    assert next_one.sequence_was_reset


@pytest.mark.parametrize("arrived", [True, False])
def test_a_batch_that_ran_out_of_time_is_resolved_by_those_before_it(arrived: bool) -> None:
    play = Played()
    first, late = play.send(1), play.send(1)
    play.rules.expired(late)
    assert not play.again(play.new(1))
    play.rules.refresh()
    assert play.rules.producer == (7, 0)  # the first may still tell
    play.rules.acknowledged(first, 0)
    if arrived:
        play.queue.last_acked_sequence = late.sequence
    play.rules.refresh()
    assert play.rules.producer == (7, 0 if arrived else 1)
    assert play.again(play.new(1))
    assert state(play.send(1)) == ((0, 2) if arrived else (1, 0))


def test_the_batch_right_behind_an_unresolved_one_shows_the_gap() -> None:
    play = Played()
    late, behind, last = play.send(1), play.send(1), play.send(1)
    play.rules.expired(late)
    assert play.rules.may_retry(last, OUT_OF_ORDER, -1)
    play.rules.refresh()
    assert play.rules.producer == (7, 0)
    assert play.rules.may_retry(behind, OUT_OF_ORDER, -1)
    play.rules.refresh()
    assert [state(each) for each in (behind, last)] == [(1, 0), (1, 1)]


def test_after_the_last_epoch_a_new_id_is_asked_for() -> None:
    play = Played()
    play.rules.adopt(7, 0x7FFF)
    batch = play.send(1)
    play.rules.failed(batch, ApiError(ErrorCode.INVALID_RECORD), sequence_is_free=True)
    play.rules.refresh()
    assert play.rules.producer is None
    play.rules.adopt(8, 0)
    assert state(play.send(1)) == (0, 0)


def test_halves_share_the_sequences_of_the_whole() -> None:
    play = Played()
    whole, behind = play.send(5), play.send(1)
    halves = (play.new(2), play.new(3))
    play.rules.split(whole, halves)
    assert [state(each) for each in halves] == [(0, 0), (0, 2)]
    assert play.queue.tracked == [*halves, behind]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE])
def test_other_errors_are_what_they_are(code: ErrorCode) -> None:
    play = Played()
    assert play.rules.may_retry(play.send(1), code, -1) == code.retriable
