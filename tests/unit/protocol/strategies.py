"""Hypothesis strategies for every declared message, derived from the declarations themselves."""

import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from hypothesis import strategies as st

from pkafka.protocol.registry import keys, request_class, response_class
from pkafka.protocol.schema import Field, Message, version_range

RECORD_MODULES = (
    "cluster_metadata",
    "consumer_group",
    "consumer_protocol",
    "control",
    "group_metadata",
    "principal",
    "remote_log",
    "transaction_log",
)

Override: TypeAlias = Callable[[Field], st.SearchStrategy[Any] | None]

# Fixed values, because drawing text letter by letter is most of the time that a large message takes; the longer ones
# are around the sizes at which a varint grows.
_LONG = (126, 127, 128, 300)
_STRINGS = st.sampled_from(
    ["", "a", "topic-1", "é", "日本", "🙂", "\x00", *("x" * size for size in _LONG), "é" * 64]
)
_BYTES = st.sampled_from([b"", b"\x00", b"\xff", b"bytes", *(b"x" * size for size in _LONG)])
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": _STRINGS,
    "bytes": _BYTES,
    "records": _BYTES,
}


def record_classes() -> list[type[Message]]:
    """Every message that is no request and no response."""
    found = []
    for name in RECORD_MODULES:
        module = import_module(f"pkafka.protocol.messages.records.{name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Message) and value.__versions__ != "0+"
        ]
    return found


def all_classes() -> list[type[Message]]:
    """Every whole message."""
    return [cls for key in keys() for cls in (request_class(key), response_class(key))] + record_classes()


def every_message_version() -> Iterator[tuple[type[Message], int]]:
    """Every whole message with each of its versions."""
    for cls in all_classes():
        for version in version_range(cls.__versions__):
            yield cls, version


def no_override(_: Field) -> None:
    """Take the field's whole range."""


@cache
def instances_of(
    cls: type[Message], version: int, override: Override = no_override
) -> st.SearchStrategy[Message]:
    """Messages whose fields are anything that ``version`` can carry; fields that it lacks keep their defaults."""
    return st.builds(
        cls,
        **{field.name: _values(field, version, override) for field in cls.__fields__ if field.is_in(version)},
    )


def _values(field: Field, version: int, override: Override) -> st.SearchStrategy[Any]:
    values = override(field)
    if values is None:
        if field.kind == "array":
            values = st.lists(_elements(field, version, override), max_size=3)
        elif field.struct is not None:
            values = instances_of(field.struct, version, override)
        else:
            values = _SCALARS[field.kind]
    return st.none() | values if field.is_nullable(version) else values


def _elements(field: Field, version: int, override: Override) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return instances_of(field.struct, version, override)
    assert field.element is not None
    return _SCALARS[field.element.kind]


def flip(data: bytes, draw: st.DataObject) -> bytes:
    """``data`` with some bytes changed, removed, doubled or replaced by hostile sizes."""
    out = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(out)))
        kind = draw.draw(st.integers(0, 3))
        if kind == 0:
            del out[at : at + draw.draw(st.integers(1, 8))]
        elif kind == 1:
            out[at : at + 1] = bytes([draw.draw(st.integers(0, 255))])
        elif kind == 2:
            out[at:at] = draw.draw(st.binary(min_size=1, max_size=8))
        else:
            number = draw.draw(st.sampled_from([-1, -2, 0, 1, 0x7FFFFFFF, -(2**31), 0x7FFF]))
            out[at : at + 4] = struct.pack(">i", number)
    return bytes(out)
