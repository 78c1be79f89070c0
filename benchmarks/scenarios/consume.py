"""Consume what lies in the page cache, and what does not while others produce."""

import threading

from benchmarks.consuming import Data, consume, fill, forget_cached_pages
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.pacing import Latencies, produce_at
from benchmarks.producing import Load, Outcome, produce
from benchmarks.systems import Target

_DATA: dict[tuple[str, str], Data] = {}


def _scenario(record_bytes: int, partitions: int, connections: int) -> Scenario:
    size = "1k" if record_bytes == 1000 else f"{record_bytes}b"
    shape = "" if (partitions, connections) == (1, 1) else f"_{partitions}p_{connections}c"
    name = f"consume_{size}{shape}"

    def prepare(target: Target, settings: Settings) -> None:
        _DATA[name, target.name] = fill(
            target,
            record_bytes=record_bytes,
            batch_bytes=64_000,
            partitions=partitions,
            total_bytes=settings.scaled(1_500_000_000, 200_000_000),
        )

    def measure(target: Target, settings: Settings) -> dict[str, float]:
        outcome = consume(target, _DATA[name, target.name], settings.seconds, connections=connections)
        return {
            "throughput": outcome.mb_per_s,
            "records": outcome.records / outcome.seconds / 1e6,
            "server CPU": outcome.server_cpu_s_per_gb,
            "consumer CPU": outcome.generator_cpu_s_per_gb,
            "CPU of both": outcome.server_cpu_s_per_gb + outcome.generator_cpu_s_per_gb,
            "consumer": outcome.generator_share,
        }

    return Scenario(
        name=name,
        about=(
            f"consume {record_bytes} B records from 64 kB batches in the page cache, no codec, "
            f"{partitions} partition(s), {connections} connection(s)"
        ),
        figures=(
            Figure("throughput", "MB/s", more_is_better=True, bar=1.05 if connections > 1 else 1.0),
            Figure("records", "million/s", more_is_better=True),
            Figure("server CPU", "s/GB", more_is_better=False),
            Figure("consumer CPU", "s/GB", more_is_better=False),
            # What a loopback costs is charged to whichever side happens to run: only the sum says something.
            Figure("CPU of both", "s/GB", more_is_better=False, bar=1.0),
            Figure("consumer", "cores", more_is_better=False),
        ),
        measure=measure,
        prepare=prepare,
    )


_PACED = Load(record_bytes=1000, batch_bytes=16_000)
_RATE = "paced rate"


def _prepare_cold(target: Target, settings: Settings) -> None:
    _DATA["cold", target.name] = fill(
        target,
        record_bytes=1000,
        batch_bytes=64_000,
        partitions=1,
        total_bytes=settings.scaled(10_000_000_000, 500_000_000),
    )
    if target.name == "kafka":
        produce(target, _PACED, settings.scaled(30, 5))
        settings.kafka[_RATE] = produce(target, _PACED, settings.scaled(20, 5)).requests_per_s / 4


def _measure_cold(target: Target, settings: Settings) -> dict[str, float]:
    data = _DATA["cold", target.name]
    forget_cached_pages(target, data)
    read: list[Outcome] = []
    reader = threading.Thread(
        target=lambda: read.append(consume(target, data, settings.seconds + 600, once=True))
    )
    alone = produce_at(target, _PACED, settings.seconds / 2, requests_per_s=settings.kafka[_RATE])
    reader.start()
    beside: Latencies = produce_at(target, _PACED, settings.seconds, requests_per_s=settings.kafka[_RATE])
    reader.join()
    if not read or read[0].records != data.end_offset:
        raise RuntimeError("the reader did not get everything")
    return {
        "cold read": read[0].mb_per_s,
        "p99 alone": alone.p99_ms,
        "p99 beside the reader": beside.p99_ms,
        "p99.9 beside the reader": beside.p999_ms,
    }


SCENARIOS = (
    *(
        _scenario(record_bytes, partitions, connections)
        for record_bytes in (1000, 100)
        for partitions, connections in ((1, 1), (12, 1), (12, 16))
    ),
    Scenario(
        name="cold_reader",
        about="10 GB read from the disk beside a producer of 16 kB requests at a quarter of Kafka's highest rate",
        figures=(
            Figure("cold read", "MB/s", more_is_better=True),
            Figure("p99 alone", "ms", more_is_better=False),
            Figure("p99 beside the reader", "ms", more_is_better=False),
            Figure("p99.9 beside the reader", "ms", more_is_better=False),
        ),
        measure=_measure_cold,
        warm_up=False,
        prepare=_prepare_cold,
    ),
)
