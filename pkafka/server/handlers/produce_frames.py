"""What workers send each other for Produce: record sets to append, and the rows of the answer, as packed numbers.

Every second request of a busy producer of many partitions becomes such a frame, so nothing in it is an object that has
to be built and walked. Only rows that say more than numbers, as a refused one may, travel as msgpack.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import msgpack

from pkafka.server.handlers.produce_append import Row
from pkafka.server.transactions.questions import Vouched

# Both ends are processes of one machine: the byte order is its own.
# Produce version, acks, time-out (ms), bytes of client id and transactional id (-1: none), sets, where they are and
# whether words come with them.
_ORDER: Final = Struct("=hhiiiIB")
_SET: Final = Struct("=iQII")
"""Partition, place, size in bytes, bytes of the topic's name, which follows."""
_WORD: Final = Struct("=ii16s")
_ROW: Final = Struct("=hqqq")
_IN_ARENA: Final = 1
_WITH_WORDS: Final = 2
_NUMBERS: Final = b"\x00"
_MORE_THAN_NUMBERS: Final = b"\x01"

Part: TypeAlias = tuple[str, int, int, int]
"""Topic, partition, place and size of a record set. The place counts from the start of the arena or of the blob."""


class Order(NamedTuple):
    """Record sets that the owner of their partitions is to append for the client of another worker.

    Attributes:
        version: of the Produce request.
        acks: of the request.
        timeout_ms: of the request.
        client_id: of the request's header.
        transactional_id: None when no record set belongs to a transaction.
        words: of the transaction's coordinator for each set, if the worker that asks is the coordinator.
        in_arena: whether the sets lie in the arena of the worker that asks; else they are the blob of the frame.
        parts: the record sets.
    """

    version: int
    acks: int
    timeout_ms: int
    client_id: str | None
    transactional_id: str | None
    words: Sequence[Vouched] | None
    in_arena: bool
    parts: Sequence[Part]


def pack_order(order: Order) -> bytes:
    """The order as the header of a packed frame."""
    version, acks, timeout_ms, client_id, transactional_id, words, in_arena, parts = order
    client = b"" if client_id is None else client_id.encode()
    transaction = b"" if transactional_id is None else transactional_id.encode()
    flags = (_IN_ARENA if in_arena else 0) | (_WITH_WORDS if words is not None else 0)
    pieces = [
        _ORDER.pack(
            version,
            acks,
            timeout_ms,
            -1 if client_id is None else len(client),
            -1 if transactional_id is None else len(transaction),
            len(parts),
            flags,
        ),
        client,
        transaction,
    ]
    for topic, partition, place, size in parts:
        name = topic.encode()
        pieces.append(_SET.pack(partition, place, size, len(name)))
        pieces.append(name)
    if words is not None:
        pieces += [_WORD.pack(*word) for word in words]
    return b"".join(pieces)


def unpack_order(data: memoryview) -> Order:
    """What :func:`pack_order` has packed."""
    version, acks, timeout_ms, client_bytes, transaction_bytes, count, flags = _ORDER.unpack_from(data)
    position = _ORDER.size
    client_id = transactional_id = words = None
    if client_bytes >= 0:
        client_id = str(data[position : position + client_bytes], "utf-8")
        position += client_bytes
    if transaction_bytes >= 0:
        transactional_id = str(data[position : position + transaction_bytes], "utf-8")
        position += transaction_bytes
    parts: list[Part] = []
    for _ in range(count):
        partition, place, size, name_bytes = _SET.unpack_from(data, position)
        position += _SET.size
        parts.append((str(data[position : position + name_bytes], "utf-8"), partition, place, size))
        position += name_bytes
    if flags & _WITH_WORDS:
        words = list(_WORD.iter_unpack(data[position : position + count * _WORD.size]))
    order = version, acks, timeout_ms, client_id, transactional_id, words, bool(flags & _IN_ARENA), parts
    return tuple.__new__(Order, order)  # a call of the class takes three times as long


def pack_rows(rows: Sequence[Row]) -> bytes:
    """The rows of the answer, without topics and partitions, which the worker that has asked knows."""
    pieces = [_NUMBERS]
    for _topic, _partition, code, base_offset, append_time_ms, start_offset, errors, message, leader in rows:
        if errors or message is not None or leader is not None:
            packed: bytes = msgpack.packb([row[2:] for row in rows])
            return _MORE_THAN_NUMBERS + packed
        pieces.append(_ROW.pack(code, base_offset, append_time_ms, start_offset))
    return b"".join(pieces)


def unpack_rows(data: memoryview, keys: Sequence[tuple[str, int]]) -> list[Row]:
    """The rows of the answer.

    Args:
        keys: topic and partition of each.
    """
    numbers = data[1:]
    if data[0]:
        return [(*key, *row) for key, row in zip(keys, msgpack.unpackb(numbers), strict=True)]
    if len(keys) == 1:
        ((topic, partition),) = keys
        code, base_offset, append_time_ms, start_offset = _ROW.unpack(numbers)
        return [(topic, partition, code, base_offset, append_time_ms, start_offset, [], None, None)]
    return [
        (topic, partition, *row, [], None, None)
        for (topic, partition), row in zip(keys, _ROW.iter_unpack(numbers), strict=True)
    ]
