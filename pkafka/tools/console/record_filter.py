"""Which records the user looks for: conditions on key, value, headers and fields of JSON. Bytes in, a verdict out."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from pkafka.errors import PkafkaError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Condition: TypeAlias = Callable[[bytes | None, bytes | None, Headers], bool]
"""Key, value and headers of a record to whether it is wanted."""

_FORM: Final = re.compile(
    r"(?P<part>key|value|header)(?:\.(?P<path>[^=~]+))?(?P<operator>[=~])(?P<operand>.*)", re.S
)


class FilterError(PkafkaError):
    """A condition is not written in a way that is understood."""


def condition(text: str) -> Condition:
    """Read one condition.

    Args:
        text: ``key=TEXT`` or ``key~REGEX``; the same with ``value``, with ``header.NAME``, and with ``value.a.0.b`` for
            a field of a JSON value (texts as they are, other values as JSON writes them). A regular expression may
            match anywhere. What is not there, or null, matches nothing.

    Raises:
        FilterError: it is none of these.
    """
    match = _FORM.fullmatch(text)
    if match is None or ((match["part"] == "header") != bool(match["path"]) and match["part"] != "value"):
        raise FilterError(f"{text!r} is none of key=, value=, header.NAME=, value.FIELD= or these with ~")
    test = _test(match["operator"], match["operand"])
    part, path = match["part"], match["path"]
    if part == "key":
        return lambda key, _value, _headers: test(_text(key))
    if part == "header":
        return lambda _key, _value, headers: any(test(_text(data)) for name, data in headers if name == path)
    if path is None:
        return lambda _key, value, _headers: test(_text(value))
    steps = path.split(".")
    return lambda _key, value, _headers: test(_field(value, steps))


def all_of(conditions: Iterable[Condition]) -> Condition | None:
    """One condition that wants what all of them want; None where there are none."""
    wanted = list(conditions)
    if len(wanted) < 2:
        return wanted[0] if wanted else None
    return lambda key, value, headers: all(each(key, value, headers) for each in wanted)


def _test(operator: str, operand: str) -> Callable[[str | None], bool]:
    if operator == "=":
        return lambda text: text == operand
    try:
        pattern = re.compile(operand)
    except re.error as error:
        raise FilterError(f"{operand!r} is no regular expression: {error}") from error
    return lambda text: text is not None and pattern.search(text) is not None


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", errors="replace")


def _field(data: bytes | None, steps: Sequence[str]) -> str | None:
    try:
        value = json.loads(data or b"null")
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
