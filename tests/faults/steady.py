"""Producers of other makers that write one record after the other to a partition, and when each was acknowledged."""

import contextlib
import itertools
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.interop.kafka import compile_java, jars, java_program
from tests.talk import wait_for

INTERVAL_S: Final = 0.005
RETRY_BACKOFF_MS: Final = 50


class Steady(ABC):
    """A producer at work."""

    def __init__(self) -> None:
        self.times_s: list[float] = []
        """When records were acknowledged, on the monotonic clock."""
        self.errors: list[str] = []

    def goes_on(self, timeout_s: float = 60.0) -> None:
        """More is acknowledged than until now."""
        before = len(self.times_s)
        wait_for(lambda: len(self.times_s) > before + 20, timeout_s=timeout_s)

    @abstractmethod
    def close(self) -> None:
        """Send no more, and wait for what is on its way."""


class Librdkafka(Steady):
    """confluent-kafka with its own defaults, but for acks and the pause before it asks or sends again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer  # not everybody has it

        super().__init__()
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retry.backoff.ms": RETRY_BACKOFF_MS,
                "on_delivery": self._delivered,
                "error_cb": lambda _error: None,
                "log_level": 0,
            }
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.times_s.append(time.monotonic())

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            with contextlib.suppress(BufferError):
                self._producer.produce(self._topic, b"%d" % number, partition=0)
            number += 1
            self._producer.poll(INTERVAL_S)
        self._producer.flush(60)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


class Java(Steady):
    """Kafka's own client with its defaults, but for the same.

    Args:
        class_path: of :func:`java_class_path`.
    """

    def __init__(self, class_path: str, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._process = subprocess.Popen(
            [
                java_program("java"),
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-cp",
                class_path,
                "SteadyProducer",
                bootstrap,
                topic,
                str(int(INTERVAL_S * 1000)),
                f"retry.backoff.ms={RETRY_BACKOFF_MS}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("E "):
                self.errors.append(line[2:].strip())
            else:
                self.times_s.append(float(line) / 1e9)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._thread.join(60)
        self._process.stdout.close()
        self._process.wait(60)


def java_class_path(bundle: str, into: Path) -> str:
    """``SteadyProducer`` against the clients of a bundle."""
    return compile_java(jars(bundle), into, "SteadyProducer")


@contextlib.contextmanager
def writing(start: Callable[[], Steady]) -> Iterator[Steady]:
    """A producer that has begun to write."""
    made = start()
    try:
        made.goes_on()
        yield made
    finally:
        made.close()


def longest_gap_s(times_s: list[float], since_s: float) -> float:
    """The longest time between two acknowledgements, the earlier of them not long before ``since_s``."""
    window = [one for one in times_s if one > since_s - 1.0]
    return max(later - earlier for earlier, later in itertools.pairwise(window))
