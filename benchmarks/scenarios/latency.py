"""Latency at a quarter, half and three quarters of the highest rate that Kafka reaches with the same requests."""

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.pacing import produce_at
from benchmarks.producing import Load, produce
from benchmarks.systems import Target

LOAD = Load(record_bytes=1000, batch_bytes=16_000)
PARTS = (25, 50, 75)
_HIGHEST = "highest rate"


def _prepare(target: Target, settings: Settings) -> None:
    if target.name == "kafka":
        produce(target, LOAD, settings.scaled(30, 5))
        settings.kafka[_HIGHEST] = produce(target, LOAD, settings.scaled(20, 5)).requests_per_s


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    if _HIGHEST not in settings.kafka:
        raise RuntimeError(
            "latencies are measured at parts of Kafka's rate: name kafka first among the systems"
        )
    figures = {}
    for part in PARTS:
        rate = settings.kafka[_HIGHEST] * part / 100
        latencies = produce_at(target, LOAD, settings.seconds, requests_per_s=rate)
        figures[f"p50 at {part} %"] = latencies.p50_ms
        figures[f"p99 at {part} %"] = latencies.p99_ms
        figures[f"p99.9 at {part} %"] = latencies.p999_ms
    return figures


SCENARIOS = (
    Scenario(
        name="latency",
        about="16 kB Produce requests (1 KB records, acks=all, 1 connection): time from when due until answered",
        figures=tuple(
            Figure(f"{name} at {part} %", "ms", more_is_better=False, bar=bar)
            for part in PARTS
            for name, bar in (("p50", 1.0), ("p99", 1.0), ("p99.9", None))
        ),
        measure=_measure,
        warm_up=False,
        prepare=_prepare,
    ),
)
