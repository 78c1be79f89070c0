"""Much of one thing on one broker: partitions, connections, groups, segments."""

import resource
import socket
import struct
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import psutil

from benchmarks import wire
from benchmarks.many_connections import Crowd
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pkafka.records.builder import build_batch
from tests.talk import wait_for

_PATIENCE_S: Final = 600.0
_PARTITIONS: Final = 10_000
_CONNECTIONS: Final = (10, 100, 1_000, 10_000)
_OF_ACTIVE: Final = 12
"""Partitions that connections produce to."""
_GROUPS: Final = 100_000
_PIPELINED: Final = 500
_SEGMENTS: Final = 1_024
_SEGMENT_BYTES: Final = 1 << 30
_OFFSETS_A_SEGMENT: Final = 1_000
_TOPIC: Final = "sparse"


# -- partitions --


def _measure_partitions(target: Target, settings: Settings) -> dict[str, float]:
    count = settings.scaled(_PARTITIONS, 500)
    idle = target.pss_mb()
    topic = f"wide-{time.time_ns():x}"
    cpu, began = target.cpu_s(), time.perf_counter()
    wire.create_topic(target.address, topic, count, timeout_s=_PATIENCE_S)
    figures = {"create": time.perf_counter() - began, "create, CPU": target.cpu_s() - cpu}
    figures["memory"] = target.pss_mb() - idle
    target.broker.stop()
    figures |= _start(target, topic, count)
    wire.delete_topic(target.address, topic, timeout_s=_PATIENCE_S)
    return figures


def _start(target: Target, topic: str, partitions: int) -> dict[str, float]:
    """Start a broker: until it answers at all, until it leads all of a topic, and the CPU time of that."""
    target.broker.start_timeout_s = _PATIENCE_S
    began = time.perf_counter()
    target.broker.start()
    wait_for(lambda: wire.answers(target.address), timeout_s=_PATIENCE_S)
    answered = time.perf_counter() - began
    wire.wait_for_leaders(target.address, topic, partitions, timeout_s=_PATIENCE_S)
    return {
        "first answer": answered,
        "all led": time.perf_counter() - began,
        "start, CPU": target.cpu_s(),
    }


# -- connections --


def _measure_connections(target: Target, settings: Settings) -> dict[str, float]:
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    topic = f"many-{time.time_ns():x}"
    wire.create_topic(target.address, topic, _OF_ACTIVE)
    figures: dict[str, float] = {}
    for count in _CONNECTIONS:
        before = target.pss_mb()
        crowd = Crowd(target, topic, _OF_ACTIVE, count)
        try:
            crowd.produce(0)
            spent = crowd.produce(settings.seconds / len(_CONNECTIONS))
            figures[f"{count:,} of them"] = spent.server_cpu_s / spent.requests * 1e6
            figures["rate"] = spent.requests / spent.seconds
            figures["memory of one"] = max(target.pss_mb() - before, 0) * 1e3 / count
        finally:
            crowd.close()
    wire.delete_topic(target.address, topic)
    return {**figures, "1,000 to 10": figures["1,000 of them"] / figures["10 of them"]}


# -- groups --


def _commits(groups: range) -> Iterator[bytes]:
    for number in groups:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        request = OffsetCommitRequest(
            group_id=f"group-{number:06d}",
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        yield encode_request(ApiKey.OFFSET_COMMIT, 2, 1, wire.CLIENT_ID, request)


def _commit(address: tuple[str, int], requests: Iterator[bytes]) -> None:
    """Have all commits answered.

    Raises:
        RuntimeError: one was refused.
    """
    with (
        socket.create_connection(address, wire.TIMEOUT_S) as connection,
        connection.makefile("rb") as answers,
    ):
        while sent := list(islice(requests, _PIPELINED)):
            connection.sendall(b"".join(sent))
            for _ in sent:
                (size,) = struct.unpack(">i", answers.read(4))
                error = int.from_bytes(answers.read(size)[-2:], signed=True)
                if error:
                    raise RuntimeError(f"a commit was refused: {ErrorCode(error).name}")


def _listed_groups(address: tuple[str, int]) -> int:
    """How many groups a broker lists; -1 while it loads some of them."""
    with wire.Link(address) as link:
        answer = link.call(ApiKey.LIST_GROUPS, 2, ListGroupsRequest())
    return -1 if answer.error_code else len(answer.groups)


def _measure_groups(target: Target, settings: Settings) -> dict[str, float]:
    count = settings.scaled(_GROUPS, 2_000)
    first = int(target.notes.get("groups", 0))
    target.notes["groups"] = first + count
    if not first:
        wire.create_topic(target.address, "orders", 1)
    with wire.Link(target.address) as link:
        request = FindCoordinatorRequest(key="any", key_type=0)
        wait_for(lambda: not link.call(ApiKey.FIND_COORDINATOR, 1, request).error_code, timeout_s=_PATIENCE_S)
    idle, cpu, began = target.pss_mb(), target.cpu_s(), time.perf_counter()
    _commit(target.address, _commits(range(first, first + count)))
    figures = {
        "first commits": count / (time.perf_counter() - began),
        "a first commit, CPU": (target.cpu_s() - cpu) / count * 1e6,
        "memory of one": (target.pss_mb() - idle) * 1e6 / count,
    }
    began = time.perf_counter()
    if _listed_groups(target.address) != first + count:
        raise RuntimeError("not all groups are listed")
    figures["list"] = time.perf_counter() - began
    target.broker.stop()
    began = time.perf_counter()
    target.broker.start()
    wait_for(lambda: _listed_groups(target.address) == first + count, timeout_s=_PATIENCE_S)
    return {**figures, "all there after a start": time.perf_counter() - began}


# -- segments --


def _prepare_sparse(target: Target, settings: Settings) -> None:
    """A log of a terabyte that takes no place: segments of one record and a hole, before the one that is written to."""
    target.broker.start()
    wire.create_topic(target.address, _TOPIC, 1, {"retention.ms": "-1"})
    target.broker.stop()
    directory = target.broker.log_dir / f"{_TOPIC}-0"
    count = settings.scaled(_SEGMENTS, 16)
    for path in list(directory.glob(f"{0:020}.*")):
        path.rename(directory / f"{count * _OFFSETS_A_SEGMENT:020}{path.suffix}")
    for number in range(count):
        _hole(directory, number * _OFFSETS_A_SEGMENT)


def _hole(directory: Path, base_offset: int) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        with (directory / f"{base_offset:020}{suffix}").open("wb") as file:
            if suffix == ".log":
                # Kafka looks at the first batch of a log.
                file.write(
                    build_batch([(int(time.time() * 1000), None, b"first", ())], base_offset=base_offset)
                )
                file.truncate(_SEGMENT_BYTES)


def _measure_sparse(target: Target, settings: Settings) -> dict[str, float]:
    try:
        figures = _start(target, _TOPIC, 1)
        figures["read"] = _read_bytes(target) / 1e6
        end = settings.scaled(_SEGMENTS, 16) * _OFFSETS_A_SEGMENT
        # Kafka answers for a while that it does not lead what it leads by its own metadata.
        wait_for(lambda: _end_offsets(target) == [end], what="the end of the log", timeout_s=wire.TIMEOUT_S)
        return figures
    finally:
        target.broker.stop()


def _end_offsets(target: Target) -> list[int]:
    try:
        return wire.end_offsets(target.address, _TOPIC, 1)
    except RuntimeError:
        return []


def _read_bytes(target: Target) -> int:
    """What all processes of a broker have asked the kernel for, from files and sockets."""
    parent = psutil.Process(target.broker.pid)
    found = 0
    for pid in (parent.pid, *(child.pid for child in parent.children(recursive=True))):
        fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        found += int(fields["rchar"])
    return found


SCENARIOS = (
    Scenario(
        name="partitions_10k",
        about=f"{_PARTITIONS:,} partitions of one topic on one broker: create, start again until all are led",
        figures=(
            Figure("create", "s", more_is_better=False),
            Figure("create, CPU", "s", more_is_better=False),
            Figure("memory", "MB", more_is_better=False),
            Figure("first answer", "s", more_is_better=False),
            Figure("all led", "s", more_is_better=False),
            Figure("start, CPU", "s", more_is_better=False),
        ),
        measure=_measure_partitions,
        warm_up=False,
    ),
    Scenario(
        name="connections_10k",
        about=f"one 100 B record a request, one request at a time on each connection, {_OF_ACTIVE} partitions:"
        " the broker's CPU time of a request with more and more connections, and PSS of one of the most",
        figures=(
            *(Figure(f"{each:,} of them", "us/request", more_is_better=False) for each in _CONNECTIONS),
            Figure("1,000 to 10", "", more_is_better=False, floor=1.2),
            Figure("rate", "requests/s", more_is_better=True),
            Figure("memory of one", "kB", more_is_better=False),
        ),
        measure=_measure_connections,
    ),
    Scenario(
        name="groups_100k",
        about=f"{_GROUPS:,} groups that committed one offset each: commit, list, start again until all are there",
        figures=(
            Figure("first commits", "/s", more_is_better=True),
            Figure("a first commit, CPU", "us", more_is_better=False),
            Figure("memory of one", "bytes", more_is_better=False),
            Figure("list", "s", more_is_better=False),
            Figure("all there after a start", "s", more_is_better=False),
        ),
        measure=_measure_groups,
        warm_up=False,
    ),
    Scenario(
        name="sparse_1tb",
        about=f"a log of {_SEGMENTS:,} segments of 1 GB, one record and a hole each: start after a clean stop, and what"
        " that reads",
        figures=(
            Figure("first answer", "s", more_is_better=False),
            Figure("all led", "s", more_is_better=False),
            Figure("start, CPU", "s", more_is_better=False),
            Figure("read", "MB", more_is_better=False),
        ),
        measure=_measure_sparse,
        prepare=_prepare_sparse,
        started=False,
        warm_up=False,
    ),
)
