"""Producers of other makers that write one record after the other to a partition, and when each was acknowledged."""

import contextlib
import itertools
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from tests.interop.kafka import compile_java, jars, java_program

INTERVAL_S: Final = 0.005
RETRY_BACKOFF_MS: Final = 50


class Steady(Protocol):
    """A producer at work."""

    times_s: list[float]
    """When records were acknowledged, on the monotonic clock."""
    errors: list[str]

    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka with its own defaults, but for ``settings``.

    Args:
        log_to: gets what librdkafka says of ``debug``.
    """

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, object], log_to: TextIO | None = None
    ) -> None:
        from confluent_kafka import Producer

        self.times_s: list[float] = []
        self.errors: list[str] = []
        self._topic = topic
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "retry.backoff.ms": RETRY_BACKOFF_MS,
            "on_delivery": self._delivered,
            "error_cb": lambda _error: None,
            "log_level": 7 if log_to else 0,
            **settings,
        }
        if log_to is not None:
            import logging

            logger = logging.getLogger(f"librdkafka-{id(self)}")
            logger.setLevel(logging.DEBUG)
            handler = logging.StreamHandler(log_to)
            handler.setFormatter(logging.Formatter("%(created).3f %(message)s"))
            logger.addHandler(handler)
            logger.propagate = False
            config["logger"] = logger
        self._producer = Producer(config)
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


class Java:
    """Kafka's own client, from the class path of a bundle of :func:`tests.interop.kafka.jars`."""

    def __init__(self, class_path: str, bootstrap: str, topic: str, settings: Mapping[str, object]) -> None:
        self.times_s: list[float] = []
        self.errors: list[str] = []
        pairs = [
            f"{key}={value}" for key, value in {"retry.backoff.ms": RETRY_BACKOFF_MS, **settings}.items()
        ]
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
                *pairs,
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
        self._process.stdin.close()
        self._thread.join(60)
        self._process.wait(60)


def java_class_path(bundle: str, into: Path) -> str:
    """``SteadyProducer`` against the clients of a bundle."""
    return compile_java(jars(bundle), into, "SteadyProducer")


@contextlib.contextmanager
def writing(start: Callable[[], Steady]) -> Iterator[Steady]:
    """A producer that has begun to write."""
    made = start()
    try:
        deadline_s = time.monotonic() + 60
        while len(made.times_s) < 100:
            assert time.monotonic() < deadline_s, made.errors
            time.sleep(0.05)
        yield made
    finally:
        made.close()


def longest_gap_s(times_s: list[float], since_s: float) -> float:
    """The longest time between two acknowledgements, the earlier of them not long before ``since_s``."""
    window = [one for one in times_s if one > since_s - 1.0]
    return max(later - earlier for earlier, later in itertools.pairwise(window))
