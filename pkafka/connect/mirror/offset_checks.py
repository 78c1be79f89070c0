"""What operators may set as offsets of MirrorMaker's connectors (KIP-875); texts are Java's. Pure."""

from collections.abc import Mapping
from typing import Final

from pkafka.connect.connector import SourcePlace
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConnectError

Offsets = Mapping[int, tuple[SourcePlace | None, SourcePlace | None]]
_MISSING: Final = object()


def check_offsets(offsets: Offsets, *texts: str, has_partition: bool, only_zero: bool) -> None:
    """Refuse offsets that a task could not use. One that is to be forgotten may be of any partition.

    Args:
        texts: names in a source partition whose values are strings.
        has_partition: whether it has the number of a partition, too.
        only_zero: whether an offset says nothing but that there is one.

    Raises:
        ConnectError: one is refused.
    """
    for place, offset in offsets.values():
        if offset is None:
            continue
        if place is None:
            raise ConnectError("Source partitions may not be null")
        for name in texts:
            _check_text(place, name)
        if has_partition:
            _check_number(f"Source partition {java_text(place)}", place, "partition")
        where = f"Source offset {java_text(offset)} for source partition {java_text(place)}"
        _check_number(where, offset, "offset", only_zero=only_zero)


def _check_text(place: SourcePlace, name: str) -> None:
    value = _value_of(f"Source partition {java_text(place)}", place, name)
    if not isinstance(value, str):
        raise ConnectError(
            f"Source partition {java_text(place)} has an invalid value {java_text(value)} for the '{name}' key, which"
            " must be a string"
        )


def _check_number(where: str, values: SourcePlace, name: str, *, only_zero: bool = False) -> None:
    value = _value_of(where, values, name)
    wrong = f"{where} has an invalid value {java_text(value)} for the '{name}' key"
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConnectError(f"{wrong}, which must be an integer")
    if only_zero and value != 0:
        raise ConnectError(f"{wrong}; the only accepted value is 0")
    if value < 0:
        raise ConnectError(f"{wrong}, which cannot be negative")


def _value_of(where: str, values: SourcePlace, name: str) -> Value:
    value = values.get(name, _MISSING)
    if value is _MISSING:
        raise ConnectError(f"{where} is missing the '{name}' key, which is required")
    return value
