"""Records between a poll and the coroutine that takes them."""

import pytest

from pkafka.clients.aio.undelivered import Undelivered
from pkafka.clients.consumer import ConsumerRecord
from pkafka.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, 0, None, b"", (), -1)


def test_records_are_taken_in_order_and_by_partition() -> None:
    records = [record(0, 5), record(0, 6), record(1, 9), record(1, 10)]
    undelivered = Undelivered()
    undelivered.add(records)
    assert undelivered.take_one() == records[0]
    assert undelivered.take(2) == {P0: [records[1]], P1: [records[2]]}
    assert undelivered.take(None) == {P1: [records[3]]}
    assert undelivered.take(None) == {}
    with pytest.raises(IndexError):
        undelivered.take_one()


def test_what_is_given_back_is_not_delivered_and_its_beginning_is_known() -> None:
    undelivered = Undelivered()
    undelivered.add([record(0, 5), record(0, 6), record(1, 9)])
    assert undelivered.first_offsets() == {P0: 5, P1: 9}
    assert undelivered.give_back([P0, TopicPartition("other", 0)]) == {P0: 5}
    assert undelivered.first_offsets() == {P1: 9}
    undelivered.add([record(0, 5)])
    assert undelivered.give_back(None) == {P0: 5, P1: 9}
    assert len(undelivered) == 0
    undelivered.add([record(1, 9)])
    assert undelivered.take_one().offset == 9
