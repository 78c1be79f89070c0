"""Figures of a log: sizes of batches and records, codecs and what they save, keys, gaps, times, producers.

One pass, memory that does not grow with the log: distributions are counted by powers of two, distinct keys are
estimated when there are many, and producers are listed up to a number.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pkafka.records import legacy
from pkafka.records.batch import BATCH_OVERHEAD, BatchHeader
from pkafka.records.compression import codec_of, decompress
from pkafka.records.control import ControlType, decode_key
from pkafka.records.errors import RecordError
from pkafka.records.loops import decode_columns
from pkafka.records.reading import INFLATED_BYTES_MAX
from pkafka.tools.logs.rows import codec_name
from pkafka.tools.logs.segment_walk import Batch, SegmentWalk
from pkafka.tools.logs.selection import EVERYTHING, Selection

_PRODUCERS_LISTED: Final = 1_000
_SKETCH_SIZE: Final = 4_096
_HASHES: Final = 1 << 64


@dataclass
class Sizes:
    """The distribution of a number: exact ends and mean, and how many values need how many bits."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0
    by_bits: dict[int, int] = field(default_factory=dict)

    def add(self, value: int, times: int = 1) -> None:
        """Count a value."""
        self.least = value if not self.count else min(self.least, value)
        self.most = max(self.most, value)
        self.count += times
        self.total += value * times
        bits = value.bit_length()
        self.by_bits[bits] = self.by_bits.get(bits, 0) + times

    def add_all(self, values: Iterable[int]) -> None:
        """Count values."""
        counts: dict[int, int] = {}
        for value in values:
            counts[value] = counts.get(value, 0) + 1
        for value, times in counts.items():
            self.add(value, times)

    def at_most(self, share: float) -> int:
        """What this share of the values does not exceed, rounded up to one less than a power of two."""
        left = share * self.count
        for bits in sorted(self.by_bits):
            left -= self.by_bits[bits]
            if left <= 0:
                return min((1 << bits) - 1, self.most)
        return self.most

    def document(self) -> dict[str, object]:
        """As JSON values."""
        mean = round(self.total / self.count, 1) if self.count else None
        return {
            "min": self.least,
            "mean": mean,
            "p50_at_most": self.at_most(0.5),
            "p99_at_most": self.at_most(0.99),
            "max": self.most,
        }


class DistinctKeys:
    """How many different keys there are: exact up to 4096, estimated from the smallest hashes above (within 5 %)."""

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._kept: set[int] = set()

    def add(self, key: bytes) -> None:
        """Count a key."""
        hashed = -int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
        if len(self._heap) < _SKETCH_SIZE:
            if hashed not in self._kept:
                self._kept.add(hashed)
                heapq.heappush(self._heap, hashed)
        elif hashed > self._heap[0] and hashed not in self._kept:
            self._kept.add(hashed)
            self._kept.remove(heapq.heapreplace(self._heap, hashed))

    @property
    def count(self) -> int:
        """How many."""
        if len(self._heap) < _SKETCH_SIZE:
            return len(self._heap)
        return round((_SKETCH_SIZE - 1) * _HASHES / -self._heap[0])

    @property
    def is_exact(self) -> bool:
        """Whether that is not an estimate."""
        return len(self._heap) < _SKETCH_SIZE


@dataclass
class CodecFigures:
    """What one codec was used for; bytes are those of records, without the headers of batches."""

    batches: int = 0
    records: int = 0
    compressed_bytes: int = 0
    plain_bytes: int = 0


@dataclass
class ProducerFigures:
    """What one producer wrote."""

    epoch: int
    first_offset: int
    batches: int = 0
    records: int = 0
    last_offset: int = 0


@dataclass
class LogStats:
    """The figures of one log."""

    path: Path
    files: int = 0
    size_bytes: int = 0
    records: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    committed: int = 0
    aborted: int = 0
    damaged_batches: int = 0
    damaged_bytes: int = 0
    first_offset: int = -1
    last_offset: int = -1
    gaps: int = 0
    missing_offsets: int = 0
    first_timestamp: int = -1
    last_timestamp: int = -1
    late_batches: int = 0
    """Batches whose largest time is before that of an earlier one."""
    null_keys: int = 0
    null_values: int = 0
    headers: int = 0
    batch_bytes: Sizes = field(default_factory=Sizes)
    batch_records: Sizes = field(default_factory=Sizes)
    key_bytes: Sizes = field(default_factory=Sizes)
    value_bytes: Sizes = field(default_factory=Sizes)
    keys: DistinctKeys = field(default_factory=DistinctKeys)
    codecs: dict[str, CodecFigures] = field(default_factory=dict)
    formats: dict[int, int] = field(default_factory=dict)
    leader_epochs: set[int] = field(default_factory=set)
    producers: dict[int, ProducerFigures] = field(default_factory=dict)
    producers_unlisted: int = 0
    """Batches of producers beyond those that are listed."""

    def read(self, path: Path, selection: Selection, on_read: Callable[[int], None] | None = None) -> None:
        """Add the figures of a segment.

        Raises:
            OSError: it cannot be read.
        """
        self.files += 1
        walk = SegmentWalk(
            path,
            wanted=None if selection == EVERYTHING else selection.may_have,
            resync=True,
            on_damage=self._damage,
            on_read=on_read,
        )
        for batch in walk:
            self.size_bytes += batch.size
            if not batch.is_valid:
                self.damaged_batches += 1
                self._damage(batch.position, batch.size, "")
                continue
            try:
                self._batch(batch)
            except RecordError:
                self.damaged_batches += 1
        self.damaged_bytes += max(walk.size - walk.end, 0)

    def _damage(self, position: int, size: int, reason: str) -> None:
        self.damaged_bytes += size

    def _batch(self, batch: Batch) -> None:
        header = batch.header
        self.batch_bytes.add(batch.size)
        self.formats[header.magic] = self.formats.get(header.magic, 0) + 1
        first, last, count = self._records(batch)
        self.batch_records.add(count)
        self.records += 0 if header.is_control else count
        if self.first_offset < 0:
            self.first_offset = first
        elif first > self.last_offset + 1:
            self.gaps += 1
            self.missing_offsets += first - self.last_offset - 1
        holes = last - first + 1 - count
        self.missing_offsets += max(holes, 0)
        self.gaps += holes > 0
        self.last_offset = last
        self._time(header)
        if header.partition_leader_epoch >= 0:
            self.leader_epochs.add(header.partition_leader_epoch)
        self.transactional_batches += header.is_transactional
        if header.producer_id >= 0:
            self._producer(header, count)

    def _time(self, header: BatchHeader) -> None:
        if header.max_timestamp < 0:
            return
        self.late_batches += header.max_timestamp < self.last_timestamp
        self.last_timestamp = max(self.last_timestamp, header.max_timestamp)
        first = min(header.base_timestamp, header.max_timestamp)
        if self.first_timestamp < 0 or first < self.first_timestamp:
            self.first_timestamp = first

    def _producer(self, header: BatchHeader, count: int) -> None:
        found = self.producers.get(header.producer_id)
        if found is None:
            if len(self.producers) >= _PRODUCERS_LISTED:
                self.producers_unlisted += 1
                return
            found = ProducerFigures(header.producer_epoch, header.base_offset)
            self.producers[header.producer_id] = found
        found.epoch = header.producer_epoch
        found.batches += 1
        found.records += 0 if header.is_control else count
        found.last_offset = header.last_offset

    def _records(self, batch: Batch) -> tuple[int, int, int]:
        """Count what is in a batch: (first offset, last offset, number of records)."""
        header = batch.header
        if header.magic < 2:
            return self._old_records(batch)
        body = batch.view[batch.at + BATCH_OVERHEAD : batch.at + batch.size]
        data = decompress(codec_of(header.attributes), body, bytes_max=INFLATED_BYTES_MAX)
        count = header.records_count
        keys, values, _, heads, _ = decode_columns(data, count, header.base_timestamp)
        self._codec(header, count, len(body), len(data))
        if header.is_control:
            self.control_batches += 1
            kind = decode_key(keys[0]) if keys else ControlType.UNKNOWN
            self.committed += kind is ControlType.COMMIT
            self.aborted += kind is ControlType.ABORT
        else:
            self._contents(keys if keys is not None else [None] * count, values)
            self.headers += sum(map(bool, heads or ()))
        return header.base_offset, header.last_offset, count

    def _old_records(self, batch: Batch) -> tuple[int, int, int]:
        header = batch.header
        view = batch.view[batch.at : batch.at + batch.size]
        messages = list(legacy.deep_messages(view, bytes_max=INFLATED_BYTES_MAX))
        self._codec(header, len(messages), batch.size, sum(each.size_bytes for each in messages))
        self._contents([each.key for each in messages], [each.value for each in messages])
        return messages[0].offset, header.last_offset, len(messages)

    def _codec(self, header: BatchHeader, count: int, compressed: int, plain: int) -> None:
        figures = self.codecs.setdefault(codec_name(header.codec), CodecFigures())
        figures.batches += 1
        figures.records += count
        figures.compressed_bytes += compressed
        figures.plain_bytes += plain

    def _contents(self, keys: list[bytes | None], values: list[bytes | None]) -> None:
        with_key = [key for key in keys if key is not None]
        self.null_keys += len(keys) - len(with_key)
        self.null_values += values.count(None)
        self.key_bytes.add_all(map(len, with_key))
        self.value_bytes.add_all(len(value) for value in values if value is not None)
        for key in set(with_key):
            self.keys.add(key)
