"""``TimestampConverter``: times as text, as numbers, and as Connect's logical types."""

import datetime
import time
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import one_of
from pkafka.connect.data.java_classes import LONG_MAX, LONG_MIN, class_name
from pkafka.connect.data.logical import MILLIS_PER_DAY, Date, Time, Timestamp, from_millis, to_millis
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import ConfigError, ConnectError, DataError, NullError
from pkafka.connect.transforms.interface import R
from pkafka.connect.transforms.requirements import (
    REPLACE_NULL,
    SchemaCache,
    copy_basics,
    field_value,
    require_map,
    require_struct_or_none,
    with_replace_null,
)
from pkafka.connect.transforms.sides import PACKAGE, OnKey, OnValue, Sided
from pkafka.java.date_format import DateFormatError, SimpleDateFormat
from pkafka.java.text import trim

_TYPES: Final = ("string", "unix", "Date", "Time", "Timestamp")
_LOGICAL: Final[dict[str, type[Timestamp] | type[Date] | type[Time]]] = {
    "Timestamp": Timestamp,
    "Date": Date,
    "Time": Time,
}
_PER_SECOND: Final = {
    "seconds": 1,
    "milliseconds": 1000,
    "microseconds": 1_000_000,
    "nanoseconds": 1_000_000_000,
}
_YEARS_BACK: Final = 80
_TARGETS: Final[dict[str, tuple[Schema, Schema]]] = {
    "string": (Schema.STRING, Schema.OPTIONAL_STRING),
    "unix": (Schema.INT64, Schema.OPTIONAL_INT64),
    **{name: (kind.SCHEMA, kind.builder().optional().build()) for name, kind in _LOGICAL.items()},
}


class TimestampConverter(Sided):
    """``TimestampConverter``: one field, or the whole.

    Args:
        now: the time in seconds since 1970; years of two digits are those of the eighty years before it.
    """

    CONFIG = with_replace_null(
        ConfigDef()
        .define(
            "field",
            ConfigType.STRING,
            "",
            None,
            Importance.HIGH,
            "The field containing the timestamp, or empty if the entire value is a timestamp",
        )
        .define(
            "target.type",
            ConfigType.STRING,
            validator=one_of(*_TYPES),
            importance=Importance.HIGH,
            documentation="The desired timestamp representation: string, unix, Date, Time, or Timestamp",
        )
        .define(
            "format",
            ConfigType.STRING,
            "",
            None,
            Importance.MEDIUM,
            "A SimpleDateFormat-compatible format for the timestamp. Used to generate the output when "
            "type=string or used "
            "to parse the input if the input is a string.",
        )
        .define(
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            one_of("nanoseconds", "microseconds", "milliseconds", "seconds"),
            Importance.LOW,
            "The desired Unix precision for the timestamp: seconds, milliseconds, microseconds, or "
            "nanoseconds. Used to "
            "generate the output when type=unix or used to parse the input if the input is a Long.Note: "
            "This SMT will "
            "cause precision loss during conversions from, and to, values with sub-millisecond components.",
        )
    )
    _PURPOSE = "converting timestamp formats"

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._name: str = parsed["field"]
        self._target: str = parsed["target.type"]
        self._per_second = _PER_SECOND[parsed["unix.precision"]]
        self._replace_null: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache()
        self._format = self._format_of(parsed["format"])

    def _format_of(self, pattern: str) -> SimpleDateFormat | None:
        if not trim(pattern):
            if self._target == "string":
                raise ConfigError(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            return None
        now = datetime.datetime.fromtimestamp(self._now(), datetime.UTC)
        day = now.day if (now.month, now.day) != (2, 29) else 28
        start = now.replace(year=now.year - _YEARS_BACK, day=day)
        try:
            return SimpleDateFormat(pattern, century_start_ms=to_millis(start))
        except DateFormatError as error:
            # Apache Kafka takes the exception for the value, and the text for the key.
            raise ConfigError.of(
                f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}",
                f"java.lang.IllegalArgumentException: {error}",
            ) from error

    def apply(self, record: R) -> R | None:
        """The record with the time in another form.

        Raises:
            DataError: there is none, or it cannot be read.
        """
        schema, value = self._of(record)
        if schema is None:
            return self._with(record, None, self._without_schema(value))
        if not self._name:
            made = _TARGETS[self._target][schema.optional]
            return self._with(record, made, self._converted(value, _form_of_schema(schema), schema))
        struct = require_struct_or_none(value, self._PURPOSE, schema)
        made = self._schemas.get(schema, self._updated)
        return self._with(record, made, self._updated_struct(struct, made))

    def _without_schema(self, value: Value) -> Value:
        if value is None or not self._name:
            return self._converted(value, None, None)
        fields = require_map(value, self._PURPOSE)
        return {**fields, self._name: self._converted(fields.get(self._name), None, None)}

    def _updated(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            is_time = field.name == self._name
            builder.field(
                field.name, _TARGETS[self._target][field.schema.optional] if is_time else field.schema
            )
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(self._updated_struct(schema.default, builder.build()))
        return builder.build()

    def _updated_struct(self, value: Struct | None, schema: Schema) -> Struct | None:
        if value is None:
            return None
        updated = Struct(schema)
        for field in value.schema.fields:
            each = field_value(value, field, replace_null=self._replace_null)
            if field.name == self._name:
                each = self._converted(each, _form_of_schema(field.schema), field.schema)
            updated.put(field.name, each)
        return updated

    def _converted(self, value: Value, form: str | None, schema: Schema | None) -> Value:
        if value is None:
            return None
        millis = self._millis(value, form or _form_of_value(value), schema)
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(millis)
            case "unix":
                return self._unix(millis)
            case "Date":
                return from_millis(millis // MILLIS_PER_DAY * MILLIS_PER_DAY)
            case "Time":
                return from_millis(millis % MILLIS_PER_DAY)
        return from_millis(millis)

    def _millis(self, value: Value, form: str, schema: Schema | None) -> int:
        name = class_name(value, None if schema is None else schema.type)
        if form == "string":
            if not isinstance(value, str):
                raise DataError(f"Expected string timestamp to be a String, but found class {name}")
            return self._parsed(value)
        if form == "unix":
            if name != "java.lang.Long":
                raise DataError(f"Expected Unix timestamp to be a Long, but found class {name}")
            return _scaled(value, 1000, self._per_second)
        if not isinstance(value, datetime.datetime):
            raise DataError(f"Expected {form} to be a java.util.Date, but found class {name}")
        return to_millis(value)

    def _parsed(self, text: str) -> int:
        if self._format is None:
            raise NullError("Timestamps of text need the option format")
        try:
            return self._format.parse(text)
        except DateFormatError as error:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self._format.pattern})"
            ) from error

    def _unix(self, millis: int) -> int:
        return _scaled(millis, self._per_second, 1000)


def _scaled(number: int, numerator: int, denominator: int) -> int:
    """``TimeUnit.convert``: towards zero, and no further than a long."""
    magnitude = abs(number) * numerator // denominator
    return max(LONG_MIN, min(LONG_MAX, magnitude if number >= 0 else -magnitude))


def _form_of_schema(schema: Schema) -> str:
    for name, kind in _LOGICAL.items():
        if schema.name == kind.LOGICAL_NAME:
            return name
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def _form_of_value(value: Value) -> str:
    if isinstance(value, datetime.datetime):
        return "Timestamp"
    if isinstance(value, str):
        return "string"
    if class_name(value) == "java.lang.Long":
        return "unix"
    raise DataError(f"TimestampConverter does not support class {class_name(value)} objects as timestamps")


class TimestampConverterKey(OnKey, TimestampConverter):
    """``TimestampConverter`` of keys."""

    JAVA_NAME = PACKAGE + "TimestampConverter$Key"


class TimestampConverterValue(OnValue, TimestampConverter):
    """``TimestampConverter`` of values."""

    JAVA_NAME = PACKAGE + "TimestampConverter$Value"
