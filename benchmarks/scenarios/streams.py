"""Kafka Streams with exactly_once_v2: one application copies a topic to another."""

import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import Load, new_topic
from benchmarks.systems import Target
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.interop import kafka as oracle

_PARTITIONS: Final = 8
_THREADS: Final = 2
_RECORDS_PER_BATCH: Final = 500
_RECORDS_PER_S: Final = 150_000
"""More than an application copies here."""
_COMMIT_MS: Final = 100
"""The default of exactly_once_v2."""
_POLL_S: Final = 0.02
_PATIENCE_S: Final = 120.0


def _fill(target: Target, topic: str, count: int) -> int:
    """Write about so many records, to all partitions alike."""
    data, in_batch = wire.batch(100, _RECORDS_PER_BATCH * 110, bytes(range(256)) * 400)
    rounds = max(count // (in_batch * _PARTITIONS), 1)
    size, _error_at = wire.produce_answer_layout(topic)
    (connection,) = wire.connect(target.address, 1)
    with connection:
        connection.settimeout(wire.TIMEOUT_S)
        with connection.makefile("rb") as answers:
            for _ in range(rounds):
                for partition in range(_PARTITIONS):
                    connection.sendall(wire.produce_frame(topic, partition, data, 0, acks=-1))
                answers.read(size * _PARTITIONS)
    return rounds * _PARTITIONS * in_batch


def _copied(link: wire.Link, group: str, topic: str) -> int:
    """How many records the application has committed."""
    wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=list(range(_PARTITIONS)))
    answer = link.call(ApiKey.OFFSET_FETCH, 5, OffsetFetchRequest(group_id=group, topics=[wanted]))
    return sum(max(one.committed_offset, 0) for found in answer.topics for one in found.partitions)


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    source, copy = (new_topic(target, Load(100, 1, _PARTITIONS)) for _ in range(2))
    count = _fill(target, source.name, int(_RECORDS_PER_S * settings.seconds))
    jars = oracle.jars("streams")
    with TemporaryDirectory(prefix="pkafka-streams-") as directory, wire.Link(target.address) as link:
        class_path = oracle.compile_java(jars, Path(directory) / "classes", "StreamsCopy")
        settings_of_java = (
            "processing.guarantee=exactly_once_v2",
            f"commit.interval.ms={_COMMIT_MS}",
            "replication.factor=1",
        )
        command = [
            *(oracle.java_program("java"), "-Xmx512m", "-cp", class_path, "StreamsCopy"),
            *(target.broker.bootstrap, source.name, copy.name, f"{directory}/state", str(_THREADS)),
            *settings_of_java,
        ]
        log = Path(directory) / "log"
        with log.open("wb") as output:
            application = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            figures = _watch(target, link, source.name, count, settings.seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {log.read_text(errors='replace')[-300:]}") from error
        finally:
            application.kill()
            application.communicate()
    source.delete()
    copy.delete()
    return figures


def _watch(target: Target, link: wire.Link, source: str, count: int, seconds: float) -> dict[str, float]:
    """Measure from the first moment at which a good part is copied: Java has compiled what it needs by then."""
    group = f"copy-{source}"
    deadline = time.monotonic() + _PATIENCE_S
    while (first := _copied(link, group, source)) < count // 10:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{first} of {count} records are copied")
        time.sleep(_POLL_S)
    began, cpu = time.perf_counter(), target.cpu_s()
    while (last := _copied(link, group, source)) < count and time.perf_counter() < began + seconds:
        time.sleep(_POLL_S)
    took_s = time.perf_counter() - began
    return {
        "rate": (last - first) / took_s,
        "server CPU": (target.cpu_s() - cpu) / (last - first) * 1e6,
    }


SCENARIOS = (
    Scenario(
        name="streams_copy",
        about=f"Kafka Streams 3.9.1 with exactly_once_v2, {_THREADS} threads, commits every {_COMMIT_MS} ms: copies"
        f" records of 100 B between topics of {_PARTITIONS} partitions",
        figures=(
            Figure("rate", "records/s", more_is_better=True, bar=0.9),
            Figure("server CPU", "us/record", more_is_better=False),
        ),
        measure=_measure,
    ),
)
