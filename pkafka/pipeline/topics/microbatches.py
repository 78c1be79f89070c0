"""Decides where the micro-batches of a stream begin and end, and what each reads. Knows nothing of Spark.

One query has one of these, in the process that plans its micro-batches. Spark's checkpoint is the only bookkeeping: the
end of a micro-batch is in it before the micro-batch is read, so one that is begun anew after a crash reads the same.
"""

import time
from collections.abc import Callable
from typing import Protocol

from pkafka.model import Offset, TopicPartition
from pkafka.pipeline.topics.offsets import OffsetLookup, plan_stream
from pkafka.pipeline.topics.options import LATEST_OFFSET, Bound, ReadOptions, SpecificOffsets
from pkafka.pipeline.topics.ranges import OffsetRange, Offsets, limited, split


class Clock(Protocol):
    """A time in seconds that only grows."""

    def __call__(self) -> float: ...


class MicroBatches:
    """The micro-batches of one query.

    Args:
        options: of the stream.
        lookup: makes what looks offsets up, when it is needed first.
        clock: for ``maxTriggerDelay``.
    """

    def __init__(
        self,
        options: ReadOptions,
        lookup: Callable[[ReadOptions], OffsetLookup] = OffsetLookup,
        clock: Clock = time.monotonic,
    ) -> None:
        self._options = options
        self._make_lookup = lookup
        self._clock = clock
        self._opened: OffsetLookup | None = None
        self.latest: dict[TopicPartition, Offset] | None = None
        """The ends of the logs as they were last seen; None before."""
        self._is_bounded = False
        self._began_at_end: dict[TopicPartition, Offset] = {}
        """Where partitions ended when the query began there, until its first micro-batch is planned."""
        self._last_at: float | None = None

    def start(self) -> dict[TopicPartition, Offset]:
        """Where a new query starts.

        Raises:
            OptionError, ApiError, ClientError: see :meth:`pkafka.pipeline.topics.offsets.OffsetLookup.resolve`.
        """
        start = self._lookup().resolve(self._options.starting, is_start=True)
        self._began_at_end = {each: at for each, at in start.items() if self._begins_at_end(each)}
        return start

    def end(self, begin: Offsets, *, is_limited: bool) -> dict[TopicPartition, Offset]:
        """Where the micro-batch ends that begins at ``begin``; there, where none is to be now.

        Args:
            is_limited: whether ``maxOffsetsPerTrigger`` and ``minOffsetsPerTrigger`` count.

        Raises:
            ApiError, ClientError: see :meth:`pkafka.pipeline.topics.offsets.OffsetLookup.latest`.
        """
        if not self._is_bounded or self.latest is None:
            self.latest = self._lookup().latest(begin)
        # A query that starts at the ends of logs has them looked up once more when its first micro-batch is repeated
        # after a crash, and would skip what was written between. So that micro-batch has none of their records: it puts
        # the ends into the checkpoint, which counts from then on.
        began_at_end, self._began_at_end = self._began_at_end, {}
        if is_limited and not began_at_end and self._is_too_early(begin, self.latest):
            return dict(begin)
        records_max = self._options.offsets_max
        if not is_limited or records_max is None:
            return {**self.latest, **began_at_end}
        starts = {**self._lookup().earliest(self.latest.keys() - begin.keys()), **begin}
        return {**limited(starts, self.latest, records_max), **began_at_end}

    def stop_at_what_is_there(self) -> None:
        """Have micro-batches go up to what the next one finds, and no further (``Trigger.AvailableNow``)."""
        self._is_bounded = True
        self.latest = None

    def ranges(self, begin: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the tasks of a micro-batch read.

        Raises:
            DataLossError, ApiError, ClientError: see :func:`pkafka.pipeline.topics.offsets.plan_stream`.
        """
        # Only a first micro-batch that is repeated begins where this process looked it up, maybe behind its end.
        starts = {
            each: min(at, end.get(each, at)) if self._began_at_end.get(each) == at else at
            for each, at in begin.items()
        }
        planned = plan_stream(self._lookup(), self._options, starts, end)
        return split(
            planned, partitions_min=self._options.partitions_min, records_max=self._options.records_max
        )

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _lookup(self) -> OffsetLookup:
        if self._opened is None:
            self._opened = self._make_lookup(self._options)
        return self._opened

    def _begins_at_end(self, partition: TopicPartition) -> bool:
        starting = self._options.starting
        if isinstance(starting, SpecificOffsets):
            return starting.offsets[partition] == LATEST_OFFSET
        return starting is Bound.LATEST

    def _is_too_early(self, begin: Offsets, latest: Offsets) -> bool:
        """Whether fewer offsets are there than a micro-batch is to have, and there is time to wait for more."""
        records_min = self._options.offsets_min
        if records_min is None or self._is_bounded:
            return False
        now = self._clock()
        limit_s = self._options.trigger_delay_max_ms / 1_000
        has_waited = self._last_at is None or now - self._last_at >= limit_s
        if not has_waited and sum(at - begin.get(each, 0) for each, at in latest.items()) < records_min:
            return True
        self._last_at = now
        return False
