"""An interceptor that makes messages traceable from their producer to the reader of the last copy of them.

As ``interceptor.classes=pkafka.clients.audit.AuditInterceptor`` of a producer it writes two headers into each record:
an id that no other message has, and the time. A record that has an id already, because it is sent on from another
topic, keeps it and gets a further time: so each tier, a cluster or a step on the way, leaves when it sent the message.
``pk-dump-log --report audit --tier ...`` compares tiers by these headers, message by message.

Producers and consumers that have it count as well: records by topic and stretch of time. A stretch is that in which the
message was first sent, wherever it is counted, so tiers can be compared by their counts alone (:func:`compare`).
"""

import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.clients.producer.record import ProducerRecord
from pkafka.clock import Clock, SystemClock
from pkafka.errors import ConfigError
from pkafka.model import Millis

if TYPE_CHECKING:
    from pkafka.clients.consumer.records import ConsumerRecord, ConsumerRecords
    from pkafka.clients.producer.record_metadata import RecordMetadata

ID_HEADER: Final = "pkafka.audit.id"
"""Sixteen bytes, the same in all copies of a message and in no other message."""

TIME_HEADER: Final = "pkafka.audit.time"
"""When a producer sent the message, in ms since the epoch, as text; one for each producer on its way."""

BUCKET_MS: Final = 60_000
_BUCKETS_MAX: Final = 10_000
_log = logging.getLogger(__name__)


class AuditCount(NamedTuple):
    """What one tier counted of one topic.

    Args:
        tier: of the program that counted.
        topic: of the records.
        time_ms: when the stretch of time begins in which the messages were first sent.
        records: sent, by a producer; returned by poll, by a consumer.
        failed: of a producer: not acknowledged, by the time of the outcome.
        delay_sum_ms, delay_max_ms: from when messages were first sent until they were counted.
    """

    tier: str
    topic: str
    time_ms: Millis
    records: int
    failed: int
    delay_sum_ms: Millis
    delay_max_ms: Millis


class Difference(NamedTuple):
    """How one tier's count of a stretch of time differs from the first tier's.

    ``missing`` records are those that the first tier has and this one lacks; below 0 this one has more.
    """

    tier: str
    time_ms: Millis
    records: int
    missing: int
    delay_avg_ms: float
    delay_max_ms: Millis


class AuditInterceptor:
    """Stamps and counts messages; for producers and consumers alike.

    Its own keys stand among the client's: ``audit.tier`` is the tier's name (``client.id``, or else ``default``),
    ``audit.bucket.ms`` how long stretches of time are (60000), ``audit.counts.file`` a file to which counts are
    appended as lines of JSON, every stretch of time and when the client is closed. Lines of one tier, topic and time
    add up.

    Args:
        clock: its wall clock is what is written.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._prefix = os.urandom(8)
        self._numbers = count()
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Millis], list[int]] = {}
        self._tier = "default"
        self._bucket_ms = BUCKET_MS
        self._path: Path | None = None
        self._write_at_ms = 0

    def configure(self, configs: Mapping[str, object]) -> None:
        """Take the keys of its own.

        Raises:
            ConfigError: ``audit.bucket.ms`` is no length of time.
        """
        self._tier = str(configs.get("audit.tier") or configs.get("client.id") or "default")
        given = configs.get("audit.bucket.ms", BUCKET_MS)
        try:
            self._bucket_ms = int(str(given))
        except ValueError:
            self._bucket_ms = 0
        if self._bucket_ms <= 0:
            raise ConfigError("audit.bucket.ms", "must be a number of milliseconds above 0", str(given))
        path = configs.get("audit.counts.file")
        self._path = Path(str(path)) if path else None
        self._write_at_ms = self._clock.now_ms() + self._bucket_ms

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Add the headers."""
        now_ms = self._clock.now_ms()
        headers: list[tuple[str, bytes | None]] = list(record.headers)
        if all(name != ID_HEADER for name, _ in headers):
            number = next(self._numbers)
            headers.append((ID_HEADER, self._prefix + number.to_bytes(8, "big")))
        headers.append((TIME_HEADER, b"%d" % now_ms))
        self._note(record.topic, _sent_ms(headers, now_ms), now_ms)
        return ProducerRecord(
            record.topic,
            record.value,
            record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
            headers=headers,
        )

    def on_acknowledgement(self, metadata: "RecordMetadata", error: Exception | None) -> None:
        """Count what failed."""
        if error is not None:
            now_ms = self._clock.now_ms()
            self._note(metadata.topic, now_ms, now_ms, records=0, failed=1)

    def on_consume(self, records: "ConsumerRecords") -> "ConsumerRecords":
        """Count records by when they were first sent."""
        now_ms = self._clock.now_ms()
        for each in records:
            self._note(each.topic, _sent_ms(each.headers, each.timestamp), now_ms)
        return records

    def counts(self) -> list[AuditCount]:
        """What was counted and is not in the file yet, in order of topics and times."""
        with self._lock:
            return self._rows()

    def close(self) -> None:
        """Write what is left into the file."""
        with self._lock:
            self._write()

    # -- inside -------------------------------------------------------------------------------------------

    def _note(
        self, topic: str, sent_ms: Millis, now_ms: Millis, *, records: int = 1, failed: int = 0
    ) -> None:
        delay_ms = max(0, now_ms - sent_ms)
        with self._lock:
            place = (topic, sent_ms - sent_ms % self._bucket_ms)
            row = self._counts.setdefault(place, [0, 0, 0, 0])
            row[0] += records
            row[1] += failed
            row[2] += delay_ms
            row[3] = max(row[3], delay_ms)
            if self._path is not None and now_ms >= self._write_at_ms:
                self._write()
                self._write_at_ms = now_ms + self._bucket_ms
            elif len(self._counts) > _BUCKETS_MAX:
                del self._counts[min(self._counts, key=lambda each: each[1])]

    def _rows(self) -> list[AuditCount]:
        return [AuditCount(self._tier, *place, *row) for place, row in sorted(self._counts.items())]

    def _write(self) -> None:
        if self._path is None or not self._counts:
            return
        lines = "".join(json.dumps(each._asdict()) + "\n" for each in self._rows())
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            _log.warning("the counts of the audit could not be written: %s", error)
            return  # they stay, and are written with the next
        self._counts.clear()


def audit_id(record: "ConsumerRecord | ProducerRecord") -> bytes | None:
    """The id of a message; None where no interceptor saw it."""
    return next((value for name, value in record.headers if name == ID_HEADER), None)


def read_counts(path: str | os.PathLike[str]) -> list[AuditCount]:
    """The counts in a file of an interceptor.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is none.
    """
    with Path(path).open(encoding="utf-8") as file:
        try:
            return [AuditCount(**json.loads(line)) for line in file]
        except TypeError as error:
            raise ValueError(f"{path} has a line that is no count: {error}") from error


def compare(counts: Iterable[AuditCount], tiers: Sequence[str]) -> list[Difference]:
    """The counts of tiers side by side, for every stretch of time in which one of them has something.

    Args:
        counts: of all tiers and topics; topics of one tier add up, for a copy may have another name.
        tiers: which, in the order of the way; the others are compared with the first.
    """
    sums: dict[tuple[Millis, str], list[int]] = {}
    for each in counts:
        if each.tier in tiers:
            row = sums.setdefault((each.time_ms, each.tier), [0, 0, 0])
            row[0] += each.records
            row[1] += each.delay_sum_ms
            row[2] = max(row[2], each.delay_max_ms)
    found = []
    for time_ms in sorted({time_ms for time_ms, _ in sums}):
        first = sums.get((time_ms, tiers[0]), [0])[0]
        for tier in tiers:
            records, delay_ms, delay_max_ms = sums.get((time_ms, tier), [0, 0, 0])
            average_ms = delay_ms / records if records else 0.0
            found.append(Difference(tier, time_ms, records, first - records, average_ms, delay_max_ms))
    return found


def _sent_ms(headers: Iterable[tuple[str, bytes | None]], otherwise_ms: Millis) -> Millis:
    """When a message was first sent: the first of its times, or else that of the record."""
    for name, value in headers:
        if name == TIME_HEADER and value is not None:
            try:
                return int(value)
            except ValueError:
                break
    return otherwise_ms
