"""``SingleFieldPath``: which field a setting means; in version V2 a field of a field, as ``a.b`` "
"(KIP-821)."""

from collections.abc import Mapping
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import one_of_any_case
from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ArgumentError, ConfigError
from pkafka.connect.transforms.requirements import field_value, require_map_or_none, require_struct_or_none

VERSION: Final = "field.syntax.version"
_PURPOSE: Final = "nested field access"


def with_version(config: ConfigDef) -> ConfigDef:
    """The same settings, and the version of paths."""
    return config.define(
        VERSION,
        ConfigType.STRING,
        "V1",
        one_of_any_case("V1", "V2"),
        Importance.HIGH,
        "Defines the version of the syntax to access fields. If set to `V1`, then the field paths are "
        "limited to access "
        "the elements at the root level of the struct or map. If set to `V2`, the syntax will support "
        "accessing nested "
        "elements. To access nested elements, dotted notation is used. If dots are already included in "
        "the field name, "
        "then backtick pairs can be used to wrap field names containing dots. E.g. to access the "
        "subfield `baz` from a "
        'field named "foo.bar" in a struct/map the following format can be used to access its elements: '
        '"`foo.bar`.baz".',
    )


class FieldPath:
    """The way to one field.

    Args:
        text: of the setting.
        version: V1 or V2, in any case.

    Raises:
        ConfigError: a backtick has no other.
    """

    def __init__(self, text: str, version: str) -> None:
        self._steps: Final = (text,) if version.upper() == "V1" else tuple(_steps(text))

    @property
    def _last(self) -> str:
        if not self._steps:
            raise ArgumentError("fromIndex(0) > toIndex(-1)")  # Java's own words about an empty path
        return self._steps[-1]

    def field_of(self, schema: Schema) -> Field | None:
        """The field of a struct's schema.

        Raises:
            DataError: a step leads into what is no struct.
        """
        last = self._last
        for step in self._steps[:-1]:
            field = schema.field(step)
            if field is None:
                return None
            schema = field.schema
        return schema.field(last)

    def value_in_struct(self, struct: Struct | None, *, replace_null: bool) -> Value:
        """The value of the field; None when it is not there.

        Raises:
            DataError: a step leads into what is no struct.
        """
        for step in self._steps[:-1]:
            field = None if struct is None else struct.schema.field(step)
            if struct is None or field is None:
                return None
            inner = field_value(struct, field, replace_null=replace_null)
            struct = require_struct_or_none(inner, _PURPOSE, field.schema)
        last = None if struct is None else struct.schema.field(self._last)
        return (
            None if struct is None or last is None else field_value(struct, last, replace_null=replace_null)
        )

    def value_in_map(self, value: Mapping[str, Value] | None) -> Value:
        """The value of the field; None when it is not there.

        Raises:
            DataError: a step leads into what is no map.
        """
        for step in self._steps[:-1]:
            if value is None:
                return None
            value = require_map_or_none(value.get(step), _PURPOSE)
        return None if value is None else value.get(self._last)


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    at = 0
    while 0 <= at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
        else:
            dot = path.find(".", at)
            step, at = (path[at:], -1) if dot < 0 else (path[at:dot], dot + 1)
        steps.append(step)
    if path.endswith("."):
        steps.append("")
    return steps


def _quoted(path: str, opening: int) -> tuple[str, int]:
    """A step between backticks, and where the next one begins."""
    step, start, at = "", opening + 1, opening + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _incomplete(path, opening)
        escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if escaped:
                raise _incomplete(path, opening)
            return step + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            step, at = step + path[start : at - 1] + "`", at + 1
            start = at
        else:
            return step + path[start:at], at + 2


def _incomplete(path: str, opening: int) -> ConfigError:
    return ConfigError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at "
        f"position "
        f"{opening} to escape it"
    )
