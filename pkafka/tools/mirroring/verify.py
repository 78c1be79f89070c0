"""Compares the partitions of a source with their copies: one after the other, or each by a program of its own.

A partition is never cut into parts. What a mirror copied again after a kill is known only by what came before it, and
offset syncs do not say where a mirror went back: their topic is compacted.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from enum import Enum
from typing import NamedTuple

from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.comparison import Comparison, Difference
from pkafka.tools.mirroring.flow import Flow, bounds
from pkafka.tools.mirroring.layout import Beginning, Layout, Pair, beginning_of
from pkafka.tools.mirroring.partition_log import PartitionLog, reader_settings


class Verdict(Enum):
    """What became of a partition."""

    SAME = "same"
    BEHIND = "behind"
    """All that is there is right; the rest is to come."""
    DIFFERS = "differs"
    MISSING = "missing"
    """There is no copy of it."""


class Verified(NamedTuple):
    """What was found of a partition.

    Args:
        pair: the partition and its copy.
        verdict: what became of it.
        beginning: from where on they were compared; None where there is no copy.
        same: records that were found on both sides.
        repeated: records that the copy has again.
        behind: offsets of the source that the copy does not have.
        difference: where the two part.
    """

    pair: Pair
    verdict: Verdict
    beginning: Beginning | None = None
    same: int = 0
    repeated: int = 0
    behind: int = 0
    difference: Difference | None = None


class PairWork(NamedTuple):
    """A partition to compare with its copy.

    Args:
        pair: both.
        beginning: where both are compared from.
        source_end, target_end: up to where.
    """

    pair: Pair
    beginning: Beginning
    source_end: int
    target_end: int


class Rules(NamedTuple):
    """How partitions are compared.

    Args:
        ignores_timestamps: as where the target's brokers set them.
        timeout_ms: how long to wait for the next records of a log that has more.
    """

    ignores_timestamps: bool
    timeout_ms: int


class Work(NamedTuple):
    """What there is to compare.

    Args:
        layout: the partitions.
        beginnings: where each is compared from.
        source_ends, target_ends: up to where.
    """

    layout: Layout
    beginnings: Mapping[Pair, Beginning]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """How many offsets of the target there are to read."""
        return sum(self.target_ends[each.target] - self.beginnings[each].target for each in self.layout.pairs)

    @property
    def pairs(self) -> list[PairWork]:
        """The single comparisons, in the order of the partitions' names."""
        return [
            PairWork(
                each, self.beginnings[each], self.source_ends[each.source], self.target_ends[each.target]
            )
            for each in self.layout.pairs
        ]

    @property
    def missing(self) -> list[Verified]:
        """What there is to say of partitions without a copy."""
        return [Verified(each, Verdict.MISSING) for each in self.layout.missing]


def plan(flow: Flow) -> Work:
    """Look at what is there on both sides now.

    Raises:
        ApiError, ClientError: a cluster does not say.
    """
    layout = flow.layout()
    syncs = flow.syncs()
    # The target first: what it has by then is on the source.
    targets = bounds(flow.target_admin, [each.target for each in layout.pairs])
    sources = bounds(flow.source_admin, [each.source for each in layout.pairs])
    beginnings = {
        each: beginning_of(syncs.get(each.source, ()), sources[each.source][0], targets[each.target][0])
        for each in layout.pairs
    }
    return Work(
        layout,
        beginnings,
        {each: end for each, (_, end) in sources.items()},
        {each: end for each, (_, end) in targets.items()},
    )


def verify(
    flow: Flow, work: Work, rules: Rules, *, told: Callable[[int], None] = lambda _: None
) -> Iterator[Verified]:
    """Compare all partitions.

    Args:
        told: how many offsets of the target were read since the last call.

    Raises:
        ApiError, ClientError: a log cannot be read.
    """
    yield from work.missing
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(Consumer(reader_settings(each))) for each in (flow.source, flow.target)
        )
        for each in work.pairs:
            yield verify_pair(source, target, each, rules, told=told)


def verify_pair(
    source: Consumer,
    target: Consumer,
    work: PairWork,
    rules: Rules,
    *,
    told: Callable[[int], None] = lambda _: None,
) -> Verified:
    """Compare one partition with its copy.

    Args:
        source, target: read the two, and nothing else meanwhile.
        told: as of :func:`verify`.

    Raises:
        ApiError, ClientError: a log cannot be read.
    """
    pair, begin = work.pair, work.beginning
    one = PartitionLog(source, pair.source, begin.source, work.source_end, rules.timeout_ms)
    other = PartitionLog(target, pair.target, begin.target, work.target_end, rules.timeout_ms)
    comparison = Comparison(ignores_timestamps=rules.ignores_timestamps)
    _compare(comparison, one, other, told)
    return _verified(pair, begin, comparison, one)


def verify_alone(
    source: Mapping[str, object], target: Mapping[str, object], rules: Rules, work: PairWork
) -> Verified:
    """As :func:`verify_pair`, with consumers of its own: what a task of Spark's does.

    Args:
        source, target: settings of clients of the two clusters.

    Raises:
        ApiError, ClientError: a log cannot be read.
    """
    with Consumer(reader_settings(source)) as one, Consumer(reader_settings(target)) as other:
        return verify_pair(one, other, work, rules)


def _compare(
    comparison: Comparison, source: PartitionLog, target: PartitionLog, told: Callable[[int], None]
) -> None:
    while comparison.difference is None:
        if comparison.needs_target and target.has_more:
            before = target.position
            target.read(comparison.add_target)
            told(target.position - before)
        elif comparison.needs_source and source.has_more:
            source.read(comparison.add_source)
        elif comparison.needs_target:
            break
        else:
            comparison.end()
        comparison.compare()


def _verified(pair: Pair, begin: Beginning, comparison: Comparison, source: PartitionLog) -> Verified:
    at = comparison.source_offset
    behind = source.end - (source.position if at is None else at)
    verdict = Verdict.BEHIND if behind > 0 else Verdict.SAME
    if comparison.difference is not None:
        verdict = Verdict.DIFFERS
    return Verified(
        pair,
        verdict,
        begin,
        comparison.same,
        comparison.repeated,
        max(behind, 0),
        comparison.difference,
    )
