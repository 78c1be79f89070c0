"""Compares the partitions of a source with their copies, one after the other."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from enum import Enum
from typing import Final, NamedTuple

from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.comparison import Comparison, Difference
from pkafka.tools.mirroring.flow import Flow, bounds
from pkafka.tools.mirroring.layout import Beginning, Layout, Pair, beginning_of

_POLL_MS: Final = 500
_OURS: Final = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    "allow.auto.create.topics": "false",
    "max.partition.fetch.bytes": 4 << 20,
}


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
    flow: Flow,
    work: Work,
    *,
    ignores_timestamps: bool,
    timeout_ms: int,
    told: Callable[[int], None],
) -> Iterator[Verified]:
    """Compare all partitions.

    Args:
        ignores_timestamps: as where the target's brokers set them.
        timeout_ms: how long to wait for the next records of a log that has more.
        told: how many offsets of the target were read since the last call.

    Raises:
        ApiError, ClientError: a log cannot be read.
    """
    for each in work.layout.missing:
        yield Verified(each, Verdict.MISSING)
    with ExitStack() as stack:
        source, target = (
            stack.enter_context(Consumer(_without_group(each))) for each in (flow.source, flow.target)
        )
        for pair in work.layout.pairs:
            begin = work.beginnings[pair]
            one = _Log(source, pair.source, begin.source, work.source_ends[pair.source], timeout_ms)
            other = _Log(target, pair.target, begin.target, work.target_ends[pair.target], timeout_ms)
            comparison = Comparison(ignores_timestamps=ignores_timestamps)
            _compare(comparison, one, other, told)
            yield _verified(pair, begin, comparison, one)


def _without_group(settings: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in {**settings, **_OURS}.items() if not key.startswith("group.")}


class _Log:
    """One side of a comparison: a partition from an offset up to another."""

    def __init__(
        self, consumer: Consumer, partition: TopicPartition, start: int, end: int, timeout_ms: int
    ) -> None:
        self._consumer = consumer
        self._partition = partition
        self._timeout_ms = timeout_ms
        self.position = start
        self.end = end
        consumer.assign([partition])
        consumer.seek(partition, start)

    @property
    def has_more(self) -> bool:
        """Whether there is something to read before the end."""
        return self.position < self.end

    def read(self, take: Callable[..., None]) -> None:
        """Hand on what comes next; markers and holes come as nothing but a later position."""
        deadline_s = time.monotonic() + self._timeout_ms / 1_000
        while self.has_more:
            batches = self._consumer.poll_batches(_POLL_MS)
            for each in batches:
                if each.first_offset < self.end:
                    take(each)
            self.position = self._consumer.position(self._partition)
            if batches:
                return
            if time.monotonic() > deadline_s:
                raise ClientTimeoutError(
                    Stage.REQUEST,
                    f"nothing came of {self._partition} from offset {self.position} on in {self._timeout_ms} ms",
                )


def _compare(comparison: Comparison, source: _Log, target: _Log, told: Callable[[int], None]) -> None:
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


def _verified(pair: Pair, begin: Beginning, comparison: Comparison, source: _Log) -> Verified:
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
