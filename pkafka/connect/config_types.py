"""How the text of a setting is read, and how what was read is written: ``ConfigDef.parseType``, ``convertToString``."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pkafka.connect.data.java_classes import class_name, is_number
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.java.numbers import parse_double, parse_integer
from pkafka.java.text import equals_ignore_case, split_list, trim


class ConfigType(Enum):
    """``ConfigDef.Type``: what a setting is read as."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    SHORT = "short"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"  # noqa: S105  # the name of a type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Password:
    """A value that is not shown."""

    value: str

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__


ClassLookup = Callable[[str], Value]
"""The class of a name; raises LookupError when there is none."""

_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_WIDTHS: Final = {
    ConfigType.SHORT: "16-bit integer (short)",
    ConfigType.INT: "32-bit integer",
    ConfigType.LONG: "64-bit integer (long)",
}


def parse_type(name: str, value: Value, type: ConfigType, class_lookup: ClassLookup | None = None) -> Value:
    """The value of a setting.

    Args:
        name: of the setting, for errors.
        value: as configured, text as a rule; a value of the right type is taken as it is.
        class_lookup: finds classes; None: their names are their values.

    Raises:
        ConfigError: the value is none of that type.
    """
    if value is None:
        return None
    try:
        return _READERS[type](name, value, type, class_lookup)
    except ValueError as error:
        raise ConfigError.of(name, value, f"Not a number of type {type}") from error


def _boolean(name: str, value: Value, _type: ConfigType, _lookup: ClassLookup | None) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        for text, truth in (("true", True), ("false", False)):
            if equals_ignore_case(trim(value), text):
                return truth
    raise ConfigError.of(name, value, "Expected value to be either true or false")


def _string(name: str, value: Value, _type: ConfigType, _lookup: ClassLookup | None) -> str:
    if isinstance(value, str):
        return trim(value)
    raise ConfigError.of(name, value, f"Expected value to be a string, but it was a {class_name(value)}")


def _password(name: str, value: Value, type: ConfigType, lookup: ClassLookup | None) -> Password:
    return value if isinstance(value, Password) else Password(_string(name, value, type, lookup))


def _integer(name: str, value: Value, type: ConfigType, _lookup: ClassLookup | None) -> int:
    bits = _BITS[type]
    if isinstance(value, str):
        return parse_integer(trim(value), bits)
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    ):
        return value
    expected = f"Expected value to be a {_WIDTHS[type]}, but it was a {class_name(value)}"
    raise ConfigError.of(name, value, expected)


def _double(name: str, value: Value, _type: ConfigType, _lookup: ClassLookup | None) -> float:
    if isinstance(value, str):
        return parse_double(trim(value))
    if is_number(value):
        return float(value)
    raise ConfigError.of(name, value, f"Expected value to be a double, but it was a {class_name(value)}")


def _list(name: str, value: Value, _type: ConfigType, _lookup: ClassLookup | None) -> list[Value]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str):
        trimmed = trim(value)
        return split_list(trimmed) if trimmed else []
    raise ConfigError.of(name, value, "Expected a comma separated list.")


def _class(name: str, value: Value, _type: ConfigType, lookup: ClassLookup | None) -> Value:
    if not isinstance(value, str):
        return value
    if lookup is None:
        return trim(value)
    try:
        return lookup(trim(value))
    except LookupError as error:
        raise ConfigError.of(name, value, f"Class {value} could not be found.") from error


_READERS: Final[dict[ConfigType, Callable[[str, Value, ConfigType, ClassLookup | None], Value]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.PASSWORD: _password,
    ConfigType.SHORT: _integer,
    ConfigType.INT: _integer,
    ConfigType.LONG: _integer,
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _class,
}


def config_text(value: Value, type: ConfigType | None) -> str | None:
    """The text of a value that was read: ``ConfigDef.convertToString``. A password is not shown."""
    if value is None:
        return None
    if type is ConfigType.LIST:
        return ",".join(map(java_text, value))
    if type is ConfigType.CLASS and not isinstance(value, str):
        return str(getattr(value, "JAVA_NAME", None) or f"{value.__module__}.{value.__qualname__}")
    return java_text(value)
