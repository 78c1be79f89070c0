"""The inner loops over records: the framing walk and decoding.

Plain Python that Cython compiles as it stands (the C types are in _loops.pxd); loops.py picks the variant.
The loops are unrolled by hand, because a call per field would cost more than the field. ``source`` is ``data`` as a
pointer in C: slices of it are cut without a check, so only behind a comparison. Nothing here checks a CRC, inflates or
knows a batch header.
"""

from array import array
from typing import Any, TypeAlias

from pkafka.records.errors import invalid

Data: TypeAlias = bytes | bytearray | memoryview

RECORD_BYTES_MIN = 7
"""A record without key, value and headers: seven varints of one byte."""


def long_varint(data: Data, position: int, bytes_max: int) -> tuple[int, int]:
    """(zigzag value, position behind it) of a varint of any length.

    Raises:
        RecordError: INVALID_RECORD when it has more bits than ``bytes_max`` bytes of an int32 or int64 allow.
        IndexError: the data ends inside it.
    """
    raw = 0
    for index in range(bytes_max):
        byte = data[position + index]
        raw |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            # The last byte of an int32 carries 4 bits, that of an int64 one.
            if index == bytes_max - 1 and byte > (0x0F if bytes_max == 5 else 1):
                break
            return raw, position + index + 1
    raise invalid(f"damaged varint at byte {position} of the records")


def walk(data: Data, count: int) -> tuple[int, int, int, int, int]:
    """Check the framing of ``count`` records that must fill ``data`` exactly, without making any object of them.

    Every length must stay inside its record, every record inside the data, and no byte may be left over.

    Args:
        data: the uncompressed records, a flat buffer of bytes.
        count: how many records the batch header claims.

    Returns:
        (smallest timestamp delta, largest one, index of the first record with the largest, number of records
        without a key, number of records whose offset delta is not their index).

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged or the count is wrong.
    """
    position, ts_min, ts_max, ts_max_index, null_keys, misplaced = walk_part(data, 0, 0, count)
    if position != len(data):
        raise invalid(f"{len(data) - position} bytes are left over behind the {count} records")
    return ts_min, ts_max, ts_max_index, null_keys, misplaced


def walk_part(  # noqa: C901 - see the note on top
    data: Data, position: int, index: int, stop: int
) -> tuple[int, int, int, int, int, int]:
    """Check the records ``index`` to ``stop`` - 1, the first of which is at ``position``.

    Returns:
        The position behind them, and what :func:`walk` returns, for these records.

    Raises:
        RecordError: as :func:`walk`.
    """
    first = index
    null_keys = misplaced = 0
    ts_min = ts_max = 0
    ts_max_index = first
    ts_last = 0
    size = len(data)
    try:
        while index < stop:
            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw & 1:
                raise invalid(f"record {index} has a negative length")
            end = position + (raw >> 1)

            position += 1  # behind the attributes, which mean nothing yet
            ts = data[position]
            if ts < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    ts += (byte << 7) - 0x80
                    position += 2
                else:
                    ts, position = long_varint(data, position, 10)
            if ts != ts_last or index == first:
                ts_last = ts
                delta = (ts >> 1) ^ -(ts & 1)
                if index == first:
                    ts_min = ts_max = delta
                elif delta > ts_max:
                    ts_max = delta
                    ts_max_index = index
                elif delta < ts_min:
                    ts_min = delta

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw != index << 1:
                misplaced += 1

            raw = data[position]
            if raw == 1:
                null_keys += 1
                position += 1
            elif raw < 0x80 and not raw & 1:
                position += 1 + (raw >> 1)
            else:
                raw, position = long_varint(data, position, 5)
                if raw == 1:
                    null_keys += 1
                elif raw & 1:
                    raise invalid(f"record {index} has a key of negative length")
                else:
                    position += raw >> 1

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if not raw & 1:
                position += raw >> 1
            elif raw != 1:
                raise invalid(f"record {index} has a value of negative length")

            if data[position] == 0:
                position += 1
            else:
                position = walk_headers(data, position, end, index)
            if position != end or end > size:
                raise invalid(f"record {index} does not end where its length says")
            index += 1
    except IndexError:
        raise invalid(f"record {index} reaches beyond the end of its batch") from None
    return position, ts_min, ts_max, ts_max_index, null_keys, misplaced


def walk_headers(data: Data, position: int, end: int, index: int) -> int:
    """Check the record headers at ``position``; the position behind them."""
    raw, position = long_varint(data, position, 5)
    if raw & 1 or position > end or raw >> 1 > end - position:
        raise invalid(f"record {index} has an impossible number of headers")
    count = raw >> 1
    while count > 0:
        raw, position = long_varint(data, position, 5)
        if raw & 1:
            raise invalid(f"record {index} has a header key of negative length")
        position += raw >> 1
        raw, position = long_varint(data, position, 5)
        if not raw & 1:
            position += raw >> 1
        elif raw != 1:
            raise invalid(f"record {index} has a header value of negative length")
        if position > end:
            raise invalid(f"the headers of record {index} reach beyond its end")
        count -= 1
    return position


def decode_records(  # noqa: C901 - see the note on top
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
    make: type[tuple[Any, ...]],
) -> list[Any]:
    """Decode ``count`` records that must fill ``data`` exactly.

    Args:
        data: the uncompressed records.
        count: how many records the batch header claims.
        base_offset: added to every offset delta.
        base_timestamp: added to every timestamp delta, in ms.
        fixed_timestamp: the timestamp of all records under LogAppendTime, None under CreateTime.
        make: the tuple class of a record: (offset, timestamp, key, value, headers).

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged or the count is wrong.
    """
    position = index = 0
    size = len(data)
    # Times wrap around as in Java; below this delta they cannot.
    ts_safe = 1 << 62 if -(1 << 62) < base_timestamp < 1 << 62 else 0
    records: list[Any] = []
    new = tuple.__new__
    try:
        while index < count:
            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw & 1:
                raise invalid(f"record {index} has a negative length")
            end = position + (raw >> 1)
            if end > size:
                raise invalid(f"record {index} reaches beyond the end of its batch")

            position += 1
            ts = data[position]
            if ts < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    ts += (byte << 7) - 0x80
                    position += 2
                else:
                    ts, position = long_varint(data, position, 10)

            offset = data[position]
            if offset < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    offset += (byte << 7) - 0x80
                    position += 2
                else:
                    offset, position = long_varint(data, position, 5)

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = long_varint(data, position, 5)
            if raw == 1:
                key = None
            elif raw & 1:
                raise invalid(f"record {index} has a key of negative length")
            else:
                stop = position + (raw >> 1)
                key = data[position:stop]
                position = stop

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw == 1:
                value = None
            elif raw & 1:
                raise invalid(f"record {index} has a value of negative length")
            else:
                stop = position + (raw >> 1)
                value = data[position:stop]
                position = stop

            headers: Any = ()
            if data[position] == 0:
                position += 1
            else:
                stop = walk_headers(data, position, end, index)
                headers = decode_headers(data, position)
                position = stop
            if position != end:
                raise invalid(f"record {index} does not end where its length says")
            if fixed_timestamp is not None:
                timestamp = fixed_timestamp
            else:
                timestamp = base_timestamp + ((ts >> 1) ^ -(ts & 1))
                if ts > ts_safe:
                    timestamp = wrap64(timestamp)
            delta = (offset >> 1) ^ -(offset & 1)  # signed, unlike the sum of what it is made of
            records.append(new(make, (base_offset + delta, timestamp, key, value, headers)))
            index += 1
    except IndexError:
        raise invalid(f"record {index} reaches beyond the end of its batch") from None
    if position != size:
        raise invalid(f"{size - position} bytes are left over behind the {count} records")
    return records


def columns_part(  # noqa: C901 - see the note on top
    data: bytes,
    position: int,
    index: int,
    stop: int,
    base_timestamp: int,
    times: Any,  # noqa: ANN401 - an array, or what stands for it in C
    at: int,
    keys: list[bytes | None],
    values: list[bytes | None],
    heads: list[int],
) -> tuple[int, int, int]:
    """Decode the records ``index`` to ``stop`` - 1, the first of which is at ``position``.

    Args:
        data: the uncompressed records of a batch.
        base_timestamp: added to every timestamp delta, in ms.
        times: where the timestamps go: that of record ``index`` to ``at + index``.
        at: see ``times``.
        keys, values: appended to.
        heads: appended to, for every record: the position of its headers, 0 without any.

    Returns:
        (position behind them, how many have a key, how many have an offset delta that is not their index).

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged.
    """
    source = data
    size = len(data)
    with_key = misplaced = 0
    # Times wrap around as in Java; below this delta they cannot.
    ts_safe = 1 << 62 if -(1 << 62) < base_timestamp < 1 << 62 else 0
    ts_last = 0
    timestamp = base_timestamp
    try:
        while index < stop:
            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw & 1:
                raise invalid(f"record {index} has a negative length")
            end = position + (raw >> 1)
            if end > size:
                raise invalid(f"record {index} reaches beyond the end of its batch")

            position += 1  # behind the attributes, which mean nothing yet
            ts = data[position]
            if ts < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    ts += (byte << 7) - 0x80
                    position += 2
                else:
                    ts, position = long_varint(data, position, 10)
            if ts != ts_last:
                ts_last = ts
                timestamp = base_timestamp + ((ts >> 1) ^ -(ts & 1))
                if ts > ts_safe:
                    timestamp = wrap64(timestamp)
            times[at + index] = timestamp

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw != index << 1:
                misplaced += 1

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                raw, position = long_varint(data, position, 5)
            if raw == 1:
                keys.append(None)
            elif raw & 1:
                raise invalid(f"record {index} has a key of negative length")
            else:
                place = position + (raw >> 1)
                if place > end:
                    raise invalid(f"the key of record {index} reaches beyond its end")
                with_key += 1
                keys.append(source[position:place])
                position = place

            raw = data[position]
            if raw < 0x80:
                position += 1
            else:
                byte = data[position + 1]
                if byte < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 2
                else:
                    raw, position = long_varint(data, position, 5)
            if raw == 1:
                values.append(None)
            elif raw & 1:
                raise invalid(f"record {index} has a value of negative length")
            else:
                place = position + (raw >> 1)
                if place > end:
                    raise invalid(f"the value of record {index} reaches beyond its end")
                values.append(source[position:place])
                position = place

            if data[position] == 0:
                position += 1
                heads.append(0)
            else:
                heads.append(position)
                position = walk_headers(data, position, end, index)
            if position != end:
                raise invalid(f"record {index} does not end where its length says")
            index += 1
    except IndexError:
        raise invalid(f"record {index} reaches beyond the end of its batch") from None
    return position, with_key, misplaced


def decode_columns(
    data: bytes, count: int, base_timestamp: int
) -> tuple[list[bytes | None] | None, list[bytes | None], Any, list[int] | None, bool]:
    """Decode ``count`` records that must fill ``data`` exactly.

    Args:
        data: the uncompressed records of a batch.
        count: how many records the header of the batch claims.
        base_timestamp: added to every timestamp delta, in ms.

    Returns:
        (keys, or None where no record has one; values; an array of timestamps in ms; the positions of the headers in
        ``data``, 0 for none, or None where no record has any; whether every offset delta is the record's index).

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged or the count is wrong.
    """
    times = new_times(data, count)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    heads: list[int] = []
    position, with_key, misplaced = columns_part(
        data, 0, 0, count, base_timestamp, times, 0, keys, values, heads
    )
    if position != len(data):
        raise invalid(f"{len(data) - position} bytes are left over behind the {count} records")
    return (keys if with_key else None, values, times, heads if any(heads) else None, misplaced == 0)


def decode_batches(
    data: bytes, starts: list[int], ends: list[int], counts: list[int], base_timestamps: list[int]
) -> tuple[list[bytes | None] | None, list[bytes | None], Any, list[int] | None, bool]:
    """Decode the records of several batches into one set of columns.

    Args:
        data: what the batches stand in.
        starts, ends: where the uncompressed records of each begin and end in ``data``.
        counts: how many records each claims.
        base_timestamps: added to every timestamp delta of each, in ms.

    Returns:
        As :func:`decode_columns`; whether every offset delta is the record's index in its own batch.

    Raises:
        RecordError: INVALID_RECORD, the framing of one is damaged or a count is wrong.
    """
    times = new_times(data, sum(counts))
    view = times  # in C a view, which is made once and not for every batch
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    heads: list[int] = []
    with_key = misplaced = at = 0
    for batch in range(len(starts)):
        count = counts[batch]
        position, keyed, elsewhere = columns_part(
            data, starts[batch], 0, count, base_timestamps[batch], view, at, keys, values, heads
        )
        if position != ends[batch]:
            raise invalid("the records of a batch do not end where its length says")
        with_key += keyed
        misplaced += elsewhere
        at += count
    return (keys if with_key else None, values, times, heads if any(heads) else None, misplaced == 0)


def new_times(data: bytes, count: int) -> "array[int]":
    """Room for the timestamps of so many records, if ``data`` can hold so many."""
    if not 0 <= count <= len(data) // RECORD_BYTES_MIN:
        raise invalid(f"{len(data)} bytes cannot be {count} records")
    return array("q", bytes(8 * count))


def offset_deltas(data: bytes, count: int) -> list[int]:
    """The offset deltas of ``count`` records that :func:`decode_columns` has checked."""
    deltas: list[int] = []
    position = 0
    for _ in range(count):
        raw, position = long_varint(data, position, 5)
        end = position + (raw >> 1)
        _, position = long_varint(data, position + 1, 10)
        raw, position = long_varint(data, position, 5)
        deltas.append((raw >> 1) ^ -(raw & 1))
        position = end
    return deltas


def wrap64(value: int) -> int:
    """What an addition of int64 leaves of ``value``."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def decode_headers(data: bytes, position: int) -> tuple[tuple[str, bytes | None], ...]:
    """The record headers at ``position``, which :func:`walk_headers` has checked."""
    raw, position = long_varint(data, position, 5)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(raw >> 1):
        raw, position = long_varint(data, position, 5)
        stop = position + (raw >> 1)
        key = data[position:stop].decode("utf-8", "replace")  # as Java does; the broker does not look either
        raw, position = long_varint(data, stop, 5)
        if raw == 1:
            headers.append((key, None))
        else:
            stop = position + (raw >> 1)
            headers.append((key, data[position:stop]))
            position = stop
    return tuple(headers)
