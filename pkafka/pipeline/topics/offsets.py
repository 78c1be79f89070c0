"""Looks offsets up for a read: which partitions there are, and what their limits come to as offsets.

On the driver only; nothing is fetched here.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Self, TypeVar

from pkafka.clients.cluster import TopicView
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import Offset, TopicPartition
from pkafka.pipeline.topics.options import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Bound,
    Limit,
    Matching,
    OneTime,
    OptionError,
    PartitionTimes,
    ReadOptions,
    SpecificOffsets,
    Subscribed,
)
from pkafka.pipeline.topics.ranges import DataLossError, OffsetRange, Offsets, names

T = TypeVar("T")

_NONE: Final = -1
_log = logging.getLogger("pkafka.pipeline.topics_offsets")  # the name that users configure


class _Existing(NamedTuple):
    """What is there of the partitions that a read names, and what is not."""

    partitions: set[TopicPartition]
    missing_topics: frozenset[str] = frozenset()
    missing_partitions: frozenset[TopicPartition] = frozenset()

    def without(self, known: Iterable[TopicPartition]) -> "_Existing":
        """The same, where nothing is missing that is known, a topic by any of its partitions."""
        known = set(known)
        topics = self.missing_topics - {each.topic for each in known}
        return self._replace(missing_topics=topics, missing_partitions=self.missing_partitions - known)

    def refuse_missing(self) -> None:
        """Raises:
        ApiError: something is missing.
        """
        for topic in sorted(self.missing_topics):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist")
        for partition in sorted(self.missing_partitions):
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"partition {partition.partition} of topic {partition.topic} does not exist",
            )


class OffsetLookup:
    """Asks the cluster for partitions and offsets. Not thread-safe.

    Args:
        options: of the read.
        fail_fast: give up as soon as no broker can be reached, as a batch does; a stream waits.
    """

    def __init__(self, options: ReadOptions, *, fail_fast: bool = False) -> None:
        self._options = options
        self._consumer = Consumer(options.consumer, fail_fast=fail_fast)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resolve(self, limit: Limit, *, is_start: bool) -> dict[TopicPartition, Offset]:
        """A limit as an offset for every partition that is read.

        Raises:
            OptionError: it does not name all partitions and no others, or no record is as late as its time.
            ApiError: a topic or an assigned partition does not exist, or may not be read.
            ClientError: the cluster cannot be asked.
        """
        return self._try(lambda: self._resolve(limit, is_start=is_start))

    def latest(self, known: Offsets | None = None) -> dict[TopicPartition, Offset]:
        """The ends of all partitions that are read, as the isolation level sees them.

        Args:
            known: what was read already. An end before that is looked up again for a while: a leader that is new may
                not have heard yet how far its log is committed. Topics that were deleted since are left out, and so are
                partitions that a topic lacks since it was made anew.

        Raises:
            ApiError, ClientError: as :meth:`resolve`.
        """
        for attempt in range(self._options.attempts):
            try:
                found = self._try(lambda: self._consumer.end_offsets(self._partitions()))
            except ApiError as error:
                if known is None or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                found = self._consumer.end_offsets(self._partitions_but_those_gone(known))
            behind = [each for each in found if known is not None and found[each] < known.get(each, 0)]
            if not behind:
                break
            _log.warning("partitions end before what was read of them already: %s", names(behind))
            if attempt + 1 < self._options.attempts:
                time.sleep(self._options.attempt_interval_ms / 1_000)
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The first offsets of those partitions that are still there."""
        wanted = set(partitions)
        if not wanted:
            return {}
        return self._try(lambda: self._consumer.beginning_offsets(wanted & self._existing().partitions))

    # -- inside -------------------------------------------------------------------------------------------

    def _try(self, look: Callable[[], T]) -> T:
        """Do what may fail for a moment: a topic that is new is not known to every broker at once."""
        attempt = 1
        while True:
            try:
                return look()
            except (ApiError, ClientError) as error:
                if attempt >= self._options.attempts or not error.retriable:
                    raise
                _log.warning("attempt %d to look offsets up: %s", attempt, error)
            attempt += 1
            time.sleep(self._options.attempt_interval_ms / 1_000)

    def _partitions(self) -> set[TopicPartition]:
        found = self._existing()
        found.refuse_missing()
        return found.partitions

    def _partitions_but_those_gone(self, known: Offsets) -> set[TopicPartition]:
        """The partitions that are there. Of those that a read names, only ``known`` ones may be missing.

        A query that goes on without lost data forgets what is gone. So for such a query any partition may be missing.
        """
        found = self._existing()
        if known and self._options.fail_on_data_loss:
            found.without(known).refuse_missing()
        return found.partitions

    def _existing(self) -> "_Existing":
        strategy = self._options.strategy
        if isinstance(strategy, Matching):
            views = [
                view
                for name, view in self._consumer.topics().items()
                if strategy.pattern.fullmatch(name) and not view.is_internal
            ]
            return _Existing(_partitions_of(views))
        topics = (
            strategy.topics
            if isinstance(strategy, Subscribed)
            else {each.topic for each in strategy.partitions}
        )
        views = []
        missing: set[str] = set()
        for topic in topics:
            view = self._consumer.partitions_for(topic)
            if view.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.add(topic)
            elif view.error is not ErrorCode.NONE:
                raise ApiError(view.error, f"topic {topic}: {view.error.message}")
            else:
                views.append(view)
        found = _partitions_of(views)
        if isinstance(strategy, Subscribed):
            return _Existing(found, frozenset(missing))
        lacking = frozenset(each for each in strategy.partitions - found if each.topic not in missing)
        return _Existing(found & strategy.partitions, frozenset(missing), lacking)

    def _resolve(self, limit: Limit, *, is_start: bool) -> dict[TopicPartition, Offset]:
        partitions = self._partitions()
        if limit is Bound.EARLIEST:
            return self._consumer.beginning_offsets(partitions)
        if limit is Bound.LATEST:
            return self._consumer.end_offsets(partitions)
        if isinstance(limit, SpecificOffsets):
            _check_all(limit.offsets, partitions, _ALL_OFFSETS)
            return self._ends_resolved(limit.offsets)
        if isinstance(limit, PartitionTimes):
            _check_all(limit.times, partitions, _ALL_TIMES)
            times = limit.times
        else:
            assert isinstance(limit, OneTime), limit
            times = dict.fromkeys(partitions, limit.time)
        found = {each: at.offset for each, at in self._consumer.offsets_for_times(times).items()}
        for partition, offset in found.items():
            if offset != _NONE:
                continue
            if is_start and not self._options.latest_where_no_match:
                raise OptionError(
                    f"No offset matched from request of topic-partition {partition} and timestamp {times[partition]}."
                )
            found[partition] = LATEST_OFFSET
        return self._ends_resolved(found)

    def _ends_resolved(self, offsets: Offsets) -> dict[TopicPartition, Offset]:
        """The offsets, with the ends of logs in the place of -2 and -1."""
        found = dict(offsets)
        found |= self._consumer.beginning_offsets(
            [each for each, at in offsets.items() if at == EARLIEST_OFFSET]
        )
        found |= self._consumer.end_offsets([each for each, at in offsets.items() if at == LATEST_OFFSET])
        return found


_ALL_OFFSETS: Final = (
    "If startingOffsets contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for "
    "earliest, if you don't care."
)
_ALL_TIMES: Final = (
    "If starting/endingOffsetsByTimestamp contains specific offsets, you must specify all topics."
)


def _check_all(given: Mapping[TopicPartition, int], partitions: set[TopicPartition], text: str) -> None:
    if given.keys() != partitions:
        raise OptionError(f"{text} Specified: [{names(given)}] Assigned: [{names(partitions)}]")


def _partitions_of(views: Iterable[TopicView]) -> set[TopicPartition]:
    return {TopicPartition(view.name, each.partition) for view in views for each in view.partitions}


def plan_batch(lookup: OffsetLookup, options: ReadOptions) -> list[OffsetRange]:
    """The ranges that a batch reads, one per partition, with both ends as offsets: a rerun of a task reads the same.

    Raises:
        OptionError: a start lies behind its end, or as :meth:`OffsetLookup.resolve`.
        DataLossError: the log does not hold a range, and ``failOnDataLoss`` is true.
        ApiError, ClientError: as :meth:`OffsetLookup.resolve`.
    """
    starts = lookup.resolve(options.starting, is_start=True)
    ends = lookup.resolve(options.ending, is_start=False)
    partitions = starts.keys() & ends.keys()  # a partition may have come in between
    latest = lookup.latest()
    earliest = lookup.earliest(partitions)
    ranges: list[OffsetRange] = []
    for each in sorted(partitions):
        start, end = starts[each], ends[each]
        first, last = earliest.get(each, start), latest.get(each, end)
        if start > end:
            raise OptionError(
                f"the specified start offset {start} is greater than the end offset {end} for topic {each.topic} "
                f"partition {each.partition}"
            )
        if start < end and (start < first or end > last):
            lost(options, f"Cannot read offsets {start} to {end} of {each}, which holds {first} to {last}")
        ranges.append(OffsetRange(*each, max(start, first), min(end, last)))
    return ranges


def plan_stream(
    lookup: OffsetLookup, options: ReadOptions, start: Offsets, end: Offsets
) -> list[OffsetRange]:
    """The ranges that a micro-batch reads. Partitions that are new are read from their first record.

    Raises:
        DataLossError: partitions are gone, end before their start, or begin behind their first offset, and
            ``failOnDataLoss`` is true.
        ApiError, ClientError: as :meth:`OffsetLookup.resolve`.
    """
    added = end.keys() - start.keys()
    begin = lookup.earliest(added)
    if added - begin.keys():
        lost(options, f"Cannot find earliest offsets of {names(added - begin.keys())}")
    for partition, offset in begin.items():
        if offset:
            lost(options, f"Added partition {partition} starts from {offset} instead of 0")
    if start.keys() - end.keys():
        lost(options, f"{names(start.keys() - end.keys())} are gone")
    starts = {**begin, **start}
    ranges: list[OffsetRange] = []
    for partition in sorted(end.keys() & starts.keys()):
        one = OffsetRange(*partition, starts[partition], end[partition])
        if one.size < 0:
            lost(options, f"Partition {partition}'s offset was changed from {one.start} to {one.end}")
        ranges.append(one)
    return ranges


def lost(options: ReadOptions, what: str) -> None:
    """Records that were to be read are not there.

    Raises:
        DataLossError: where that fails the query (``failOnDataLoss``); otherwise it is logged.
    """
    if options.fail_on_data_loss:
        raise DataLossError(what)
    _log.warning("%s; failOnDataLoss is false, so the query goes on without", what)
