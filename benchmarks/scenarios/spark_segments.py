"""Segments read by Spark, on one core and on two, and beside the plain tool: no broker runs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.scenarios.dump_log import Layout, segment_of
from benchmarks.systems import Target
from pkafka.pipeline.session import spark_session
from pkafka.records.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOTAL_BYTES: Final = 4_000_000_000
PARTITIONS: Final = 4
_LAYOUT: Final = Layout(65_536, Codec.NONE)
_SPEED_UP: Final = "one core / two"
_DUMPS: Final = "plain dump / --spark"


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    """Seconds; Spark's start is no part of the scans, but is of the dumps."""
    size = settings.scaled(TOTAL_BYTES, 128_000_000) // PARTITIONS
    directory = _directory(target, size)
    cores = sorted(os.sched_getaffinity(0))
    one, count = _scan_s(directory, set(cores[:1]))
    two, again = _scan_s(directory, set(cores[:2]))
    if count != again or count * 100 < size:
        raise RuntimeError(f"one core read {count} records, two {again}")
    plain, spark = (
        _dump_s(directory / "scan-0", flags) for flags in ((), ("--spark", "--master", "local[2]"))
    )
    return {
        "scan, one core": one,
        "scan, two": two,
        _SPEED_UP: one / two,
        "plain dump of a quarter": plain,
        "with --spark": spark,
        _DUMPS: plain / spark,
    }


def _directory(target: Target, size: int) -> Path:
    """Partitions of one segment each, all the same but for their names."""
    segment = segment_of(target, _LAYOUT, bytes_max=size, records_max=sys.maxsize)
    directory = segment.parent.with_name(f"{size}.data")
    for number in range(PARTITIONS):
        folder = directory / f"scan-{number}"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            for path in (segment, segment.with_suffix(".index")):
                os.link(path, folder / path.name)
    return directory


def _scan_s(directory: Path, cores: set[int]) -> tuple[float, int]:
    """Every value, looked at by Spark, once it is warm; and how many there are."""
    with _pinned(cores), spark_session("benchmark", master=f"local[{len(cores)}]") as spark:
        _read(spark, directory / "scan-0")
        began = time.perf_counter()
        count = _read(spark, directory)
        return time.perf_counter() - began, count


def _read(spark: "SparkSession", directory: Path) -> int:
    frame = spark.read.format("pkafka-log").option("columns", "offset,value").load(str(directory))
    (row,) = frame.selectExpr("count(offset)", "sum(length(value))").collect()
    return int(row[0])


@contextmanager
def _pinned(cores: set[int]) -> Iterator[None]:
    """What is started inside the block has these cores alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _dump_s(directory: Path, flags: tuple[str, ...]) -> float:
    command = [
        str(Path(sys.executable).with_name("pk-dump-log")),
        "--print-data-log",
        "--files",
        str(directory),
    ]
    began = time.perf_counter()
    with (directory.parent / "dump.txt").open("wb") as output:
        subprocess.run([*command, *flags], stdout=output, check=True, timeout=1_200)
    return time.perf_counter() - began


SCENARIOS = (
    Scenario(
        name="spark_segments",
        about=f"{TOTAL_BYTES / 1e9:.0f} GB of segments, {PARTITIONS} partitions, records of 100 B, read by pkafka-log",
        figures=(
            Figure("scan, one core", "s", more_is_better=False),
            Figure("scan, two", "s", more_is_better=False),
            Figure(_SPEED_UP, "", more_is_better=True, floor=1.6),
            Figure("plain dump of a quarter", "s", more_is_better=False),
            Figure("with --spark", "s", more_is_better=False),
            Figure(_DUMPS, "", more_is_better=True),
        ),
        measure=_measure,
        started=False,
        warm_up=False,
    ),
)
