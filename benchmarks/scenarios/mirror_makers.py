"""Mirror makers: pk-mirror-maker's two ways and kafka-mirror-maker.sh 3.9.1, from the system to one broker."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.clients.producer import Producer
from pkafka.tools.servers.local_broker import Broker, running_broker
from tests.interop import kafka as oracle
from tests.talk import Talk, talking, wait_for

_RECORDS: Final = 2_000_000
_BATCH: Final = 1_000
_VALUE: Final = b"x" * 92
_PATIENCE_S: Final = 180.0
# Each way: whether Java's, how many partitions the copy has, what else it is told.
_WAYS: Final = {
    "batches": (False, 1, ()),
    "kept partitions": (False, 1, ("--keep-partitions",)),
    "by key": (False, 3, ()),
    "java": (True, 1, ()),
    "java by key": (True, 3, ()),
}
_RATIOS: Final = (
    ("batches", "java", 4.0, 0.25),
    ("by key", "java by key", 4.0, 0.25),
)


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    count = settings.scaled(_RECORDS, 300_000)
    other = target.beside
    assert isinstance(other, Broker)
    figures: dict[str, float] = {}
    for way, (is_java, partitions, more) in _WAYS.items():
        topic = f"mirror-{time.monotonic_ns():x}"
        with (
            tempfile.TemporaryDirectory(prefix="pkafka-bench-mirror-") as place,
            talking(target.broker.bootstrap) as here,
            talking(other.bootstrap) as there,
        ):
            here.create(topic)
            there.create(topic, partitions)
            _fill(target.broker.bootstrap, topic, count)
            clusters = (target.broker.bootstrap, other.bootstrap)
            command = _command(Path(place), clusters, topic, is_java=is_java, more=more)
            rate, cpu_s = _copied(command, there, topic, partitions, count)
            there.delete(topic)
            here.delete(topic)
        figures[way] = rate / 1e3
        figures[f"{way}, CPU"] = cpu_s
    for one, another, _, _ in _RATIOS:
        figures[f"{one} / {another}"] = figures[one] / figures[another]
        figures[f"{one} / {another}, CPU"] = figures[f"{one}, CPU"] / figures[f"{another}, CPU"]
    return figures


def _fill(bootstrap: str, topic: str, count: int) -> None:
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for start in range(0, count, _BATCH):
            keys = [b"%08d" % number for number in range(start, min(start + _BATCH, count))]
            producer.send_batch(topic, [_VALUE] * len(keys), keys)


def _command(
    directory: Path, clusters: tuple[str, str], topic: str, *, is_java: bool, more: Sequence[str]
) -> list[str]:
    source, target = clusters
    consumer, producer = directory / "consumer.properties", directory / "producer.properties"
    consumer.write_text(f"bootstrap.servers={source}\ngroup.id={topic}\nauto.offset.reset=earliest\n")
    producer.write_text(f"bootstrap.servers={target}\n")
    begin = [sys.executable, "-m", "pkafka.cli.mirror_maker"]
    if is_java:
        # The heap that Kafka's script gives its tools.
        begin = [
            oracle.java_program("java"),
            "-Xmx256m",
            "-cp",
            oracle.jars("kafka"),
            "kafka.tools.MirrorMaker",
        ]
    configs = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
    return [*begin, *configs, "--include", topic, *more]


def _copied(
    command: Sequence[str], there: Talk, topic: str, partitions: int, count: int
) -> tuple[float, float]:
    """Records a second from the first arrival to the last, and seconds of CPU for each GB of records meanwhile."""

    def arrived() -> int:
        return sum(there.ends(topic, partition)[1] for partition in range(partitions))

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        watched = psutil.Process(process.pid)
        wait_for(arrived, timeout_s=_PATIENCE_S)
        first, begun_s, before = arrived(), time.perf_counter(), watched.cpu_times()
        wait_for(lambda: arrived() >= count, timeout_s=_PATIENCE_S)
        took_s, after = time.perf_counter() - begun_s, watched.cpu_times()
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    copied = count - first
    used_s = after.user + after.system - before.user - before.system
    return copied / took_s, used_s / (copied * 100 / 1e9)


@contextmanager
def _beside(_: Target) -> Iterator[Broker]:
    """The cluster that is copied to."""
    with (
        tempfile.TemporaryDirectory(prefix="pkafka-bench-mirror-") as directory,
        running_broker(Path(directory) / "broker") as broker,
    ):
        yield broker


SCENARIOS = (
    Scenario(
        name="mirror_makers",
        about="records of 100 bytes with keys to another cluster, thousands a second and seconds of CPU per GB: whole"
        " batches of 1,000, and new ones for three partitions by key, beside kafka-mirror-maker.sh",
        figures=(
            *(Figure(way, "k/s", more_is_better=True) for way in _WAYS),
            *(Figure(f"{way}, CPU", "s/GB", more_is_better=False) for way in _WAYS),
            *(
                Figure(f"{one} / {other}", "x", more_is_better=True, floor=floor)
                for one, other, floor, _ in _RATIOS
            ),
            *(
                Figure(f"{one} / {other}, CPU", "x", more_is_better=False, floor=ceiling)
                for one, other, _, ceiling in _RATIOS
            ),
        ),
        measure=_measure,
        warm_up=False,
        beside=_beside,
    ),
)
"""For :mod:`benchmarks.registry`."""
