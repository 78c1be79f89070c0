"""Rows of progress out of Spark's reports, and their metrics."""

import json
import urllib.request
from contextlib import closing
from typing import Any

from pkafka.pipeline.progress import Batch, Metrics, batch, of_stream

REPORT: dict[str, Any] = {
    "timestamp": "2026-01-31T10:00:00.000Z",
    "batchId": 7,
    "numInputRows": 30,
    "durationMs": {"addBatch": 900, "triggerExecution": 2_000},
    "sources": [
        {"endOffset": {"t": {"0": 5, "1": 6}}, "latestOffset": {"t": {"0": 15, "1": 6, "2": 4}}},
        {"endOffset": json.dumps({"u": {"0": 5}}), "latestOffset": json.dumps({"u": {"0": 6}})},
        {"endOffset": {"logOffset": 3}, "latestOffset": None},
    ],
    "observedMetrics": {"written": {"rows": 12}},
}


def test_a_batch_of_a_stream() -> None:
    assert of_stream(REPORT, "written") == Batch(7, "2026-01-31T10:00:00.000+00:00", 30, 12, 2.0, 15.0, 15)


def test_a_stream_without_topics_has_no_lag() -> None:
    told = of_stream({**REPORT, "sources": REPORT["sources"][2:], "observedMetrics": {}}, "written")
    assert told is not None
    assert (told.lag, told.rows_written) == (None, None)


def test_a_report_without_a_batch_is_none() -> None:
    assert of_stream({**REPORT, "durationMs": {"latestOffset": 3, "triggerExecution": 4}}, "written") is None


def test_a_batch_that_was_measured_here() -> None:
    assert batch(0, 1_000.5, 1_004.5, read=None, written=8) == Batch(
        0, "1970-01-01T00:16:40.500+00:00", None, 8, 4.0, 2.0, None
    )


def test_metrics_count_what_is_told() -> None:
    metrics = Metrics("orders")
    metrics.close()
    port = metrics.serve("127.0.0.1", 0)
    for lag in (15, 3):
        metrics.add(Batch(lag, "", 30, 12, 2.0, 15.0, lag))
    page = f"http://127.0.0.1:{port}/metrics"
    with closing(metrics), urllib.request.urlopen(page, timeout=60) as answer:
        text = answer.read().decode()
    for line in ("batches_total", "rows_read_total", "rows_written_total", "batch_seconds", "lag_records"):
        assert f'pkafka_pipeline_{line}{{pipeline="orders"}}' in text
    assert 'pkafka_pipeline_rows_read_total{pipeline="orders"} 60.0\n' in text
    assert 'pkafka_pipeline_lag_records{pipeline="orders"} 3.0\n' in text
