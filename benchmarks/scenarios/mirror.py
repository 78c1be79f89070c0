"""MirrorMaker 2's source connector in a standalone worker: Java's on a broker of Apache Kafka, pkafka's on pkafka.

Source and target are the same broker, which both kinds of workers load alike.
"""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target, cpu_of, pss_mb
from pkafka.clients.producer import Producer
from tests.connect_workers import DEFAULT_JVM, ConnectWorker, java_command, our_command
from tests.mirrors import WORKER, connector
from tests.talk import Talk, talking, wait_for

_RECORDS: Final = 2_000_000
_SIZE: Final = 100
_PARTITIONS: Final = 2
_BATCH_BYTES: Final = 16_384
_PATIENCE_S: Final = 180.0
_BY_RECORDS: Final = {"producer.override.compression.type": "none"}
"""Makes pkafka's worker look at records; Java's always does."""


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    records = settings.scaled(_RECORDS, 100_000)
    with tempfile.TemporaryDirectory(prefix="pkafka-bench-mirror-") as place:
        directory = Path(place)
        command = java_command(directory, jvm=DEFAULT_JVM) if target.name == "kafka" else our_command()
        worker = ConnectWorker(command, directory / "worker", target.broker.bootstrap, WORKER)
        try:
            worker.start()
            topic = f"mirrored-{time.monotonic_ns():x}"
            with talking(target.broker.bootstrap) as talk:
                talk.create(topic, _PARTITIONS)
                _fill(target.broker.bootstrap, topic, records)
                used_s = cpu_of([worker.pid])
                rate = _copied(target, worker, talk, topic, records, {})
                used_s = cpu_of([worker.pid]) - used_s
                memory_mb = pss_mb(worker.pid)
                few = records // 5
                again = f"{topic}-again"
                talk.create(again, _PARTITIONS)
                _fill(target.broker.bootstrap, again, few)
                by_records = _copied(target, worker, talk, again, few, _BY_RECORDS)
        finally:
            worker.close()
    return {
        "rate": rate,
        "cpu": used_s / (records * _SIZE / 1e9),
        "memory": memory_mb,
        "by_records": by_records,
    }


def _fill(bootstrap: str, topic: str, records: int) -> None:
    values = [b"%08d" % number + bytes(_SIZE - 8) for number in range(10_000)]
    with Producer({"bootstrap.servers": bootstrap, "batch.size": _BATCH_BYTES}) as producer:
        for start in range(0, records, len(values)):
            producer.send_batch(topic, values, partition=start // len(values) % _PARTITIONS)


def _copied(
    target: Target, worker: ConnectWorker, talk: Talk, topic: str, records: int, more: Mapping[str, str]
) -> float:
    """How many records a second are copied, the start of the connector counted."""
    bootstrap = target.broker.bootstrap
    configs = connector("Source", bootstrap, bootstrap, {"topics": topic, **more}) | {"name": topic}
    begun_s = time.perf_counter()
    worker.create(configs)

    def is_done() -> bool:
        worker.rest.wait_until(topic, "RUNNING", "RUNNING")
        return sum(talk.ends(f"A.{topic}", number)[1] for number in range(_PARTITIONS)) >= records

    wait_for(is_done, timeout_s=_PATIENCE_S)
    return records / (time.perf_counter() - begun_s)


SCENARIOS = (
    Scenario(
        name="mirror_100b",
        about=f"MirrorMaker 2's source connector copies {_RECORDS:,} records of {_SIZE} bytes in batches of 16 KB; and"
        " fewer of them while pkafka's worker looks at each record",
        figures=(
            Figure("rate", "records/s", more_is_better=True, bar=4),
            Figure("cpu", "CPU s/GB", more_is_better=False, bar=0.25),
            Figure("memory", "MB", more_is_better=False, bar=0.25),
            Figure("by_records", "records/s, one by one", more_is_better=True, bar=0.5),
        ),
        measure=_measure,
        warm_up=False,
    ),
)
