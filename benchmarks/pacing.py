"""Latency at a given rate: requests leave when they are due, whether the last answer is there or not.

The latency of a request counts from the moment it was due, so a broker that stalls cannot hide it by slowing the
generator down.
"""

import os
import socket
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import wire
from benchmarks.least_replication import running_leader
from benchmarks.producing import Load, Loaded, new_topic

_NO_TOPIC: Final = "load-0123456789abcdef"
"""A topic's name for the frames of :func:`replicate_at`, where no process decodes them. It is as long as the names that
:func:`benchmarks.producing.new_topic` makes, so that the frames have the size of those for brokers."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Percentiles in milliseconds, and the rate that was really reached."""

    p50_ms: float
    p99_ms: float
    p999_ms: float
    requests_per_s: float


def produce_at(target: Loaded, load: Load, seconds: float, *, requests_per_s: float) -> Latencies:
    """Produce at a steady rate on one connection, to one broker, and return the latencies of its requests.

    Raises:
        RuntimeError: an error was answered, or records are missing.
    """
    topic = new_topic(target, load)
    ((leader, partitions),) = topic.leaders.items()
    records, count = wire.batch(load.record_bytes, load.batch_bytes, os.urandom(1 << 20))
    size, error_at = wire.produce_answer_layout(topic.name)
    frames = [wire.produce_frame(topic.name, index, records, index, acks=load.acks) for index in partitions]
    with socket.create_connection(leader, wire.TIMEOUT_S) as connection:
        latencies, total = _pace(connection, frames, (size, error_at), seconds, requests_per_s)
    there = topic.records()
    if there != total * count:
        raise RuntimeError(f"{total * count} records acknowledged, {there} there")
    topic.delete()
    return latencies


def replicate_at(directory: Path, load: Load, seconds: float, *, requests_per_s: float) -> Latencies:
    """The latencies of the same requests where the least is done with them that makes three replicas.

    Args:
        directory: for the files of :mod:`benchmarks.least_replication`.
    """
    records, _ = wire.batch(load.record_bytes, load.batch_bytes, os.urandom(1 << 20))
    frame = wire.produce_frame(_NO_TOPIC, 0, records, 0, acks=load.acks)
    size, error_at = wire.produce_answer_layout(_NO_TOPIC)
    with (
        running_leader(len(frame), size, directory) as address,
        socket.create_connection(address, wire.TIMEOUT_S) as connection,
    ):
        latencies, _ = _pace(connection, [frame], (size, error_at), seconds, requests_per_s)
    return latencies


def _pace(
    connection: socket.socket,
    frames: Sequence[bytes],
    answer: tuple[int, int],
    seconds: float,
    requests_per_s: float,
) -> tuple[Latencies, int]:
    """Send frames in turn, each when it is due.

    Args:
        answer: its size, and where its error code is.

    Returns:
        Also how many were sent.
    """
    size, error_at = answer
    total = max(1, int(requests_per_s * seconds))
    done = array("d", bytes(8 * total))
    failures: list[Exception] = []

    def receive() -> None:
        answers = connection.makefile("rb", buffering=1 << 16)
        try:
            for number in range(total):
                answer = answers.read(size)
                done[number] = time.perf_counter()
                if len(answer) < size or answer[error_at : error_at + 2] != b"\0\0":
                    raise RuntimeError(f"answer {number} is wrong: {answer.hex(' ')}")
        except Exception as error:  # noqa: BLE001 - handed to the thread that joins
            failures.append(error)
        finally:
            answers.close()

    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    receiver = threading.Thread(target=receive)
    begin = time.perf_counter() + 0.01
    receiver.start()
    for number in range(total):
        wait = begin + number / requests_per_s - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        if failures:
            break
        connection.sendall(frames[number % len(frames)])
    receiver.join(wire.TIMEOUT_S)
    if failures or receiver.is_alive():
        raise RuntimeError(f"the load did not end well: {failures}")
    # The first tenth is the connection's own warming up.
    first = total // 10
    waited = sorted(done[number] - begin - number / requests_per_s for number in range(first, total))
    p50, p99, p999 = (
        1000 * waited[min(len(waited) - 1, int(len(waited) * part))] for part in (0.5, 0.99, 0.999)
    )
    return Latencies(p50, p99, p999, requests_per_s=total / (done[total - 1] - begin)), total
