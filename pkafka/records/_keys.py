"""The inner loops of compaction: which key was last seen at which offset, which records of a batch stay, which value is
a key's last.

Plain Python that Cython compiles as it stands, like _loops.py (the C types are in _keys.pxd). The table is a flat array
of unsigned 64-bit numbers, three to a slot: two halves of a digest of the key, and the offset plus one (0: the slot is
free). Slots are probed one after the other. The digest is MurmurHash3 (x64, 128 bits, public domain), seeded at random
for each table; keys themselves are not kept, two different ones are taken for the same with a chance of 2^-128.
"""

from collections.abc import Callable
from typing import Any

from pkafka.records import varint
from pkafka.records.errors import RecordError, invalid

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_FACTOR_1 = 0x87C3_7B91_1142_53D5
_FACTOR_2 = 0x4CF5_AD43_2745_937F
_MIX_1 = 0xFF51_AFD7_ED55_8CCD
_MIX_2 = 0xC4CE_B9FE_1A85_EC53
_HEADER_BYTES = 61
"""What a batch has before its records."""


def key_digest(data: bytes, position: int, size: int, seed: int, digest: Any) -> None:  # noqa: ANN401
    """Put the digest of ``size`` bytes at ``position``, which must be there, into the two places of ``digest``."""
    word = _WORD
    factor_1 = _FACTOR_1
    factor_2 = _FACTOR_2
    h1 = h2 = seed
    end = position + size
    while end - position >= 16:
        k1 = k2 = 0
        for index in range(7, -1, -1):
            k1 = k1 << 8 & word | data[position + index]
            k2 = k2 << 8 & word | data[position + 8 + index]
        k1 = k1 * factor_1 & word
        k1 = (k1 << 31 | k1 >> 33) & word
        h1 ^= k1 * factor_2 & word
        h1 = (h1 << 27 | h1 >> 37) & word
        h1 = (h1 + h2) * 5 + 0x52DCE729 & word
        k2 = k2 * factor_2 & word
        k2 = (k2 << 33 | k2 >> 31) & word
        h2 ^= k2 * factor_1 & word
        h2 = (h2 << 31 | h2 >> 33) & word
        h2 = (h2 + h1) * 5 + 0x38495AB5 & word
        position += 16
    k1 = k2 = 0
    rest = end - position
    for index in range(rest - 1, 7, -1):
        k2 = k2 << 8 | data[position + index]
    for index in range(min(rest, 8) - 1, -1, -1):
        k1 = k1 << 8 & word | data[position + index]
    k2 = k2 * factor_2 & word
    k2 = (k2 << 33 | k2 >> 31) & word
    h2 ^= k2 * factor_1 & word
    k1 = k1 * factor_1 & word
    k1 = (k1 << 31 | k1 >> 33) & word
    h1 ^= k1 * factor_2 & word
    h1 ^= size
    h2 ^= size
    h1 = h1 + h2 & word
    h2 = h2 + h1 & word
    factor_1 = _MIX_1
    factor_2 = _MIX_2
    h1 = (h1 ^ h1 >> 33) * factor_1 & word
    h1 = (h1 ^ h1 >> 33) * factor_2 & word
    h1 ^= h1 >> 33
    h2 = (h2 ^ h2 >> 33) * factor_1 & word
    h2 = (h2 ^ h2 >> 33) * factor_2 & word
    h2 ^= h2 >> 33
    h1 = h1 + h2 & word
    digest[0] = h1
    digest[1] = h2 + h1 & word


def put_offset(table: Any, slots: int, digest: Any, offset: int) -> int:  # noqa: ANN401
    """Note ``offset`` for a digest; 1 when it is new to the table, which must have a free slot, else 0."""
    h1 = digest[0]
    h2 = digest[1]
    place = h1 % slots * 3
    while True:
        if table[place + 2] == 0:
            table[place] = h1
            table[place + 1] = h2
            table[place + 2] = offset + 1
            return 1
        if table[place] == h1 and table[place + 1] == h2:
            table[place + 2] = offset + 1
            return 0
        place += 3
        if place == slots * 3:
            place = 0


def get_offset(table: Any, slots: int, digest: Any) -> int:  # noqa: ANN401
    """The offset that was noted last for a digest; -1 without one."""
    h1 = digest[0]
    h2 = digest[1]
    place = h1 % slots * 3
    while table[place + 2] != 0:
        if table[place] == h1 and table[place + 1] == h2:
            offset: int = table[place + 2]
            return offset - 1
        place += 3
        if place == slots * 3:
            place = 0
    return -1


def move_slots(old: Any, table: Any, slots: int) -> None:  # noqa: ANN401
    """Put everything of one table into another, larger one of ``slots`` slots."""
    for source in range(0, len(old), 3):
        if old[source + 2] != 0:
            place = old[source] % slots * 3
            while table[place + 2] != 0:
                place += 3
                if place == slots * 3:
                    place = 0
            table[place] = old[source]
            table[place + 1] = old[source + 1]
            table[place + 2] = old[source + 2]


def varint_end(data: bytes, position: int) -> int:
    """The position behind the varint that begins at ``position``."""
    stop = position + 10
    while data[position] >= 0x80:
        position += 1
        if position == stop:
            raise invalid(f"damaged varint before byte {position} of the records")
    return position + 1


def varint_at(data: bytes, position: int, end: int) -> int:
    """The bits, still in zigzag, of the varint between ``position`` and ``end``."""
    raw = 0
    while end > position:
        end -= 1
        raw = raw << 7 | data[end] & 0x7F
    return raw


def map_keys(
    data: bytes,
    count: int,
    base_offset: int,
    start_offset: int,
    table: Any,  # noqa: ANN401
    digest: Any,  # noqa: ANN401
    slots: int,
    seed: int,
    entries: int,
    entries_max: int,
) -> tuple[int, bool]:
    """Note the offset of every record with a key from ``start_offset`` on.

    Args:
        data: the uncompressed records of a batch.
        count: how many they are.
        base_offset: of the batch.
        start_offset: records before it are passed over.
        table: see the module; at least one of its slots must stay free.
        digest: room for two numbers.
        slots: how many slots the table has.
        seed: of its digests.
        entries: how many keys are in it.
        entries_max: how many it may have.

    Returns:
        The number of keys in the table, and whether it was full before the end.

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged.
    """
    position = index = 0
    size = len(data)
    try:
        while index < count:
            after = varint_end(data, position)
            raw = varint_at(data, position, after)
            length = raw >> 1
            if raw & 1 or length > size - after:
                raise invalid(f"record {index} reaches beyond the end of its batch")
            end = after + length
            position = varint_end(data, after + 1)  # behind the attributes and the timestamp
            after = varint_end(data, position)
            raw = varint_at(data, position, after)
            offset = base_offset + ((raw >> 1) ^ -(raw & 1))
            position = varint_end(data, after)
            raw = varint_at(data, after, position)
            if not raw & 1 and offset >= start_offset:
                length = raw >> 1
                if length > end - position:
                    raise invalid(f"the key of record {index} reaches beyond its end")
                if entries >= entries_max:
                    return entries, True
                key_digest(data, position, length, seed, digest)
                entries += put_offset(table, slots, digest, offset)
            position = end
            index += 1
    except IndexError:
        raise invalid(f"record {index} reaches beyond the end of its batch") from None
    return entries, False


def select_records(
    data: bytes,
    count: int,
    base_offset: int,
    latest_offset: int,
    table: Any,  # noqa: ANN401
    digest: Any,  # noqa: ANN401
    slots: int,
    seed: int,
    drop_tombstones: bool,
) -> tuple[bytearray, int, int, int, int]:
    """The records that compaction keeps: of each key the last that the table knows, and all behind ``latest_offset``.

    Args:
        data: the uncompressed records of a batch.
        count: how many they are.
        base_offset: of the batch.
        latest_offset: the last offset that the table was made of.
        table: see the module.
        digest: room for two numbers.
        slots: how many slots the table has.
        seed: of its digests.
        drop_tombstones: whether the time of records without a value has passed.

    Returns:
        (their bytes as they stand, how many they are, how many of them have no value, their largest timestamp delta,
        records without a key that were dropped).

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged.
    """
    position = index = kept = tombstones = keyless = 0
    ts_max = 0
    run_start = run_end = 0
    size = len(data)
    out = bytearray()
    try:
        while index < count:
            start = position
            after = varint_end(data, position)
            raw = varint_at(data, position, after)
            length = raw >> 1
            if raw & 1 or length > size - after:
                raise invalid(f"record {index} reaches beyond the end of its batch")
            end = after + length
            position = varint_end(data, after + 1)
            ts = varint_at(data, after + 1, position)
            after = varint_end(data, position)
            raw = varint_at(data, position, after)
            offset = base_offset + ((raw >> 1) ^ -(raw & 1))
            position = varint_end(data, after)
            raw = varint_at(data, after, position)
            has_key = raw & 1 == 0
            length = raw >> 1 if has_key else 0
            if length >= end - position:
                raise invalid(f"the key of record {index} reaches beyond its end")
            after = position + length
            has_value = data[after] & 1 == 0
            if offset > latest_offset:
                keep = True
            elif not has_key:
                keyless += 1
                keep = False
            else:
                keep = has_value or not drop_tombstones
                if keep:
                    key_digest(data, position, length, seed, digest)
                    keep = offset >= get_offset(table, slots, digest)
            if keep:
                delta = (ts >> 1) ^ -(ts & 1)
                if kept == 0 or delta > ts_max:
                    ts_max = delta
                kept += 1
                if not has_value:
                    tombstones += 1
                if run_end != start:
                    out += data[run_start:run_end]
                    run_start = start
                run_end = end
            position = end
            index += 1
    except IndexError:
        raise invalid(f"record {index} reaches beyond the end of its batch") from None
    out += data[run_start:run_end]
    return out, kept, tombstones, ts_max, keyless


def wrap64(value: int) -> int:
    """What an addition of int64 leaves of ``value``."""
    return (value + (1 << 63) & _WORD) - (1 << 63)


def retime(data: bytes, count: int, shift: int) -> bytearray:
    """The same records with ``shift`` ms added to every timestamp delta, modulo 2^64 as in Java.

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged.
    """
    position = index = 0
    size = len(data)
    out = bytearray()
    try:
        while index < count:
            after = varint_end(data, position)
            raw = varint_at(data, position, after)
            length = raw >> 1
            if raw & 1 or length > size - after:
                raise invalid(f"record {index} reaches beyond the end of its batch")
            end = after + length
            position = varint_end(data, after + 1)
            if position > end:
                raise invalid(f"the timestamp of record {index} reaches beyond its end")
            ts = varint_at(data, after + 1, position)
            delta = (ts >> 1) ^ -(ts & 1)
            moved = varint.encode(wrap64(delta + shift))
            out += varint.encode(1 + len(moved) + end - position)
            out += data[after : after + 1]
            out += moved
            out += data[position:end]
            position = end
            index += 1
    except IndexError:
        raise invalid(f"record {index} reaches beyond the end of its batch") from None
    return out


def number_at(data: bytes, position: int, size: int) -> int:
    """The unsigned number in ``size`` bytes at ``position``."""
    number = 0
    for index in range(position, position + size):
        number = number << 8 | data[index]
    return number


def plain_end(data: bytes, position: int, checksum: Callable[[bytes], int]) -> int:
    """The position behind the batch at ``position``; -1 when it is cut off, or special, or damaged."""
    end = position + 12 + number_at(data, position + 8, 4)
    # The magic is 2, and of the attributes at most the type of the timestamps is set.
    if end > len(data) or data[position + 16] != 2 or number_at(data, position + 21, 2) & 0xFFF7 != 0:
        return -1
    return end if checksum(data[position + 21 : end]) == number_at(data, position + 17, 4) else -1


def note_values(data: bytes, position: int, end: int, count: int, values: dict[bytes, bytes]) -> int:
    """Note the values of ``count`` records between ``position`` and ``end``; 1 when each of them has a key, else 0."""
    while count > 0:
        after = varint_end(data, position)
        behind = after + (varint_at(data, position, after) >> 1)
        position = varint_end(data, varint_end(data, after + 1))  # behind attributes, timestamp and offset
        after = varint_end(data, position)
        raw = varint_at(data, position, after)
        key_end = after + (raw >> 1)
        if raw & 1 or behind > end or key_end >= behind:
            return 0
        key = data[after:key_end]
        after = varint_end(data, key_end)
        raw = varint_at(data, key_end, after)
        if raw & 1:
            values.pop(key, None)
        elif after + (raw >> 1) > behind:
            return 0
        else:
            values[key] = data[after : after + (raw >> 1)]
        position = behind
        count -= 1
    return 1


def last_values(
    data: bytes, position: int, stop: int, values: dict[bytes, bytes], checksum: Callable[[bytes], int]
) -> tuple[int, int]:
    """Note the last value of each key in plain batches; a record without a value takes its key out.

    Args:
        data: whole batches, one behind the other.
        position: of the first one to look at.
        stop: no batch that begins there or later is looked at.
        values: by key.
        checksum: CRC-32C of bytes.

    Returns:
        The position behind the last batch that was taken, and the offset behind its records, -1 without any. The batch
        that follows, when that is before ``stop``, has a codec, a transaction, markers, another format or a record
        without a key, or it is damaged.
    """
    size = len(data)
    header = _HEADER_BYTES
    following = -1
    try:
        while position < stop and size - position >= header:
            end = plain_end(data, position, checksum)
            if end < 0 or not note_values(
                data, position + header, end, number_at(data, position + 57, 4), values
            ):
                break
            following = number_at(data, position, 8) + number_at(data, position + 23, 4) + 1
            position = end
    except (IndexError, RecordError):
        pass  # damaged: the position tells
    return position, following


def others_than(items: list[tuple[bytes, bytes]], size: int, place: int, allowed: bytes) -> list[bytes]:
    """The keys of those items that do not have a form.

    In this form a key is version 0 of a schema with one string, in ASCII, and a value is version 0 of another schema,
    has a size, and at one place one of the bytes that are allowed there.

    Args:
        items: keys and values.
        size: of a value.
        place: where in the value.
        allowed: the bytes there.
    """
    others = []
    for key, value in items:
        if not (has_string_only(key) and has_byte(value, size, place, allowed)):
            others.append(key)
    return others


def has_string_only(key: bytes) -> int:
    """Whether a key is version 0 with one string in ASCII."""
    end = len(key)
    if end < 4 or key[0] != 0 or key[1] != 0 or end != 4 + (key[2] << 8 | key[3]):
        return 0
    for index in range(4, end):
        if key[index] > 127:
            return 0
    return 1


def has_byte(value: bytes, size: int, place: int, allowed: bytes) -> int:
    """Whether a value is version 0, has ``size`` bytes, and one of ``allowed`` at ``place``."""
    if len(value) != size or value[0] != 0 or value[1] != 0:
        return 0
    for index in range(len(allowed)):
        if value[place] == allowed[index]:
            return 1
    return 0
