"""A generator of load: the part of one producer or consumer of a test, whatever it runs in.

Here a generator is a process, ``python -m pkafka.tools.load.perf_test.generator``, and the leader of the test is at the
other end of two pipes. :mod:`pkafka.pipeline.load` runs generators in tasks of Spark's, over a socket. The process is a
program of its own and no fork, so it has none of its parent's threads and sockets. It reads its task from the first
line of standard input and talks in lines of JSON: ``ready`` as soon as it can begin, ``started``, ``window`` for every
window that is over, ``done`` at the end, ``error`` instead. The leader says when to ``start``, up to where a consumer
is to read (``until``), and when to ``stop``. When the leader's end is closed, the process ends at once.
"""

import json
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NoReturn

from pkafka.errors import PkafkaError
from pkafka.tools.load.perf_test.measuring import ONE_CLOCK, Clock, Difference, Recorder
from pkafka.tools.load.perf_test.plan import NS, Task, task_of

_ID: Final = "transactional.id"


class Leader:
    """The leader of the test, as a generator knows it.

    Args:
        lines: what the leader says.
        say: takes a line for the leader; called by several threads, one at a time.
        difference: between the clock of this machine and the leader's.
    """

    def __init__(
        self, lines: Iterable[str], say: Callable[[str], None], difference: Difference = ONE_CLOCK
    ) -> None:
        self.ends: Mapping[int, int] | None = None
        self.clock: Clock | None = None
        """The times of the test, by the clock of this machine."""

        self.is_over = False
        """Whether the last word is said: after it the leader may go."""

        self._lines = lines
        self._say = say
        self._difference = difference
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._stopped = threading.Event()

    def tell(self, kind: str, **more: object) -> None:
        """Say something."""
        line = json.dumps({"kind": kind, **more}) + "\n"
        with self._lock:
            self._say(line)

    def tell_start(self, clock: Clock) -> None:
        """Tell that this generator begins now, and how much later than agreed."""
        self.tell(
            "started",
            host=platform.node(),
            pid=os.getpid(),
            late_ns=max(0, time.monotonic_ns() - clock.start_ns),
            clock_error_ns=self._difference.error_ns,
        )

    def tell_end(self, kind: str, **more: object) -> None:
        """Say the last word."""
        self.is_over = True
        self.tell(kind, **more)

    def listen(self) -> None:
        """Hear from now on what the leader says."""
        threading.Thread(target=self._listen, name="perf-leader", daemon=True).start()

    def wait_for_start(self) -> Clock | None:
        """The times of the test; None where there will be none."""
        self._started.wait()
        return self.clock

    def has_started(self) -> bool:
        """Whether the leader has said when it begins, or that it does not."""
        return self._started.is_set()

    def is_stopping(self) -> bool:
        """Whether the leader has said to stop."""
        return self._stopped.is_set()

    def stopped_within(self, seconds: float) -> bool:
        """Wait so long, or until the leader says to stop."""
        return self._stopped.wait(seconds)

    def _listen(self) -> None:
        try:
            for line in self._lines:
                message = json.loads(line)
                if message["kind"] == "start":
                    self.clock = Clock(*message["clock"]).shifted(self._difference.ahead_ns)
                    self._started.set()
                elif message["kind"] == "until":
                    self.ends = {int(partition): offset for partition, offset in message["ends"].items()}
                elif message["kind"] == "stop":
                    self._stopped.set()
                    self._started.set()
        except (OSError, ValueError):
            pass  # the connection broke, or this side has closed it
        if not self.is_over:
            os._exit(1)  # the leader is gone: no other process wants the result


class _Ticker:
    """Tells the windows that are over."""

    def __init__(self, leader: Leader, recorder: Recorder, clock: Clock) -> None:
        self._leader = leader
        self._recorder = recorder
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perf-ticker", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Tell what is left."""
        self._ended.set()
        self._thread.join()
        self._tell(None)

    def _run(self) -> None:
        while True:
            now_ns = time.monotonic_ns()
            left_ns = self._clock.interval_ns - (now_ns - self._clock.measured_ns) % self._clock.interval_ns
            if self._ended.wait(left_ns / NS):
                return
            self._tell(time.monotonic_ns())

    def _tell(self, before_ns: int | None) -> None:
        for number, window in self._recorder.take(before_ns).items():
            error = self._recorder.first_error
            self._leader.tell("window", number=number, window=window.to_json(), error=error)


def main() -> NoReturn:
    """Do what the first line of standard input says."""
    # What happens to a client is told by its records' outcomes; warnings would run into the leader's own lines.
    logging.getLogger("pkafka").addHandler(logging.NullHandler())
    task = task_of(sys.stdin.readline())
    work(task, Leader(sys.stdin, _print))
    os._exit(0)  # whatever a client still waits for is of no interest any more


def work(task: Task, leader: Leader) -> None:
    """Do a task to its end, and say how it went."""
    leader.listen()
    try:
        if task.role == "produce":
            _produce(task, leader)
        else:
            _consume(task, leader)
    except (PkafkaError, OSError) as error:
        leader.tell_end("error", name=type(error).__name__, message=str(error))
    finally:
        leader.is_over = True


def _print(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


class _Measured:
    """Tells the leader that a load starts, counts it, and knows afterwards how it went.

    Attributes:
        recorder: counts the records.
        ticker: tells the leader of the counts as long as the load runs.
    """

    def __init__(self, leader: Leader, clock: Clock) -> None:
        self._start_ns = clock.start_ns
        self._cpu_s = 0.0
        self.recorder = Recorder(clock)
        leader.tell_start(clock)
        self.ticker = _Ticker(leader, self.recorder, clock)

    @contextmanager
    def cpu(self) -> Iterator[None]:
        """Measure the CPU time of the ``with`` block, which is the load."""
        began_s = time.process_time()
        yield
        self._cpu_s = time.process_time() - began_s

    def facts(self) -> dict[str, object]:
        """What the leader hears at the end of every load."""
        return {
            "cpu_s": self._cpu_s,
            # When the latest record was counted: nanoseconds from the start of the test, which all clocks share.
            "last_ns": max(0, self.recorder.last_ns - self._start_ns),
            "error": self.recorder.first_error,
        }


def _produce(task: Task, leader: Leader) -> None:
    from pkafka.clients.producer import Producer
    from pkafka.tools.load.perf_test.producing import ProducerLoad

    with Producer(_properties(task)) as producer:
        load = ProducerLoad(task, producer)
        producer.partitions_for(task.plan.topic)
        if task.plan.transaction_records is not None:
            producer.init_transactions()
        leader.tell("ready")
        clock = leader.wait_for_start()
        if clock is None:
            return
        _sleep_until(clock.start_ns, leader)
        measured = _Measured(leader, clock)
        with measured.cpu():
            load.run(clock, measured.recorder, leader.is_stopping)
        producer.close(0)
        measured.ticker.finish()
        leader.tell_end("done", **measured.facts(), missed=load.missed)


def _properties(task: Task) -> Mapping[str, object]:
    """Of the producer of a task, each of which has a transactional id of its own in a test with transactions."""
    if task.plan.transaction_records is None:
        return task.properties
    return {**task.properties, _ID: f"{task.properties[_ID]}-{task.number}"}


def _consume(task: Task, leader: Leader) -> None:
    from pkafka.clients.consumer import Consumer
    from pkafka.tools.load.perf_test.consuming import ConsumerLoad

    with Consumer(task.properties) as consumer:
        load = ConsumerLoad(task, consumer)
        told: list[int] | None = None
        while not leader.has_started():
            held = load.prepare()
            if held != told:
                leader.tell("ready", partitions=held)
                told = held
        clock = leader.clock
        if clock is None:
            return
        _sleep_until(clock.start_ns, leader)
        load.begin()
        measured = _Measured(leader, clock)
        with measured.cpu():
            load.run(
                clock,
                measured.recorder,
                lambda: leader.ends,
                lambda records: leader.tell("caught_up", records=records),
                leader.is_stopping,
            )
        measured.ticker.finish()
    # The group is left by now, so the next member to join does not wait for this one.
    leader.tell_end("done", **measured.facts(), log_append_time=load.is_log_append_time)


def _sleep_until(moment_ns: int, leader: Leader) -> None:
    leader.stopped_within(max(0.0, (moment_ns - time.monotonic_ns()) / NS))


if __name__ == "__main__":
    main()
