"""A producer of a load test: hands lists of records to ``send_batch()``, at their times or as fast as it can."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from pkafka.clients.errors import ClientTimeoutError
from pkafka.clients.producer import BatchFuture, Producer
from pkafka.errors import PkafkaError
from pkafka.tools.load.perf_test.measuring import Clock, Recorder
from pkafka.tools.load.perf_test.payload import Keys, Values, has_room_for_stamps, stamp
from pkafka.tools.load.perf_test.plan import NS, Schedule, Task
from pkafka.tools.load.perf_test.transactions import Transactions

_FLUSH_S: Final = 0.5
_LATE_NS: Final = 100_000_000
"""So long after the end, records that were due before are still sent; more than that is a rate that was not kept."""


class ProducerLoad:
    """Sends what one process has to.

    Args:
        task: the part of the process.
        producer: takes bytes.

    Raises:
        PlanError, OSError: the payload cannot be made.
    """

    def __init__(self, task: Task, producer: Producer) -> None:
        plan = task.plan
        self.handed_over = 0
        self.missed = 0
        """How many were due before the end and never handed over: the cluster, or this process, was too slow."""

        self._plan = plan
        self._producer = producer
        self._values = Values(plan, task.number)
        self._keys = Keys(plan.key, task.number, first=task.number, step=max(1, plan.producers))
        self._headers = [(name, value.encode()) for name, value in plan.headers]
        self._schedule = plan.schedule_of(task.number)
        self._records_max = plan.records_of(task.number)
        self._run_id = bytes.fromhex(task.run_id)
        self._transactions = None if plan.transaction_records is None else Transactions(plan, producer)
        # Milliseconds, which is what a record has room for, are enough for queues of records that wait for their turn.
        self._is_stamping = self._schedule is not None and has_room_for_stamps(plan)

    def run(self, clock: Clock, recorder: Recorder, is_stopping: Callable[[], bool]) -> None:
        """Send until the end, or until the leader stops it, and wait for all outcomes as long as there are any."""
        if self._schedule is None:
            self._send_freely(clock, recorder, is_stopping)
        else:
            self._send_on_time(self._schedule, clock, recorder, is_stopping)
        self._finish(recorder)

    def _send_freely(self, clock: Clock, recorder: Recorder, is_stopping: Callable[[], bool]) -> None:
        at_once = self._values.records_per_call
        while not is_stopping():
            now_ns = time.monotonic_ns()
            count = self._allowed(at_once)
            if count == 0 or (clock.end_ns is not None and now_ns >= clock.end_ns):
                return
            self._send(count, now_ns, clock, recorder)

    def _send_on_time(
        self, schedule: Schedule, clock: Clock, recorder: Recorder, is_stopping: Callable[[], bool]
    ) -> None:
        number = 0
        while True:
            due_ns, records = schedule.group(number)
            due_ns += clock.start_ns
            number += 1
            records = self._allowed(records)
            if records == 0 or (clock.end_ns is not None and due_ns >= clock.end_ns):
                return
            while (ahead_ns := due_ns - time.monotonic_ns()) > 0 and not is_stopping():
                time.sleep(min(ahead_ns / NS, _FLUSH_S))
            now_ns = time.monotonic_ns()
            if is_stopping() or (clock.end_ns is not None and now_ns >= clock.end_ns + _LATE_NS):
                end_ns = now_ns if clock.end_ns is None else min(now_ns, clock.end_ns)
                self.missed = self._allowed(schedule.due_by(end_ns - clock.start_ns) - self.handed_over)
                return
            recorder.handed_over(now_ns, due_ns, records)
            self._send(records, due_ns, clock, recorder)

    def _allowed(self, records: int) -> int:
        return records if self._records_max is None else min(records, self._records_max - self.handed_over)

    def _send(self, records: int, due_ns: int, clock: Clock, recorder: Recorder) -> None:
        transactions = self._transactions
        if transactions is None:
            self._hand_over(records, due_ns, clock, recorder)
            return
        while records:
            part = transactions.room(records)
            self._hand_over(part, due_ns, clock, recorder)
            transactions.sent(part, recorder)
            records -= part

    def _hand_over(self, records: int, due_ns: int, clock: Clock, recorder: Recorder) -> None:
        values = (
            self._values.take_stamped(records, stamp(self._run_id, due_ns - clock.start_ns))
            if self._is_stamping
            else self._values.take(records)
        )
        keys = self._keys.take(records)
        size_bytes = sum(map(len, values)) + (0 if keys is None else sum(map(len, keys)))
        self.handed_over += records
        future = self._producer.send_batch(
            self._plan.topic,
            values,
            keys,
            timestamp_ms=None if self._is_stamping else clock.timestamp_ms(due_ns),
            headers=self._headers,
        )
        future.add_done_callback(partial(_note, recorder, due_ns, size_bytes / records))

    def _finish(self, recorder: Recorder) -> None:
        """Wait while there are outcomes; after a silence give up what is left, which fails then."""
        if self._transactions is not None:
            self._transactions.end(recorder)
        began_ns = time.monotonic_ns()
        while True:
            try:
                self._producer.flush(_FLUSH_S)
                return
            except ClientTimeoutError:
                silence_s = (time.monotonic_ns() - max(began_ns, recorder.last_ns)) / NS
                if silence_s > self._plan.timeout_s:
                    self._producer.close(0)
                    return
            except PkafkaError:
                return


def _note(recorder: Recorder, due_ns: int, mean_bytes: float, future: BatchFuture) -> None:
    now_ns = time.monotonic_ns()
    arrived = 0
    for run in future.outcomes():
        if run.error is None:
            arrived += run.length
        else:
            recorder.failed(now_ns, run.length, run.error)
    if arrived:
        recorder.arrived(now_ns, arrived, round(arrived * mean_bytes), ((due_ns, arrived),))
