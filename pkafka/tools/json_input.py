"""Files of JSON that a person wrote for a tool: what is wrong with one is said in the words of Kafka's tools."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

T = TypeVar("T", int, str)

_NO_JSON: Final = "The input string is not a valid JSON"
_NAMES: Final = {int: "Integer", str: "String"}
_INTEGERS: Final = range(-(2**31), 2**31)
"""Of Java's int, which every number in these files is."""


class JsonInputError(PkafkaError):
    """A file does not say what it has to.

    Args:
        words: in a sentence.
        where: more of it, which Kafka's tools do not say.
    """

    def __init__(self, words: str, where: str = "") -> None:
        super().__init__(f"{words}: {where}" if where else words)
        self.words = words


def parse_object(data: bytes, *, empty: str = _NO_JSON) -> dict[str, Any]:
    """The object that a file holds.

    Args:
        empty: what to say of a file without anything in it.

    Raises:
        JsonInputError: it is no JSON, or no object.
    """
    if not data.strip():
        raise JsonInputError(empty)
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise JsonInputError(_NO_JSON, "it is nested too deeply") from error
    except ValueError as error:
        raise JsonInputError(_NO_JSON, str(error)) from error
    return json_object(document)


def json_object(value: object) -> dict[str, Any]:
    """``value``, which is an object.

    Raises:
        JsonInputError: it is not.
    """
    if not isinstance(value, dict):
        raise JsonInputError(f"Expected JSON object, received {_shown(value)}")
    return value


def json_list(value: object) -> list[Any]:
    """``value``, which is an array.

    Raises:
        JsonInputError: it is not.
    """
    if not isinstance(value, list):
        raise JsonInputError(f"Expected JSON array, received {_shown(value)}")
    return value


def field(row: object, name: str, kind: type[T]) -> T:
    """A field of an object.

    Raises:
        JsonInputError: there is none, or not of that kind, or ``row`` is no object.
    """
    return scalar(_get(json_object(row), name), kind)


def list_field(row: object, name: str, kind: type[T]) -> list[T]:
    """A field of an object that is a list of values of one kind.

    Raises:
        JsonInputError: as of :func:`field`.
    """
    return [scalar(each, kind) for each in json_list(_get(json_object(row), name))]


def scalar(value: object, kind: type[T]) -> T:
    """``value``, which is of that kind: text that can be written, or a number of 32 bits.

    Raises:
        JsonInputError: it is not.
    """
    words = f"Expected `{_NAMES[kind]}` value, received {_shown(value)}"
    if not isinstance(value, kind) or isinstance(value, bool):
        raise JsonInputError(words)
    if isinstance(value, int) and value not in _INTEGERS:
        raise JsonInputError(words, f"numbers go from {_INTEGERS.start} to {_INTEGERS.stop - 1}")
    if isinstance(value, str) and not _is_writable(value):
        raise JsonInputError(words, "half of a surrogate pair is no character")
    return value


def partition_of(row: object) -> TopicPartition:
    """The ``topic`` and ``partition`` of an object.

    Raises:
        JsonInputError: as of :func:`field`, or the partition is negative.
    """
    partition = TopicPartition(field(row, "topic", str), field(row, "partition", int))
    if partition.partition < 0:
        words = f"Topic {partition.topic} can have no partition {partition.partition}"
        raise JsonInputError(words, "they are counted from 0")
    return partition


def _get(row: Mapping[str, Any], name: str) -> object:
    if name not in row:
        raise JsonInputError(f"No such field exists: `{name}`")
    return row[name]


def _refuse_constant(name: str) -> object:
    """Python's reader takes NaN and Infinity, which JSON has not."""
    raise ValueError(f"{name} is no number in JSON")


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:  # writing takes more room than reading did
        return "[...]" if isinstance(value, list) else "{...}"
    return text if _is_writable(text) else json.dumps(value, separators=(",", ":"))
