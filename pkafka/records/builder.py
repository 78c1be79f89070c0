"""Writes v2 batches.

Not the place where offsets are assigned (storage does) or where old formats are written (legacy.py).
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from pkafka.records import varint
from pkafka.records.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    write_crc,
)
from pkafka.records.compression import Codec, compress
from pkafka.records.loops import append_record

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
RecordFields: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp in ms since the epoch, key, value, headers."""


NO_HEADERS: Final = b"\x00"


def encode_headers(headers: Headers) -> bytes:
    """The record headers with their count in front."""
    parts = [varint.encode(len(headers))]
    for key, value in headers:
        raw = key.encode()
        parts += (varint.encode(len(raw)), raw)
        parts += (b"\x01",) if value is None else (varint.encode(len(value)), value)
    return b"".join(parts)


def encode_records(records: Iterable[RecordFields]) -> tuple[bytearray, int, int, int]:
    """The records of a batch, uncompressed: (bytes, count, base timestamp, largest timestamp)."""
    body = bytearray()
    count = 0
    base_timestamp = max_timestamp = NO_TIMESTAMP
    append = append_record
    for timestamp, key, value, headers in records:
        if count == 0:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        encoded = encode_headers(headers) if headers else NO_HEADERS
        append(body, timestamp - base_timestamp, count, key, value, encoded)
        count += 1
    return body, count, base_timestamp, max_timestamp


def build_batch(
    records: Iterable[RecordFields],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    timestamp_type: int = 0,
) -> bytearray:
    """A whole v2 batch, CRC included.

    Args:
        records: (timestamp in ms, key, value, headers) each; at least one.
        codec: the compression; ``level`` is the codec's own, None its default.
        timestamp_type: 0 = CreateTime, 1 = LogAppendTime.

    Raises:
        ValueError: there is no record.
        OverflowError: two timestamps are more than 2^63 ms apart.
    """
    body, count, base_timestamp, max_timestamp = encode_records(records)
    if count == 0:
        raise ValueError("a batch needs at least one record")
    return finish_batch(
        body,
        count,
        base_timestamp,
        max_timestamp,
        codec=codec,
        level=level,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        leader_epoch=leader_epoch,
        timestamp_type=timestamp_type,
    )


def finish_batch(
    body: bytearray,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    timestamp_type: int = 0,
) -> bytearray:
    """Compress encoded records and put a header in front; the offset deltas must run from 0 to ``count`` - 1."""
    attributes = codec | timestamp_type << 3
    if transactional:
        attributes |= ATTRIBUTE_TRANSACTIONAL
    if control:
        attributes |= ATTRIBUTE_CONTROL
    payload: bytes | bytearray = body if codec == Codec.NONE else compress(codec, body, level)
    batch = bytearray(BATCH_OVERHEAD)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
        leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch += payload
    write_crc(batch, 0, len(batch))
    return batch


class BatchBuilder:
    """Gathers records for one partition until the batch is full; what a producer fills while it waits.

    Not safe for concurrent use.

    Args:
        bytes_max: the size, before compression and header included, at which the batch is full; the first
            record always fits (batch.size does not limit single records).
        codec: the compression.
        level: the codec's own level.
    """

    def __init__(self, bytes_max: int, *, codec: Codec = Codec.NONE, level: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.codec = codec
        self.level = level
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self._body = bytearray()

    @property
    def size_bytes(self) -> int:
        """The size so far, before compression, header included."""
        return BATCH_OVERHEAD + len(self._body)

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> bool:
        """Add a record; False when it does not fit and was not added."""
        body = self._body
        before = len(body)
        base = timestamp_ms if self.count == 0 else self.base_timestamp
        encoded = encode_headers(headers) if headers else NO_HEADERS
        append_record(body, timestamp_ms - base, self.count, key, value, encoded)
        if BATCH_OVERHEAD + len(body) > self.bytes_max and self.count:
            del body[before:]
            return False
        self.base_timestamp = base
        if timestamp_ms > self.max_timestamp or self.count == 0:
            self.max_timestamp = timestamp_ms
        self.count += 1
        return True

    def build(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytearray:
        """The finished batch; may be called again, with another producer epoch or sequence after a retry.

        Raises:
            ValueError: no record has been added.
        """
        if self.count == 0:
            raise ValueError("a batch needs at least one record")
        return finish_batch(
            self._body,
            self.count,
            self.base_timestamp,
            self.max_timestamp,
            codec=self.codec,
            level=self.level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
