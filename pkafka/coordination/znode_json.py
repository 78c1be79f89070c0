"""JSON as Apache Kafka writes it into ZooKeeper, to the byte: no spaces, Jackson's escapes, its maps' key order.

The orders are those of the JVM's hash tables. Readers do not care; a diff of two clusters' trees does.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from pkafka.errors import PkafkaError

Json: TypeAlias = Any

_TABLE_MIN: Final = 16
_SHORT_ESCAPE: Final = re.compile(r"\\(?:\\|u00[01][0-9a-f])")


class ZnodeFormatError(PkafkaError):
    """The data of a znode is not what its place promises."""


def to_json(value: Json) -> bytes:
    """Compact UTF-8 JSON in the order given."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Jackson writes the digits of a control character's escape in upper case.
    text = _SHORT_ESCAPE.sub(lambda match: match[0][:2] + match[0][2:].upper(), text)
    return text.encode()


def from_json(data: bytes, what: str) -> dict[str, Json]:
    """Parse a JSON object.

    Raises:
        ZnodeFormatError: it is none; ``what`` names the znode in the message.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ZnodeFormatError(f"{what}: {error}") from error
    if not isinstance(value, dict):
        raise ZnodeFormatError(f"{what}: a JSON object was expected, not {data[:80]!r}")
    return value


def string_hash(text: str) -> int:
    """Java's ``String.hashCode`` as an unsigned 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value


def in_scala_order(keys: Iterable[str]) -> list[str]:
    """The order in which a ``scala.collection.mutable.Map`` (2.13) of these keys is walked."""
    hashed = sorted((_spread(key), key) for key in keys)
    mask = _table_size(len(hashed)) - 1
    return [key for spread, key in sorted(hashed, key=lambda each: each[0] & mask)]


def in_properties_order(keys: Iterable[str]) -> list[str]:
    """The order in which ``java.util.Properties`` (Java 9 and later) filled with these keys is walked.

    Keys that share a slot of its table keep the order given, where Java's depends on the history of the table.
    """
    hashed = [(_spread(key), key) for key in keys]
    mask = _table_size(len(hashed)) - 1
    return [key for spread, key in sorted(hashed, key=lambda each: each[0] & mask)]


def _spread(key: str) -> int:
    value = string_hash(key)
    return value ^ (value >> 16)


def _table_size(count: int) -> int:
    size = _TABLE_MIN
    while count >= size * 3 // 4:
        size *= 2
    return size
