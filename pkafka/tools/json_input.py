"""Files of JSON that a person wrote for a tool: what is wrong with one is said in the words of Kafka's tools."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pkafka.errors import PkafkaError

T = TypeVar("T", int, str)

_NO_JSON: Final = "The input string is not a valid JSON"
_NAMES: Final = {int: "Integer", str: "String"}


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
        document = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
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
    """``value``, which is of that kind.

    Raises:
        JsonInputError: it is not.
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise JsonInputError(f"Expected `{_NAMES[kind]}` value, received {_shown(value)}")
    return value


def _get(row: Mapping[str, Any], name: str) -> object:
    if name not in row:
        raise JsonInputError(f"No such field exists: `{name}`")
    return row[name]


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
