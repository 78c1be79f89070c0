"""``MaskField``: replaces values that have to stay secret by values that say nothing."""

from collections.abc import Callable, Mapping
from decimal import Decimal as Number
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import non_empty, non_empty_list
from pkafka.connect.data.java_classes import Float32, Int8, Int16, Int32, class_name
from pkafka.connect.data.java_text import to_float32
from pkafka.connect.data.logical import from_millis
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Value
from pkafka.connect.data.values import as_double, parse_decimal, to_integer
from pkafka.connect.errors import DataError, NumberFormatError
from pkafka.connect.transforms.interface import R
from pkafka.connect.transforms.requirements import (
    REPLACE_NULL,
    field_value,
    require_map,
    require_struct,
    with_replace_null,
)
from pkafka.connect.transforms.sides import PACKAGE, OnKey, OnValue, Sided

_NOTHING: Final[dict[str, Value]] = {
    "java.lang.Boolean": False,
    "java.lang.Byte": Int8(0),
    "java.lang.Short": Int16(0),
    "java.lang.Integer": Int32(0),
    "java.lang.Long": 0,
    "java.lang.Float": Float32(0.0),
    "java.lang.Double": 0.0,
    "java.math.BigInteger": 0,
    "java.math.BigDecimal": Number(0),
    "java.util.Date": from_millis(0),
    "java.lang.String": "",
}
_REPLACED: Final[dict[str, Callable[[str], Value]]] = {
    "java.lang.Byte": lambda text: Int8(to_integer(8, None, text)),
    "java.lang.Short": lambda text: Int16(to_integer(16, None, text)),
    "java.lang.Integer": lambda text: Int32(to_integer(32, None, text)),
    "java.lang.Long": lambda text: to_integer(64, None, text),
    "java.lang.Float": lambda text: Float32(to_float32(as_double(text, None))),
    "java.lang.Double": lambda text: as_double(text, None),
    "java.lang.String": lambda text: text,
    "java.math.BigDecimal": parse_decimal,
}


class MaskField(Sided):
    """``MaskField``."""

    CONFIG = with_replace_null(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Names of fields to mask.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            None,
            non_empty,
            Importance.LOW,
            "Custom value replacement, that will be applied to all 'fields' values (numeric or non-empty "
            "string values only).",
        )
    )
    _PURPOSE = "mask fields"

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._names: list[str] = list(dict.fromkeys(parsed["fields"]))
        self._replacement: str | None = parsed["replacement"]
        self._replace_null: bool = parsed[REPLACE_NULL]

    def apply(self, record: R) -> R | None:
        """The record with those fields masked.

        Raises:
            DataError: there are no fields, or one is of a type that cannot be masked so.
        """
        schema, value = self._of(record)
        if schema is None:
            masked = {**require_map(value, self._PURPOSE)}
            for name in self._names:
                masked[name] = self._masked(masked.get(name), None)
            return self._with(record, None, masked)
        struct = require_struct(value, self._PURPOSE, schema)
        updated = Struct(struct.schema)
        for field in struct.schema.fields:
            each = field_value(struct, field, replace_null=self._replace_null)
            updated.put(field, self._masked(each, field.schema) if field.name in self._names else each)
        return self._with(record, schema, updated)

    def _masked(self, value: Value, schema: Schema | None) -> Value:
        if value is None:
            return None
        name = class_name(value, None if schema is None else schema.type)
        return _nothing(name) if self._replacement is None else _replaced(name, self._replacement)


def _replaced(name: str, replacement: str) -> Value:
    replace = _REPLACED.get(name)
    if replace is None:
        raise DataError(f"Cannot mask value of type class {name} with custom replacement.")
    try:
        return replace(replacement)
    except NumberFormatError as error:
        raise DataError(f"Unable to convert {replacement} (class java.lang.String) to number") from error


def _nothing(name: str) -> Value:
    if name == "java.util.ArrayList":
        return []
    if name == "java.util.HashMap":
        return {}
    if name not in _NOTHING:
        raise DataError(f"Cannot mask value of type: class {name}")
    return _NOTHING[name]


class MaskFieldKey(OnKey, MaskField):
    """``MaskField`` of keys."""

    JAVA_NAME = PACKAGE + "MaskField$Key"


class MaskFieldValue(OnValue, MaskField):
    """``MaskField`` of values."""

    JAVA_NAME = PACKAGE + "MaskField$Value"
