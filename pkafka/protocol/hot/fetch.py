"""Fetch requests read into flat rows, and their response frames written around the records that sendfile brings."""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer
from pkafka.protocol.hot.parts import (
    CurrentLeader,
    NodeEndpoint,
    after_tags,
    by_topic,
    check_count,
    compact_size,
    guarded,
    put_endpoints,
    put_leader,
    put_text,
    read_text,
)
from pkafka.protocol.primitives import read_uvarint, rest_of_uvarint, uvarint

FetchRow: TypeAlias = tuple[str | bytes, int, int, int, int, int, int]
"""Topic name or id (version 13 and up), partition, current leader epoch, fetch offset, last fetched epoch, log start
offset, most bytes."""

FetchedRow: TypeAlias = tuple[
    *tuple[str | bytes, int, int, int, int, int, Sequence[tuple[int, int]] | None, int, int],
    tuple[int, int] | None,
    CurrentLeader | None,
]
"""Topic name or id, partition, error code, high watermark, last stable offset, log start offset, aborted transactions
as (producer id, first offset) or None, preferred read replica, bytes of records (-1 for null), diverging epoch as
(epoch, end offset) or None, and the leader where that is another broker (version 12 and up)."""


class FetchHeader(NamedTuple):
    """A fetch request; fields that its version lacks have their defaults."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    rack_id: str
    partitions: list[FetchRow]
    forgotten: list[tuple[str | bytes, int]]


_new: Final = tuple.__new__
"""A named tuple made by this costs half of one made by its class."""
_H: Final = Struct(">h")
_I: Final = Struct(">i")
_II: Final = Struct(">ii")
_IQ: Final = Struct(">iq")
_ID_COUNT: Final = Struct(">16sB")
_NUMBERS_0: Final = Struct(">iii")
_NUMBERS_3: Final = Struct(">iiii")
_NUMBERS_4: Final = Struct(">iiiib")
_NUMBERS_7: Final = Struct(">iiiibii")
_NUMBERS_15: Final = Struct(">iiibii")
_PARTITION_0: Final = Struct(">iqi")
_PARTITION_5: Final = Struct(">iqqi")
_PARTITION_9: Final = Struct(">iiqqi")
_PARTITION_12: Final = Struct(">iiqiqiB")

_MAX_BYTES_DEFAULT: Final = 0x7FFFFFFF


def decode_fetch(frame: Buffer, position: int, version: int) -> FetchHeader:
    """Read a Fetch request; what follows it in its frame is ignored, as Kafka does.

    Raises:
        ProtocolError: the frame is no such request.
    """
    return guarded("Fetch", _fetch_flexible if version >= 12 else _fetch_plain, frame, position, version)


def _fetch_plain(frame: Buffer, position: int, version: int) -> FetchHeader:
    max_bytes, isolation, session_id, session_epoch = _MAX_BYTES_DEFAULT, 0, 0, -1
    if version >= 7:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = (
            _NUMBERS_7.unpack_from(frame, position)
        )
        position += 25
    elif version >= 4:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation = _NUMBERS_4.unpack_from(frame, position)
        position += 17
    elif version == 3:
        replica_id, max_wait_ms, min_bytes, max_bytes = _NUMBERS_3.unpack_from(frame, position)
        position += 16
    else:
        replica_id, max_wait_ms, min_bytes = _NUMBERS_0.unpack_from(frame, position)
        position += 12
    partitions, position = _fetch_topics_plain(frame, position, version)
    forgotten: list[tuple[str | bytes, int]] = []
    rack_id = ""
    if version >= 7:
        forgotten, position = _forgotten_plain(frame, position)
    if version >= 11:
        (size,) = _H.unpack_from(frame, position)
        rack_id, position = read_text(frame, position + 2, size)
    return _new(
        FetchHeader,
        (replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, rack_id,
         partitions, forgotten),
    )  # fmt: skip


def _fetch_topics_plain(frame: Buffer, position: int, version: int) -> tuple[list[FetchRow], int]:
    layout = _PARTITION_9 if version >= 9 else _PARTITION_5 if version >= 5 else _PARTITION_0
    unpack_from, size_each, limit = layout.unpack_from, layout.size, len(frame)
    rows: list[FetchRow] = []
    (topics,) = _I.unpack_from(frame, position)
    position += 4
    check_count(topics, 6, limit - position)
    for _ in range(topics):
        (size,) = _H.unpack_from(frame, position)
        topic, position = read_text(frame, position + 2, size)
        (count,) = _I.unpack_from(frame, position)
        position += 4
        check_count(count, size_each, limit - position)
        end = position + count * size_each
        starts = range(position, end, size_each)
        if version >= 9:
            for partition, epoch, offset, start_offset, bytes_max in [
                unpack_from(frame, at) for at in starts
            ]:
                rows.append((topic, partition, epoch, offset, -1, start_offset, bytes_max))
        elif version >= 5:
            for partition, offset, start_offset, bytes_max in [unpack_from(frame, at) for at in starts]:
                rows.append((topic, partition, -1, offset, -1, start_offset, bytes_max))
        else:
            for partition, offset, bytes_max in [unpack_from(frame, at) for at in starts]:
                rows.append((topic, partition, -1, offset, -1, -1, bytes_max))
        position = end
    return rows, position


def _forgotten_plain(frame: Buffer, position: int) -> tuple[list[tuple[str | bytes, int]], int]:
    rows: list[tuple[str | bytes, int]] = []
    (topics,) = _I.unpack_from(frame, position)
    position += 4
    check_count(topics, 6, len(frame) - position)
    for _ in range(topics):
        (size,) = _H.unpack_from(frame, position)
        topic, position = read_text(frame, position + 2, size)
        (count,) = _I.unpack_from(frame, position)
        position += 4
        check_count(count, 4, len(frame) - position)
        end = position + 4 * count
        rows += [(topic, _I.unpack_from(frame, at)[0]) for at in range(position, end, 4)]
        position = end
    return rows, position


def _fetch_flexible(frame: Buffer, position: int, version: int) -> FetchHeader:
    if version >= 15:
        replica_id = -1
        max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = _NUMBERS_15.unpack_from(
            frame, position
        )
        position += 21
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = (
            _NUMBERS_7.unpack_from(frame, position)
        )
        position += 25
    partitions, position = _fetch_topics_flexible(frame, position, version)
    forgotten: list[tuple[str | bytes, int]] = []
    if frame[position] == 1:
        position += 1
    else:
        forgotten, position = _forgotten_flexible(frame, position, version)
    size, position = compact_size(frame, position)
    rack_id, position = read_text(frame, position, size)
    tags = frame[position]
    position += 1
    if tags:
        sent_replica_id, position = _fetch_tags(frame, position, tags, version)
        replica_id = replica_id if sent_replica_id is None else sent_replica_id
    return _new(
        FetchHeader,
        (replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, rack_id,
         partitions, forgotten),
    )  # fmt: skip


def _fetch_topics_flexible(frame: Buffer, position: int, version: int) -> tuple[list[FetchRow], int]:
    limit = len(frame)
    rows: list[FetchRow] = []
    topics, position = compact_size(frame, position)
    check_count(topics, 18 if version >= 13 else 3, limit - position)
    for _ in range(topics):
        topic, count, position = _topic_and_count(frame, position, version)
        check_count(count, 33, limit - position)
        for _ in range(count):
            partition, epoch, offset, last_epoch, start_offset, bytes_max, tags = _PARTITION_12.unpack_from(
                frame, position
            )
            position += 33
            if tags:
                position = _partition_tags(frame, position, tags, version)
            rows.append((topic, partition, epoch, offset, last_epoch, start_offset, bytes_max))
        position = after_tags(frame, position)
    return rows, position


def _forgotten_flexible(
    frame: Buffer, position: int, version: int
) -> tuple[list[tuple[str | bytes, int]], int]:
    limit = len(frame)
    rows: list[tuple[str | bytes, int]] = []
    topics, position = compact_size(frame, position)
    check_count(topics, 18 if version >= 13 else 3, limit - position)
    for _ in range(topics):
        topic, count, position = _topic_and_count(frame, position, version)
        check_count(count, 4, limit - position)
        end = position + 4 * count
        rows += [(topic, _I.unpack_from(frame, at)[0]) for at in range(position, end, 4)]
        position = after_tags(frame, end)
    return rows, position


def _topic_and_count(frame: Buffer, position: int, version: int) -> tuple[str | bytes, int, int]:
    topic: str | bytes
    if version >= 13:
        topic, count = _ID_COUNT.unpack_from(frame, position)
        position += 17
        if count > 127:
            count, position = rest_of_uvarint(frame, position, count)
        return topic, count - 1, position
    size, position = compact_size(frame, position)
    topic, position = read_text(frame, position, size)
    count, position = compact_size(frame, position)
    return topic, count, position


def _each_tag(frame: Buffer, position: int, first: int) -> list[tuple[int, int, int]]:
    """The tags of a section as (tag, start, end), in order; at least one."""
    count = first
    if first > 127:
        count, position = rest_of_uvarint(frame, position, first)
    check_count(count, 2, len(frame) - position)
    found = []
    previous = -1
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        end = position + size
        if tag <= previous or end > len(frame):
            raise ProtocolError(f"tag {tag} is out of order or longer than its message")
        found.append((tag, position, end))
        previous, position = tag, end
    return found


def _partition_tags(frame: Buffer, position: int, first: int, version: int) -> int:
    """Step over the tags of a partition; the replica's directory id (17 and up) concerns KRaft only."""
    tags = _each_tag(frame, position, first)
    if version >= 17 and any(tag == 0 and end - start != 16 for tag, start, end in tags):
        raise ProtocolError("replica directory id is not 16 bytes")
    return tags[-1][2] if tags else position


def _fetch_tags(frame: Buffer, position: int, first: int, version: int) -> tuple[int | None, int]:
    """The replica id that versions from 15 send in a tag, and the end of the section."""
    tags = _each_tag(frame, position, first)
    replica_id = None
    for tag, start, end in tags:
        if tag == 0:  # the cluster id, which only KRaft's quorum compares
            size, at = compact_size(frame, start)
            if size != -1:
                _, at = read_text(frame, at, size)
        elif tag == 1 and version >= 15:
            replica_id, _ = _IQ.unpack_from(frame, start)
            at = after_tags(frame, start + 12)
        else:
            at = end
        if at != end:
            raise ProtocolError(f"tag {tag} is not of the size that it says")
    return replica_id, tags[-1][2] if tags else position


_FETCHED_0: Final = Struct(">ihqi")
_FETCHED_4: Final = Struct(">ihqqi")
_FETCHED_5: Final = Struct(">ihqqqi")
_FETCHED_ABORTED: Final = Struct(">ihqqq")
_FETCHED_12: Final = Struct(">ihqqqBi")
_RESPONSE_0: Final = Struct(">iii")
_RESPONSE_1: Final = Struct(">iiii")
_RESPONSE_7: Final = Struct(">iiihii")
_RESPONSE_12: Final = Struct(">iiBihi")
_ABORTED: Final = Struct(">qq")
_ABORTED_TAGGED: Final = Struct(">qqB")
# A tag (0) of 13 bytes: the structure epoch (int32), end offset (int64), no tags of its own.
_DIVERGING: Final = Struct(">BBiqB")


def encode_fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    rows: Sequence[FetchedRow],
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | int]:
    """A whole Fetch response frame with length prefix and header, in pieces.

    Successive rows of one topic become one topic entry.

    Args:
        endpoints: of the leaders that rows name (version 16 and up).

    Returns:
        Pieces in order: bytes as they are, and an int N where N bytes of record data belong.

    Raises:
        ValueError: a number or a string does not fit into its field.
    """
    topics = by_topic(rows)
    pieces: list[bytes | int] = []
    try:
        if version >= 12:
            out = bytearray(_RESPONSE_12.pack(0, correlation_id, 0, throttle_ms, error_code, session_id))
            out += uvarint(len(topics) + 1)
            out = _put_fetched_flexible(out, pieces, topics, version)
            put_endpoints(out, endpoints if version >= 16 else ())
        else:
            if version >= 7:
                out = bytearray(
                    _RESPONSE_7.pack(0, correlation_id, throttle_ms, error_code, session_id, len(topics))
                )
            elif version >= 1:
                out = bytearray(_RESPONSE_1.pack(0, correlation_id, throttle_ms, len(topics)))
            else:
                out = bytearray(_RESPONSE_0.pack(0, correlation_id, len(topics)))
            out = _put_fetched_plain(out, pieces, topics, version)
        if out:
            pieces.append(bytes(out))
        size = sum([piece if type(piece) is int else len(piece) for piece in pieces]) - 4  # type: ignore[arg-type, misc]
        first = pieces[0]
        assert isinstance(first, bytes)
        pieces[0] = _I.pack(size) + first[4:]
    except StructError as error:
        raise ValueError(f"Fetch response v{version}: {error}") from error
    return pieces


_Topics: TypeAlias = list[tuple[str | bytes, list[FetchedRow]]]


def _put_fetched_plain(out: bytearray, pieces: list[bytes | int], topics: _Topics, version: int) -> bytearray:
    """Append topics to ``out``; the result is the bytearray that follows the last piece."""
    for topic, group in topics:
        assert isinstance(topic, str)
        raw = topic.encode()
        out += _H.pack(len(raw))
        out += raw
        out += _I.pack(len(group))
        for row in group:
            _, partition, code, high_watermark, stable, start, aborted, preferred, size, _, _ = row
            if version < 4:
                out += _FETCHED_0.pack(partition, code, high_watermark, size)
            else:
                count = -1 if aborted is None else len(aborted)
                if version >= 5:
                    out += _FETCHED_5.pack(partition, code, high_watermark, stable, start, count)
                else:
                    out += _FETCHED_4.pack(partition, code, high_watermark, stable, count)
                for producer_id, offset in aborted or ():
                    out += _ABORTED.pack(producer_id, offset)
                out += _II.pack(preferred, size) if version >= 11 else _I.pack(size)
            if size > 0:
                pieces.append(bytes(out))
                pieces.append(size)
                out = bytearray()
    return out


def _put_fetched_flexible(
    out: bytearray, pieces: list[bytes | int], topics: _Topics, version: int
) -> bytearray:
    """Append topics; the result is the bytearray that follows the last piece."""
    for topic, group in topics:
        if version >= 13:
            assert isinstance(topic, bytes)
            assert len(topic) == 16, topic
            out += topic
        else:
            assert isinstance(topic, str)
            put_text(out, topic, True)
        out += uvarint(len(group) + 1)
        for row in group:
            _, partition, code, high_watermark, stable, start, aborted, preferred, size, diverging, leader = (
                row
            )
            if not aborted:
                none = 0 if aborted is None else 1
                out += _FETCHED_12.pack(partition, code, high_watermark, stable, start, none, preferred)
            else:
                out += _FETCHED_ABORTED.pack(partition, code, high_watermark, stable, start)
                out += uvarint(len(aborted) + 1)
                for producer_id, offset in aborted:
                    out += _ABORTED_TAGGED.pack(producer_id, offset, 0)
                out += _I.pack(preferred)
            out += uvarint(size + 1)
            if size > 0:
                pieces.append(bytes(out))
                pieces.append(size)
                out = bytearray()
            if diverging is None and leader is None:
                out.append(0)
            else:
                _put_partition_tags(out, diverging, leader)
        out.append(0)
    return out


def _put_partition_tags(
    out: bytearray, diverging: tuple[int, int] | None, leader: CurrentLeader | None
) -> None:
    out.append((diverging is not None) + (leader is not None))
    if diverging is not None:
        out += _DIVERGING.pack(0, 13, diverging[0], diverging[1], 0)
    if leader is not None:
        put_leader(out, 1, leader)
