"""Decodes record sets of every format and codec into records.

For clients, tools and the coordinators that load their own topics. The broker's data path never comes here:
it looks at headers (batch.py) and lets validation.py walk.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from pkafka.records import legacy
from pkafka.records.batch import (
    ATTRIBUTE_CODEC,
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
    crc_is_valid,
    peek,
    read_header,
)
from pkafka.records.checksum import crc32c
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec, codec_of, decompress
from pkafka.records.errors import RecordError, corrupt
from pkafka.records.loops import decode_batches, decode_columns, decode_records, offset_deltas

INFLATED_BYTES_MAX: Final = 1 << 30
"""The default cap on one inflated batch: a reader trusts its broker more than a broker its producers."""
_BASE_OFFSET_MAX: Final = (1 << 63) - (1 << 31)
_MAGIC_PEEK: Final = 17
_SMALLEST_LENGTH: Final = 14
_RUN_BYTES_MAX: Final = 1 << 18
"""What of a run is decoded at once: more would leave the cache, and make more than the caller may want."""


class Record(NamedTuple):
    """One record; ``timestamp`` in ms since the epoch, -1 when the format has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def iter_entries(buffer: Buffer) -> Iterator[tuple[int, int, int]]:
    """(position, size, magic) of every whole batch or old message; a partial one at the end is left out.

    Raises:
        RecordError: CORRUPT_MESSAGE, a length or magic that no format has.
    """
    position = 0
    while len(buffer) - position >= _MAGIC_PEEK:
        _, size, magic = peek(buffer, position)
        if size - LOG_OVERHEAD < _SMALLEST_LENGTH:
            raise corrupt(
                f"Record size {size - LOG_OVERHEAD} is less than the minimum record overhead ({_SMALLEST_LENGTH})"
            )
        if not 0 <= magic <= 2:
            raise corrupt(f"Invalid magic found in record: {magic}")
        if size > len(buffer) - position:
            return
        yield position, size, magic
        position += size


def read_records(
    buffer: Buffer,
    *,
    check_crc: bool = True,
    from_offset: int = 0,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
) -> Iterator[Record]:
    """The data records of a record set in order, those of control batches left out.

    Args:
        buffer: batches back to back, as a fetch returns them: the first may begin before the wanted offset,
            the last may be cut off.
        check_crc: whether to compare checksums (check.crcs).
        from_offset: leave out the records before it.
        inflated_bytes_max: the cap on one inflated batch.

    Raises:
        RecordError: CORRUPT_MESSAGE or INVALID_RECORD, a batch is damaged.
    """
    for header, records in read_batches(
        buffer, check_crc=check_crc, from_offset=from_offset, inflated_bytes_max=inflated_bytes_max
    ):
        if header.is_control:
            continue
        if header.base_offset >= from_offset:
            yield from records
        else:
            for record in records:
                if record.offset >= from_offset:
                    yield record


def read_batches(
    buffer: Buffer,
    *,
    check_crc: bool = True,
    from_offset: int = 0,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every batch with its records, control batches too (see control.py for what theirs mean).

    An old message, compressed or not, comes as a batch whose header has its magic and no producer. Batches
    that end before ``from_offset`` are left out without a look at their records.

    Raises:
        RecordError: CORRUPT_MESSAGE or INVALID_RECORD, a batch is damaged.
    """
    view = memoryview(buffer)
    for position, size, magic in iter_entries(view):
        if magic < 2:
            yield _read_legacy(view, position, check_crc, inflated_bytes_max)
            continue
        header = read_header(view, position)
        if header.last_offset < from_offset:
            continue
        if check_crc and not crc_is_valid(view, position, size):
            raise corrupt(f"the batch at offset {header.base_offset} does not match its checksum")
        yield header, decode_batch(view, position, header, inflated_bytes_max=inflated_bytes_max)


def scan(buffer: Buffer) -> tuple[list[tuple[int, BatchHeader | None]], RecordError | None]:
    """Every whole batch of a record set, for :func:`decode_columns_at`: nothing of it is decoded but headers.

    Returns:
        (position, header; None for an old message) of each; and what is wrong with the framing behind them, if
        anything is.
    """
    view = memoryview(buffer)
    found: list[tuple[int, BatchHeader | None]] = []
    position, size = 0, len(view)
    while size - position >= BATCH_OVERHEAD:
        header = BatchHeader._make(HEADER.unpack_from(view, position))
        if header.magic != 2 or header.batch_length < BATCH_OVERHEAD - LOG_OVERHEAD:
            break
        following = position + header.batch_length + LOG_OVERHEAD
        if following > size:
            return found, None
        found.append((position, header))
        position = following
    try:
        for at, _, magic in iter_entries(view[position:]):
            found.append((position + at, None if magic < 2 else read_header(view, position + at)))
    except RecordError as error:
        return found, error
    return found, None


def decode_columns_at(
    view: memoryview,
    position: int,
    header: BatchHeader | None,
    *,
    check_crc: bool = True,
    from_offset: int = 0,
    skip: Callable[[BatchHeader], bool] | None = None,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
) -> tuple[BatchHeader, RecordColumns | None]:
    """One batch that :func:`scan` found, its records as columns; those before ``from_offset`` are left out.

    Args:
        skip: asked about a batch whose checksum is right; one that is skipped comes without its records, which are
            not decoded.

    Returns:
        Its header, and its records where it has any.

    Raises:
        RecordError: CORRUPT_MESSAGE or INVALID_RECORD, the batch is damaged.
    """
    if header is None:
        header, records = _read_legacy(view, position, check_crc, inflated_bytes_max)
        columns = RecordColumns.of(records)
    else:
        end = position + header.batch_length + LOG_OVERHEAD
        if check_crc and crc32c(view[position + ATTRIBUTES_POSITION : end]) != header.crc:
            raise corrupt(f"the batch at offset {header.base_offset} does not match its checksum")
        if skip is not None and skip(header):
            return header, None
        columns = _columns(view, position, header, inflated_bytes_max)
    if header.base_offset < from_offset:
        columns = columns.part(bisect_left(columns.offsets, from_offset))
    return header, columns if columns.values else None


def decode_run_at(
    view: memoryview, batches: Sequence[tuple[int, BatchHeader | None]], index: int, *, check_crc: bool = True
) -> tuple[int, RecordColumns | None]:
    """Batches in a row whose records fit one set of columns, from ``batches[index]`` on: less work than each alone.

    Those that have neither codec nor marker nor transaction nor holes, come with one time per record and were appended
    under one leader.

    Args:
        batches: what :func:`scan` found.

    Returns:
        The index behind them, and their records; None where fewer than two go together or one of them is damaged, in
        which case :func:`decode_columns_at` says what is wrong with it.
    """
    first = batches[index][1]
    if first is None or first.attributes:
        return index, None
    offset, epoch = first.base_offset, first.partition_leader_epoch
    begin = batches[index][0]
    starts: list[int] = []
    ends: list[int] = []
    counts: list[int] = []
    base_timestamps: list[int] = []
    for stop in range(index, len(batches)):
        position, header = batches[stop]
        if header is None:
            break
        (
            base_offset,
            length,
            leader_epoch,
            _,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            _,
            _,
            _,
            _,
            count,
        ) = header
        end = position + length + LOG_OVERHEAD
        if (
            attributes
            or base_offset != offset
            or leader_epoch != epoch
            or count != last_delta + 1
            or count <= 0
            or end - begin > _RUN_BYTES_MAX
            or (check_crc and crc32c(view[position + ATTRIBUTES_POSITION : end]) != crc)
        ):
            break
        starts.append(position + BATCH_OVERHEAD - begin)
        ends.append(end - begin)
        counts.append(count)
        base_timestamps.append(base_timestamp)
        offset += count
    if len(starts) < 2 or not 0 <= first.base_offset <= offset <= _BASE_OFFSET_MAX:
        return index, None
    data = bytes(view[begin : begin + ends[-1]])
    try:
        keys, values, times, heads, in_order = decode_batches(data, starts, ends, counts, base_timestamps)
    except RecordError:
        return index, None
    if not in_order:
        return index, None
    offsets = range(first.base_offset, offset)
    return index + len(starts), RecordColumns(offsets, times, keys, values, data=data, heads=heads)


def _columns(view: memoryview, position: int, header: BatchHeader, bytes_max: int) -> RecordColumns:
    data = _records_data(view, position, header, bytes_max)
    count, base = header.records_count, header.base_offset
    keys, values, times, heads, in_order = decode_columns(data, count, header.base_timestamp)
    offsets: Sequence[int] = range(base, base + count)
    if not in_order:
        offsets = [base + delta for delta in offset_deltas(data, count)]
    if header.timestamp_type:
        times = (header.max_timestamp,) * count
    return RecordColumns(offsets, times, keys, values, data=data, heads=heads)


def decode_batch(
    view: memoryview, position: int, header: BatchHeader, *, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> list[Record]:
    """The records of the v2 batch at ``position``, whose header and checksum have been looked at.

    Raises:
        RecordError: CORRUPT_MESSAGE or INVALID_RECORD, the records are damaged.
    """
    data = _records_data(view, position, header, inflated_bytes_max)
    fixed = header.max_timestamp if header.timestamp_type else None
    records: list[Record] = decode_records(
        data, header.records_count, header.base_offset, header.base_timestamp, fixed, Record
    )
    return records


def _records_data(view: memoryview, position: int, header: BatchHeader, bytes_max: int) -> bytes:
    """The uncompressed records of a batch."""
    if not 0 <= header.base_offset <= _BASE_OFFSET_MAX:
        raise corrupt(f"no batch can have the base offset {header.base_offset}")
    body = view[position + BATCH_OVERHEAD : position + header.size_bytes]
    if not header.attributes & ATTRIBUTE_CODEC:
        return bytes(body)
    return decompress(codec_of(header.attributes), body, bytes_max=bytes_max)


def _read_legacy(
    view: memoryview, position: int, check_crc: bool, bytes_max: int
) -> tuple[BatchHeader, list[Record]]:
    outer = legacy.read_message(view, position, check_crc=check_crc)
    messages = [outer]
    if outer.codec is not Codec.NONE:
        messages = legacy.inner_messages(outer, bytes_max=bytes_max, check_crc=check_crc)
    records = [Record(each.offset, each.timestamp, each.key, each.value, ()) for each in messages]
    first = records[0]
    header = BatchHeader(
        base_offset=first.offset,
        batch_length=outer.size_bytes - LOG_OVERHEAD,
        partition_leader_epoch=-1,
        magic=outer.magic,
        crc=outer.crc,
        attributes=outer.attributes & 0x0F,
        last_offset_delta=outer.offset - first.offset,
        base_timestamp=first.timestamp,
        max_timestamp=outer.timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        records_count=len(records),
    )
    return header, records
