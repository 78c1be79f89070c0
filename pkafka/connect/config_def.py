"""Which settings there are, what they may be, and what is wrong with those that were given: ``ConfigDef``.

Texts of errors, their order and their number are Apache Kafka's: the REST API of Connect answers with them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Protocol, Self, runtime_checkable

from pkafka.connect.config_types import ClassLookup, ConfigType, Password, parse_type
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError

__all__ = [
    "NO_DEFAULT",
    "ConfigDef",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Key",
    "Password",
    "Recommender",
    "Validator",
    "Width",
]


class Importance(Enum):
    """How often people want to set it."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Width(Enum):
    """How much room a form should give it."""

    NONE = "none"
    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT: Final = _NoDefault.NO_DEFAULT
"""The default of a setting that has to be given."""


Validator = Callable[[str, Value], None]
"""Raises ConfigError for a value that a setting of that name must not have."""


@runtime_checkable
class Recommender(Protocol):
    """What a setting may be, in view of the others."""

    def valid_values(self, name: str, parsed: Mapping[str, Value]) -> list[Value]:
        """The values to choose from; none: any."""

    def visible(self, name: str, parsed: Mapping[str, Value]) -> bool:
        """Whether a form should show the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting."""

    name: str
    type: ConfigType
    default: Value = NO_DEFAULT
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    internal: bool = False

    @property
    def has_default(self) -> bool:
        """Whether it need not be given."""
        return self.default is not NO_DEFAULT


@dataclass(slots=True)
class ConfigValue:
    """What became of one setting.

    Args:
        name: of the setting.
        value: as read; None: not given, or refused.
        recommended: what it may be.
        errors: what is wrong with it.
        visible: whether a form should show it.
    """

    name: str
    value: Value = None
    recommended: list[Value] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """The settings of one thing, in the order of their definition.

    Args:
        keys: to begin with.
        class_lookup: finds the classes of settings of type CLASS; None: their names are their values.
    """

    def __init__(self, keys: Sequence[Key] = (), *, class_lookup: ClassLookup | None = None) -> None:
        self._keys: dict[str, Key] = {}
        self._groups: list[str] = []
        self._class_lookup = class_lookup
        self._roots: tuple[str, ...] | None = None
        for key in keys:
            self._add(key)

    @property
    def keys(self) -> Mapping[str, Key]:
        """The settings by name."""
        return self._keys

    @property
    def groups(self) -> Sequence[str]:
        """The groups of settings, in the order of their first mention."""
        return self._groups

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Value = NO_DEFAULT,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        documentation: str = "",
        **more: Value,
    ) -> Self:
        """One setting more.

        Args:
            more: the other attributes of :class:`Key`.

        Raises:
            ConfigError: there is one of that name, or the default is refused.
        """
        return self._add(
            Key(
                name=name,
                type=type,
                default=default,
                validator=validator,
                importance=importance,
                documentation=documentation,
                **more,
            )
        )

    def with_keys_of(self, other: "ConfigDef") -> "ConfigDef":
        """Another definition, of these settings and then of the other's.

        Raises:
            ConfigError: one is in both.
        """
        return ConfigDef((*self._keys.values(), *other._keys.values()), class_lookup=self._class_lookup)

    def _add(self, key: Key) -> Self:
        if key.name in self._keys:
            raise ConfigError(f"Configuration {key.name} is defined twice.")
        if not key.display_name:
            key = replace(key, display_name=key.name)
        if key.has_default:
            key = replace(key, default=parse_type(key.name, key.default, key.type))
            if key.validator is not None:
                key.validator(key.name, key.default)
        if key.group is not None and key.group not in self._groups:
            self._groups.append(key.group)
        self._keys[key.name] = key
        self._roots = None
        return self

    def parse(self, configs: Mapping[str, Value]) -> dict[str, Value]:
        """All settings, as their types say.

        Raises:
            ConfigError: one is refused or lacking, or depends on one that is not there.
        """
        undefined = self._undefined_dependents()
        if undefined:
            named = ",".join(undefined)
            raise ConfigError(
                f"Some configurations in are referred in the dependents, but not defined: {named}"
            )
        return {name: self._parse_one(key, configs) for name, key in self._keys.items()}

    def _parse_one(self, key: Key, configs: Mapping[str, Value]) -> Value:
        if key.name in configs:
            value = parse_type(key.name, configs[key.name], key.type, self._class_lookup)
        elif key.has_default:
            value = key.default
        else:
            raise ConfigError(_missing(key.name))
        if key.validator is not None:
            key.validator(key.name, value)
        return value

    def validate(self, configs: Mapping[str, Value]) -> list[ConfigValue]:
        """What becomes of each setting; nothing is raised."""
        return list(self.validate_all(configs).values())

    def validate_all(self, configs: Mapping[str, Value]) -> dict[str, ConfigValue]:
        """What becomes of each setting, by name; nothing is raised."""
        values = {name: ConfigValue(name) for name in self._keys}
        for name in self._undefined_dependents():
            error = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, errors=[error], visible=False)
        parsed: dict[str, Value] = {}
        for name in self._names_without_parent():
            self._read(name, configs, parsed, values)
        for name in self._names_without_parent():
            self._recommend(name, parsed, values)
        return values

    def _read(
        self,
        name: str,
        configs: Mapping[str, Value],
        parsed: dict[str, Value],
        values: dict[str, ConfigValue],
    ) -> None:
        key = self._keys.get(name)
        if key is None:
            return
        entry, value = values[name], None
        if name in configs:
            try:
                value = parse_type(name, configs[name], key.type, self._class_lookup)
            except ConfigError as error:
                entry.errors.append(str(error))
        elif key.has_default:
            value = key.default
        else:
            entry.errors.append(_missing(name))
        if key.validator is not None:
            # A value that could not be read is none, about which a validator may complain as well.
            try:
                key.validator(name, value)
            except ConfigError as error:
                entry.errors.append(str(error))
        entry.value = parsed[name] = value
        for dependent in key.dependents:
            self._read(dependent, configs, parsed, values)

    def _recommend(self, name: str, parsed: Mapping[str, Value], values: dict[str, ConfigValue]) -> None:
        key = self._keys.get(name)
        if key is None:
            return
        entry = values[name]
        if key.recommender is not None:
            try:
                recommended = key.recommender.valid_values(name, parsed)
                earlier = entry.recommended
                entry.recommended = (
                    [each for each in earlier if each in recommended] if earlier else recommended
                )
                entry.visible = key.recommender.visible(name, parsed)
            except ConfigError as error:
                entry.errors.append(str(error))
        for dependent in key.dependents:
            self._recommend(dependent, parsed, values)

    def _undefined_dependents(self) -> list[str]:
        named = (each for key in self._keys.values() for each in key.dependents)
        return list(dict.fromkeys(each for each in named if each not in self._keys))

    def _names_without_parent(self) -> tuple[str, ...]:
        if self._roots is None:
            children = {each for key in self._keys.values() for each in key.dependents}
            self._roots = tuple(name for name in self._keys if name not in children)
        return self._roots


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'
