"""Workers of Kafka Connect: Java's on a broker of Apache Kafka, pkafka's on one of pkafka."""

import os
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target, pss_mb
from tests.connect_workers import (
    DEFAULT_JVM,
    ConnectWorker,
    cluster_settings,
    java_command,
    our_command,
    our_distributed_command,
)
from tests.talk import talking, wait_for

_LINES: Final = 500_000
_TASKS: Final = 20
_PATIENCE_S: Final = 120.0
_SETTINGS: Final = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="pkafka-bench-connect-") as place:
        directory = Path(place)
        command = java_command(directory, jvm=DEFAULT_JVM) if target.name == "kafka" else our_command()
        worker = ConnectWorker(command, directory / "worker", target.broker.bootstrap, _SETTINGS)
        try:
            begun_s = time.perf_counter()
            worker.start()
            start_s = time.perf_counter() - begun_s
            memory_mb = _memory_mb(target, worker, directory)
            lines = settings.scaled(_LINES, 20_000)
            source, sink = _copied(target, worker, directory, lines)
        finally:
            worker.close()
    return {"start": start_s, "memory": memory_mb, "source": source, "sink": sink}


def _measure_distributed(target: Target, _settings: Settings) -> dict[str, float]:
    """A worker of a new cluster, and a second one that joins it.

    Java's worker runs its tasks itself. pkafka's does that, too, when it is told to; by default it has processes for
    them, so that a task that ends its process ends no other.
    """
    with tempfile.TemporaryDirectory(prefix="pkafka-bench-connect-") as place:
        directory = Path(place)
        is_java = target.name == "kafka"
        command = (
            java_command(directory, "Distributed", jvm=DEFAULT_JVM) if is_java else our_distributed_command()
        )
        group = f"bench-{time.monotonic_ns():x}"
        settings = {**_SETTINGS, **cluster_settings(group)}
        workers = [
            ConnectWorker(command, directory / f"worker-{number}", target.broker.bootstrap, settings)
            for number in range(2)
        ]
        started_s: list[float] = []
        try:
            for worker in workers:
                begun_s = time.perf_counter()
                worker.start()
                started_s.append(time.perf_counter() - begun_s)
            workers[1].stop()
            memory_mb = one_process_mb = _memory_mb(target, workers[0], directory)
            workers[0].stop()
            if not is_java:
                alone = {**settings, **cluster_settings(f"{group}-alone"), "pkafka.connect.hosts": "0"}
                workers.append(ConnectWorker(command, directory / "alone", target.broker.bootstrap, alone))
                workers[-1].start()
                one_process_mb = _memory_mb(target, workers[-1], directory)
        finally:
            for worker in workers:
                worker.close()
    return {
        "start": started_s[0],
        "join": started_s[1],
        "memory, one process": one_process_mb,
        "memory, default": memory_mb,
    }


def _memory_mb(target: Target, worker: ConnectWorker, directory: Path) -> float:
    """Of all processes of the worker with tasks that wait for their files."""
    stamp = f"idle-{time.monotonic_ns():x}"
    with talking(target.broker.bootstrap) as talk:
        for number in range(_TASKS):
            name = f"{stamp}-{number}"
            talk.create(name)
            file = str(directory / f"none-{number}")
            configs = {"name": name, "connector.class": "FileStreamSource", "file": file, "topic": name}
            wait_for(partial(_is_created, worker, configs), timeout_s=_PATIENCE_S)
            worker.rest.wait_until(name, "RUNNING", "RUNNING")
    # Tasks may run in processes of their own, which count too.
    parent = psutil.Process(worker.pid)
    return sum(pss_mb(each.pid) for each in (parent, *parent.children(recursive=True)))


def _is_created(worker: ConnectWorker, configs: Mapping[str, str]) -> bool:
    """Have a connector made; workers of a cluster refuse while they come together."""
    answer = worker.rest.call("POST", "/connectors", {"name": configs["name"], "config": configs})
    return answer.status == 201


def _copied(target: Target, worker: ConnectWorker, directory: Path, lines: int) -> tuple[float, float]:
    """How many lines a second go into a topic, and out of it."""
    original, copy = directory / "in.txt", directory / "out.txt"
    original.write_text("".join(f"{number:08d}{'x' * 91}\n" for number in range(lines)))
    name = f"copied-{time.monotonic_ns():x}"
    with talking(target.broker.bootstrap) as talk:
        talk.create(name)
        begun_s = time.perf_counter()
        worker.create(
            {"name": name, "connector.class": "FileStreamSource", "file": str(original), "topic": name}
        )
        wait_for(lambda: talk.ends(name)[1] >= lines, timeout_s=_PATIENCE_S)
        source = lines / (time.perf_counter() - begun_s)
    begun_s = time.perf_counter()
    worker.create(
        {"name": f"{name}-out", "connector.class": "FileStreamSink", "file": str(copy), "topics": name}
    )
    size = original.stat().st_size
    wait_for(lambda: copy.exists() and os.path.getsize(copy) >= size, timeout_s=_PATIENCE_S)
    return source, lines / (time.perf_counter() - begun_s)


SCENARIOS = (
    Scenario(
        name="connect_standalone",
        about=f"a standalone worker of Connect: {_LINES:,} lines of 100 bytes as JSON without schemas from a file into"
        f" one partition, and back into a file; memory with {_TASKS} tasks",
        figures=(
            Figure("start", "s", more_is_better=False, bar=0.15),
            Figure("memory", "MB", more_is_better=False, bar=0.25),
            Figure("source", "records/s", more_is_better=True, bar=0.7),
            Figure("sink", "records/s", more_is_better=True, bar=0.7),
        ),
        measure=_measure,
        warm_up=False,
    ),
    Scenario(
        name="connect_distributed",
        about="workers of a Connect cluster: the first one until it answers, one that joins; memory of a worker with"
        f" {_TASKS} tasks",
        figures=(
            Figure("start", "s", more_is_better=False, bar=0.15),
            Figure("join", "s", more_is_better=False, bar=0.15),
            Figure("memory, one process", "MB", more_is_better=False, bar=0.25),
            Figure("memory, default", "MB", more_is_better=False, bar=0.25),
        ),
        measure=_measure_distributed,
        warm_up=False,
    ),
)
