"""What compaction leaves of one batch: the batch itself, a smaller one, only its header, or nothing.

Records keep their offsets; a rewritten batch keeps base offset, last offset, producer and sequence, so that no producer
and no follower notices. A batch in which a record without a value stays, or a marker that has outlived its records,
gets a delete horizon (KIP-534): the time from which these may go takes the place of the base timestamp.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pkafka.model import NO_TIMESTAMP, Millis, Offset
from pkafka.records import legacy
from pkafka.records.batch import (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    Buffer,
    crc_is_valid,
    write_crc,
)
from pkafka.records.compression import Codec, codec_of, compress, decompress
from pkafka.records.loops import retime
from pkafka.records.reading import INFLATED_BYTES_MAX
from pkafka.storage.batch_scan import DamagedBatchError, StoredBatch
from pkafka.storage.compaction import CleanedTransactions, LastRecord, is_empty, is_last_of_producer
from pkafka.storage.offset_map import OffsetMap
from pkafka.storage.transaction_index import AbortedTransaction

_MODERN: Final = 2
_WORD: Final = 1 << 64


@dataclass(slots=True)
class RecordCounts:
    """Of a walk over batches: records that were read, that stayed, and that had no key."""

    read: int = 0
    kept: int = 0
    keyless: int = 0


def map_batch(
    batch: StoredBatch, offsets: OffsetMap, transactions: CleanedTransactions, start_offset: Offset
) -> bool:
    """Note the keys of a batch of the dirty part; those of aborted transactions do not count.

    Returns:
        False when the map is full.

    Raises:
        RecordError: the batch is damaged.
    """
    if batch.is_control:
        transactions.take_marker(batch)
        return True
    if batch.magic == _MODERN:
        if transactions.is_aborted(batch):
            return True
        count = _count(batch)
        return not count or offsets.put_batch(_inflated(batch), count, batch.base_offset, start_offset)
    return all(
        message.key is None or offsets.put(message.key, message.offset, start_offset)
        for message in legacy.deep_messages(batch.data, bytes_max=INFLATED_BYTES_MAX, check_crc=False)
    )


class BatchFilter:
    """The rules for one round over a log; batches come in order.

    Args:
        offsets: the keys of the dirty part.
        transactions: of the whole log.
        last_records: of its active producers.
        end: where the round ends; the batch before it leaves at least its header, so that the last offset stays known.
        now_ms: when the round began.
        delete_retention_ms: of the topic.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        *,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        end: Offset,
        now_ms: Millis,
        delete_retention_ms: Millis,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._end = end
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self.counts = RecordCounts()

    def filter(
        self, batch: StoredBatch, *, keeps_old_tombstones: bool
    ) -> tuple[Buffer | None, AbortedTransaction | None]:
        """What stays of a batch.

        Args:
            batch: the next one of the log.
            keeps_old_tombstones: whether messages of the old formats without a value stay, which know no horizon.

        Returns:
            ``batch.data`` itself when nothing changes, None when nothing stays; and the aborted transaction that the
            transaction index must name because the batch is its marker.

        Raises:
            RecordError: the records are damaged.
            DamagedBatchError: the checksum of what was to be rewritten is wrong.
        """
        if batch.magic < _MODERN:
            return self._filter_old(batch, keeps_old_tombstones), None
        aborted = None
        if batch.is_control:
            is_done, aborted = self._transactions.take_marker(batch)
        else:
            is_done = self._transactions.is_aborted(batch)
        left: Buffer | None
        if is_done and (not batch.is_control or self._horizon_is_over(batch)):
            self.counts.read += _count(batch)
            left = None
        elif batch.is_control:
            left = self._filter_marker(batch, is_done)
        else:
            left = self._filter_records(batch)
        if left is None and (
            batch.last_offset + 1 == self._end or is_last_of_producer(batch, self._last_records)
        ):
            left = batch.data if is_empty(batch) else _header_of(batch)
        return left, aborted

    def _horizon_is_over(self, batch: StoredBatch) -> bool:
        return bool(batch.attributes & ATTRIBUTE_DELETE_HORIZON) and _base_timestamp(batch) <= self._now_ms

    def _filter_marker(self, batch: StoredBatch, is_done: bool) -> Buffer | None:
        count = _count(batch)
        self.counts.read += count
        self.counts.kept += count
        if not count:
            return None
        if is_done and not batch.attributes & ATTRIBUTE_DELETE_HORIZON:
            return self._rewritten(batch, _inflated(batch), count, None, sets_horizon=True)
        return batch.data

    def _filter_records(self, batch: StoredBatch) -> Buffer | None:
        count = _count(batch)
        kept_bytes, kept, tombstones, delta_max, keyless = self._offsets.select(
            _inflated(batch), count, batch.base_offset, drop_tombstones=self._horizon_is_over(batch)
        )
        self.counts.read += count
        self.counts.kept += kept
        self.counts.keyless += keyless
        sets_horizon = tombstones > 0 and not batch.attributes & ATTRIBUTE_DELETE_HORIZON
        if kept == count and not sets_horizon:
            return batch.data if count else None
        if not kept:
            return None
        return self._rewritten(batch, kept_bytes, kept, delta_max, sets_horizon=sets_horizon)

    def _rewritten(
        self,
        batch: StoredBatch,
        records: bytes | bytearray,
        count: int,
        delta_max: int | None,
        *,
        sets_horizon: bool,
    ) -> bytearray:
        _check(batch)
        base_timestamp, max_timestamp = _base_timestamp(batch), batch.max_timestamp
        attributes = batch.attributes
        if delta_max is not None and not attributes & ATTRIBUTE_LOG_APPEND_TIME:
            max_timestamp = _wrapped(base_timestamp + delta_max)
        if sets_horizon:
            horizon = self._now_ms + self._delete_retention_ms
            records = retime(bytes(records), count, base_timestamp - horizon)
            base_timestamp = horizon
            attributes |= ATTRIBUTE_DELETE_HORIZON
        codec = codec_of(attributes)
        payload = records if codec is Codec.NONE else compress(codec, records)
        return _batch(batch, payload, attributes, count, base_timestamp, max_timestamp)

    def _filter_old(self, batch: StoredBatch, keeps_tombstones: bool) -> Buffer | None:
        messages = list(legacy.deep_messages(batch.data, bytes_max=INFLATED_BYTES_MAX, check_crc=False))
        kept = [each for each in messages if self._stays(each, keeps_tombstones)]
        self.counts.read += len(messages)
        self.counts.kept += len(kept)
        if len(kept) == len(messages):
            return batch.data
        if not kept:
            return None
        _check(batch)
        return legacy.build_message_set(
            [(each.offset, each.timestamp, each.key, each.value) for each in kept],
            magic=batch.magic,
            codec=codec_of(batch.attributes),
            timestamp_type=int(bool(batch.attributes & ATTRIBUTE_LOG_APPEND_TIME)),
        )

    def _stays(self, message: legacy.Message, keeps_tombstones: bool) -> bool:
        if message.offset > self._offsets.latest_offset:
            return True
        if message.key is None:
            self.counts.keyless += 1
            return False
        has_value = message.value is not None or keeps_tombstones
        return has_value and self._offsets.is_latest(message.key, message.offset)


def _inflated(batch: StoredBatch) -> bytes:
    """The records of a modern batch, uncompressed."""
    codec = codec_of(batch.attributes)
    body = batch.data[BATCH_OVERHEAD:]
    return bytes(body) if codec is Codec.NONE else decompress(codec, body, bytes_max=INFLATED_BYTES_MAX)


def _count(batch: StoredBatch) -> int:
    return int.from_bytes(batch.data[57:61], "big")


def _base_timestamp(batch: StoredBatch) -> Millis:
    return int.from_bytes(batch.data[27:35], "big", signed=True)


def _wrapped(timestamp: int) -> int:
    """As an addition in Java leaves it."""
    return (timestamp + (1 << 63)) % _WORD - (1 << 63)


def _check(batch: StoredBatch) -> None:
    """What gets a new checksum must have been right under the old one."""
    if batch.magic == _MODERN:
        if not crc_is_valid(batch.data, 0, batch.size):
            raise DamagedBatchError(batch.position, "a wrong checksum")
    else:
        legacy.read_message(batch.data)


def _header_of(batch: StoredBatch) -> bytearray:
    """A batch that has lost all its records; what Kafka writes (writeEmptyHeader)."""
    _check(batch)
    attributes = batch.attributes & ~(ATTRIBUTE_CODEC | ATTRIBUTE_DELETE_HORIZON)
    return _batch(batch, b"", attributes, 0, NO_TIMESTAMP, batch.max_timestamp)


def _batch(
    old: StoredBatch,
    payload: bytes | bytearray,
    attributes: int,
    count: int,
    base_timestamp: Millis,
    max_timestamp: Millis,
) -> bytearray:
    batch = bytearray(BATCH_OVERHEAD)
    HEADER.pack_into(
        batch,
        0,
        old.base_offset,
        BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
        old.leader_epoch,
        _MODERN,
        0,
        attributes,
        old.last_offset_delta,
        base_timestamp,
        max_timestamp,
        old.producer_id,
        old.producer_epoch,
        old.base_sequence,
        count,
    )
    batch += payload
    write_crc(batch, 0, len(batch))
    return batch
