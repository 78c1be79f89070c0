"""The registry of metrics, on a clock that the test moves."""

import math

import pytest

import pkafka
from pkafka.clients.metrics import Metric, MetricName, Metrics, Stat
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clock import ManualClock

STATS = {
    "total": (Stat.TOTAL, ""),
    "count": (Stat.COUNT, ""),
    "rate": (Stat.RATE, ""),
    "often": (Stat.OCCURRENCE_RATE, ""),
    "avg": (Stat.AVG, ""),
    "max": (Stat.MAX, ""),
    "min": (Stat.MIN, ""),
    "last": (Stat.LAST, ""),
}


def test_windowed_figures_forget_and_totals_do_not() -> None:
    clock = ManualClock()
    metrics = Metrics(clock, tags={"client-id": "c"})
    sensor = metrics.sensor("s", "g", STATS)
    assert math.isnan(metrics.value("avg"))
    assert metrics.value("rate") == 0
    sensor.record(10)
    sensor.record(20)
    # One window of thirty seconds is missing: it counts as one without anything.
    assert metrics.value("rate") == pytest.approx(1)
    clock.advance(ms=30_000)
    sensor.record(30)
    assert [metrics.value(name) for name in ("avg", "max", "min", "last")] == [20, 30, 10, 30]
    assert metrics.value("rate") == pytest.approx(2)
    assert metrics.value("often") == pytest.approx(0.1)
    clock.advance(ms=30_000)
    assert metrics.value("max") == 30
    assert metrics.value("min") == 30
    clock.advance(ms=60_000)
    assert math.isnan(metrics.value("max"))
    assert metrics.value("rate") == 0
    assert (metrics.value("total", "g"), metrics.value("count", "g")) == (60, 3)


def test_a_sensor_is_one_for_a_key_and_its_tags() -> None:
    metrics = Metrics(ManualClock(), tags={"client-id": "c"})
    one = metrics.sensor("s", "g", {"total": (Stat.TOTAL, "")}, tags={"node-id": "node-1"})
    assert metrics.sensor("s", "g", {}, tags={"node-id": "node-1"}) is one
    other = metrics.sensor("s", "g", {"total": (Stat.TOTAL, "")}, tags={"node-id": "node-2"})
    other.record(5)
    assert metrics.value("total", node_id="node-2") == 5
    assert {name: value for name, value in metrics.snapshot().items() if name.group == "g"} == {
        MetricName("total", "g", (("client-id", "c"), ("node-id", "node-1"))): 0,
        MetricName("total", "g", (("client-id", "c"), ("node-id", "node-2"))): 5,
    }
    metrics.remove(tags={"node-id": "node-2"})
    with pytest.raises(KeyError):
        metrics.value("total", node_id="node-2")
    assert metrics.sensor("s", "g", {"total": (Stat.TOTAL, "")}, tags={"node-id": "node-2"}) is not other


def test_reporters_are_told() -> None:
    told: list[str] = []

    class Reporter:
        def init(self, metrics: list[Metric]) -> None:
            told.append(f"init {len(metrics)}")

        def metric_change(self, metric: Metric) -> None:
            told.append(f"+{metric.name.name}={metric.value}")

        def metric_removal(self, metric: Metric) -> None:
            told.append(f"-{metric.name.tag('topic')}")

        def close(self) -> None:
            told.append("close")

    metrics = Metrics(ManualClock(), reporters=[Reporter()])
    metrics.gauge("free", "g", lambda: 7, tags={"topic": "t"})
    metrics.remove(tags={"topic": "t"})
    metrics.close()
    metrics.close()
    assert told[:2] == ["init 0", "+count=1"]
    assert told[-3:] == ["+free=7", "-t", "close"]


def test_the_share_of_time_is_that_of_nanoseconds_in_the_window() -> None:
    metrics = Metrics(ManualClock())
    sensor = metrics.sensor("s", "g", {"io-ratio": (Stat.SHARE_OF_TIME, "")})
    assert metrics.value("io-ratio") == 0
    sensor.record(3e9)
    assert metrics.value("io-ratio") == pytest.approx(0.1), "three seconds of thirty"


def test_every_client_says_how_many_metrics_it_has_and_what_it_is() -> None:
    clock = ManualClock(now_ms=1_700_000_000_000)
    metrics = Metrics(clock, tags={"client-id": "c"})
    clock.advance(ms=5)
    found = {(name.group, name.name): value for name, value in metrics.snapshot().items()}
    assert found == {
        ("kafka-metrics-count", "count"): 4,
        ("app-info", "version"): pkafka.__version__,
        ("app-info", "commit-id"): "unknown",
        ("app-info", "start-time-ms"): 1_700_000_000_000,
    }
    with pytest.raises(ValueError, match="could not convert"):
        metrics.value("version")


def test_calls_about_transactions_are_timed_where_they_succeed() -> None:
    metrics = Metrics(ManualClock())
    sensors = ProducerMetrics(metrics)
    with pytest.raises(ZeroDivisionError), sensors.transaction_call("commit"):
        raise ZeroDivisionError
    assert metrics.value("txn-commit-time-ns-total") == 0
    with sensors.transaction_call("commit"):
        pass
    assert metrics.value("txn-commit-time-ns-total") > 0
    assert metrics.value("txn-abort-time-ns-total") == 0
