"""What plain Python does faster in a way of its own than in that of _loops.py.

The walk: producers mostly send records of one shape in a row (same sizes, no headers). In such a run every field
stands at the same distance from the one of the record before, so a slice with a stride gives the column of all
its bytes, and comparing columns checks a run of records with a few operations in C. What is not such a run goes
through the loop of _loops.py. Both say the same of every input.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from pkafka.records import varint
from pkafka.records.errors import invalid

Data: TypeAlias = bytes | bytearray | memoryview
WalkPart: TypeAlias = Callable[[Data, int, int, int], tuple[int, int, int, int, int, int]]

RECORDS_MIN: Final = 24  # in a smaller batch the loop is as fast
_RUN_MIN: Final = 4  # shorter runs are not worth their columns
RUN_START: Final = 64
RUN_MAX: Final = 8192
LOOP_START: Final = 8
LOOP_MAX: Final = 512

# The bytes of the zigzag varints of 0, 1, 2...: one byte up to 63, two up to 8191, three up to 2^20 - 1.
_BLOCK: Final = 8192
_ONE_BYTE: Final = bytes(index << 1 for index in range(64))
_LOW: Final = bytes(index << 1 & 0x7F | 0x80 for index in range(_BLOCK))
_HIGH: Final = bytes(index >> 6 for index in range(_BLOCK))
_MIDDLE: Final = bytes(index >> 6 | 0x80 for index in range(_BLOCK))
_INDEX_MAX: Final = 1 << 20

_FINAL_BYTES: Final = bytes(range(0x80))
_CONTINUED_BYTES: Final = bytes(range(0x80, 0x100))


class Shape(NamedTuple):
    """Where the fields of one record stand, relative to its first byte, and how long it is."""

    stride: int
    constant: tuple[int, ...]  # the bytes of the lengths and of the number of headers
    timestamp: range
    offset: range
    key: tuple[int, int]  # where it begins, and its length, -1 for null
    value: tuple[int, int]


def walk(data: Data, count: int, walk_part: WalkPart) -> tuple[int, int, int, int, int]:
    """As ``_loops.walk``, with the loop to use for what has no common shape."""
    if count < RECORDS_MIN:
        position, low, high, high_index, null_keys, misplaced = walk_part(data, 0, 0, count)
        if position != len(data):
            raise invalid(f"{len(data) - position} bytes are left over behind the {count} records")
        return low, high, high_index, null_keys, misplaced
    data = bytes(data)  # columns of a memoryview are slow, a copy is not
    position = index = null_keys = misplaced = misses = 0
    run_max = RUN_START
    lows: list[int] = []
    highs: list[tuple[int, int]] = []  # negated index, so that max() finds the first of equals
    while index < count:
        found = find_run(data, position, index, min(count - index, run_max))
        if found is None:
            stop = min(count, index + min(LOOP_START << misses, LOOP_MAX))
            position, low, high, high_index, keyless, elsewhere = walk_part(data, position, index, stop)
            misplaced += elsewhere
            misses += 1
            run_max = RUN_START
        else:
            length, shape, times = found
            low, high, high_index = _extremes(times)
            high_index += index
            position += length * shape.stride
            stop = index + length
            keyless = length if shape.key[1] < 0 else 0
            misses = 0
            run_max = min(run_max * 2, RUN_MAX)
        null_keys += keyless
        lows.append(low)
        highs.append((high, -high_index))
        index = stop
    if position != len(data):
        raise invalid(f"{len(data) - position} bytes are left over behind the {count} records")
    highest, negated = max(highs)
    return min(lows), highest, -negated, null_keys, misplaced


def find_run(data: bytes, position: int, index: int, length: int) -> tuple[int, Shape, list[bytes]] | None:
    """A run of records of the shape of the one at ``position``; None when it is short.

    Returns:
        (number of records, their shape, the columns of their timestamp deltas).
    """
    shape = _shape(data, position)
    if shape is None:
        return None
    stride = shape.stride
    expected = _offset_columns(index)
    length = min(length, (len(data) - position) // stride)
    if len(expected) != len(shape.offset):
        return None
    for place in shape.constant:
        length = _prefix(
            _column(data, position + place, stride, length), data[position + place : position + place + 1]
        )
        if length < _RUN_MIN:
            return None
    for place, wanted in zip(shape.offset, expected, strict=True):
        length = min(length, len(wanted))
        if _column(data, position + place, stride, length) != wanted[:length]:
            return None
    times = [_column(data, position + place, stride, length) for place in shape.timestamp]
    for column in times[:-1]:
        length = min(length, _prefix(column, _CONTINUED_BYTES))
    length = min(length, _prefix(times[-1], _FINAL_BYTES))
    if length < _RUN_MIN:
        return None
    return length, shape, [column[:length] for column in times]


def _shape(data: bytes, position: int) -> Shape | None:
    """The shape of the record at ``position``; None when it has headers, long varints or a fault."""
    try:
        start = position
        size, position = _short_varint(data, position)
        constant = list(range(position - start))
        end = position + size
        timestamp = position + 1
        offset = _varint_end(data, timestamp)
        key = _varint_end(data, offset)
        key_size, position = _short_varint(data, key)
        constant += range(key - start, position - start)
        key_start = position
        value = position + max(key_size, 0)
        value_size, position = _short_varint(data, value)
        constant += range(value - start, position - start)
        value_start = position
        position += max(value_size, 0)
        if size < 0 or key_size < -1 or value_size < -1 or data[position] != 0 or position + 1 != end:
            return None
        constant.append(position - start)
    except IndexError:
        return None
    return Shape(
        end - start,
        tuple(constant),
        range(timestamp - start, offset - start),
        range(offset - start, key - start),
        (key_start - start, key_size),
        (value_start - start, value_size),
    )


def _short_varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint of at most three bytes; of a longer one an IndexError, which leaves it to the loop."""
    raw = data[position]
    if raw > 0x7F:
        raw += (data[position + 1] << 7) - 0x80
        position += 1
        if raw > 0x3FFF:
            raw += (data[position + 1] << 14) - 0x4000
            position += 1
            if raw > 0x1FFFFF:
                raise IndexError
    return raw >> 1 ^ -(raw & 1), position + 1


def _varint_end(data: bytes, position: int) -> int:
    start = position
    while data[position] > 0x7F:
        position += 1
    if position - start > varint.VARINT_BYTES_MAX - 1:
        raise IndexError  # so long a time is for the loop to judge
    return position + 1


def _column(data: bytes, position: int, stride: int, length: int) -> bytes:
    return data[position : position + length * stride : stride]


def _prefix(column: bytes, allowed: bytes) -> int:
    """How many bytes from the start on are of ``allowed``."""
    return len(column) - len(column.lstrip(allowed))


def _offset_columns(index: int) -> tuple[bytes, ...]:
    """The columns of the offset deltas from ``index`` on, up to where their varints get longer."""
    if index < 64:
        return (_ONE_BYTE[index:],)
    if index < _BLOCK:
        return _LOW[index:], _HIGH[index:]
    if index < _INDEX_MAX:
        low = index % _BLOCK
        return _LOW[low:], _MIDDLE[low:], bytes((index // _BLOCK,)) * (_BLOCK - low)
    return ()


def _extremes(columns: list[bytes]) -> tuple[int, int, int]:
    """(smallest, largest, place of the first largest) of varints given by columns."""
    if is_constant(columns):
        columns = [column[:1] for column in columns]
    values = numbers(columns)
    largest = max(values)
    return min(values), largest, values.index(largest)


def is_constant(columns: list[bytes]) -> bool:
    """Whether the varints given by columns are all the same."""
    length = len(columns[0])
    return all(column.count(column[0]) == length for column in columns)


def numbers(columns: list[bytes]) -> list[int]:
    """The varints given by columns."""
    raws = list(columns[-1])
    for column in reversed(columns[:-1]):
        raws = [raw << 7 | byte & 0x7F for raw, byte in zip(raws, column, strict=True)]
    return [raw >> 1 ^ -(raw & 1) for raw in raws]


_SMALL: Final = tuple(varint.encode(value) for value in range(-1, 4096))  # by value + 1
_SMALL_MAX: Final = len(_SMALL) - 2


def append_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: bytes,
) -> None:
    """As ``_writing.append_record``: formatting whole records beats appending single bytes."""
    body = b"\x00%b%b%b%b%b" % (
        _SMALL[timestamp_delta + 1]
        if -1 <= timestamp_delta <= _SMALL_MAX
        else varint.encode(timestamp_delta),
        _SMALL[offset_delta + 1] if offset_delta <= _SMALL_MAX else varint.encode(offset_delta),
        b"\x01" if key is None else _field(key),
        b"\x01" if value is None else _field(value),
        headers,
    )
    size = len(body)
    out += _SMALL[size + 1] if size <= _SMALL_MAX else varint.encode(size)
    out += body


def _field(data: bytes) -> bytes:
    """A key or value with its length in front."""
    size = len(data)
    return (_SMALL[size + 1] if size <= _SMALL_MAX else varint.encode(size)) + data


Parts: TypeAlias = list[bytes]

_HEADS_MAX: Final = 16
_heads: dict[tuple[int, bytes], Parts] = {}  # what stands before the values of one size, by offset delta
_offsets: Parts = []  # offset deltas as they are written; replaced as a whole, as there may be several threads


def append_records(
    out: bytearray,
    values: list[bytes | None],
    keys: list[bytes | None] | None,
    headers: bytes,
    index: int,
    stop: int,
    timestamp_delta: int,
    offset_delta: int,
    bytes_max: int,
) -> int:
    """As ``_writing.append_records``: values of one size lie between bytes that are the same in every batch."""
    if keys is None and stop - index >= _RUN_MIN and values[index] is not None:
        end = _append_run(out, values, headers, index, stop, timestamp_delta, offset_delta, bytes_max)
        if end > index:
            return end
    parts: Parts = []
    room = bytes_max - len(out)
    start = index
    time = varint.encode(timestamp_delta)
    while index < stop:
        value = values[index]
        key = None if keys is None else keys[index]
        offset = offset_delta + index - start
        body = b"\x00%b%b%b%b%b" % (
            time,
            _SMALL[offset + 1] if offset <= _SMALL_MAX else varint.encode(offset),
            b"\x01" if key is None else _field(key),
            b"\x01" if value is None else _field(value),
            headers,
        )
        size = len(body)
        head = _SMALL[size + 1] if size <= _SMALL_MAX else varint.encode(size)
        room -= size + len(head)
        if room < 0 and parts:
            break
        parts += (head, body)
        index += 1
    out += b"".join(parts)
    return index


def _append_run(
    out: bytearray,
    values: list[bytes | None],
    headers: bytes,
    index: int,
    stop: int,
    timestamp_delta: int,
    offset_delta: int,
    bytes_max: int,
) -> int:
    """Append values of the size of the first, as many as fit; the index behind them, ``index`` without a run."""
    first = values[index]
    assert first is not None
    size = len(first)
    longest = varint.size(size) * 2 + varint.size(timestamp_delta) + len(headers) + size + 9
    count = min(stop - index, (bytes_max - len(out)) // longest)
    if count < _RUN_MIN:
        return index
    run = values[index : index + count]
    if None in run or len(set(map(len, run))) > 1:  # type: ignore[arg-type] # the first half says that none is None
        return index
    parts: list[bytes | None] = [None] * (2 * count)
    if timestamp_delta:
        parts[::2] = _new_heads(size, timestamp_delta, headers, offset_delta, offset_delta + count)
    else:
        parts[::2] = _heads_of(size, headers, offset_delta + count)[offset_delta:]
    parts[1::2] = run
    begin = parts[0]
    assert begin is not None
    parts[0] = begin[len(headers) :]  # every other head has the headers of the record before it in front
    out += b"".join(parts)  # type: ignore[arg-type] # as above
    out += headers
    return index + count


def _heads_of(size: int, headers: bytes, stop: int) -> Parts:
    """What stands between the values of records of the batch's time with offset deltas up to ``stop`` - 1."""
    heads = _heads.get((size, headers), [])
    if len(heads) < stop:
        if len(_heads) >= _HEADS_MAX:
            _heads.clear()
        # A new list: threads that have the old one find it as it was.
        heads = _heads[size, headers] = heads + _new_heads(size, 0, headers, len(heads), stop)
    return heads[:stop] if len(heads) > stop else heads


def _new_heads(size: int, timestamp_delta: int, headers: bytes, start: int, stop: int) -> Parts:
    """What stands between the values of records with offset deltas from ``start`` to ``stop`` - 1."""
    offsets = _offsets_to(stop)
    time = varint.encode(timestamp_delta)
    end = b"\x01%b" % varint.encode(size)
    heads: Parts = []
    while start < stop:
        # The record's length is the same as long as its offset takes as many bytes.
        width = len(offsets[start])
        following = min(stop, 1 << 7 * width - 1)
        length = varint.encode(1 + len(time) + width + len(end) + size + len(headers))
        begin = b"%b%b\x00%b" % (headers, length, time)
        heads += [begin + offset + end for offset in offsets[start:following]]
        start = following
    return heads


def _offsets_to(stop: int) -> Parts:
    """The offset deltas up to ``stop`` - 1 at least."""
    global _offsets
    known = _offsets
    if len(known) < stop:
        known = _offsets = known + [varint.encode(offset) for offset in range(len(known), stop)]
    return known


_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """As ``_writing.murmur2``, four bytes at a time."""
    size = len(data)
    h = _MURMUR_SEED ^ size
    whole = size & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _MURMUR_M & _UINT32
        k = (k ^ k >> 24) * _MURMUR_M & _UINT32
        h = (h * _MURMUR_M & _UINT32) ^ k
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _MURMUR_M & _UINT32
    h = (h ^ h >> 13) * _MURMUR_M & _UINT32
    return h ^ h >> 15


def partitions_of_keys(keys: list[bytes], partition_count: int) -> list[int]:
    """As ``_writing.partitions_of_keys``; a key that comes again is not hashed again."""
    known: dict[bytes, int] = {}
    found = []
    for key in keys:
        partition = known.get(key)
        if partition is None:
            partition = known[key] = (murmur2(key) & 0x7FFFFFFF) % partition_count
        found.append(partition)
    return found
