"""A consumer of a load test: reads chunks, and finds out when their records were due."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from typing import Final, cast

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
from pkafka.clients.consumer.chunks import Chunk
from pkafka.model import TopicPartition
from pkafka.tools.load.perf_test.measuring import Clock, Recorder
from pkafka.tools.load.perf_test.payload import STAMP_BYTES, due_of, has_room_for_stamps
from pkafka.tools.load.perf_test.plan import Task

_POLL_MS: Final = 100
_POLL_RECORDS: Final = 10_000
_CREATE_TIME: Final = 0
_beginning_of: Final = itemgetter(slice(0, STAMP_BYTES))


class ConsumerLoad:
    """Reads what one process has to.

    Args:
        task: the part of the process.
        consumer: not used before; without deserializers.
    """

    def __init__(self, task: Task, consumer: Consumer) -> None:
        plan = task.plan
        self.is_waiting = True
        """Whether the test has not begun."""

        self.seeks_end = False
        self.is_log_append_time = False
        """Whether the topic has the times of the broker, which say nothing of when a record was due."""

        self._records = 0
        self._consumer = consumer
        # There may be more consumers than partitions; a group would let them wait for their turn.
        self._has_work = plan.group is not None or bool(task.offsets)
        self._run_id = bytes.fromhex(task.run_id)
        self._sees_due = not plan.is_until_end
        self._sees_stamps = self._sees_due and plan.rate is not None and has_room_for_stamps(plan)
        self._has_keys = plan.key != "none" or plan.is_until_end
        if plan.group is None:
            offsets = {TopicPartition(plan.topic, partition): at for partition, at in task.offsets}
            consumer.assign(offsets)
            for partition, at in offsets.items():
                consumer.seek(partition, at)
            consumer.pause(offsets)
        else:
            consumer.subscribe([plan.topic], listener=_Waiting(self, consumer))

    def prepare(self) -> list[int]:
        """Join the group, where there is one.

        Returns:
            The partitions that it has, each with a position by now.
        """
        self._poll()  # of partitions that are paused
        if self.seeks_end and self._sees_due:
            # What came before the test is not for this test, whatever the group had committed.
            self._consumer.seek_to_end(self._consumer.assignment())
            self.seeks_end = False
        found = self._consumer.assignment()
        for each in found:
            self._consumer.position(each)
        return sorted(each.partition for each in found)

    def begin(self) -> None:
        """Read from now on."""
        self.is_waiting = False
        self._consumer.resume(self._consumer.assignment())

    def run(
        self,
        clock: Clock,
        recorder: Recorder,
        until: Callable[[], Mapping[int, int] | None],
        caught_up: Callable[[int], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Read until the leader stops it, or until the time is over in a test without producers.

        Args:
            until: the ends of the partitions, as soon as they are known.
            caught_up: called with the number of records so far when all partitions that it has are read up to there;
                again only for other ends.
        """
        reached: Mapping[int, int] | None = None
        while not is_stopping():
            chunks = self._poll()
            now_ns = time.monotonic_ns()
            if chunks:
                self._count(chunks, now_ns, clock, recorder)
            if not self._sees_due and clock.end_ns is not None and now_ns >= clock.end_ns:
                caught_up(self._records)
                return
            ends = until()
            if ends is not None and ends is not reached and self._has_reached(ends):
                reached = ends
                caught_up(self._records)

    def _poll(self) -> list[Chunk]:
        if not self._has_work:
            time.sleep(_POLL_MS / 1000)
            return []
        return self._consumer.poll_chunks(_POLL_MS, records_max=_POLL_RECORDS)

    def _has_reached(self, ends: Mapping[int, int]) -> bool:
        return all(
            self._consumer.position(each) >= ends.get(each.partition, 0)
            for each in self._consumer.assignment()
        )

    def _count(self, chunks: Iterable[Chunk], now_ns: int, clock: Clock, recorder: Recorder) -> None:
        records = size_bytes = 0
        due: list[tuple[int, int]] = []
        for chunk in chunks:
            values = cast("list[bytes]", chunk.values)
            records += len(chunk)
            try:
                size_bytes += sum(map(len, values))
            except TypeError:  # a tombstone, of another producer
                values = list(filter(None, values))
                size_bytes += sum(map(len, values))
            if self._has_keys:
                size_bytes += sum(len(key) for key in chunk.keys if key is not None)
            if self._sees_stamps:
                for beginning, count in Counter(map(_beginning_of, values)).items():
                    if (due_ns := due_of(self._run_id, beginning)) is not None:
                        due.append((clock.start_ns + due_ns, count))
            elif self._sees_due:
                due += self._by_timestamp(chunk, clock)
        self._records += records
        recorder.arrived(now_ns, records, size_bytes, due)

    def _by_timestamp(self, chunk: Chunk, clock: Clock) -> Iterable[tuple[int, int]]:
        stamps = chunk.timestamps
        if chunk.timestamp_type != _CREATE_TIME or not stamps:
            self.is_log_append_time |= chunk.timestamp_type != _CREATE_TIME
            return ()
        # The records of one call have one time, and times grow: rarely is there more to count.
        counts = {stamps[0]: len(stamps)} if stamps[0] == stamps[-1] else Counter(stamps)
        return [(clock.moment_of(ms), count) for ms, count in counts.items()]


class _Waiting(ConsumerRebalanceListener):
    """Nothing is read before the test begins; then what the group gives is, from where the group left it."""

    def __init__(self, load: ConsumerLoad, consumer: Consumer) -> None:
        self._load = load
        self._consumer = consumer

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if self._load.is_waiting:
            self._consumer.pause(partitions)
            self._load.seeks_end = True

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        return
