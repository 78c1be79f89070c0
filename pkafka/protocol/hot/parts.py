"""What the flat readers and writers of Produce and Fetch share: sizes, strings, counts, tag sections."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeVar

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer
from pkafka.protocol.primitives import rest_of_uvarint, skip_tags, uvarint

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[Any, ...])

_INT16: Final = Struct(">h")
_TOPIC: Final = itemgetter(0)


def guarded(
    what: str, read: Callable[[Buffer, int, int], T], frame: Buffer, position: int, version: int
) -> T:
    """Call ``read`` and let only ProtocolError out of it."""
    try:
        return read(frame, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError(f"{what} v{version} is cut short") from error
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what} v{version} holds a string that is not UTF-8") from error


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


def by_topic(rows: Sequence[Row]) -> list[tuple[Any, list[Row]]]:
    """Successive rows of one topic together, in order."""
    if len(rows) == 1:
        return [(rows[0][0], [rows[0]])]
    return [(topic, list(group)) for topic, group in groupby(rows, _TOPIC)]
