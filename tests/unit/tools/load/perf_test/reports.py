"""Reports to compare and to draw."""

from datetime import UTC, datetime
from typing import Any

from pkafka.tools.load.perf_test.measuring import Clock, Window
from pkafka.tools.load.perf_test.plan import NS, Plan
from pkafka.tools.load.perf_test.report import build
from pkafka.tools.load.perf_test.run import Clients, Outcome, Side


def outcome(plan: Plan, *, records: int = 1000, latency_us: int = 2000, failed: int = 0) -> Outcome:
    """Of three seconds, the first of them warm-up; times grow a little from record to record."""
    clock = Clock(0, NS, 3 * NS, NS)
    made = Outcome(plan, clock, datetime(2026, 1, 2, tzinfo=UTC), is_caught_up=True)
    for side in (made.produced, made.consumed):
        fill(side, records, latency_us)
    broken = Window()
    broken.failed = failed
    made.produced.add(1, broken)
    return made


def fill(side: Side, records: int, latency_us: int) -> None:
    side.last_ns, side.cpu_s = 3 * NS, 0.01
    for number in (-1, 0, 1):
        window = Window()
        window.records, window.size_bytes = records, records * 100
        if number >= 0:
            for step in range(100):
                window.latency.record(latency_us + step * 10, records // 100)
        side.add(number, window)


def report(plan: Plan | None = None, **more: int) -> dict[str, Any]:
    plan = plan or Plan("t", duration_s=2, warmup_s=1)
    return build(outcome(plan, **more), Clients({"acks": "all", "sasl.password": "hush"}, {}))
