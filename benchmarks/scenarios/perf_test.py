"""Load generators on the same broker: how hard each drives it, and what a record costs the generator."""

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from benchmarks import client_process, wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from tests.interop import kafka as oracle

_JAVA_RATE: Final = re.compile(r"([\d.]+) records/sec")
_JAVA_PER_SECOND: Final = {100: 300_000, 1000: 80_000}
"""Kafka's tool counts records, not seconds: about as many as it sends in one."""

_MARGIN_S: Final = 120
_RATIOS: Final = (("pk-perf-test", "confluent", 1.0), ("pk-perf-test", "java", 3.0))


def _pk_perf_test(
    target: Target, record_bytes: int, seconds: float, *, consumers: int, more: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    command = [
        *(sys.executable, "-m", "pkafka.cli.perf_test", "--bootstrap-server", target.broker.bootstrap),
        *("--partitions", "1", "--topic-config", "file.delete.delay.ms=0", "--output", "json"),
        *("--record-size", str(record_bytes), "--duration", str(seconds), "--consumers", str(consumers)),
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + _MARGIN_S)
    if done.returncode:
        raise RuntimeError(f"pk-perf-test ended with {done.returncode}: {done.stderr[-300:]}")
    return {row["side"]: row for row in json.loads(done.stdout)["results"]}


def _confluent(target: Target, record_bytes: int, seconds: float) -> tuple[float, float]:
    topic = _topic(target)
    arguments = ("confluent_bulk", target.broker.bootstrap, topic, record_bytes)
    found = client_process.run("benchmarks.producers", *arguments, seconds=seconds)
    wire.delete_topic(target.address, topic)
    return found["records"] / found["seconds"], found["cpu_s"] * 1e6 / found["records"]


def _java(target: Target, record_bytes: int, seconds: float) -> tuple[float, float]:
    topic = _topic(target)
    count = int(seconds * _JAVA_PER_SECOND[record_bytes])
    command = [
        *(oracle.java_program("java"), "-Xmx512m", "-cp", oracle.jars("kafka")),
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(count)),
        *("--record-size", str(record_bytes), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={target.broker.bootstrap}", "acks=all"),
    ]
    before = _children_cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    cpu_s = _children_cpu_s() - before
    wire.delete_topic(target.address, topic)
    return float(_JAVA_RATE.findall(done.stdout)[-1]), cpu_s * 1e6 / count


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _topic(target: Target) -> str:
    topic = f"generators-{time.time_ns():x}"
    wire.create_topic(target.address, topic, 1, {"file.delete.delay.ms": "0"})
    return topic


def _scenario(record_bytes: int) -> Scenario:
    def measure(target: Target, settings: Settings) -> dict[str, float]:
        seconds = settings.seconds / 4
        alone = _pk_perf_test(target, record_bytes, seconds, consumers=0)["produce"]
        both = _pk_perf_test(target, record_bytes, seconds, consumers=1)
        rates = {"pk-perf-test": alone["records_per_s"]}
        costs = {"pk-perf-test": alone["cpu_us_per_record"]}
        rates["confluent"], costs["confluent"] = _confluent(target, record_bytes, seconds)
        rates["java"], costs["java"] = _java(target, record_bytes, seconds)
        return {
            **{f"{name}, k/s": rate / 1e3 for name, rate in rates.items()},
            **{f"{name}, CPU": cost for name, cost in costs.items()},
            "with a consumer, k/s": both["consume"]["records_per_s"] / 1e3,
            "the consumer, CPU": both["consume"]["cpu_us_per_record"],
            **{f"{one} / {other}": rates[one] / rates[other] for one, other, _floor in _RATIOS},
        }

    generators = ("pk-perf-test", "confluent", "java")
    return Scenario(
        name=f"perf_test_{'1k' if record_bytes == 1000 else f'{record_bytes}b'}",
        about=(
            f"load generators that send {record_bytes} B records, acks=all, no codec, 1 partition: records, and the "
            "CPU time of the generator for each (that of java with its start)"
        ),
        figures=(
            *(Figure(f"{name}, k/s", "k/s", more_is_better=True) for name in generators),
            *(Figure(f"{name}, CPU", "us/record", more_is_better=False) for name in generators),
            Figure("with a consumer, k/s", "k/s", more_is_better=True),
            Figure("the consumer, CPU", "us/record", more_is_better=False),
            *(
                Figure(f"{one} / {other}", "x", more_is_better=True, floor=floor)
                for one, other, floor in _RATIOS
            ),
        ),
        measure=measure,
    )


def _spark(target: Target, settings: Settings) -> dict[str, float]:
    """The same test by a process for each generator, and by a task of Spark's, in turn."""
    seconds = settings.seconds / 2
    at_a_rate = ("--rate", str(_SPARK_RATE), "--warmup", "2s")
    found: dict[str, float] = {}
    for name, more in (("processes", ()), ("spark", ("--spark", "--master", "local[2]"))):
        fast = _pk_perf_test(target, 100, seconds, consumers=1, more=(*more, "--warmup", "2s"))
        steady = _pk_perf_test(target, 100, seconds, consumers=1, more=(*more, *at_a_rate))
        found[f"{name}, k/s"] = fast["produce"]["records_per_s"] / 1e3
        found[f"{name}, CPU"] = fast["produce"]["cpu_us_per_record"]
        found[f"{name}, p50 ms"] = steady["consume"]["percentiles_ms"]["50"]
        found[f"{name}, p99 ms"] = steady["consume"]["percentiles_ms"]["99"]
    for figure in ("k/s", "CPU", "p50 ms"):
        found[f"spark / processes, {figure}"] = found[f"spark, {figure}"] / found[f"processes, {figure}"]
    return found


_SPARK_RATE: Final = 20_000
_SPARK = Scenario(
    name="perf_test_spark",
    about=(
        "pk-perf-test with a producer and a consumer as processes and as tasks of Spark's, both on this machine, 100 B "
        f"records, acks=all, 1 partition: as fast as can be, and end-to-end latency at {_SPARK_RATE} records/s"
    ),
    figures=(
        *(
            Figure(f"{name}, {figure}", unit, more_is_better=figure == "k/s")
            for name in ("processes", "spark")
            for figure, unit in (("k/s", "k/s"), ("CPU", "us/record"), ("p50 ms", "ms"), ("p99 ms", "ms"))
        ),
        Figure("spark / processes, k/s", "x", more_is_better=True, floor=0.9),
        Figure("spark / processes, CPU", "x", more_is_better=False, floor=1.1),
        Figure("spark / processes, p50 ms", "x", more_is_better=False, floor=1.1),
    ),
    measure=_spark,
)

SCENARIOS = (_scenario(100), _scenario(1000), _SPARK)
"""For :mod:`benchmarks.registry`."""
