"""Schemas and values of Connect as Confluent's JsonSchemaConverter has them: JSON Schema, and JSON by it.

Values differ from JsonConverter's in three things: maps whose keys are no plain text are lists of objects with ``key``
and ``value``; a union is the value of its one field; and a default stands where there is no value.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pkafka.connect.converters.json_values import JsonValues
from pkafka.connect.data.logical import Decimal
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ENUM_PREFIX: Final = f"{ENUM}."
ONE_OF: Final = f"{NAMESPACE}.OneOf"
ONE_OF_FIELD: Final = f"{ONE_OF}.field."
CONNECT_TYPE: Final = "connect.type"
CONNECT_VERSION: Final = "connect.version"
CONNECT_PARAMETERS: Final = "connect.parameters"
CONNECT_INDEX: Final = "connect.index"
BYTES: Final = "bytes"
MAP: Final = "map"
KEY: Final = "key"
VALUE: Final = "value"

Node = Any
"""A JSON Schema, or a part of one."""

_WHOLE: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})
_FLOATS: Final = frozenset({Type.FLOAT32, Type.FLOAT64})


class JsonSchemaOptions(NamedTuple):
    """How schemas are converted.

    Args:
        additional_properties: whether objects may have more properties than the schema knows.
        optional_unless_required: whether a property is optional unless it is listed as required; else unless null is
            one of its types.
        numeric_decimals: whether decimals are numbers; else base64.
    """

    additional_properties: bool = True
    optional_unless_required: bool = False
    numeric_decimals: bool = False


def has_text_keys(schema: Schema) -> bool:
    """Whether a map is an object of JSON."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional


class SchemaToJsonSchema:
    """Makes the JSON Schema of a schema of Connect.

    Args:
        options: how.
    """

    def __init__(self, options: JsonSchemaOptions) -> None:
        self._options = options
        self._values = ValuesOfJsonSchema(numeric_decimals=options.numeric_decimals)

    def convert(self, schema: Schema) -> Node:
        """The JSON Schema.

        Raises:
            DataError: there is none, as for an array without a schema of its elements.
        """
        return self._node(schema)

    def _node(self, schema: Schema | None, index: int | None = None, *, in_union: bool = False) -> Node:
        if schema is None:
            raise DataError("What has no schema of Connect has no JSON Schema")
        node: Node
        if schema.type is Type.STRUCT and schema.name == ONE_OF:
            members = [
                self._node(_required(each.schema), each.index, in_union=True) for each in schema.fields
            ]
            node = {"oneOf": [*([{"type": "null"}] if schema.optional else []), *members]}
        elif schema.optional and not in_union:
            node = {"oneOf": [{"type": "null"}, self._described(schema)]}
        else:
            node = self._described(schema)
        return node if index is None else {**node, CONNECT_INDEX: index}

    def _described(self, schema: Schema) -> Node:
        """The schema of what is there, with what people and Connect are told of it."""
        node: Node = {}
        if schema.name is not None:
            node["title"] = schema.name
        if schema.doc is not None:
            node["description"] = schema.doc
        if schema.default is not None:
            node["default"] = self._values.to_json(schema, schema.default)
        node.update(self._typed(schema))
        if schema.version is not None:
            node[CONNECT_VERSION] = schema.version
        kept = {
            name: text for name, text in (schema.parameters or {}).items() if not name.startswith(NAMESPACE)
        }
        if kept:
            node[CONNECT_PARAMETERS] = kept
        return node

    def _typed(self, schema: Schema) -> Node:
        if schema.type in _WHOLE:
            return {"type": "integer", CONNECT_TYPE: schema.type.value}
        if schema.type in _FLOATS:
            return {"type": "number", CONNECT_TYPE: schema.type.value}
        if schema.type is Type.BYTES:
            return {
                "type": "number" if schema.name == Decimal.LOGICAL_NAME else "string",
                CONNECT_TYPE: BYTES,
            }
        return _COMPOSED[schema.type](self, schema)

    def _text(self, schema: Schema) -> Node:
        parameters = schema.parameters or {}
        if ENUM not in parameters:
            return {"type": "string"}
        return {"enum": [text for name, text in parameters.items() if name.startswith(ENUM_PREFIX)]}

    def _truth(self, _schema: Schema) -> Node:
        return {"type": "boolean"}

    def _array(self, schema: Schema) -> Node:
        return {"type": "array", "items": self._node(schema.value_schema)}

    def _map(self, schema: Schema) -> Node:
        if has_text_keys(schema):
            values = self._node(schema.value_schema)
            return {"type": "object", "additionalProperties": values, CONNECT_TYPE: MAP}
        entry = {KEY: self._node(schema.key_schema, 0), VALUE: self._node(schema.value_schema, 1)}
        return {"type": "array", "items": {"type": "object", "properties": entry}, CONNECT_TYPE: MAP}

    def _struct(self, schema: Schema) -> Node:
        node: Node = {
            "type": "object",
            "properties": {each.name: self._node(each.schema, each.index) for each in schema.fields},
        }
        needed = [each.name for each in schema.fields if not each.schema.optional]
        if self._options.optional_unless_required and needed:
            node["required"] = needed
        if not self._options.additional_properties:
            node["additionalProperties"] = False
        return node


_COMPOSED: Final[dict[Type, Callable[[SchemaToJsonSchema, Schema], Node]]] = {
    Type.STRING: SchemaToJsonSchema._text,
    Type.BOOLEAN: SchemaToJsonSchema._truth,
    Type.ARRAY: SchemaToJsonSchema._array,
    Type.MAP: SchemaToJsonSchema._map,
    Type.STRUCT: SchemaToJsonSchema._struct,
}


def _required(schema: Schema) -> Schema:
    """The same schema, without None."""
    if not schema.optional:
        return schema
    return Schema(
        schema.type,
        default=schema.default,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=schema.fields if schema.type is Type.STRUCT else (),
        key_schema=schema.key_schema if schema.type is Type.MAP else None,
        value_schema=schema.value_schema if schema.type in (Type.MAP, Type.ARRAY) else None,
    )


class ValuesOfJsonSchema(JsonValues):
    """How values are written and read.

    Args:
        numeric_decimals: whether decimals are written as numbers, and not base64.
    """

    def __init__(self, *, numeric_decimals: bool = False) -> None:
        super().__init__(replace_null=True, numeric_decimals=numeric_decimals)

    def _map(self, schema: Schema | None, value: Value) -> Value:
        if all(isinstance(key, str) for key in value) if schema is None else has_text_keys(schema):
            of_values = None if schema is None else schema.value_schema
            return {key: self.to_json(of_values, each) for key, each in value.items()}
        keys, values = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        return [
            {KEY: self.to_json(keys, key), VALUE: self.to_json(values, each)} for key, each in value.items()
        ]

    def _struct(self, schema: Schema | None, value: Value) -> Value:
        if value.schema != schema:
            raise DataError("Mismatching schema.")
        fields = value.schema.fields
        if value.schema.name != ONE_OF:
            return {each.name: self.to_json(each.schema, value.get(each)) for each in fields}
        for each in fields:
            member = value.get(each)
            if member is not None:
                return self.to_json(each.schema, member)
        return self.to_json(schema, None)

    def _read_map(self, schema: Schema | None, node: Value) -> Value:
        assert schema is not None
        if has_text_keys(schema):
            return super()._read_map(schema, node)
        if not isinstance(node, list):
            raise DataError("Maps with non-string fields should be encoded as JSON array of objects")
        made: dict[Value, Value] = {}
        for entry in node:
            if not isinstance(entry, dict) or len(entry) != 2:
                raise DataError("An entry of a map is to be an object with a key and a value")
            key = self.to_connect(schema.key_schema, entry.get(KEY))
            try:
                made[key] = self.to_connect(schema.value_schema, entry.get(VALUE))
            except TypeError:
                raise DataError("A list or a map cannot be the key of a map here") from None
        return made

    def _read_struct(self, schema: Schema | None, node: Value) -> Value:
        assert schema is not None
        if schema.name != ONE_OF:
            return super()._read_struct(schema, node)
        for each in schema.fields:
            if _is_instance(each.schema, node):
                return Struct(schema).put(each, self.to_connect(each.schema, node))
        raise DataError(f"Did not find matching oneof field for data: {str(node)[:200]}")


def _is_instance(schema: Schema, node: Value) -> bool:
    """Whether a value may be of a member of a union, as far as its type tells."""
    kind = node.__class__
    if schema.type in _WHOLE:
        return kind is int
    if schema.type is Type.STRUCT:
        return kind is dict and node.keys() <= {each.name for each in schema.fields}
    if schema.type is Type.MAP:
        return kind in (dict, list)
    if schema.type is Type.ARRAY:
        return kind is list
    if schema.type is Type.BOOLEAN:
        return kind is bool
    if schema.type is Type.STRING:
        return kind is str
    if schema.type is Type.BYTES:
        return kind is str or (schema.name == Decimal.LOGICAL_NAME and kind not in (bool, dict, list))
    return kind is not bool and not isinstance(node, str | dict | list)
