"""Load on one consumer, with the statistics of Kafka's ConsumerPerformance. Does not print.

With a group the time of its rebalances is measured and told apart. Without one all partitions are assigned: what is
measured after a rebalance is the same, and there is none to wait for.
"""

import re
import time
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, NamedTuple

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
from pkafka.model import TopicPartition

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
    rebalance_ms: int = 0

    @property
    def fetch_ms(self) -> int:
        """What is left of the interval without rebalances."""
        return self.interval_ms - self.rebalance_ms


class ConsumerStats(NamedTuple):
    """What a whole run saw."""

    began: datetime
    ended: datetime
    mib: float
    records: int
    elapsed_ms: int
    rebalance_ms: int = 0

    @property
    def fetch_ms(self) -> int:
        """What is left without rebalances."""
        return self.elapsed_ms - self.rebalance_ms

    @property
    def mib_per_second(self) -> float:
        """NaN where no time went by."""
        return per_second(self.mib, self.elapsed_ms)

    @property
    def records_per_second(self) -> float:
        """NaN where no time went by."""
        return per_second(self.records, self.elapsed_ms)


class RebalanceClock(ConsumerRebalanceListener):
    """Measures how long a consumer is without partitions, from now on: the listener of its subscription."""

    def __init__(self) -> None:
        self.total_ms = 0
        self._round_ms = 0
        self._began = time.monotonic()
        self._held: set[TopicPartition] = set()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._held.difference_update(partitions)
        if not self._held:
            self._began = time.monotonic()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if not self._held:
            passed_ms = int((time.monotonic() - self._began) * 1000)
            self.total_ms += passed_ms
            self._round_ms += passed_ms
        self._held.update(partitions)

    def take_round_ms(self) -> int:
        """What was measured since this was asked last."""
        taken, self._round_ms = self._round_ms, 0
        return taken


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
    rebalances: RebalanceClock | None = None,
) -> ConsumerStats:
    """Read what is assigned or subscribed until enough records came, or none for too long.

    Args:
        records: how many to read; the last poll may bring more.
        silence_max_ms: how long to wait for a record.
        interval_ms: how often to report.
        on_interval: called with every interval in which a record came.
        rebalances: listens to the subscription, where there is one.
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
            waited_ms = 0 if rebalances is None else rebalances.take_round_ms()
            new = count - reported_count
            on_interval(Progress(datetime.now(), size / MIB, count, passed_ms, mib, new, waited_ms))
            reported, reported_count, reported_size = last_record, count, size
    elapsed_ms = int((time.monotonic() - start) * 1000)
    waited_ms = 0 if rebalances is None else rebalances.total_ms
    return ConsumerStats(began, datetime.now(), size / MIB, count, elapsed_ms, waited_ms)


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
