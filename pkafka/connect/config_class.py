"""Settings as a dataclass: the definition is made of its fields, and what was configured is one of it.

>>> @dataclass(frozen=True)
... class FileSettings:
...     file: str = setting("file", "The file to read.", importance=Importance.HIGH)
...     batch_size: int = setting("batch.size", "Lines in one batch.", default=2000)
>>> read_settings(FileSettings, {"file": "a.txt"})
FileSettings(file='a.txt', batch_size=2000)
"""

import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Final, TypeVar, Union, get_args, get_origin, get_type_hints

from pkafka.connect.config_def import NO_DEFAULT, ConfigDef, ConfigType, Importance, Key, Password, Validator
from pkafka.connect.config_types import ClassLookup
from pkafka.connect.data.types import Value

S = TypeVar("S")
_SETTING: Final = "pkafka.connect.setting"
_TYPES: Final[dict[object, ConfigType]] = {
    str: ConfigType.STRING,
    bool: ConfigType.BOOLEAN,
    int: ConfigType.INT,
    float: ConfigType.DOUBLE,
    list: ConfigType.LIST,
    type: ConfigType.CLASS,
    Password: ConfigType.PASSWORD,
}


def setting(
    name: str,
    documentation: str = "",
    *,
    type: ConfigType | None = None,
    default: Value = NO_DEFAULT,
    validator: Validator | None = None,
    importance: Importance = Importance.MEDIUM,
    **more: Value,
) -> Value:
    """A field that is a setting.

    Args:
        name: of the setting, as ``batch.size``.
        documentation: for people.
        type: of the setting; None: what the annotation says, ``int`` for 32 bits.
        default: what it is when it is not given; as text, or as it is.
        validator: what it may be.
        importance: how often people want to set it.
        more: other attributes of :class:`Key`.
    """
    attributes = {
        "documentation": documentation,
        "default": default,
        "validator": validator,
        "importance": importance,
    }
    described = (name, type, {**attributes, **more})
    return dataclasses.field(metadata={_SETTING: described})


def config_def_of(settings: type, *, class_lookup: ClassLookup | None = None) -> ConfigDef:
    """The definition of the settings of a dataclass, in the order of its fields.

    Raises:
        ConfigError: a default is refused.
        TypeError: an annotation says no type of a setting.
    """
    return ConfigDef(list(_keys(settings).values()), class_lookup=class_lookup)


def read_settings(
    settings: type[S], configs: Mapping[str, Value], *, class_lookup: ClassLookup | None = None
) -> S:
    """An instance of the dataclass with what was configured.

    Raises:
        ConfigError: a setting is refused or lacking.
    """
    parsed = config_def_of(settings, class_lookup=class_lookup).parse(configs)
    return settings(**{field: parsed[key.name] for field, key in _keys(settings).items()})


def _keys(settings: type) -> dict[str, Key]:
    """The settings by the names of their fields."""
    annotations = get_type_hints(settings)
    keys: dict[str, Key] = {}
    for field in dataclasses.fields(settings):
        if _SETTING in field.metadata:
            name, type, attributes = field.metadata[_SETTING]
            keys[field.name] = Key(name=name, type=type or _type_of(annotations[field.name]), **attributes)
    return keys


def _type_of(annotation: object) -> ConfigType:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    found = _TYPES.get(get_origin(annotation) or annotation)
    if found is None:
        raise TypeError(f"{annotation} is the type of no setting")
    return found
