"""A topic read by Spark: with the data source ``pkafka`` and with Spark's own connector, on the same broker."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.consuming import Data, fill
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.pipeline.session import spark_session
from tests.interop import kafka as oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD_BYTES: Final = 100
RECORDS: Final = 5_000_000
PARTITIONS: Final = 4
_FORMATS: Final = ("pkafka", "kafka")
_RATIO: Final = "pkafka / kafka"
_DATA: dict[str, Data] = {}


def _prepare(target: Target, settings: Settings) -> None:
    _DATA[target.name] = fill(
        target,
        record_bytes=RECORD_BYTES,
        batch_bytes=64_000,
        partitions=PARTITIONS,
        total_bytes=settings.scaled(RECORDS, 500_000) * RECORD_BYTES,
    )


def _measure(target: Target, _: Settings) -> dict[str, float]:
    """Million records a second; each format has a session of its own, warmed up by one read of everything."""
    jars = Path(oracle.jars("spark")).parent.glob("*.jar")
    data = _DATA[target.name]
    found: dict[str, float] = {}
    for name in _FORMATS:
        settings = {"spark.jars": ",".join(map(str, jars))} if name == "kafka" else {}
        with spark_session("benchmark", settings=settings) as spark:
            _read(spark, name, target, data)
            began = time.perf_counter()
            count = _read(spark, name, target, data)
            found[name] = count / (time.perf_counter() - began) / 1e6
    return {**found, _RATIO: found["pkafka"] / found["kafka"]}


def _read(spark: "SparkSession", name: str, target: Target, data: Data) -> int:
    """Every value, looked at by Spark; how many there are."""
    frame = (
        spark.read.format(name)
        .option("kafka.bootstrap.servers", target.broker.bootstrap)
        .option("subscribe", data.topic)
        .load()
    )
    (row,) = frame.selectExpr("count(offset)", "sum(length(value))").collect()
    if tuple(row) != (count := data.end_offset * data.partitions, count * data.record_bytes):
        raise RuntimeError(f"{row} was read by {name}, {count} records are there")
    return count


SCENARIOS = (
    Scenario(
        name="spark_topics",
        about=f"Spark reads {RECORDS:,} records of {RECORD_BYTES} B in {PARTITIONS} partitions, on all cores",
        figures=(
            *(Figure(name, "million/s", more_is_better=True) for name in _FORMATS),
            Figure(_RATIO, "", more_is_better=True, floor=0.5),
        ),
        measure=_measure,
        prepare=_prepare,
        warm_up=False,
    ),
)
