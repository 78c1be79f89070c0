"""Produce from pre-encoded batches: how much, and at what CPU cost."""

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import Load, produce
from benchmarks.systems import Target

BATCH_BYTES = 64_000


def _scenario(record_bytes: int, partitions: int, connections: int, bar: float) -> Scenario:
    load = Load(record_bytes, BATCH_BYTES, partitions, connections)

    def measure(target: Target, settings: Settings) -> dict[str, float]:
        outcome = produce(target, load, settings.seconds)
        return {
            "throughput": outcome.mb_per_s,
            "server CPU": outcome.server_cpu_s_per_gb,
            "generator": outcome.generator_share,
        }

    size = "1k" if record_bytes == 1000 else f"{record_bytes}b"
    shape = "" if (partitions, connections) == (1, 1) else f"_{partitions}p_{connections}c"
    return Scenario(
        name=f"produce_{size}{shape}",
        about=(
            f"produce {record_bytes} B records, {BATCH_BYTES // 1000} kB batches, acks=all, no codec, "
            f"{partitions} partition(s), {connections} connection(s), 5 requests in flight on each"
        ),
        figures=(
            Figure(
                "throughput",
                "MB/s",
                more_is_better=True,
                bar=bar,
                bar_pure=1.2 if record_bytes == 100 else None,
            ),
            Figure("server CPU", "s/GB", more_is_better=False, bar=0.5),
            Figure("generator", "cores", more_is_better=False),
        ),
        measure=measure,
    )


SCENARIOS = tuple(
    _scenario(record_bytes, partitions, connections, bar)
    for record_bytes, bar in ((1000, 1.7), (100, 2.0))
    for partitions, connections in ((1, 1), (12, 1), (1, 16), (12, 16))
)
