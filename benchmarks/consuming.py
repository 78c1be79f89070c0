"""The raw consumer: one Fetch request at a time per connection, as consumers have it; payload is only passed by.

Every batch of the topic has the same size and record count, so the next offset follows from the bytes received; the
base offset at the start of every answer is compared with what is due.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from benchmarks import wire
from benchmarks.producing import Outcome
from benchmarks.systems import Target
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

# Not flexible, so everything before the records has a fixed place.
_VERSION: Final = 11
_ANSWER: Final = struct.Struct(">iiihii")  # size, correlation id, throttle, error, session, topics
_PARTITION: Final = struct.Struct(
    ">ihqqqiii"
)  # index, error, three offsets, aborted (null), replica, bytes of records
_OFFSET: Final = struct.Struct(">q")
# Defaults of Kafka's consumer.
PARTITION_BYTES_MAX: Final = 1 << 20
FETCH_BYTES_MAX: Final = 50 << 20
WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Data:
    """A topic full of batches that are all alike."""

    topic: str
    partitions: int
    batch_bytes: int
    records_per_batch: int
    record_bytes: int
    batches_per_partition: int

    @property
    def end_offset(self) -> int:
        """Of every partition."""
        return self.batches_per_partition * self.records_per_batch


def fill(target: Target, *, record_bytes: int, batch_bytes: int, partitions: int, total_bytes: int) -> Data:
    """Make a topic of about ``total_bytes`` to be consumed."""
    topic = f"data-{time.time_ns():x}"
    wire.create_topic(target.address, topic, partitions, {"file.delete.delay.ms": "0", "retention.ms": "-1"})
    records, count = wire.batch(record_bytes, batch_bytes, os.urandom(1 << 20))
    batches = max(1, total_bytes // (len(records) * partitions))
    size, error_at = wire.produce_answer_layout(topic)
    frames = [wire.produce_frame(topic, index, records, 0, acks=-1) for index in range(partitions)]
    window = 8
    with socket.create_connection(target.address, wire.TIMEOUT_S) as connection:
        answers = connection.makefile("rb")
        for number in range(batches * partitions + window):
            if number >= window:
                answer = answers.read(size)
                if answer[error_at : error_at + 2] != b"\0\0":
                    raise RuntimeError(f"an error was answered: {answer.hex(' ')}")
            if number < batches * partitions:
                connection.sendall(frames[number % partitions])
        answers.close()
    data = Data(topic, partitions, len(records), count, record_bytes, batches)
    there = wire.end_offsets(target.address, topic, partitions)
    if there != [data.end_offset] * partitions:
        raise RuntimeError(f"{data.end_offset} records acknowledged in each partition, {there} there")
    return data


def forget_cached_pages(target: Target, data: Data) -> None:
    """Have the kernel drop the topic's pages, so that the next reads come from the disk."""
    os.sync()
    for index in range(data.partitions):
        for path in (target.broker.log_dir / f"{data.topic}-{index}").glob("*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def consume(
    target: Target,
    data: Data,
    seconds: float,
    *,
    connections: int = 1,
    once: bool = False,
    connect: Callable[[], socket.socket] | None = None,
) -> Outcome:
    """Consume the topic from its start to its end, again and again, for ``seconds`` (``once``: one time).

    Partitions are shared out among the connections; with more connections than partitions each partition has several.
    ``connect`` opens them; without it they are plain.
    """
    connect = connect or (lambda: socket.create_connection(target.address, wire.TIMEOUT_S))
    readers = [
        _Reader(connect, data, [index % data.partitions] if connections > 1 else range(data.partitions))
        for index in range(connections)
    ]
    if 1 < connections < data.partitions:
        for index in range(connections, data.partitions):
            readers[index % connections].add(index)
    cpu, begin, own = target.cpu_s(), time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=reader.run, args=(begin + seconds, once)) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome = Outcome(seconds=time.perf_counter() - begin, generator_cpu_s=time.process_time() - own)
    outcome.server_cpu_s = target.cpu_s() - cpu
    for reader in readers:
        if reader.failure is not None:
            raise reader.failure
        outcome.requests += reader.requests
        outcome.records += reader.batches * data.records_per_batch
    outcome.value_bytes = outcome.records * data.record_bytes
    return outcome


@dataclass(slots=True)
class _Place:
    partition: int
    offset: int = 0
    patch_at: int = 0


@dataclass(slots=True)
class _Reader:
    connect: Callable[[], socket.socket]
    data: Data
    partitions: "range | list[int]"
    requests: int = 0
    batches: int = 0
    failure: Exception | None = None
    _places: dict[int, _Place] = field(default_factory=dict)

    def add(self, partition: int) -> None:
        """Take one more partition, before the start."""
        self.partitions = [*self.partitions, partition]

    def run(self, stop_at: float, once: bool) -> None:
        """Fetch until then; never raises, see ``failure``."""
        try:
            with self.connect() as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                request = self._request()
                scratch = bytearray(1 << 18)
                while time.perf_counter() < stop_at:
                    for place in self._places.values():
                        _OFFSET.pack_into(request, place.patch_at, place.offset)
                    connection.sendall(request)
                    self._receive(connection, scratch)
                    self.requests += 1
                    if once and all(place.offset >= self.data.end_offset for place in self._places.values()):
                        break
                    for place in self._places.values():
                        if place.offset >= self.data.end_offset and not once:
                            place.offset = 0
        except Exception as error:  # noqa: BLE001 - handed to the thread that joins
            self.failure = error

    def _request(self) -> bytearray:
        # The offsets are found by a value that stands nowhere else, and patched in place from then on.
        mark = 0x0123456789AB0000
        wanted = [
            FetchPartition(
                partition=index,
                fetch_offset=mark + index,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for index in self.partitions
        ]
        message = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.data.topic, partitions=wanted)],
        )
        request = bytearray(encode_request(ApiKey.FETCH, _VERSION, 1, wire.CLIENT_ID, message))
        for index in self.partitions:
            self._places[index] = _Place(index, 0, request.index(_OFFSET.pack(mark + index)))
        return request

    def _receive(self, connection: socket.socket, scratch: bytearray) -> None:
        _, _, _, error, _, topics = _ANSWER.unpack(_exactly(connection, _ANSWER.size))
        if error or topics != 1:
            raise RuntimeError(f"fetch answered error {error} and {topics} topics")
        head = _exactly(connection, 2 + len(self.data.topic) + 4)
        (count,) = struct.unpack_from(">i", head, len(head) - 4)
        for _ in range(count):
            index, error, _, _, _, aborted, _, size = _PARTITION.unpack(_exactly(connection, _PARTITION.size))
            if error or aborted > 0:
                raise RuntimeError(f"partition {index} answered error {error}")
            if size <= 0:
                continue
            place = self._places[index]
            (base,) = _OFFSET.unpack(_exactly(connection, 8))
            if base != place.offset:
                raise RuntimeError(f"partition {index} gave offset {base} where {place.offset} was due")
            left = size - 8
            view = memoryview(scratch)
            while left:
                got = connection.recv_into(view, min(left, len(scratch)))
                if got == 0:
                    raise ConnectionError("the broker closed a connection")
                left -= got
            whole = size // self.data.batch_bytes
            self.batches += whole
            place.offset += whole * self.data.records_per_batch


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionError("the broker closed a connection")
    return data
