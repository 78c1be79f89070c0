"""A process of a load test: ``python -m pkafka.tools.perf_test.generator``.

A program of its own, not a fork: nothing of its parent's threads and sockets is in it. It reads its task from the
first line of standard input and talks in lines of JSON: ``ready`` as soon as it could begin, ``window`` for every
window that is over, ``done`` at the end, ``error`` instead. The parent says when to ``start``, up to where a consumer
is to read (``until``), and when to ``stop``; when its end of the pipe is closed the process ends at once.
"""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping

from pkafka.errors import PkafkaError
from pkafka.tools.perf_test.measuring import Clock, Recorder
from pkafka.tools.perf_test.plan import NS, Task, task_of


class _Parent:
    """The other end of the pipes."""

    def __init__(self) -> None:
        self.ends: Mapping[int, int] | None = None
        self.clock: Clock | None = None
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._stopped = threading.Event()

    def tell(self, kind: str, **more: object) -> None:
        line = json.dumps({"kind": kind, **more}) + "\n"
        with self._lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    def listen(self) -> None:
        threading.Thread(target=self._listen, name="perf-parent", daemon=True).start()

    def wait_for_start(self) -> Clock | None:
        """The times of the test; None where there will be none."""
        self._started.wait()
        return self.clock

    def has_started(self) -> bool:
        return self._started.is_set()

    def is_stopping(self) -> bool:
        return self._stopped.is_set()

    def stopped_within(self, seconds: float) -> bool:
        return self._stopped.wait(seconds)

    def _listen(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if message["kind"] == "start":
                self.clock = Clock(*message["clock"])
                self._started.set()
            elif message["kind"] == "until":
                self.ends = {int(partition): offset for partition, offset in message["ends"].items()}
            elif message["kind"] == "stop":
                self._stopped.set()
                self._started.set()
        os._exit(1)  # the parent is gone, and with it everybody who wants to know


class _Ticker:
    """Tells the windows that are over."""

    def __init__(self, parent: _Parent, recorder: Recorder, clock: Clock) -> None:
        self._parent = parent
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
            self._parent.tell("window", number=number, window=window.to_json(), error=error)


def main() -> None:
    """Do what the first line of standard input says."""
    # What happens to a client is told by its records' outcomes; warnings would run into the parent's own lines.
    logging.getLogger("pkafka").addHandler(logging.NullHandler())
    parent = _Parent()
    task = task_of(sys.stdin.readline())
    parent.listen()
    try:
        if task.role == "produce":
            _produce(task, parent)
        else:
            _consume(task, parent)
    except (PkafkaError, OSError) as error:
        parent.tell("error", name=type(error).__name__, message=str(error))
    sys.stdout.flush()
    os._exit(0)  # whatever a client still waits for is of no interest any more


def _produce(task: Task, parent: _Parent) -> None:
    from pkafka.clients.producer import Producer
    from pkafka.tools.perf_test.producing import ProducerLoad

    with Producer(task.properties) as producer:
        load = ProducerLoad(task, producer)
        producer.partitions_for(task.plan.topic)
        parent.tell("ready")
        clock = parent.wait_for_start()
        if clock is None:
            return
        _sleep_until(clock.start_ns, parent)
        recorder = Recorder(clock)
        ticker = _Ticker(parent, recorder, clock)
        cpu_s = time.process_time()
        load.run(clock, recorder, parent.is_stopping)
        cpu_s = time.process_time() - cpu_s
        producer.close(0)
        ticker.finish()
        parent.tell(
            "done",
            cpu_s=cpu_s,
            last_ns=recorder.last_ns,
            error=recorder.first_error,
            missed=load.missed,
        )


def _consume(task: Task, parent: _Parent) -> None:
    from pkafka.clients.consumer import Consumer
    from pkafka.tools.perf_test.consuming import ConsumerLoad

    with Consumer(task.properties) as consumer:
        load = ConsumerLoad(task, consumer)
        told: list[int] | None = None
        while not parent.has_started():
            held = load.prepare()
            if held != told:
                parent.tell("ready", partitions=held)
                told = held
        clock = parent.clock
        if clock is None:
            return
        _sleep_until(clock.start_ns, parent)
        load.begin()
        recorder = Recorder(clock)
        ticker = _Ticker(parent, recorder, clock)
        cpu_s = time.process_time()
        load.run(
            clock,
            recorder,
            lambda: parent.ends,
            lambda records: parent.tell("caught_up", records=records),
            parent.is_stopping,
        )
        cpu_s = time.process_time() - cpu_s
        ticker.finish()
    # The group is left by now: whoever joins it next need not wait for a member that is gone.
    parent.tell(
        "done",
        cpu_s=cpu_s,
        last_ns=recorder.last_ns,
        error=recorder.first_error,
        log_append_time=load.is_log_append_time,
    )


def _sleep_until(moment_ns: int, parent: _Parent) -> None:
    parent.stopped_within(max(0.0, (moment_ns - time.monotonic_ns()) / NS))


if __name__ == "__main__":
    main()
