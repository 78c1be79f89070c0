"""Produce as an idempotent producer does: each batch has the producer's id and the next sequence."""

import select
import struct
import time
from collections import deque
from os import urandom
from typing import Final

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import Load, new_topic
from benchmarks.scenarios.produce import BATCH_BYTES
from benchmarks.systems import Target
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.records.batch import read_header
from pkafka.records.checksum import crc32c

_DEPTH: Final = 5
"""Batches in flight: as many as a broker remembers of a producer."""
_LAP_REQUESTS: Final = 4_000
"""A load goes to a new topic after so many; see :data:`benchmarks.producing.LAP_BYTES`."""
_CRC: Final = 17
_CHECKED_FROM: Final = 21
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_STALL_S: Final = 30.0


class _Requests:
    """The requests of one producer to one partition; each is the one before it with another sequence and checksum.

    Args:
        topic: its name.
        records: a batch of no producer.
        producer_id: of the producer.
    """

    def __init__(self, topic: str, records: bytes, producer_id: int) -> None:
        self._frame = bytearray(wire.produce_frame(topic, 0, records, 0, acks=-1))
        self._batch = self._frame.index(records)
        self._end = self._batch + len(records)
        self._producer_id = producer_id
        self._sequence = 0
        self.records: Final = read_header(records).records_count

    def next(self) -> bytes:
        """The next request."""
        _PRODUCER.pack_into(self._frame, self._batch + _PRODUCER_AT, self._producer_id, 0, self._sequence)
        with memoryview(self._frame) as view:
            crc = crc32c(view[self._batch + _CHECKED_FROM : self._end])
        struct.pack_into(">I", self._frame, self._batch + _CRC, crc)
        self._sequence += self.records
        return bytes(self._frame)


def _producer_id(target: Target) -> int:
    with wire.Link(target.address) as link:
        answer = link.call(ApiKey.INIT_PRODUCER_ID, 1, InitProducerIdRequest(transaction_timeout_ms=60_000))
    return int(answer.producer_id)


def _lap(target: Target, topic: str, requests: _Requests, stop_at: float) -> int:
    """Send until a time, or a number of requests; returns how many were answered."""
    size, error_at = wire.produce_answer_layout(topic)
    (connection,) = wire.connect(target.address, 1)
    waiting: deque[memoryview] = deque()
    answers = bytearray()
    sent = answered = 0
    poll = select.poll()
    with connection:
        while answered < sent or (sent < _LAP_REQUESTS and time.perf_counter() < stop_at):
            while sent < answered + _DEPTH and sent < _LAP_REQUESTS and time.perf_counter() < stop_at:
                waiting.append(memoryview(requests.next()))
                sent += 1
            poll.register(connection, select.POLLIN | (select.POLLOUT if waiting else 0))
            events = poll.poll(_STALL_S * 1000)
            if not events:
                raise TimeoutError(f"no answer for {_STALL_S:.0f} s")
            if events[0][1] & select.POLLOUT:
                done = connection.send(waiting[0])
                waiting[0] = waiting[0][done:]
                if not waiting[0]:
                    waiting.popleft()
            if events[0][1] & ~select.POLLOUT:
                answers += _received(connection.recv(1 << 16))
                while len(answers) >= size:
                    if answers[error_at : error_at + 2] != b"\0\0":
                        raise RuntimeError(f"an error was answered: {bytes(answers[:size]).hex(' ')}")
                    del answers[:size]
                    answered += 1
    return answered


def _received(data: bytes) -> bytes:
    if not data:
        raise ConnectionError("the broker closed a connection")
    return data


def _scenario(record_bytes: int) -> Scenario:
    def measure(target: Target, settings: Settings) -> dict[str, float]:
        records, count = wire.batch(record_bytes, BATCH_BYTES, urandom(max(1 << 20, 2 * record_bytes)))
        cpu, cpu_own = target.cpu_s(), time.process_time()
        took_s = 0.0
        answered = 0
        while took_s < settings.seconds:
            topic = new_topic(target, Load(record_bytes, BATCH_BYTES))
            requests = _Requests(topic.name, records, _producer_id(target))
            began = time.perf_counter()
            of_lap = _lap(target, topic.name, requests, began + settings.seconds - took_s)
            took_s += time.perf_counter() - began
            if topic.records() != of_lap * count:
                raise RuntimeError(f"{of_lap * count} records acknowledged, {topic.records()} there")
            topic.delete()
            answered += of_lap
        value_bytes = answered * count * record_bytes
        return {
            "throughput": value_bytes / 1e6 / took_s,
            "server CPU": (target.cpu_s() - cpu) / (value_bytes / 1e9),
            "generator": (time.process_time() - cpu_own) / took_s,
        }

    size = "1k" if record_bytes == 1000 else f"{record_bytes}b"
    return Scenario(
        name=f"idempotent_{size}",
        about=f"as produce_{size}, but of an idempotent producer: a batch has an id and the next sequence",
        figures=(
            Figure("throughput", "MB/s", more_is_better=True, bar=1.0),
            Figure("server CPU", "s/GB", more_is_better=False),
            Figure("generator", "cores", more_is_better=False),
        ),
        measure=measure,
    )


SCENARIOS = (_scenario(1000), _scenario(100))
