"""What a Singer tap's JSON Schema means as a schema of Connect, and its records as values of it: pure.

Taps are generous with their schemas, so the mapping keeps to what a sink can rely on. What has no type of Connect
(several types at once, objects without properties, arrays of anything) is text: a string as it is, all else as JSON.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

_SCALARS: Final[dict[str, Type]] = {
    "string": Type.STRING,
    "integer": Type.INT64,
    "number": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
}
_NULL: Final = "null"
_LONGS: Final = range(-(1 << 63), 1 << 63)


class StreamSchemas(NamedTuple):
    """What the records of a stream are read by.

    Args:
        key: a struct of the key's properties; None: the stream has no key.
        value: a struct of all properties.
    """

    key: Schema | None
    value: Schema


def stream_schemas(schema: Mapping[str, Any], key_properties: Sequence[str]) -> StreamSchemas:
    """The schemas of a stream's keys and values.

    Args:
        schema: of its records, as the tap says it.
        key_properties: names of the properties that tell records apart.

    Raises:
        DataError: the schema is not of objects, or lacks a property of the key.
    """
    found = _Reader(schema).schema(schema, needed=frozenset(key_properties))
    if found.type is not Type.STRUCT:
        raise DataError("The schema of a stream is to be that of an object with properties")
    fields = {field.name: field for field in found.fields}
    missing = [name for name in key_properties if name not in fields]
    if missing:
        raise DataError(f"The schema has no property {missing[0]}, which is to be part of the key")
    value = Schema(Type.STRUCT, fields=found.fields)
    if not key_properties:
        return StreamSchemas(None, value)
    of_key = [Field(name, index, fields[name].schema) for index, name in enumerate(key_properties)]
    return StreamSchemas(Schema(Type.STRUCT, fields=of_key), value)


class _Reader:
    """Reads the parts of one schema.

    Args:
        root: the whole of it, for references into it.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._within: list[str] = []
        """References that are being followed: one that comes again has no end."""

    def schema(self, node: Any, *, needed: frozenset[str] = frozenset()) -> Schema:  # noqa: ANN401 - it is JSON
        """The schema of Connect of a part.

        Args:
            needed: names of properties that every record has, unless their schemas allow null.
        """
        if not isinstance(node, Mapping):
            return Schema.OPTIONAL_STRING
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference, needed)
        choices = node.get("anyOf") or node.get("oneOf")
        if isinstance(choices, list):
            return self._one_of([self.schema(each) for each in choices if not _is_null(each)])
        kinds = _types(node)
        optional = _NULL in kinds
        some = [each for each in kinds if each != _NULL]
        if set(some) == {"integer", "number"}:
            some = ["number"]
        if len(some) != 1:
            return Schema(Type.STRING, optional=True)
        if some[0] == "object":
            return self._object(node, optional, needed)
        if some[0] == "array":
            return self._array(node, optional)
        kind = _SCALARS.get(some[0])
        return Schema.OPTIONAL_STRING if kind is None else Schema(kind, optional=optional)

    def _referred(self, reference: str, needed: frozenset[str]) -> Schema:
        if reference in self._within or not reference.startswith("#/"):
            return Schema.OPTIONAL_STRING
        found: Any = self._root
        for step in reference[2:].split("/"):
            found = (
                found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
            )
        self._within.append(reference)
        try:
            return self.schema(found, needed=needed)
        finally:
            self._within.pop()

    def _one_of(self, found: list[Schema]) -> Schema:
        """The schema of a choice: the one that all have in common, or text."""
        kinds = {each.type for each in found}
        if kinds == {Type.INT64, Type.FLOAT64}:
            return Schema.OPTIONAL_FLOAT64
        same = {_optional(each) for each in found}
        return same.pop() if len(same) == 1 else Schema.OPTIONAL_STRING

    def _object(self, node: Mapping[str, Any], optional: bool, needed: frozenset[str]) -> Schema:
        properties = node.get("properties")
        if isinstance(properties, Mapping) and properties:
            fields = []
            for index, (name, inner) in enumerate(properties.items()):
                made = self.schema(inner)
                fields.append(Field(str(name), index, made if name in needed else _optional(made)))
            return Schema(Type.STRUCT, optional=optional, fields=fields)
        more = node.get("additionalProperties")
        if isinstance(more, Mapping) and more:
            return Schema(
                Type.MAP,
                optional=optional,
                key_schema=Schema.STRING,
                value_schema=_optional(self.schema(more)),
            )
        return Schema(Type.STRING, optional=optional)

    def _array(self, node: Mapping[str, Any], optional: bool) -> Schema:
        items = node.get("items")
        if not isinstance(items, Mapping) or not items:
            return Schema(Type.STRING, optional=optional)
        return Schema(Type.ARRAY, optional=optional, value_schema=_optional(self.schema(items)))


def _types(node: Mapping[str, Any]) -> list[str]:
    found = node.get("type")
    if found is None:
        return ["object"] if "properties" in node else []
    return [str(each) for each in found] if isinstance(found, list) else [str(found)]


def _is_null(node: Any) -> bool:  # noqa: ANN401 - it is JSON
    return isinstance(node, Mapping) and node.get("type") in (_NULL, [_NULL])


def _optional(schema: Schema) -> Schema:
    if schema.optional:
        return schema
    return Schema(
        schema.type,
        optional=True,
        fields=schema.fields if schema.type is Type.STRUCT else (),
        key_schema=schema.key_schema if schema.type is Type.MAP else None,
        value_schema=schema.value_schema if schema.type in (Type.MAP, Type.ARRAY) else None,
    )


def value_of(schema: Schema, found: Any, where: str = "") -> Value:  # noqa: ANN401 - it is JSON
    """A part of a record as a value of its schema.

    Args:
        where: names of the properties above it, for the text of an error.

    Raises:
        DataError: it is none.
    """
    if found is None:
        if schema.optional:
            return None
        raise DataError(f"{where or 'The record'} has no value, which the schema does not allow")
    return _VALUES[schema.type](schema, found, where)


def struct_of(schema: Schema, record: Mapping[str, Any], where: str = "") -> Struct:
    """A record, or an object in it; what the schema has no property for is left out.

    Raises:
        DataError: a property is not as the schema says.
    """
    struct = Struct(schema)
    for field in schema.fields:
        name = f"{where}.{field.name}" if where else field.name
        struct.put(field, value_of(field.schema, record.get(field.name), name))
    return struct


def _text(_schema: Schema, found: Any, _where: str) -> str:  # noqa: ANN401
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _whole(_schema: Schema, found: Any, where: str) -> int:  # noqa: ANN401
    if isinstance(found, float) and found.is_integer():
        found = int(found)  # 3.0 is an integer to JSON Schema
    if isinstance(found, bool) or not isinstance(found, int):
        raise _misfit(where, found, "whole number")
    if found not in _LONGS:
        raise _misfit(where, found, "whole number of 64 bits")
    return found


def _number(_schema: Schema, found: Any, where: str) -> float:  # noqa: ANN401
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _misfit(where, found, "number")
    return float(found)


def _truth(_schema: Schema, found: Any, where: str) -> bool:  # noqa: ANN401
    if not isinstance(found, bool):
        raise _misfit(where, found, "boolean")
    return found


def _list(schema: Schema, found: Any, where: str) -> list[Value]:  # noqa: ANN401
    inner = schema.value_schema
    if not isinstance(found, list) or inner is None:
        raise _misfit(where, found, "array")
    return [value_of(inner, each, f"{where}[{index}]") for index, each in enumerate(found)]


def _map(schema: Schema, found: Any, where: str) -> dict[str, Value]:  # noqa: ANN401
    inner = schema.value_schema
    if not isinstance(found, Mapping) or inner is None:
        raise _misfit(where, found, "object")
    return {key: value_of(inner, each, f"{where}.{key}") for key, each in found.items()}


def _struct(schema: Schema, found: Any, where: str) -> Struct:  # noqa: ANN401
    if not isinstance(found, Mapping):
        raise _misfit(where, found, "object")
    return struct_of(schema, found, where)


_VALUES: Final[dict[Type, Callable[[Schema, Any, str], Value]]] = {
    Type.STRING: _text,
    Type.INT64: _whole,
    Type.FLOAT64: _number,
    Type.BOOLEAN: _truth,
    Type.ARRAY: _list,
    Type.MAP: _map,
    Type.STRUCT: _struct,
}


def _misfit(where: str, found: object, wanted: str) -> DataError:
    return DataError(
        f"{where} is {type(found).__name__} {str(found)[:80]!r}, and the schema wants a {wanted}"
    )
