"""Requests of one record: what a request costs."""

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import Load, produce
from benchmarks.systems import Target


def _scenario(depth: int, connections: int, bar: float | None) -> Scenario:
    load = Load(record_bytes=100, batch_bytes=1, connections=connections, depth=depth)

    def measure(target: Target, settings: Settings) -> dict[str, float]:
        outcome = produce(target, load, settings.seconds)
        return {
            "rate": outcome.requests_per_s,
            "server CPU": outcome.server_cpu_s / outcome.requests * 1e6,
            "generator": outcome.generator_share,
        }

    shape = "" if connections == 1 else f"_{connections}c"
    return Scenario(
        name=f"one_record_depth_{depth}{shape}",
        about=f"produce one 100 B record a request, acks=all, 1 partition, {connections} connection(s), depth {depth}",
        figures=(
            Figure("rate", "requests/s", more_is_better=True, bar=bar),
            Figure("server CPU", "us/request", more_is_better=False),
            Figure("generator", "cores", more_is_better=False),
        ),
        measure=measure,
    )


SCENARIOS = (_scenario(1, 1, None), _scenario(16, 1, 2.0), _scenario(1, 16, 1.3), _scenario(16, 16, 2.2))
