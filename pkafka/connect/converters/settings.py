"""Settings that all converters have."""

from collections.abc import Mapping
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import one_of
from pkafka.connect.data.types import Value

TYPE: Final = "converter.type"


def converter_config() -> ConfigDef:
    """What it is used for: ``ConverterConfig.newConfigDef``."""
    return ConfigDef().define(
        TYPE,
        ConfigType.STRING,
        validator=one_of("key", "value", "header"),
        importance=Importance.LOW,
        documentation="How this converter will be used.",
    )


def with_type(configs: Mapping[str, Value], *, is_key: bool) -> dict[str, Value]:
    """The settings of a converter of keys or of values; of headers, when they say so."""
    used_for = configs.get(TYPE) if configs.get(TYPE) == "header" else "key" if is_key else "value"
    return {**configs, TYPE: used_for}
