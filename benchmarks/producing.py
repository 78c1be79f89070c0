"""The raw producer: requests encoded beforehand, written as one endless stream of bytes per connection.

All requests of a load are of one size, and so are their answers. So a connection is nothing but two counters of
bytes: it may send until ``depth`` requests are unanswered, and n answers are ``n * size`` received bytes, whose error
codes are looked at with one strided slice. The generator's own share of a core is reported with each figure.
"""

import os
import select
import socket
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from benchmarks import wire
from pkafka.records.compression import Codec

RING_BYTES_MAX: Final = 1_000_000
LAP_BYTES: Final = 300_000_000
"""A load goes to a new topic after so many bytes, and the old one is deleted with its pages still in memory: at these
rates the disk, the same for all systems, would otherwise be all that is measured. So few that the pages are written
again before a virtual machine gives them back to its host (see :func:`benchmarks.systems.settle`)."""
_TOPIC_CONFIGS: Final = {"file.delete.delay.ms": "0"}
_STALL_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and how."""

    record_bytes: int
    batch_bytes: int
    partitions: int = 1
    connections: int = 1
    """To each broker that leads any."""
    depth: int = 5
    acks: int = -1
    replicas: int = 1
    codec: Codec = Codec.NONE
    """Of words; without one the records are random bytes."""


class Loaded(Protocol):
    """A broker, or several that are one cluster."""

    @property
    def addresses(self) -> list[tuple[str, int]]: ...
    def cpu_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class LoadedTopic:
    """A new topic, and which of its partitions each broker leads."""

    name: str
    leaders: dict[tuple[str, int], list[int]]
    first_records: int = 0
    """In it before the load."""

    def records(self) -> int:
        """How many of the load are in all its partitions."""
        there = sum(
            sum(wire.end_offsets_of(address, self.name, partitions))
            for address, partitions in self.leaders.items()
        )
        return there - self.first_records

    def delete(self) -> None:
        """Also its files, at once."""
        wire.delete_topic(next(iter(self.leaders)), self.name)


def new_topic(target: Loaded, load: Load) -> LoadedTopic:
    """A topic for ``load``, known to every broker with all its leaders."""
    name = f"load-{time.time_ns():x}"
    wire.create_topic(target.addresses[0], name, load.partitions, _TOPIC_CONFIGS, replicas=load.replicas)
    # A broker that knows who leads has been told before what it leads itself.
    known = [wire.wait_for_leaders(address, name, load.partitions) for address in target.addresses]
    if load.replicas == 1:
        return LoadedTopic(name, known[0])
    # Followers take up to a second until they fetch for the first time.
    first, count = wire.batch(10, 1, bytes(1000))
    for address, partitions in known[0].items():
        for partition in partitions:
            wire.produce(address, name, partition, first)
    return LoadedTopic(name, known[0], count * load.partitions)


@dataclass(slots=True)
class Outcome:
    """What came of a load."""

    seconds: float = 0.0
    requests: int = 0
    records: int = 0
    value_bytes: int = 0
    server_cpu_s: float = 0.0
    generator_cpu_s: float = 0.0

    @property
    def mb_per_s(self) -> float:
        """Megabytes of record values a second."""
        return self.value_bytes / 1e6 / self.seconds

    @property
    def requests_per_s(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds

    @property
    def server_cpu_s_per_gb(self) -> float:
        """CPU seconds of the server for a gigabyte of values."""
        return self.server_cpu_s / (self.value_bytes / 1e9)

    @property
    def generator_cpu_s_per_gb(self) -> float:
        """CPU seconds of the generator for a gigabyte of values."""
        return self.generator_cpu_s / (self.value_bytes / 1e9)

    @property
    def generator_share(self) -> float:
        """The part of one core that the generator used."""
        return self.generator_cpu_s / self.seconds


def produce(target: Loaded, load: Load, seconds: float) -> Outcome:
    """Produce for ``seconds`` and check that every acknowledged record is there.

    Raises:
        RuntimeError: an error was answered, or records are missing or too many.
        TimeoutError: no answer for 30 seconds.
    """
    outcome = Outcome()
    source_bytes = max(1 << 20, 2 * load.record_bytes)
    source = wire.text(source_bytes) if load.codec else os.urandom(source_bytes)
    cpu = target.cpu_s()
    while outcome.seconds < seconds:
        topic = new_topic(target, load)
        records, count = wire.batch(load.record_bytes, load.batch_bytes, source, load.codec)
        lap = _Lap(topic, load, records)
        try:
            lap.run(seconds - outcome.seconds)
        finally:
            lap.close()
        outcome.seconds += lap.seconds
        outcome.requests += lap.requests
        outcome.records += lap.requests * count
        outcome.generator_cpu_s += lap.generator_cpu_s
        there = topic.records()
        if there != lap.requests * count:
            raise RuntimeError(f"{lap.requests * count} records acknowledged, {there} there")
        topic.delete()
    outcome.value_bytes = outcome.records * load.record_bytes
    outcome.server_cpu_s = target.cpu_s() - cpu
    return outcome


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    ring: memoryview
    sent: int = 0
    answered: int = 0
    waits_to_send: bool = False
    answers: bytearray = field(default_factory=lambda: bytearray(1 << 16))
    filled: int = 0


class _Lap:
    """One topic, from its first request to its last answer."""

    def __init__(self, topic: LoadedTopic, load: Load, records: bytes) -> None:
        self.seconds = 0.0
        self.requests = 0
        self.generator_cpu_s = 0.0
        self._depth = load.depth
        self._request_bytes = len(wire.produce_frame(topic.name, 0, records, 0, acks=load.acks))
        self._answer_bytes, self._error_at = wire.produce_answer_layout(topic.name)
        self._requests_max = max(1, LAP_BYTES // self._request_bytes)
        repeats = max(1, min(64, RING_BYTES_MAX // (self._request_bytes * load.partitions)))
        self._poll = select.epoll()
        self._connections: dict[int, _Connection] = {}
        for address, partitions in topic.leaders.items():
            led = len(partitions)
            for index, connection in enumerate(wire.connect(address, load.connections)):
                # With several connections each begins at another partition, as producers of their own would.
                frames = [
                    wire.produce_frame(
                        topic.name, partitions[(index + number) % led], records, number, acks=load.acks
                    )
                    for number in range(repeats * led)
                ]
                self._connections[connection.fileno()] = _Connection(connection, memoryview(b"".join(frames)))
                self._poll.register(connection, select.EPOLLIN)

    def close(self) -> None:
        self._poll.close()
        for connection in self._connections.values():
            connection.socket.close()

    def run(self, seconds_max: float) -> None:
        """Send for at most ``seconds_max`` or :data:`LAP_BYTES`, then wait for the last answers."""
        begin, cpu_begin = time.perf_counter(), time.process_time()
        stop_at = begin + seconds_max
        sending = True
        for connection in self._connections.values():
            self._send(connection, self._depth)
        while True:
            events = self._poll.poll(_STALL_S)
            if not events:
                raise TimeoutError(f"no answer for {_STALL_S:.0f} s")
            sending = sending and time.perf_counter() < stop_at and self.requests < self._requests_max
            for fd, mask in events:
                connection = self._connections[fd]
                if mask & ~select.EPOLLOUT:
                    self._receive(connection)
                # When sending ends, a request of which a part is on its way is still finished.
                more = (
                    connection.answered + self._depth
                    if sending
                    else -(-connection.sent // self._request_bytes)
                )
                self._send(connection, more)
            if not sending and all(
                connection.sent == connection.answered * self._request_bytes
                for connection in self._connections.values()
            ):
                break
        self.seconds = time.perf_counter() - begin
        self.generator_cpu_s = time.process_time() - cpu_begin

    def _send(self, connection: _Connection, requests_max: int) -> None:
        limit = requests_max * self._request_bytes
        ring = connection.ring
        size = len(ring)
        while connection.sent < limit:
            start = connection.sent % size
            try:
                connection.sent += connection.socket.send(
                    ring[start : min(size, start + limit - connection.sent)]
                )
            except BlockingIOError:
                break
        waits = connection.sent < limit
        if waits != connection.waits_to_send:
            connection.waits_to_send = waits
            mask = select.EPOLLIN | select.EPOLLOUT if waits else select.EPOLLIN
            self._poll.modify(connection.socket, mask)

    def _receive(self, connection: _Connection) -> None:
        buffer = connection.answers
        got = connection.socket.recv_into(memoryview(buffer)[connection.filled :])
        if got == 0:
            raise ConnectionError("the broker closed a connection")
        filled = connection.filled + got
        count = filled // self._answer_bytes
        end = count * self._answer_bytes
        if any(buffer[self._error_at : end : self._answer_bytes]) or any(
            buffer[self._error_at + 1 : end : self._answer_bytes]
        ):
            raise RuntimeError(f"an error was answered: {bytes(buffer[:end]).hex(' ')[:400]}")
        connection.answered += count
        self.requests += count
        connection.filled = filled - end
        if connection.filled:
            buffer[: connection.filled] = buffer[end:filled]
