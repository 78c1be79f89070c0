"""Writes v2 batches.

Not the place where offsets are assigned (storage does) or where old formats are written (legacy.py).
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from pkafka.model import NO_TIMESTAMP
from pkafka.records import varint
from pkafka.records.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OVERHEAD,
    BEHIND_CRC,
    HEADER,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    UP_TO_CRC,
    BatchHeader,
    Buffer,
    write_crc,
)
from pkafka.records.checksum import crc32c
from pkafka.records.compression import Codec, codec_of, compress
from pkafka.records.loops import append_record, append_records

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


def _encoded(headers: Headers | bytes) -> bytes:
    if isinstance(headers, bytes):
        return headers
    return encode_headers(headers) if headers else NO_HEADERS


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
    attributes = _attributes(codec, timestamp_type, transactional=transactional, control=control)
    content = body if codec == Codec.NONE else compress(codec, body, level)
    behind_crc = BEHIND_CRC.pack(
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    length = BATCH_OVERHEAD - LOG_OVERHEAD + len(content)
    crc = crc32c(content, crc32c(behind_crc))
    batch = bytearray(UP_TO_CRC.pack(base_offset, length, leader_epoch, 2, crc))
    batch += behind_crc
    batch += content
    return batch


def _attributes(codec: Codec, timestamp_type: int, *, transactional: bool, control: bool) -> int:
    attributes = codec | timestamp_type << 3
    if transactional:
        attributes |= ATTRIBUTE_TRANSACTIONAL
    if control:
        attributes |= ATTRIBUTE_CONTROL
    return attributes


def _write_header(
    batch: bytearray, fields: tuple[int, int, int, int, int, int], producer: tuple[int, int, int]
) -> None:
    """Fill the 61 bytes in front of the records that are there, checksum included.

    Args:
        fields: base offset, leader epoch, attributes, number of records, base timestamp, largest timestamp.
        producer: id, epoch, base sequence.
    """
    base_offset, leader_epoch, attributes, count, base_timestamp, max_timestamp = fields
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        *producer,
        count,
    )
    write_crc(batch, 0, len(batch))


class BatchBuilder:
    """Gathers records for one partition until the batch is full; what a producer fills while it waits.

    Not safe for concurrent use.

    Args:
        bytes_max: the size, before compression and header included, at which the batch is full; the first
            record always fits (batch.size does not limit single records).
        codec: the compression.
        level: the codec's own level.
    """

    __slots__ = (
        "_body",
        "_built",
        "base_timestamp",
        "bytes_max",
        "codec",
        "count",
        "level",
        "max_timestamp",
        "size_bytes",
    )

    def __init__(self, bytes_max: int, *, codec: Codec = Codec.NONE, level: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.codec = codec
        self.level = level
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.size_bytes = BATCH_OVERHEAD
        """The size so far, before compression, header included."""
        self._body = bytearray(BATCH_OVERHEAD)  # the header's place is kept free, so that nothing has to move
        self._built: bytearray | None = None

    @classmethod
    def of_batch(cls, data: Buffer, header: BatchHeader) -> "BatchBuilder":
        """A batch that is finished and without holes: it takes nothing, and builds these bytes under other headers.

        Args:
            data: the whole batch; copied.
            header: of it.
        """
        builder = cls(0, codec=codec_of(header.attributes))
        builder.count = header.records_count
        builder.base_timestamp, builder.max_timestamp = header.base_timestamp, header.max_timestamp
        builder.size_bytes = len(data)
        builder._built = bytearray(data)
        return builder

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | bytes = ()
    ) -> bool:
        """Add a record; False when it does not fit and was not added.

        Args:
            headers: or what :func:`encode_headers` made of them.
        """
        body = self._body
        count = self.count
        base = self.base_timestamp if count else timestamp_ms
        append_record(
            body,
            timestamp_ms - base,
            count,
            key,
            value,
            _encoded(headers),
        )
        size = len(body)
        if size > self.bytes_max and count:
            del body[self.size_bytes :]
            return False
        self.size_bytes = size
        if count == 0:
            self.base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.count = count + 1
        return True

    def append_many(
        self,
        timestamp_ms: int,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        headers: Headers | bytes,
        index: int,
        stop: int,
    ) -> int:
        """Add records of one time until the batch is full.

        Args:
            values, keys: those from ``index`` to ``stop`` - 1 are wanted; ``keys`` is None for no keys.
            headers: of every record; or what :func:`encode_headers` made of them.

        Returns:
            The index behind the last one added.

        Raises:
            TypeError: a key or value is not bytes; nothing was added.
        """
        body = self._body
        count = self.count
        base = self.base_timestamp if count else timestamp_ms
        bytes_max = self.bytes_max
        if count and self.size_bytes >= bytes_max:
            return index
        encoded = _encoded(headers)
        end: int = append_records(
            body, values, keys, encoded, index, stop, timestamp_ms - base, count, bytes_max
        )
        if count and end == index + 1 and len(body) > bytes_max:
            # The loop always takes one record; only an empty batch may grow beyond its size by it.
            del body[self.size_bytes :]
            return index
        self.size_bytes = len(body)
        if end > index:
            self.base_timestamp = base
            self.max_timestamp = max(self.max_timestamp, timestamp_ms)
            self.count = count + end - index
        return end

    def build(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytearray:
        """The finished batch; nothing can be added any more.

        May be called again, with another producer epoch or sequence after a retry: the bytes are made once, only
        their header changes. What the last call returned changes with it.

        Raises:
            ValueError: no record has been added.
        """
        if self.count == 0:
            raise ValueError("a batch needs at least one record")
        batch = self._built
        if batch is None:
            batch = self._body
            if self.codec is not Codec.NONE:
                with memoryview(batch) as whole:
                    payload = compress(self.codec, whole[BATCH_OVERHEAD:], self.level)
                batch = bytearray(BATCH_OVERHEAD)
                batch += payload
            self._built = batch
            self._body = bytearray()
            self.bytes_max = 0
        attributes = _attributes(self.codec, 0, transactional=transactional, control=False)
        _write_header(
            batch,
            (0, -1, attributes, self.count, self.base_timestamp, self.max_timestamp),
            (producer_id, producer_epoch, base_sequence),
        )
        return batch
