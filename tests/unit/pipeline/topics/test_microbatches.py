"""Where micro-batches begin and end, and that none of their records is skipped when one is begun anew."""

from collections.abc import Iterable

import pytest

from pkafka.model import Offset, TopicPartition
from pkafka.pipeline.topics.microbatches import MicroBatches
from pkafka.pipeline.topics.offsets import OffsetLookup
from pkafka.pipeline.topics.options import Bound, Limit, ReadOptions, SpecificOffsets, stream_options
from pkafka.pipeline.topics.ranges import DataLossError, OffsetRange, Offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs(OffsetLookup):
    """Logs whose ends a test sets."""

    def __init__(self, **ends: tuple[int, int]) -> None:
        self.ends = {TopicPartition("t", int(name[1:])): each for name, each in ends.items()}

    def close(self) -> None: ...

    def resolve(self, limit: Limit, *, is_start: bool) -> dict[TopicPartition, Offset]:
        if isinstance(limit, SpecificOffsets):
            at_ends = {each: {-2: 0, -1: 1}.get(offset) for each, offset in limit.offsets.items()}
            return {
                each: offset if (side := at_ends[each]) is None else self.ends[each][side]
                for each, offset in limit.offsets.items()
            }
        return {each: ends[limit is Bound.LATEST] for each, ends in self.ends.items()}

    def latest(self, known: Offsets | None = None) -> dict[TopicPartition, Offset]:
        return {each: end for each, (_, end) in self.ends.items()}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        return {each: self.ends[each][0] for each in partitions if each in self.ends}


class Time:
    """Goes on when a test says so; in seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def options(**given: str) -> ReadOptions:
    return stream_options({"kafka.bootstrap.servers": "one:9092", "subscribe": "t", **given})


def micro_batches(logs: Logs, time: Time | None = None, **given: str) -> MicroBatches:
    return MicroBatches(options(**given), lambda _: logs, time or Time())


def test_a_query_from_the_beginning_reads_everything_at_once() -> None:
    logs = Logs(p0=(2, 10), p1=(0, 3))
    batches = micro_batches(logs, startingOffsets="earliest")
    start = batches.start()
    end = batches.end(start, is_limited=True)
    assert (start, end) == ({A: 2, B: 0}, {A: 10, B: 3})
    assert batches.ranges(start, end) == [OffsetRange("t", 0, 2, 10), OffsetRange("t", 1, 0, 3)]
    assert batches.end(end, is_limited=True) == end


def test_a_query_from_the_end_puts_the_ends_into_the_checkpoint_before_it_reads() -> None:
    logs = Logs(p0=(0, 10))
    batches = micro_batches(logs)
    start = batches.start()
    logs.ends[A] = (0, 15)
    end = batches.end(start, is_limited=True)
    assert end == start == {A: 10}
    assert batches.ranges(start, end) == []
    assert batches.end(end, is_limited=True) == {A: 15}


def test_a_first_micro_batch_from_the_end_that_is_begun_anew_skips_nothing() -> None:
    logs = Logs(p0=(0, 10))
    end = micro_batches(logs).end(micro_batches(logs).start(), is_limited=True)  # then the query is killed
    logs.ends[A] = (0, 15)
    again = micro_batches(logs)
    start = again.start()
    assert start == {A: 15}
    assert again.ranges(start, end) == []  # no loss is reported: the checkpoint goes on from 10
    assert again.end(end, is_limited=True) == {A: 15}


def test_only_partitions_that_began_at_their_end_wait() -> None:
    logs = Logs(p0=(0, 10), p1=(0, 20))
    batches = micro_batches(logs, startingOffsets='{"t":{"0":-1,"1":-2}}')
    start = batches.start()
    logs.ends = {A: (0, 11), B: (0, 21)}
    assert batches.end(start, is_limited=True) == {A: 10, B: 21}


def test_a_limit_per_trigger() -> None:
    logs = Logs(p0=(0, 100), p1=(0, 300))
    batches = micro_batches(logs, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    start = batches.start()
    assert batches.end(start, is_limited=True) == {A: 10, B: 30}
    assert batches.end(start, is_limited=False) == {A: 100, B: 300}


def test_a_minimum_per_trigger_waits_but_not_for_ever() -> None:
    logs, time = Logs(p0=(0, 5)), Time()
    batches = micro_batches(
        logs, time, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="60s"
    )
    assert batches.end({A: 0}, is_limited=True) == {A: 5}  # the first never waits, as with Spark's own source
    logs.ends[A] = (0, 14)
    time.now += 59
    assert batches.end({A: 5}, is_limited=True) == {A: 5}
    time.now += 1
    assert batches.end({A: 5}, is_limited=True) == {A: 14}
    logs.ends[A] = (0, 24)
    assert batches.end({A: 14}, is_limited=True) == {A: 24}


def test_available_now_stops_at_what_was_there() -> None:
    logs = Logs(p0=(0, 10))
    batches = micro_batches(
        logs, startingOffsets="earliest", maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5"
    )
    batches.stop_at_what_is_there()
    assert batches.end({A: 0}, is_limited=True) == {A: 6}
    logs.ends[A] = (0, 30)
    assert batches.end({A: 6}, is_limited=True) == {A: 10}
    assert batches.end({A: 10}, is_limited=True) == {A: 10}


def test_a_new_partition_is_read_from_its_first_record() -> None:
    logs = Logs(p0=(0, 10), p1=(0, 4))
    batches = micro_batches(logs, startingOffsets="earliest")
    end = batches.end({A: 10}, is_limited=True)
    assert batches.ranges({A: 10}, end) == [OffsetRange("t", 1, 0, 4)]


@pytest.mark.parametrize(
    ("logs", "begin", "what", "left"),
    [
        (Logs(p0=(0, 10), p1=(3, 4)), {A: 0}, "Added partition t-1 starts from 3 instead of 0", 2),
        (Logs(p0=(0, 10)), {A: 0, B: 7}, "t-1 are gone", 1),
        (Logs(p0=(0, 10), p1=(0, 2)), {A: 0, B: 7}, "Partition t-1's offset was changed from 7 to 2", 1),
    ],
)
def test_what_is_gone_fails_the_query_unless_it_may_be(
    logs: Logs, begin: Offsets, what: str, left: int
) -> None:
    strict = micro_batches(logs)
    with pytest.raises(DataLossError) as caught:
        strict.ranges(begin, strict.end(begin, is_limited=True))
    assert str(caught.value).startswith(f"{what}. Some data may have been lost")
    lenient = micro_batches(logs, failOnDataLoss="false")
    assert len(lenient.ranges(begin, lenient.end(begin, is_limited=True))) == left


def test_min_partitions_cut_a_micro_batch() -> None:
    batches = micro_batches(Logs(p0=(0, 10)), minPartitions="2")
    assert [each.size for each in batches.ranges({A: 0}, {A: 10})] == [5, 5]
