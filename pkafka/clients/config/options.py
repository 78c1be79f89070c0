"""How the configuration of a client is declared: typed options with Kafka's defaults and limits, parsed and checked."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, dataclass_transform, get_type_hints

from pkafka.errors import ConfigError
from pkafka.java.numbers import parse_double, parse_long
from pkafka.java.text import equals_ignore_case, parse_boolean, split_list, trim

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Option(NamedTuple):
    """A key: its default, what is allowed, and whether its value is a secret."""

    default: Any
    at_least: float | None
    at_most: float
    choices: tuple[str, ...]
    is_secret: bool


def option(
    default: Any,  # noqa: ANN401 - options are typed where they stand
    *,
    at_least: float | None = None,
    at_most: float = INT_MAX,
    choices: Iterable[str] = (),
    is_secret: bool = False,
) -> Any:  # noqa: ANN401 - stands in the place of the value
    """Declare a key where its value will stand; the type is that of the annotation."""
    return Option(default, at_least, at_most, tuple(choices), is_secret)


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(option,))
class Options:
    """What a dataclass would do here; making three of those takes as long as everything else that a tool imports."""

    _options: ClassVar[dict[str, Option]] = {}
    originals: Mapping[str, object] = MappingProxyType({})
    """The keys as they were given, unknown ones too: what the objects that a configuration names are handed."""

    def __init_subclass__(cls) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        cls._options = {**cls._options, **own}
        for name, option in own.items():
            setattr(cls, name, option.default)

    def __init__(self, **values: object) -> None:
        unknown = values.keys() - self._options.keys() - {"originals"}
        if unknown:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        vars(self).update(values)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Every key with its default."""
        return {name.replace("_", "."): each.default for name, each in cls._options.items()}

    @classmethod
    def parsed(cls, values: Mapping[str, object], note_unknown: Callable[[str], None]) -> dict[str, Any]:
        """The values of dotted keys by the names of their options.

        Args:
            values: key to value; text is parsed, Python values of the right type are taken as they are.
            note_unknown: called with each key that this configuration does not have.

        Raises:
            ConfigError: a value has the wrong type or lies outside its limits.
        """
        types = get_type_hints(cls)
        chosen: dict[str, Any] = {}
        for key, value in values.items():
            name = key.replace(".", "_")
            declared = cls._options.get(name) if "_" not in key else None
            if declared is None:
                note_unknown(key)
                continue
            chosen[name] = parse(key, value, types[name], declared)
        return chosen

    def is_set(self, name: str) -> bool:
        """Whether this option was given a value, even its default."""
        return name in vars(self)

    def but(self, **values: object) -> Self:
        """A copy with other values."""
        return type(self)(**{**vars(self), **values})

    def remember(self, originals: Mapping[str, object]) -> None:
        """Keep the keys as they were given."""
        vars(self)["originals"] = MappingProxyType(dict(originals))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        """The options that were given; no secret, and not the keys as they were given, which have them too."""
        shown = [
            f"{name}={'[hidden]' if self._options[name].is_secret else repr(value)}"
            for name, value in vars(self).items()
            if name in self._options
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def parse(key: str, value: object, kind: object, option: Option) -> object:
    """The typed value of a key.

    Raises:
        ConfigError: it has the wrong type or lies outside its limits.
    """
    if key == "acks":
        value = {"all": -1}.get(str(value), value)
    parsed = _PARSERS[kind](key, value)
    low = option.at_least
    if low is not None and isinstance(parsed, int | float) and not low <= parsed <= option.at_most:
        raise ConfigError(key, f"must be between {low} and {option.at_most}", value)
    if option.choices and parsed not in option.choices:
        raise ConfigError(key, f"must be one of {', '.join(option.choices)}", value)
    if key == "acks" and parsed not in (-1, 0, 1):
        raise ConfigError(key, "must be all, -1, 0 or 1", value)
    return parsed


def parse_int(key: str, value: object) -> int:
    """A whole number.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return parse_long(trim(str(value)))
    except ValueError:
        raise ConfigError(key, "must be a whole number", value) from None


def _parse_float(key: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return parse_double(trim(str(value)))
    except ValueError:
        raise ConfigError(key, "must be a number", value) from None


def _parse_bool(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = trim(str(value))
    if not equals_ignore_case(text, "true") and not equals_ignore_case(text, "false"):
        raise ConfigError(key, "must be true or false", value)
    return parse_boolean(text)


def _parse_str(key: str, value: object) -> str:
    return trim(str(value))


def _parse_optional_str(key: str, value: object) -> str | None:
    return None if value is None else trim(str(value))


def _parse_optional_int(key: str, value: object) -> int | None:
    return None if value is None else parse_int(key, value)


def _parse_list(key: str, value: object) -> tuple[str, ...]:
    items = split_list(trim(value)) if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        raise ConfigError(key, "must be a list", value)
    return tuple(text for item in items if (text := trim(str(item))))


def _as_it_is(_key: str, value: object) -> object:
    return value


_PARSERS: dict[object, Callable[[str, object], object]] = {
    object: _as_it_is,  # a class, its name, an object or a list of them: clients.plugins knows what to make of it
    int: parse_int,
    float: _parse_float,
    bool: _parse_bool,
    str: _parse_str,
    str | None: _parse_optional_str,
    int | None: _parse_optional_int,
    tuple[str, ...]: _parse_list,
}
