"""The inner loops of a producer: keys and values into a batch, whole lists or one by one, and keys to partitions.

Plain Python that Cython compiles as it stands (the C types are in _writing.pxd, where ``target`` and ``source`` are
pointers); loops.py picks the variant, and _plain.py has ways of its own that plain Python does faster.
"""


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
    """Append records to a batch until it is full.

    Args:
        out: the batch so far.
        values: of all records; those from ``index`` to ``stop`` - 1 are wanted.
        keys: beside them; None for no keys.
        headers: of every record, encoded, their count included.
        timestamp_delta, offset_delta: of the first record; all have the same time.
        bytes_max: what ``out`` must not exceed, but for one record where nothing fits.

    Returns:
        The index behind the last record appended.

    Raises:
        TypeError: a key or value is not bytes; nothing was appended.
    """
    start = index
    position = len(out)
    total = position
    header_size = len(headers)
    fixed = 1 + size_of(zigzag(timestamp_delta)) + header_size
    offset = offset_delta
    while index < stop:
        value = values[index]
        body = fixed + size_of(offset << 1)
        body += 1 if value is None else size_of(len(value) << 1) + len(value)
        if keys is None:
            body += 1
        else:
            key = keys[index]
            body += 1 if key is None else size_of(len(key) << 1) + len(key)
        size = body + size_of(body << 1)
        if total + size > bytes_max and index > start:
            break
        total += size
        index += 1
        offset += 1
        if total > bytes_max:
            break
    if index == start:
        return index
    out += bytes(total - position)
    target = out
    offset = offset_delta
    end = index
    index = start
    while index < end:
        value = values[index]
        value_size = -1 if value is None else len(value)
        key = None if keys is None else keys[index]
        key_size = -1 if key is None else len(key)
        body = fixed + size_of(offset << 1)
        body += 1 if value_size < 0 else size_of(value_size << 1) + value_size
        body += 1 if key_size < 0 else size_of(key_size << 1) + key_size
        position = put(target, position, body << 1)
        target[position] = 0
        position = put(target, position + 1, zigzag(timestamp_delta))
        position = put(target, position, offset << 1)
        if key_size < 0:
            target[position] = 1
            position += 1
        else:
            assert key is not None
            position = put(target, position, key_size << 1)
            source = key
            for place in range(key_size):
                target[position + place] = source[place]
            position += key_size
        if value_size < 0:
            target[position] = 1
            position += 1
        else:
            assert value is not None
            position = put(target, position, value_size << 1)
            source = value
            for place in range(value_size):
                target[position + place] = source[place]
            position += value_size
        source = headers
        for place in range(header_size):
            target[position + place] = source[place]
        position += header_size
        index += 1
        offset += 1
    return end


def zigzag(value: int) -> int:
    """The unsigned number that stands for a signed one."""
    return (value << 1) ^ (value >> 63)


def size_of(raw: int) -> int:
    """How many bytes the varint of an unsigned number takes."""
    size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def put(target: bytearray, position: int, raw: int) -> int:
    """Write the varint of an unsigned number.

    Returns:
        The position behind it.
    """
    while raw > 0x7F:
        target[position] = (raw & 0x7F) | 0x80
        position += 1
        raw >>= 7
    target[position] = raw
    return position + 1


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 that Kafka's clients use, as an unsigned number."""
    mask = 0xFFFFFFFF  # numbers beyond 31 bits are objects in C, so each has a variable
    seed = 0x9747B28C
    source = data
    size = len(data)
    h = (seed ^ size) & mask
    position = 0
    while position + 4 <= size:
        k = source[position + 3]
        k = (k << 8) | source[position + 2]
        k = (k << 8) | source[position + 1]
        k = (k << 8) | source[position]
        k = (k * 0x5BD1E995) & mask
        k = ((k ^ (k >> 24)) * 0x5BD1E995) & mask
        h = ((h * 0x5BD1E995) & mask) ^ k
        position += 4
    if position < size:
        place = size - 1
        k = 0
        while place >= position:
            k = (k << 8) | source[place]
            place -= 1
        h = ((h ^ k) * 0x5BD1E995) & mask
    h = ((h ^ (h >> 13)) * 0x5BD1E995) & mask
    return h ^ (h >> 15)


def partitions_of_keys(keys: list[bytes], partition_count: int) -> list[int]:
    """The partition of each key, as Kafka's clients choose it."""
    found = []
    for key in keys:
        found.append((murmur2(key) & 0x7FFFFFFF) % partition_count)
    return found


def append_varint(out: bytearray, value: int) -> None:
    """Append the zigzag form of a signed integer of at most 64 bits."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)


def varint_size(value: int) -> int:
    """How many bytes :func:`append_varint` appends."""
    raw = (value << 1) ^ (value >> 63)
    size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def append_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: bytes,
) -> None:
    """Append one record; ``headers`` are encoded already, their count included."""
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    body = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + len(headers)
    body += varint_size(key_size) + varint_size(value_size)
    if key is not None:
        body += key_size
    if value is not None:
        body += value_size
    append_varint(out, body)
    out.append(0)
    append_varint(out, timestamp_delta)
    append_varint(out, offset_delta)
    append_varint(out, key_size)
    if key is not None:
        out += key
    append_varint(out, value_size)
    if value is not None:
        out += value
    out += headers
