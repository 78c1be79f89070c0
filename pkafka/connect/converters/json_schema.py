"""Schemas as JsonConverter writes them into every record, beside the payload."""

from collections.abc import Callable
from typing import Final

from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.types import Type, Value
from pkafka.connect.data.values import wrap
from pkafka.connect.errors import DataError, SchemaBuilderError

_NAMES: Final = {
    Type.BOOLEAN: "boolean",
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BYTES: "bytes",
    Type.STRING: "string",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
_TYPES: Final = {name: type for type, name in _NAMES.items()}


def schema_to_json(
    schema: Schema | None, to_json: Callable[[Schema, Value], Value]
) -> dict[str, Value] | None:
    """``asJsonSchema``.

    Args:
        to_json: makes JSON of a default.
    """
    if schema is None:
        return None
    node: dict[str, Value] = {"type": _NAMES[schema.type]}
    if schema.type is Type.ARRAY:
        node["items"] = schema_to_json(schema.value_schema, to_json)
    elif schema.type is Type.MAP:
        node["keys"] = schema_to_json(schema.key_schema, to_json)
        node["values"] = schema_to_json(schema.value_schema, to_json)
    elif schema.type is Type.STRUCT:
        node["fields"] = [
            {**(schema_to_json(field.schema, to_json) or {}), "field": field.name} for field in schema.fields
        ]
    node["optional"] = schema.optional
    for name, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            node[name] = value
    if schema.parameters is not None:
        node["parameters"] = schema.parameters
    if schema.default is not None:
        node["default"] = to_json(schema, schema.default)
    return node


def schema_from_json(node: Value, to_connect: Callable[[Schema, Value], Value]) -> Schema | None:
    """``asConnectSchema``; None for null.

    Args:
        to_connect: makes the value of a default.

    Raises:
        DataError: it is no schema.
    """
    if node is None:
        return None
    attributes = node if isinstance(node, dict) else {}
    type_name = attributes.get("type")
    if not isinstance(type_name, str):
        raise DataError("Schema must contain 'type' field")
    builder = _builder(type_name, attributes, to_connect)
    _describe(builder, attributes)
    if "default" in attributes:
        default = to_connect(builder.build(), attributes["default"])
        if builder.type is Type.STRUCT and default is not None:
            # The schema of the default lacks the default, so for Java it is another one.
            raise SchemaBuilderError("Invalid default value") from DataError("Struct schemas do not match.")
        builder.default(default)
    return builder.build()


def _builder(
    type_name: str, node: dict[str, Value], to_connect: Callable[[Schema, Value], Value]
) -> SchemaBuilder:
    type = _TYPES.get(type_name)
    if type is None:
        raise DataError(f"Unknown schema type: {type_name}")
    if type is Type.ARRAY:
        if node.get("items") is None:
            raise DataError("Array schema did not specify the element type")
        return SchemaBuilder.array(_inner(node["items"], to_connect))
    if type is Type.MAP:
        for name, what in (("keys", "key"), ("values", "value")):
            if name not in node:
                raise DataError(f"Map schema did not specify the {what} type")
        return SchemaBuilder.map(_inner(node["keys"], to_connect), _inner(node["values"], to_connect))
    builder = SchemaBuilder(type)
    if type is Type.STRUCT:
        _add_fields(builder, node.get("fields"), to_connect)
    return builder


def _inner(node: Value, to_connect: Callable[[Schema, Value], Value]) -> Schema:
    # The builder refuses what is none.
    return schema_from_json(node, to_connect)  # type: ignore[return-value]


def _add_fields(builder: SchemaBuilder, fields: Value, to_connect: Callable[[Schema, Value], Value]) -> None:
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    for field in fields:
        name = field.get("field") if isinstance(field, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        builder.field(name, _inner(field, to_connect))


def _describe(builder: SchemaBuilder, node: dict[str, Value]) -> None:
    if node.get("optional") is True:
        builder.optional()
    else:
        builder.required()
    for name, set_text in (("name", builder.name), ("doc", builder.doc)):
        if isinstance(node.get(name), str):
            set_text(node[name])
    version = node.get("version")
    if isinstance(version, int) and not isinstance(version, bool):
        builder.version(wrap(version, 32))
    parameters = node.get("parameters")
    if isinstance(parameters, dict):
        for name, value in parameters.items():
            if not isinstance(value, str):
                raise DataError("Schema parameters must have string values.")
            builder.parameter(name, value)
