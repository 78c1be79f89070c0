"""Load on one consumer, with the statistics of Kafka's ConsumerPerformance. Does not print.

All partitions are assigned instead of joining a group: what is measured after the rebalance is the same, and the
rebalance itself, which Kafka's tool subtracts, takes no time.
"""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from pkafka.clients.consumer import Consumer

MIB: Final = 1024 * 1024
_POLL_MS: Final = 100
_POLL_RECORDS: Final = 500


class Progress(NamedTuple):
    """How far a run has come, and what its latest interval saw."""

    at: datetime
    mib: float
    records: int
    interval_ms: int
    interval_mib: float
    interval_records: int


class ConsumerStats(NamedTuple):
    """What a whole run saw."""

    began: datetime
    ended: datetime
    mib: float
    records: int
    elapsed_ms: int

    @property
    def mib_per_second(self) -> float:
        """NaN where no time went by."""
        return per_second(self.mib, self.elapsed_ms)

    @property
    def records_per_second(self) -> float:
        """NaN where no time went by."""
        return per_second(self.records, self.elapsed_ms)


def per_second(amount: float, elapsed_ms: int) -> float:
    """A rate; NaN where no time went by."""
    return amount * 1000 / elapsed_ms if elapsed_ms else float("nan")


def run_consumer(
    consumer: Consumer,
    *,
    records: int,
    silence_max_ms: int,
    interval_ms: int,
    on_interval: Callable[[Progress], None],
) -> ConsumerStats:
    """Read the assigned partitions until enough records came, or none for too long.

    Args:
        records: how many to read; the last poll may bring more.
        silence_max_ms: how long to wait for a record.
        interval_ms: how often to report.
        on_interval: called with every interval in which a record came.
    """
    count = size = 0
    began = datetime.now()
    start = last_record = reported = time.monotonic()
    reported_count = reported_size = 0
    while count < records and (time.monotonic() - last_record) * 1000 <= silence_max_ms:
        chunks = consumer.poll_chunks(_POLL_MS, records_max=_POLL_RECORDS)
        if not chunks:
            continue
        last_record = time.monotonic()
        for chunk in chunks:
            count += len(chunk)
            size += sum(map(len, filter(None, chunk.keys))) + sum(map(len, filter(None, chunk.values)))
        passed_ms = int((last_record - reported) * 1000)
        if passed_ms >= interval_ms:
            mib = (size - reported_size) / MIB
            on_interval(Progress(datetime.now(), size / MIB, count, passed_ms, mib, count - reported_count))
            reported, reported_count, reported_size = last_record, count, size
    elapsed_ms = int((time.monotonic() - start) * 1000)
    return ConsumerStats(began, datetime.now(), size / MIB, count, elapsed_ms)


_PATTERNS: Final = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def java_date_format(pattern: str) -> Callable[[datetime], str]:
    """What writes a time by a pattern of Java's SimpleDateFormat: digits of years to milliseconds and quoted text.

    Raises:
        ValueError: the pattern has letters that mean something else.
    """
    pieces: list[tuple[str, bool]] = []
    for match in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)", pattern):
        text = match[0]
        if match[2] is None:
            literal = text if match[1] is None else match[1].replace("''", "'") or "'"
            pieces.append((literal.replace("%", "%%"), False))
        elif text in _PATTERNS or text == "SSS":
            pieces.append((_PATTERNS.get(text, ""), text == "SSS"))
        else:
            raise ValueError(f"{text} in the date format {pattern!r} is not supported")

    def write(moment: datetime) -> str:
        return "".join(
            [f"{moment.microsecond // 1000:03}" if is_ms else moment.strftime(text) for text, is_ms in pieces]
        )

    return write
