"""How far a pipeline is: a row for each batch out of what Spark tells, and the same as metrics for Prometheus."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer


class Batch(NamedTuple):
    """A batch that is done.

    Args:
        batch: its number, as the checkpoint counts.
        at: when it began, ISO 8601.
        rows_read, rows_written: None where Spark does not count them.
        seconds: from its planning until the checkpoint has it.
        rows_per_s: read, or written where Spark does not count what is read.
        lag: records that were in the topics and not in a batch yet, when it began; None without topics.
    """

    batch: int
    at: str
    rows_read: int | None
    rows_written: int | None
    seconds: float
    rows_per_s: float | None
    lag: int | None


def batch(number: int, began_s: float, ended_s: float, *, read: int | None, written: int | None) -> Batch:
    """A batch that was measured here; times are seconds since the epoch."""
    return _batch(
        number,
        datetime.fromtimestamp(began_s, UTC).isoformat(timespec="milliseconds"),
        max(ended_s - began_s, 0.0),
        read,
        written,
        None,
    )


def of_stream(progress: Mapping[str, Any], observation: str) -> Batch | None:
    """A batch as Spark reports the progress of a stream; None where nothing had come, so that the report has none.

    Args:
        progress: the report, as its JSON has it.
        observation: the name under which rows that are written were counted.
    """
    durations = progress.get("durationMs", {})
    if "addBatch" not in durations:
        return None
    counted = progress.get("observedMetrics", {}).get(observation)
    lags = [lag for source in progress["sources"] if (lag := _lag(source)) is not None]
    return _batch(
        progress["batchId"],
        progress["timestamp"].replace("Z", "+00:00"),
        durations.get("triggerExecution", 0) / 1_000,
        progress["numInputRows"],
        None if counted is None else counted["rows"],
        sum(lags) if lags else None,
    )


def _batch(
    number: int, at: str, seconds: float, read: int | None, written: int | None, lag: int | None
) -> Batch:
    rows = written if read is None else read
    rate = None if rows is None or seconds <= 0 else round(rows / seconds, 1)
    return Batch(number, at, read, written, round(seconds, 3), rate, lag)


def _lag(source: Mapping[str, Any]) -> int | None:
    """Records between where a batch ends and where its topics do; None of a source that is no topic."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(
        max(offset - end.get(topic, {}).get(partition, 0), 0)
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _offsets(given: object) -> Mapping[str, Mapping[str, int]] | None:
    """Offsets by topic and partition, which Spark has as JSON or as text of it."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        return None
    return given


class Metrics:
    """Counts batches for Prometheus, and serves what it counts.

    Args:
        pipeline: its name, a label of every metric.
    """

    def __init__(self, pipeline: str) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge

        self._server: WSGIServer | None = None
        self._registry = CollectorRegistry()
        to: Any = {"labelnames": ("pipeline",), "registry": self._registry, "namespace": "pkafka_pipeline"}
        self._batches = Counter("batches", "Batches that are done.", **to).labels(pipeline)
        self._read = Counter("rows_read", "Rows that were read.", **to).labels(pipeline)
        self._written = Counter("rows_written", "Rows that were written.", **to).labels(pipeline)
        self._seconds = Gauge("batch_seconds", "How long the latest batch took.", **to).labels(pipeline)
        self._lag = Gauge("lag_records", "Records in the topics that no batch has.", **to).labels(pipeline)
        self._at = Gauge("last_batch_timestamp_seconds", "When the latest batch ended.", **to).labels(
            pipeline
        )

    def add(self, batch: Batch) -> None:
        """A batch is done."""
        self._batches.inc()
        self._read.inc(batch.rows_read or 0)
        self._written.inc(batch.rows_written or 0)
        self._seconds.set(batch.seconds)
        self._lag.set(batch.lag or 0)
        self._at.set_to_current_time()

    def serve(self, host: str, port: int) -> int:
        """Answer HTTP requests for them until :meth:`close`.

        Args:
            port: 0 lets the kernel choose.

        Returns:
            The port.

        Raises:
            OSError: the address cannot be bound.
        """
        from prometheus_client import start_http_server

        self._server, _ = start_http_server(port, host, self._registry)
        return int(self._server.server_port)

    def close(self) -> None:
        """Serve nothing any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
