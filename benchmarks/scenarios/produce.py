"""Produce from pre-encoded batches: how much, and at what CPU cost."""

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import Load, produce
from benchmarks.systems import Target
from pkafka.records.compression import Codec

BATCH_BYTES = 64_000
COMPRESSED_BATCH_BYTES = 250_000
"""Before they are compressed."""


def _scenario(
    record_bytes: int,
    partitions: int,
    connections: int,
    bar: float,
    codec: Codec = Codec.NONE,
    cpu_bar: float = 0.5,
) -> Scenario:
    batch_bytes = COMPRESSED_BATCH_BYTES if codec else BATCH_BYTES
    load = Load(record_bytes, batch_bytes, partitions, connections, codec=codec)

    def measure(target: Target, settings: Settings) -> dict[str, float]:
        outcome = produce(target, load, settings.seconds)
        return {
            "throughput": outcome.mb_per_s,
            "server CPU": outcome.server_cpu_s_per_gb,
            "generator": outcome.generator_share,
        }

    size = "1k" if record_bytes == 1000 else f"{record_bytes}b"
    shape = "" if (partitions, connections) == (1, 1) else f"_{partitions}p_{connections}c"
    named = f"_{codec.name.lower()}" if codec else ""
    return Scenario(
        name=f"produce{named}_{size}{shape}",
        about=(
            f"produce {record_bytes} B records, {batch_bytes // 1000} kB batches, acks=all, "
            f"{codec.name.lower() if codec else 'no codec'}, "
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
            Figure("server CPU", "s/GB", more_is_better=False, bar=cpu_bar),
            Figure("generator", "cores", more_is_better=False),
        ),
        measure=measure,
    )


SCENARIOS = (
    *(
        _scenario(record_bytes, partitions, connections, bar)
        for record_bytes, bar in ((1000, 1.7), (100, 2.0))
        for partitions, connections in ((1, 1), (12, 1), (1, 16))
    ),
    *(_scenario(record_bytes, 12, 16, 2.0, cpu_bar=0.45) for record_bytes in (1000, 100)),
    *(_scenario(1000, 12, 16, 1.4, codec) for codec in (Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP)),
)
