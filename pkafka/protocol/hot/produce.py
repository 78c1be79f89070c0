"""Produce requests read into flat rows, and their responses written from flat rows."""

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias, cast

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer
from pkafka.protocol.hot.parts import (
    CurrentLeader,
    NodeEndpoint,
    after_tags,
    by_topic,
    check_count,
    compact_size,
    put_endpoints,
    put_leader,
    put_text,
    read_text,
)
from pkafka.protocol.primitives import rest_of_uvarint, skip_tags, uvarint

ProduceRow: TypeAlias = tuple[str, int, memoryview | None]
"""Topic, partition, record set as a view into the frame."""

ProducedRow: TypeAlias = tuple[
    str, int, int, int, int, int, Sequence[tuple[int, str | None]], str | None, CurrentLeader | None
]
"""Topic, partition, error code, base offset, log append time (ms), log start offset, errors of single records as
(batch index, message), message, and the leader where that is another broker (version 10 and up)."""

_H: Final = Struct(">h")
_I: Final = Struct(">i")
_HI: Final = Struct(">hi")
_HII: Final = Struct(">hii")
_II: Final = Struct(">ii")
_IB: Final = Struct(">iB")
_START: Final = Struct(">BhiB")
_ONE_START: Final = Struct(">BhiBB")
_ONE_PARTITION: Final = Struct(">BiB")
# Numbers, since compiled code asks a Struct for its size each time.
_ONE_START_BYTES: Final = 9
_ONE_PARTITION_BYTES: Final = 6
# Their types are said because compiled code compares numbers of unknown types as objects.
_one_start: Final = cast("Callable[[Buffer, int], tuple[int, int, int, int, int]]", _ONE_START.unpack_from)
_one_partition: Final = cast("Callable[[Buffer, int], tuple[int, int, int]]", _ONE_PARTITION.unpack_from)


def decode_produce(
    frame: Buffer, position: int, version: int
) -> tuple[str | None, int, int, list[ProduceRow]]:
    """Read a Produce request; what follows it in its frame is ignored, as Kafka does.

    Returns:
        Transactional id, acks, timeout in ms, and a row for each partition in the order sent.

    Raises:
        ProtocolError: the frame is no such request.
    """
    try:
        if version >= 9:
            return _one_flexible(frame, position) or _produce_flexible(frame, position)
        return _produce_plain(frame, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"Produce v{version} is cut short") from error
    except UnicodeDecodeError as refused:
        raise ProtocolError(f"Produce v{version} holds a string that is not UTF-8") from refused


def _produce_plain(
    frame: Buffer, position: int, version: int
) -> tuple[str | None, int, int, list[ProduceRow]]:
    view, limit = memoryview(frame), len(frame)
    rows: list[ProduceRow] = []
    transactional_id = None
    if version >= 3:
        (size,) = _H.unpack_from(frame, position)
        position += 2
        if size != -1:
            transactional_id, position = read_text(frame, position, size)
    acks, timeout_ms, topics = _HII.unpack_from(frame, position)
    position += 10
    check_count(topics, 6, limit - position)
    for _ in range(topics):
        (size,) = _H.unpack_from(frame, position)
        topic, position = read_text(frame, position + 2, size)
        (count,) = _I.unpack_from(frame, position)
        position += 4
        check_count(count, 8, limit - position)
        for _ in range(count):
            partition, size = _II.unpack_from(frame, position)
            position += 8
            if size >= 0:
                end = position + size
                if end > limit:
                    raise ProtocolError("record set is longer than its frame")
                rows.append((topic, partition, view[position:end]))
                position = end
            elif size == -1:
                rows.append((topic, partition, None))
            else:
                raise ProtocolError(f"record set has size {size}")
    return transactional_id, acks, timeout_ms, rows


def _one_flexible(frame: Buffer, position: int) -> tuple[None, int, int, list[ProduceRow]] | None:
    """Read the body that most requests have: one record set, no transactional id, no tags; None for any other."""
    size, acks, timeout_ms, topics, name_bytes = _one_start(frame, position)
    position += _ONE_START_BYTES
    if size or topics != 2 or not 0 < name_bytes < 128:
        return None
    limit = len(frame)
    end = position + name_bytes - 1
    if end + _ONE_PARTITION_BYTES > limit:
        return None
    partitions, partition, size = _one_partition(frame, end)
    if partitions != 2 or not size:
        return None
    topic = str(frame[position:end], "utf-8")
    position = end + _ONE_PARTITION_BYTES
    if size > 127:
        size, position = rest_of_uvarint(frame, position, size)
    end = position + size - 1
    if end + 3 > limit or frame[end] or frame[end + 1] or frame[end + 2]:
        return None
    view = frame if isinstance(frame, memoryview) else memoryview(frame)
    return None, acks, timeout_ms, [(topic, partition, view[position:end])]


def _produce_flexible(frame: Buffer, position: int) -> tuple[str | None, int, int, list[ProduceRow]]:
    view, limit = memoryview(frame), len(frame)
    rows: list[ProduceRow] = []
    transactional_id = None
    size, acks, timeout_ms, topics = _START.unpack_from(frame, position)
    if not size and topics < 128:  # no transactional id and few topics, as nearly always
        topics -= 1
        position += _START.size
    else:
        size, position = compact_size(frame, position)
        if size != -1:
            transactional_id, position = read_text(frame, position, size)
        acks, timeout_ms = _HI.unpack_from(frame, position)
        topics, position = compact_size(frame, position + 6)
    check_count(topics, 3, limit - position)
    for _ in range(topics):
        size, position = compact_size(frame, position)
        topic, position = read_text(frame, position, size)
        count, position = compact_size(frame, position)
        check_count(count, 6, limit - position)
        for _ in range(count):
            partition, size = _IB.unpack_from(frame, position)
            position += 5
            if size > 127:
                size, position = rest_of_uvarint(frame, position, size)
            if size:
                end = position + size - 1
                if end > limit:
                    raise ProtocolError("record set is longer than its frame")
                rows.append((topic, partition, view[position:end]))
                position = end
            else:
                rows.append((topic, partition, None))
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, tags, limit)
        position = after_tags(frame, position)
    after_tags(frame, position)
    return transactional_id, acks, timeout_ms, rows


_PRODUCED_0: Final = Struct(">ihq")
_PRODUCED_2: Final = Struct(">ihqq")
_PRODUCED_5: Final = Struct(">ihqqq")
# Most partitions have no errors: an empty array and a null message (and an empty tag section) come with the numbers.
_PRODUCED_8: Final = Struct(">ihqqqih")
_PRODUCED_9: Final = Struct(">ihqqqBBB")
# A whole answer for one partition: size, header and counts; the name; numbers, up to throttle time and tags.
_ONE_START_8: Final = Struct(">iiih")
_ONE_END_8: Final = Struct(">iihqqqihi")
_ONE_9: Final = ">iiBBB%dsBihqqqBBBBiB"
"""Of a topic whose name has so many bytes."""
_SIZE_CORRELATION: Final = Struct(">ii")
_SIZE_CORRELATION_TAGS: Final = Struct(">iib")


def encode_produce_answer(
    version: int,
    correlation_id: int,
    rows: Sequence[ProducedRow],
    throttle_ms: int,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The whole answer to a Produce request: length prefix, response header and :func:`encode_produce_response`."""
    if len(rows) == 1 and version >= 8 and not endpoints:
        topic, partition, code, base_offset, append_time_ms, start_offset, errors, message, leader = rows[0]
        if not errors and message is None and leader is None:
            # What a busy producer gets: everything but the topic's name is of a fixed size.
            try:
                if version >= 9:
                    known = _shapes_9.get(topic)
                    pack, name, size = known if known is not None else _shape_9(topic)
                    if size:
                        return pack(
                            size,
                            correlation_id,
                            0,
                            2,
                            len(name) + 1,
                            name,
                            2,
                            partition,
                            code,
                            base_offset,
                            append_time_ms,
                            start_offset,
                            1,
                            0,
                            0,
                            0,
                            throttle_ms,
                            0,
                        )
                else:
                    name = topic.encode()
                    size = len(name)
                    end = _ONE_END_8.pack(
                        1, partition, code, base_offset, append_time_ms, start_offset, 0, -1, throttle_ms
                    )
                    return _ONE_START_8.pack(size + _ONE_BYTES_8, correlation_id, 1, size) + name + end
            except StructError as error:
                raise ValueError(f"Produce response v{version}: {error}") from error
    body = encode_produce_response(version, rows, throttle_ms, endpoints)
    if version >= 9:
        return _SIZE_CORRELATION_TAGS.pack(len(body) + 5, correlation_id, 0) + body
    return _SIZE_CORRELATION.pack(len(body) + 4, correlation_id) + body


_ONE_BYTES_8: Final = _ONE_START_8.size - 4 + _ONE_END_8.size
"""Of such an answer behind its length prefix, the name apart."""
_LONGEST_NAME_9: Final = 126
"""A longer one has a length of two bytes."""
_SHAPES_MAX: Final = 1_000
_Shape: TypeAlias = tuple[Callable[..., bytes], bytes, int]
_shapes_9: Final[dict[str, _Shape]] = {}
"""By topic: what packs an answer for one of its partitions, its name, and how many bytes follow the length prefix; none
where the name is too long."""


def _shape_9(topic: str) -> _Shape:
    name = topic.encode()
    packing = Struct(_ONE_9 % len(name))
    shape = packing.pack, name, packing.size - 4 if len(name) <= _LONGEST_NAME_9 else 0
    if len(_shapes_9) >= _SHAPES_MAX:
        _shapes_9.clear()
    _shapes_9[topic] = shape
    return shape


def encode_produce_response(
    version: int,
    rows: Sequence[ProducedRow],
    throttle_ms: int,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of a Produce response; successive rows of one topic become one topic entry.

    Args:
        endpoints: of the leaders that rows name (version 10 and up).

    Raises:
        ValueError: a number or a string does not fit into its field.
    """
    flexible = version >= 9
    topics = by_topic(rows)
    out = bytearray(uvarint(len(topics) + 1) if flexible else _I.pack(len(topics)))
    try:
        for topic, group in topics:
            put_text(out, topic, flexible)
            out += uvarint(len(group) + 1) if flexible else _I.pack(len(group))
            if flexible:
                _put_produced_flexible(out, group, version)
                out.append(0)
            else:
                _put_produced_plain(out, group, version)
        if flexible:
            out += _I.pack(throttle_ms)
            put_endpoints(out, endpoints if version >= 10 else ())
        elif version >= 1:
            out += _I.pack(throttle_ms)
    except StructError as error:
        raise ValueError(f"Produce response v{version}: {error}") from error
    return bytes(out)


def _put_produced_plain(out: bytearray, group: list[ProducedRow], version: int) -> None:
    for _, partition, code, base_offset, append_time_ms, start_offset, errors, message, _ in group:
        if version >= 8:
            if not errors and message is None:
                out += _PRODUCED_8.pack(partition, code, base_offset, append_time_ms, start_offset, 0, -1)
                continue
            out += _PRODUCED_5.pack(partition, code, base_offset, append_time_ms, start_offset)
            out += _I.pack(len(errors))
            for index, text in errors:
                out += _I.pack(index)
                put_text(out, text, False)
            put_text(out, message, False)
        elif version >= 5:
            out += _PRODUCED_5.pack(partition, code, base_offset, append_time_ms, start_offset)
        elif version >= 2:
            out += _PRODUCED_2.pack(partition, code, base_offset, append_time_ms)
        else:
            out += _PRODUCED_0.pack(partition, code, base_offset)


def _put_produced_flexible(out: bytearray, group: list[ProducedRow], version: int) -> None:
    for _, partition, code, base_offset, append_time_ms, start_offset, errors, message, leader in group:
        if not errors and message is None and leader is None:
            out += _PRODUCED_9.pack(partition, code, base_offset, append_time_ms, start_offset, 1, 0, 0)
            continue
        out += _PRODUCED_5.pack(partition, code, base_offset, append_time_ms, start_offset)
        out += uvarint(len(errors) + 1)
        for index, text in errors:
            out += _I.pack(index)
            put_text(out, text, True)
            out.append(0)
        put_text(out, message, True)
        if leader is None or version < 10:
            out.append(0)
        else:
            out.append(1)
            put_leader(out, 0, leader)
