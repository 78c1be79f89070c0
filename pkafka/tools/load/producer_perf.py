"""Load from one producer, with the statistics of Kafka's ProducerPerformance. Does not print."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from pkafka.clients.producer import BatchFuture, Producer, RecordMetadata

_OUTCOMES_S: Final = 10.0
_SAMPLES_MAX: Final = 500_000
_MIB: Final = 1024 * 1024
_WINDOW_MS: Final = 5_000
_CHUNK_RECORDS: Final = 1_000
_CHUNK_BYTES: Final = 65_536


class WindowStats(NamedTuple):
    """What one reporting window saw; latencies in ms."""

    records: int
    records_per_second: float
    mib_per_second: float
    latency_average_ms: float
    latency_max_ms: float


class RunStats(NamedTuple):
    """What the whole run saw; latencies in ms, percentiles by name. Failed records are in ``failures`` only."""

    records: int
    failures: int
    records_per_second: float
    mib_per_second: float
    latency_average_ms: float
    latency_max_ms: float
    percentiles_ms: dict[str, int]
    first_error: str | None


class LatencyStats:
    """Counts acknowledged records. ``record`` is called on the sender thread, the rest on the caller's.

    Args:
        records_expected: how many there will be, to know how many to sample.
        on_window: called with every window of five seconds.
    """

    def __init__(self, records_expected: int, on_window: Callable[[WindowStats], None]) -> None:
        self._start = self._window_start = time.perf_counter()
        self._sampling = max(1, -(-records_expected // _SAMPLES_MAX))
        self._samples: list[int] = []
        self._on_window = on_window
        self._expected = records_expected
        self._lock = threading.Condition()
        self._count = self._bytes = self._failures = 0
        self._latency_sum = self._latency_max = 0
        self._window = [0, 0, 0, 0]
        self._first_error: str | None = None

    def record(self, sent_at: float, size_bytes: int, error: Exception | None, *, records: int = 1) -> None:
        """Count one outcome of records of ``size_bytes`` in all handed over at ``sent_at`` (perf_counter)."""
        now = time.perf_counter()
        if error is not None:
            with self._lock:
                self._failures += records
                self._first_error = self._first_error or str(error)
                self._lock.notify_all()
            return
        latency = int((now - sent_at) * 1000)
        with self._lock:
            due = -(-(self._count + records) // self._sampling) - -(-self._count // self._sampling)
            self._samples += [latency] * due
            self._count += records
            self._bytes += size_bytes
            self._latency_sum += latency * records
            self._latency_max = max(self._latency_max, latency)
            window = self._window
            window[0] += records
            window[1] += size_bytes
            window[2] += latency * records
            window[3] = max(window[3], latency)
            self._lock.notify_all()
        if (now - self._window_start) * 1000 >= _WINDOW_MS:
            self._end_window(now)

    def wait_for_all(self, timeout_s: float) -> None:
        """Wait until every record has an outcome here: a flush may return just before the sender thread tells it."""
        with self._lock:
            self._lock.wait_for(lambda: self._count + self._failures >= self._expected, timeout_s)

    def result(self) -> RunStats:
        """The statistics so far."""
        with self._lock:
            elapsed = max(time.perf_counter() - self._start, 1e-9)
            samples = sorted(self._samples)
            count = self._count
            shares = {"50": 0.5, "95": 0.95, "99": 0.99, "99.9": 0.999}
            return RunStats(
                count,
                self._failures,
                count / elapsed,
                self._bytes / elapsed / _MIB,
                self._latency_sum / count if count else float("nan"),
                float(self._latency_max),
                {
                    name: samples[int(share * len(samples))] if samples else 0
                    for name, share in shares.items()
                },
                self._first_error,
            )

    def _end_window(self, now: float) -> None:
        with self._lock:
            records, size, latency_sum, latency_max = self._window
            elapsed = now - self._window_start
            self._window = [0, 0, 0, 0]
            self._window_start = now
        if records:
            self._on_window(
                WindowStats(
                    records,
                    records / elapsed,
                    size / elapsed / _MIB,
                    latency_sum / records,
                    float(latency_max),
                )
            )


def payloads(
    size_bytes: int | None, lines: Sequence[bytes] | None, *, monotonic: bool = False
) -> Iterator[bytes]:
    """Record values without end: random lines of a file, counting numbers, or random capital letters.

    The letters are as Kafka's tool makes them: one payload, drawn from a fixed seed, sent again and again.
    """
    chooser = random.Random(0)  # noqa: S311 - the same load in every run
    if lines is not None:
        while True:
            yield chooser.choice(lines)
    if monotonic:
        number = 0
        while True:
            yield str(number).encode()
            number += 1
    payload = bytes(chooser.choices(range(65, 91), k=size_bytes or 0))
    while True:
        yield payload


def run_producer(
    producer: Producer,
    topic: str,
    values: Iterator[bytes],
    *,
    records: int,
    records_per_second: float,
    on_window: Callable[[WindowStats], None],
    transaction_ms: int = 0,
) -> RunStats:
    """Send records and wait for all outcomes.

    Args:
        values: the payloads.
        records: how many to send.
        records_per_second: the rate to keep; negative for as fast as possible.
        on_window: called every five seconds, on the sender thread.
        transaction_ms: after so long a transaction is committed and the next one begun; 0 for none.
    """
    transactions = None
    if transaction_ms > 0:
        producer.init_transactions()
        transactions = _Transactions(producer, transaction_ms)
    stats = LatencyStats(records, on_window)
    if records_per_second > 0:
        _send_at_rate(producer, topic, values, records, records_per_second, stats, transactions)
    else:
        _send_in_chunks(producer, topic, values, records, stats, transactions)
    if transactions is not None:
        transactions.end()
    producer.flush()
    stats.wait_for_all(_OUTCOMES_S)
    return stats.result()


class _Transactions:
    """One transaction after the other, as Kafka's tool: what is sent when one has become too old is its last."""

    def __init__(self, producer: Producer, age_max_ms: int) -> None:
        self._producer = producer
        self._age_max_ms = age_max_ms
        self._begun_ms: float | None = None

    def before_send(self) -> None:
        if self._begun_ms is None:
            self._producer.begin_transaction()
            self._begun_ms = time.perf_counter() * 1_000

    def after_send(self) -> None:
        if self._begun_ms is not None and time.perf_counter() * 1_000 - self._begun_ms >= self._age_max_ms:
            self.end()

    def end(self) -> None:
        if self._begun_ms is not None:
            self._producer.commit_transaction()
            self._begun_ms = None


def _send_at_rate(
    producer: Producer,
    topic: str,
    values: Iterator[bytes],
    records: int,
    records_per_second: float,
    stats: LatencyStats,
    transactions: _Transactions | None,
) -> None:
    start = time.perf_counter()
    for number in range(records):
        value = next(values)
        outcome = partial(_note_record, stats, time.perf_counter(), len(value))
        if transactions is not None:
            transactions.before_send()
        producer.send(topic, value, callback=outcome)
        if transactions is not None:
            transactions.after_send()
        ahead = (number + 1) / records_per_second - (time.perf_counter() - start)
        if ahead > 0.001:
            time.sleep(ahead)


def _note_record(
    stats: LatencyStats, sent_at: float, size_bytes: int, _: RecordMetadata, error: Exception | None
) -> None:
    stats.record(sent_at, size_bytes, error)


def _send_in_chunks(
    producer: Producer,
    topic: str,
    values: Iterator[bytes],
    records: int,
    stats: LatencyStats,
    transactions: _Transactions | None,
) -> None:
    """Without a limit, the time of a record begins when the chunk that it is in is handed over."""
    length = 1
    while records > 0:
        chunk = list(islice(values, min(records, length)))
        length = max(1, min(_CHUNK_RECORDS, _CHUNK_BYTES // (1 + max(map(len, chunk)))))
        records -= len(chunk)
        if transactions is not None:
            transactions.before_send()
        future = producer.send_batch(topic, chunk)
        future.add_done_callback(partial(_note_chunk, stats, time.perf_counter(), chunk))
        if transactions is not None:
            transactions.after_send()


def _note_chunk(stats: LatencyStats, sent_at: float, chunk: list[bytes], future: BatchFuture) -> None:
    for run in future.outcomes():
        size_bytes = sum(len(chunk[position]) for position in run.positions)
        stats.record(sent_at, size_bytes, run.error, records=run.length)
