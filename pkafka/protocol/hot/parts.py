"""What the flat readers and writers of Produce and Fetch share: sizes, strings, counts, tag sections."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, TypeVar

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer
from pkafka.protocol.primitives import rest_of_uvarint, skip_tags, uvarint

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[Any, ...])

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_LEADER: Final = Struct(">BBiiB")
_TOPIC: Final = itemgetter(0)


def guarded(
    what: str, read: Callable[[Buffer, int, int], T], frame: Buffer, position: int, version: int
) -> T:
    """Call ``read`` and let only ProtocolError out of it."""
    try:
        return read(frame, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"{what} v{version} is cut short") from error
    except UnicodeDecodeError as refused:
        raise ProtocolError(f"{what} v{version} holds a string that is not UTF-8") from refused


def compact_size(buffer: Buffer, position: int) -> tuple[int, int]:
    """A compact size (-1 for null), and the position behind it."""
    size = buffer[position]
    position += 1
    if size > 127:
        size, position = rest_of_uvarint(buffer, position, size)
    return size - 1, position


def after_tags(buffer: Buffer, position: int) -> int:
    """The position behind a tag section that holds nothing of interest."""
    count = buffer[position]
    return position + 1 if count == 0 else skip_tags(buffer, position + 1, count, len(buffer))


def read_text(buffer: Buffer, position: int, size: int) -> tuple[str, int]:
    """The string of ``size`` bytes at ``position``, and the position behind it."""
    end = position + size
    if size < 0 or end > len(buffer):
        raise ProtocolError(f"string of {size} bytes")
    return str(buffer[position:end], "utf-8"), end


def check_count(count: int, size_min: int, left: int) -> None:
    """Refuse an array whose elements of at least ``size_min`` bytes cannot be there."""
    if count < 0 or count * size_min > left:
        raise ProtocolError(f"array of {count} elements in {left} bytes")


def put_text(out: bytearray, text: str | None, flexible: bool) -> None:
    """Append a nullable string."""
    if text is None:
        out += b"\x00" if flexible else b"\xff\xff"
        return
    raw = text.encode()
    out += uvarint(len(raw) + 1) if flexible else _INT16.pack(len(raw))
    out += raw


class CurrentLeader(NamedTuple):
    """The leader of a partition, for a client that asked another broker (KIP-951)."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a broker is that an answer names."""

    node_id: int
    host: str
    port: int
    rack: str | None


def put_leader(out: bytearray, tag: int, leader: CurrentLeader) -> None:
    """Append the tag of a partition's leader."""
    out += _LEADER.pack(tag, _LEADER.size - 2, *leader, 0)


def put_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Append the tag section of a response, which has nothing but the addresses of leaders."""
    if not endpoints:
        out.append(0)
        return
    tag = bytearray(uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        tag += _INT32.pack(node_id)
        put_text(tag, host, True)
        tag += _INT32.pack(port)
        put_text(tag, rack, True)
        tag.append(0)
    out += b"\x01\x00"
    out += uvarint(len(tag))
    out += tag


def by_topic(rows: Sequence[Row]) -> list[tuple[Any, list[Row]]]:
    """Successive rows of one topic together, in order."""
    if len(rows) == 1:
        return [(rows[0][0], [rows[0]])]
    return [(topic, list(group)) for topic, group in groupby(rows, _TOPIC)]
