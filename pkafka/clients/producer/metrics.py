"""The producer's metrics, under Kafka's names: ``producer-metrics`` and ``producer-topic-metrics``."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pkafka.clients.metrics import Metrics, Sensor, Stat

_GROUP: Final = "producer-metrics"
_TOPIC_GROUP: Final = "producer-topic-metrics"
_TRANSACTION_CALLS: Final = {
    "init": "init_transactions",
    "begin": "begin_transaction",
    "send-offsets": "send_offsets_to_transaction",
    "commit": "commit_transaction",
    "abort": "abort_transaction",
}


class TopicMetrics:
    """What is counted for one topic."""

    __slots__ = ("bytes_sent", "compression", "errors", "records", "retries")

    def __init__(self, metrics: Metrics, topic: str) -> None:
        tags = {"topic": topic}

        def rate_and_total(name: str, what: str) -> Sensor:
            stats = {
                f"{name}-rate": (Stat.RATE, f"The average per-second number of {what} for a topic."),
                f"{name}-total": (Stat.TOTAL, f"The total number of {what} for a topic."),
            }
            return metrics.sensor(f"topic-{name}", _TOPIC_GROUP, stats, tags=tags)

        self.records = rate_and_total("record-send", "records sent")
        self.bytes_sent = rate_and_total("byte", "bytes sent")
        self.retries = rate_and_total("record-retry", "retried record sends")
        self.errors = rate_and_total("record-error", "record sends that resulted in errors")
        stats = {
            "compression-rate": (Stat.AVG, "The average compression rate of record batches for a topic.")
        }
        self.compression = metrics.sensor("topic-compression", _TOPIC_GROUP, stats, tags=tags)


class ProducerMetrics:
    """The sensors of one producer; each takes a value in once a batch or request at most."""

    def __init__(self, metrics: Metrics) -> None:
        self.registry = metrics
        self._topics: dict[str, TopicMetrics] = {}
        self.batch_size = self._sensor(
            ("batch-size-avg", Stat.AVG, "The average number of bytes sent per partition per-request."),
            ("batch-size-max", Stat.MAX, "The max number of bytes sent per partition per-request."),
        )
        self.compression = self._sensor(
            ("compression-rate-avg", Stat.AVG, "The average compression rate of record batches.")
        )
        self.queue_time = self._average_and_max(
            "record-queue-time", "time in ms record batches spent in the send buffer."
        )
        self.latency = self._average_and_max("request-latency", "request latency in ms")
        self.records = self._rate_and_total("record-send", "records sent")
        self.retries = self._rate_and_total("record-retry", "retried record sends")
        self.errors = self._rate_and_total("record-error", "record sends that resulted in errors")
        self.splits = self._rate_and_total("batch-split", "batch splits")
        self.buffer_exhausted = self._rate_and_total(
            "buffer-exhausted", "record sends that are dropped due to buffer exhaustion"
        )
        self.records_per_request = self._sensor(
            ("records-per-request-avg", Stat.AVG, "The average number of records per request.")
        )
        self.record_size = self._average_and_max("record-size", "record size")
        self.buffer_wait = self._sensor(
            (
                "bufferpool-wait-ratio",
                Stat.SHARE_OF_TIME,
                "The fraction of time an appender waits for space allocation.",
            ),
            (
                "bufferpool-wait-time-ns-total",
                Stat.TOTAL,
                "The total time in nanoseconds an appender waits for space allocation.",
            ),
            (
                "bufferpool-wait-time-total",
                Stat.TOTAL,
                "*Deprecated* The total time an appender waits for space allocation.",
            ),
        )
        self.flush_time = self._sensor(
            ("flush-time-ns-total", Stat.TOTAL, "Total time producer has spent in flush in nanoseconds.")
        )
        self.metadata_wait = self._sensor(
            (
                "metadata-wait-time-ns-total",
                Stat.TOTAL,
                "Total time producer has spent waiting on topic metadata in nanoseconds.",
            )
        )

        self._transaction_calls = {
            step: self._sensor(
                (
                    f"txn-{step}-time-ns-total",
                    Stat.TOTAL,
                    f"Total time producer has spent in {call} in nanoseconds.",
                )
            )
            for step, call in _TRANSACTION_CALLS.items()
        }

    @contextmanager
    def transaction_call(self, step: str) -> Iterator[None]:
        """Count the time of a call about transactions, unless it fails.

        Args:
            step: ``init``, ``begin``, ``send-offsets``, ``commit`` or ``abort``.
        """
        begun_ns = time.perf_counter_ns()
        yield
        self._transaction_calls[step].record(time.perf_counter_ns() - begun_ns)

    def topic(self, name: str) -> TopicMetrics:
        """The sensors of a topic; of the sender thread alone."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = TopicMetrics(self.registry, name)
        return found

    def _sensor(self, *stats: tuple[str, Stat, str]) -> Sensor:
        return self.registry.sensor(stats[0][0], _GROUP, {name: (stat, text) for name, stat, text in stats})

    def _average_and_max(self, name: str, what: str) -> Sensor:
        return self._sensor(
            (f"{name}-avg", Stat.AVG, f"The average {what}"), (f"{name}-max", Stat.MAX, f"The maximum {what}")
        )

    def _rate_and_total(self, name: str, what: str) -> Sensor:
        return self._sensor(
            (f"{name}-rate", Stat.RATE, f"The average per-second number of {what}."),
            (f"{name}-total", Stat.TOTAL, f"The total number of {what}."),
        )
