"""Columns of records the way plain Python does it fastest: records of one shape in a row are cut by ``struct``.

As in _plain.py: where every field stands at the same distance from the one of the record before, one format cuts them
all in C. What is not such a run goes through the loop of _loops.py. Both say the same of every input.
"""

import struct
from array import array
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeAlias

from pkafka.records._plain import (
    LOOP_MAX,
    LOOP_START,
    RECORDS_MIN,
    RUN_MAX,
    RUN_START,
    find_run,
    is_constant,
    numbers,
)
from pkafka.records.errors import invalid

ColumnsPart: TypeAlias = Callable[..., tuple[int, int, int]]
Columns: TypeAlias = tuple[
    list[bytes | None] | None, list[bytes | None], "array[int]", list[int] | None, bool
]
_TIME_SAFE = 1 << 62


def decode_columns(
    data: bytes,
    count: int,
    base_timestamp: int,
    *,
    columns_part: ColumnsPart,
    new_times: Callable[[bytes, int], "array[int]"],
) -> tuple[list[bytes | None] | None, list[bytes | None], Any, list[int] | None, bool]:
    """As ``_loops.decode_columns``, with the loop to use for what has no common shape."""
    times = new_times(data, count)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    heads: list[int] = []
    times_are_safe = -_TIME_SAFE < base_timestamp < _TIME_SAFE
    position = index = with_key = misplaced = misses = 0
    run_max = RUN_START
    while index < count:
        found = None
        if count >= RECORDS_MIN and times_are_safe and _next_is_as_long(data, position):
            found = find_run(data, position, index, min(count - index, run_max))
        if found is None:
            stop = min(count, index + min(LOOP_START << misses, LOOP_MAX)) if count >= RECORDS_MIN else count
            position, keyed, elsewhere = columns_part(
                data, position, index, stop, base_timestamp, times, 0, keys, values, heads
            )
            misplaced += elsewhere
            misses += 1
            run_max = RUN_START
        else:
            length, shape, columns = found
            stop = index + length
            if is_constant(columns):
                (delta,) = numbers([column[:1] for column in columns])
                times[index:stop] = array("q", (base_timestamp + delta,)) * length
            else:
                times[index:stop] = array("q", [base_timestamp + delta for delta in numbers(columns)])
            run = memoryview(data)[position : position + length * shape.stride]
            keys += _cut(run, shape.stride, length, *shape.key)
            values += _cut(run, shape.stride, length, *shape.value)
            heads += (0,) * length
            keyed = 0 if shape.key[1] < 0 else length
            position += len(run)
            misses = 0
            run_max = min(run_max * 2, RUN_MAX)
        with_key += keyed
        index = stop
    if position != len(data):
        raise invalid(f"{len(data) - position} bytes are left over behind the {count} records")
    return (keys if with_key else None, values, times, heads if any(heads) else None, misplaced == 0)


def decode_batches(
    data: bytes,
    starts: list[int],
    ends: list[int],
    counts: list[int],
    base_timestamps: list[int],
    *,
    decode: Callable[[bytes, int, int], Columns],
) -> Columns:
    """As ``_loops.decode_batches``, with what decodes one batch."""
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    times = array("q")
    heads: list[int] = []
    has_key = has_head = False
    in_order = True
    for start, end, count, base_timestamp in zip(starts, ends, counts, base_timestamps, strict=True):
        keyed, found, stamps, places, ordered = decode(data[start:end], count, base_timestamp)
        values += found
        times += stamps
        keys += [None] * count if keyed is None else keyed
        heads += [0] * count if places is None else [place and place + start for place in places]
        has_key |= keyed is not None
        has_head |= places is not None
        in_order &= ordered
    return (keys if has_key else None, values, times, heads if has_head else None, in_order)


def _next_is_as_long(data: bytes, position: int) -> bool:
    """Whether the length of the record at ``position`` stands in front of the next one too: a run is worth a try."""
    head = data[position : position + 2]
    if len(head) < 2:
        return False
    if head[0] < 0x80:
        after = position + 1 + (head[0] >> 1)
        return data[after : after + 1] == head[:1]
    after = position + 2 + ((head[1] << 7 | head[0] & 0x7F) >> 1)
    return data[after : after + 2] == head


def _cut(run: memoryview, stride: int, count: int, start: int, size: int) -> list[bytes | None]:
    """The field at ``start`` of every record of a run; all of them null where ``size`` is negative."""
    if size < 0:
        return [None] * count
    fields = struct.iter_unpack(f"{start}x{size}s{stride - start - size}x", run)
    return list(chain.from_iterable(fields))
