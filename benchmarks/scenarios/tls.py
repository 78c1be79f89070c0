"""What TLS costs: the same load by a plain connection and by an encrypted one, in turn, to the same broker."""

import os
import socket
import time
from collections.abc import Callable

from benchmarks import wire
from benchmarks.consuming import Data, consume, fill
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import LAP_BYTES, Load, Outcome, new_topic
from benchmarks.systems import Target

_LOAD = Load(record_bytes=1000, batch_bytes=64_000)
_DATA: dict[str, Data] = {}
_FIGURES = (
    Figure("plain", "MB/s", more_is_better=True),
    Figure("TLS", "MB/s", more_is_better=True, bar=1.0),
    Figure("kept", "of plain", more_is_better=True),
    Figure("TLS adds, time", "s/GB", more_is_better=False, bar=1.0),
    Figure("server CPU", "s/GB", more_is_better=False),
    Figure("server CPU, TLS", "s/GB", more_is_better=False, bar=1.0),
    Figure("TLS adds", "s/GB", more_is_better=False, bar=1.0),
    Figure("generator, TLS", "cores", more_is_better=False),
)

Connect = Callable[[], socket.socket]


def _both(target: Target, load: Callable[[Connect], Outcome]) -> dict[str, float]:
    assert target.tls is not None
    plain = load(lambda: socket.create_connection(target.address, wire.TIMEOUT_S))
    encrypted = load(target.tls.connect)
    return {
        "plain": plain.mb_per_s,
        "TLS": encrypted.mb_per_s,
        "kept": encrypted.mb_per_s / plain.mb_per_s,
        "TLS adds, time": 1000 / encrypted.mb_per_s - 1000 / plain.mb_per_s,
        "server CPU": plain.server_cpu_s_per_gb,
        "server CPU, TLS": encrypted.server_cpu_s_per_gb,
        "TLS adds": encrypted.server_cpu_s_per_gb - plain.server_cpu_s_per_gb,
        "generator, TLS": encrypted.generator_share,
    }


def _produce(target: Target, seconds: float, connect: Connect) -> Outcome:
    outcome = Outcome()
    records, count = wire.batch(_LOAD.record_bytes, _LOAD.batch_bytes, os.urandom(1 << 20))
    cpu, own = target.cpu_s(), time.process_time()
    with connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while outcome.seconds < seconds:
            topic = new_topic(target, _LOAD)
            begin = time.perf_counter()
            requests = _lap(connection, topic.name, records, begin + seconds - outcome.seconds)
            outcome.seconds += time.perf_counter() - begin
            outcome.requests += requests
            if topic.records() != requests * count:
                raise RuntimeError(f"{requests * count} records acknowledged, {topic.records()} there")
            topic.delete()
    outcome.records = outcome.requests * count
    outcome.value_bytes = outcome.records * _LOAD.record_bytes
    outcome.server_cpu_s = target.cpu_s() - cpu
    outcome.generator_cpu_s = time.process_time() - own
    return outcome


def _lap(connection: socket.socket, topic: str, records: bytes, stop_at: float) -> int:
    """Produce to a topic with five requests in flight; how many were acknowledged."""
    frame = wire.produce_frame(topic, 0, records, 0, acks=-1)
    answer_bytes, error_at = wire.produce_answer_layout(topic)
    requests_max = max(1, LAP_BYTES // len(frame))
    answer = memoryview(bytearray(answer_bytes))
    sent = answered = 0
    while answered < sent or (sent < requests_max and time.perf_counter() < stop_at):
        while sent - answered < _LOAD.depth and sent < requests_max and time.perf_counter() < stop_at:
            connection.sendall(frame)
            sent += 1
        got = 0
        while got < answer_bytes and answered < sent:
            count = connection.recv_into(answer[got:])
            if not count:
                raise ConnectionError("the broker closed the connection")
            got += count
        if bytes(answer[error_at : error_at + 2]) != b"\0\0":
            raise RuntimeError(f"an error was answered: {bytes(answer).hex(' ')}")
        answered += 1
    return sent


def _prepare(target: Target, settings: Settings) -> None:
    total_bytes = settings.scaled(1_000_000_000, 200_000_000)
    _DATA[target.name] = fill(
        target, record_bytes=1000, batch_bytes=64_000, partitions=1, total_bytes=total_bytes
    )


SCENARIOS = (
    Scenario(
        name="tls_produce_1k",
        about="produce 1000 B records, 64 kB batches, acks=all, 1 connection, 5 in flight: plain, then TLS 1.3",
        figures=_FIGURES,
        measure=lambda target, settings: _both(
            target, lambda connect: _produce(target, settings.seconds / 2, connect)
        ),
        tls=True,
    ),
    Scenario(
        name="tls_consume_1k",
        about="consume 1000 B records from 64 kB batches in the page cache, 1 connection: plain, then TLS 1.3",
        figures=_FIGURES,
        measure=lambda target, settings: _both(
            target,
            lambda connect: consume(target, _DATA[target.name], settings.seconds / 2, connect=connect),
        ),
        tls=True,
        prepare=_prepare,
    ),
)
