"""Text to typed value and back, by Kafka's rules, with the texts its tools show for a value that breaks one."""

import re
from collections.abc import Callable
from typing import Final

from pkafka.errors import ConfigError
from pkafka.java.numbers import double_text, parse_double, parse_integer
from pkafka.java.text import equals_ignore_case, parse_boolean, split_list, trim
from pkafka.server.config.keys import ConfigKey

Value = bool | int | float | str | tuple[str, ...] | None

# The number of the last interim version (IV) of each release that Kafka knows; None: it had none.
METADATA_VERSIONS: Final[dict[str, int | None]] = {
    **dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0")),
    **{"0.10.0": 1, "0.10.1": 2, "0.10.2": 0, "0.11.0": 2, "1.0": 0, "1.1": 0, "2.0": 1, "2.1": 2, "2.2": 1},
    **{"2.3": 1, "2.4": 1, "2.5": 0, "2.6": 0, "2.7": 2, "2.8": 1, "3.0": 1, "3.1": 0, "3.2": 0, "3.3": 3},
    **{"3.4": 0, "3.5": 2, "3.6": 2, "3.7": 4, "3.8": 0, "3.9": 0, "4.0": 1},
}

_UNFINISHED: Final = "4.0"
"""Of this, Kafka 3.9 knows interim releases only."""

_INTEGER_BITS: Final = {"short": 16, "int": 32, "long": 64}


class InvalidValueError(ConfigError):
    """One value is not of its key's type or breaks its key's rule."""


def parse(key: ConfigKey, text: str | None) -> Value:
    """The typed value of ``text`` for ``key``; blanks around it do not count.

    Args:
        key: the key that says type and rule.
        text: the value as written; None is the absence of a value.

    Raises:
        ConfigError: the text is not of the key's type or breaks its rule; a secret's value is not repeated.
    """
    if text is None:
        value: Value = None
    else:
        try:
            value = _PARSERS[key.type](trim(text))
        except ValueError as error:
            raise InvalidValueError(key.name, str(error), None if key.sensitive else text) from None
    broken = _broken_rule(key, value)
    if broken is not None:
        problem, offender = broken
        raise InvalidValueError(key.name, problem, offender)
    return value


def render(value: Value) -> str | None:
    """The text of a typed value, as Kafka prints it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return double_text(value)
    return str(value)


def kafka_message(error: ConfigError) -> str:
    """The sentence with which Kafka itself would report ``error``."""
    if isinstance(error, InvalidValueError):
        return f"Invalid value {error.value} for configuration {error.key}: {error.problem}"
    if error.problem[:1].isupper():
        return f"requirement failed: {error.problem}"  # a sentence of its own
    return f"requirement failed: {error.key} {error.problem}"


def _parse_boolean(text: str) -> bool:
    if not equals_ignore_case(text, "true") and not equals_ignore_case(text, "false"):
        raise ValueError("Expected value to be either true or false")
    return parse_boolean(text)


def _parse_integer(kind: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            return parse_integer(text, _INTEGER_BITS[kind])
        except ValueError:
            raise ValueError(f"Not a number of type {kind.upper()}") from None

    return parse


def _parse_double(text: str) -> float:
    try:
        return parse_double(text)
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


def parse_list(text: str) -> tuple[str, ...]:
    return tuple(split_list(text)) if text else ()


def _parse_class(text: str) -> str:
    # Whether there is such a class shows when it is looked for; the name of none is there always.
    if not text:
        raise ValueError("Class  could not be found.")
    return text


_PARSERS: Final[dict[str, Callable[[str], Value]]] = {
    "boolean": _parse_boolean,
    "short": _parse_integer("short"),
    "int": _parse_integer("int"),
    "long": _parse_integer("long"),
    "double": _parse_double,
    "list": parse_list,
    "string": str,
    "class": _parse_class,
    "password": str,
}


def _broken_rule(key: ConfigKey, value: Value) -> tuple[str, str] | None:
    """What is wrong and the text of the part of the value that is, or None."""
    if key.rule is None:
        return None
    name, *arguments = key.rule
    values: tuple[Value, ...] = (value,)
    if name == "some of":
        assert isinstance(value, tuple)
        values, name = value, "one of"
    for each in values:
        problem = _RULES[str(name)](each, tuple(arguments))
        if problem is not None:
            text = f"[{', '.join(each)}]" if isinstance(each, tuple) else render(each) or ""
            prefix = f"{key.name} " if name == "replica list" else ""
            return prefix + problem, "null" if each is None else text
    return None


def _range(value: Value, arguments: tuple[object, ...]) -> str | None:
    low, high = arguments
    if value is None:
        return "Value must be non-null"
    assert isinstance(value, int | float)
    if isinstance(low, int | float) and value < low:
        return f"Value must be at least {_bound(low)}"
    if isinstance(high, int | float) and value > high:
        return f"Value must be no more than {_bound(high)}"
    return None


def _bound(bound: int | float) -> str:
    # The reference keeps the type in which the bound was written: whole for the ratios' 0 and 1.
    return str(int(bound)) if bound == int(bound) else str(bound)


def _one_of(value: Value, arguments: tuple[object, ...]) -> str | None:
    allowed = ", ".join(map(str, arguments))
    return None if value in arguments else f"String must be one of: {allowed}"


def _one_of_any_case(value: Value, arguments: tuple[object, ...]) -> str | None:
    allowed = ", ".join(map(str, arguments))
    found = value is not None and str(value).upper() in arguments
    return None if found else f"String must be one of (case insensitive): {allowed}"


def _not_empty(value: Value, _: tuple[object, ...]) -> str | None:
    return "String must be non-empty" if value == "" else None


def _not_null(value: Value, _: tuple[object, ...]) -> str | None:
    return "entry must be non null" if value is None else None


def _gzip_level(value: Value, _: tuple[object, ...]) -> str | None:
    assert isinstance(value, int)
    in_range = value == -1 or 1 <= value <= 9
    return None if in_range else "Value must be between 1 and 9 or equal to -1"


def _pool_size(value: Value, _: tuple[object, ...]) -> str | None:
    assert isinstance(value, int)
    return None if value == -1 or value >= 1 else "Value can be -1 or greater than 0"


def _version(value: Value, _: tuple[object, ...]) -> str | None:
    text = str(value)
    release = ".".join(text.split("-")[0].split(".")[: 3 if text.startswith("0.") else 2])
    last = METADATA_VERSIONS.get(release, -1)
    interim = text.partition("-IV")[2]
    if not interim:
        is_known = last != -1 and release != _UNFINISHED
    else:
        is_known = last is not None and interim in map(str, range(last + 1))
    if is_known:
        return None
    return f"Version {text} is not a valid version"


def interim_release(text: str) -> tuple[int, ...]:
    """A valid version in a form that compares; without a suffix it is the last of its interim releases."""
    release, _, interim = text.partition("-IV")
    numbers = [int(part) for part in release.split(".")[:3]]
    return (*numbers, *[0] * (3 - len(numbers)), int(interim) if interim else _LAST_INTERIM)


_LAST_INTERIM: Final = 99
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")


def _replica_list(value: Value, _: tuple[object, ...]) -> str | None:
    replicas = value if isinstance(value, tuple) else ()
    if replicas == ("*",) or all(map(_REPLICA.fullmatch, replicas)):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_RULES: Final[dict[str, Callable[[Value, tuple[object, ...]], str | None]]] = {
    "range": _range,
    "one of": _one_of,
    "one of, any case": _one_of_any_case,
    "not empty": _not_empty,
    "not null": _not_null,
    "gzip level": _gzip_level,
    "pool size": _pool_size,
    "version": _version,
    "replica list": _replica_list,
}
