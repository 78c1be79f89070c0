"""What more partitions, and more readers of them, give, and what they cost: brokers, clients, and a fail-over."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import psutil

from benchmarks import client_memory, wire
from benchmarks.clusters import SIZE, Cluster
from benchmarks.consuming import Data, fill
from benchmarks.producing import Load, produce
from benchmarks.scale import Row, Scale
from benchmarks.systems import Target
from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import TopicDescription
from tests.talk import good, wait_for

_PRODUCED: Final = "MB/s produced"
_CONSUMED: Final = "MB/s consumed"
_WORTH: Final = 1.1
"""A tenth more is no chance: two runs of the same differ by less, on a machine that has nothing else to do."""
_PATIENCE_S: Final = 120.0
_POLL_S: Final = 0.02


def partitions(target: Target, scale: Scale) -> Iterator[Row]:
    """What more partitions give a producer, and what they cost broker (files, memory, start) and clients (memory)."""
    for count in scale.partitions:
        load = Load(1_000, 64_000, partitions=count, connections=4)
        yield Row("partitions", str(count), produce(target, load, scale.seconds).mb_per_s, _PRODUCED)
        topic = f"kept-{count}"
        wire.create_topic(target.address, topic, count)
        yield Row("partitions", f"{count} (kept)", _open_files(target), "open files")
        yield Row("partitions", f"{count} (kept)", target.pss_mb(), "MB of memory")
        target.broker.stop()
        began = time.perf_counter()
        target.broker.start()
        wire.wait_for_leaders(target.address, topic, count)
        yield Row("partitions", f"{count} (kept)", time.perf_counter() - began, "s to start and lead them")
        for role in client_memory.ROLES:
            used = client_memory.peak_mb(role, target.broker.bootstrap, topic, count)
            yield Row("partitions", f"{count} (kept)", used, f"MB of a {role}'s memory")
        wire.delete_topic(target.address, topic)


def consumers(target: Target, scale: Scale) -> Iterator[Row]:
    """More and more consumers that share a topic, each a process: a partition has one, so those past them are idle."""
    data = fill(
        target,
        record_bytes=1_000,
        batch_bytes=64_000,
        partitions=scale.read_partitions,
        total_bytes=scale.bytes // 4,
    )
    lever = f"consumers of {data.partitions} partitions"
    for count in scale.consumers:
        report = _read(target, data, count)
        (side,) = report["results"]
        yield Row(lever, str(count), side["mib_per_s"] * 1.048576, _CONSUMED)
        yield Row(lever, str(count), idle_readers(report["generators"]), "idle readers")
    wire.delete_topic(target.address, data.topic)


def idle_readers(generators: Iterable[Mapping[str, Any]]) -> int:
    """How many consumers of a load test got no record at all."""
    return sum(row["side"] == "consume" and row["records"] == 0 for row in generators)


def _read(target: Target, data: Data, count: int) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "pkafka.cli.perf_test", "--bootstrap-server", target.broker.bootstrap),
        *("--topic", data.topic, "--producers", "0", "--consumers", str(count)),
        *("--num-records", str(data.partitions * data.end_offset)),
        *("--timeout", "60s", "--output", "json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"pk-perf-test ended with {done.returncode}: {done.stderr[-300:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def fail_over(cluster: Cluster, scale: Scale) -> Iterator[Row]:
    """How long some of the partitions have no leader when a broker of three dies, by how many partitions there are."""
    for count in scale.partitions:
        topic = f"led-{count}"
        cluster.create_topic(topic, count)
        wait_for(lambda topic=topic: cluster.in_sync(topic), timeout_s=_PATIENCE_S)  # type: ignore[misc]
        victim = cluster.leader(topic)
        others = [broker.bootstrap for number, broker in enumerate(cluster.brokers) if number != victim]
        with Admin({"bootstrap.servers": ",".join(others)}) as admin:
            began = time.perf_counter()
            cluster.kill(victim)
            while not _is_led(good(admin.describe_topics([topic])[topic]), victim):
                if time.perf_counter() - began > _PATIENCE_S:
                    raise RuntimeError(f"{topic} was not led within {_PATIENCE_S:.0f} s")
                time.sleep(_POLL_S)
            yield Row("fail-over", str(count), time.perf_counter() - began, "s until all are led again")
        cluster.brokers[victim].kill()  # waits for its end
        began = time.perf_counter()
        cluster.brokers[victim].start()
        wait_for(lambda topic=topic: cluster.in_sync(topic), timeout_s=_PATIENCE_S)  # type: ignore[misc]
        yield Row(
            "fail-over", str(count), time.perf_counter() - began, f"s until all {SIZE} replicas are in sync"
        )
        with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            good(admin.delete_topics([topic])[topic])


def _is_led(topic: TopicDescription, dead: int) -> bool:
    return all(each.leader not in (None, dead) for each in topic.partitions)


def _open_files(target: Target) -> int:
    head = psutil.Process(target.broker.pid)
    return sum(process.num_fds() for process in (head, *head.children(recursive=True)))


# -- what follows from it ----------------------------------------------------------------------------------


def advice(rows: Iterable[Row]) -> Iterator[str]:
    """What the rates of the rows say: a line for each lever that has some."""
    rates: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        if row.unit in (_PRODUCED, _CONSUMED):
            rates.setdefault((row.lever, row.unit), {})[int(row.way)] = row.value
    for (lever, unit), of_lever in rates.items():
        enough = gain_ends_at(of_lever)
        best = f"{of_lever[enough]:,.0f} {unit}"
        if enough == max(of_lever):
            yield f"{lever}: the most is with {enough}, {best}; what more would give was not tried"
        else:
            yield f"{lever}: {enough} are enough, {best}; none of the larger numbers gives a tenth more"


def gain_ends_at(rates: Mapping[int, float]) -> int:
    """The smallest number after which no larger one is faster by more than chance.

    Args:
        rates: by number of partitions, or of readers; not empty.
    """
    for number in sorted(rates):
        if all(rates[larger] <= rates[number] * _WORTH for larger in rates if larger > number):
            return number
    raise AssertionError  # the largest number has none after it
