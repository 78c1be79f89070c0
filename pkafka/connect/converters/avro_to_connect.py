"""Avro to values of Connect: the schema of Connect that one of Avro stands for, and the values read by it."""

from collections.abc import Mapping
from typing import Any, Final

from pkafka.connect.converters.avro_from_connect import (
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    PRECISION,
    PRECISION_DEFAULT,
    RECORD_DOC,
    AvroOptions,
    has_text_keys,
)
from pkafka.connect.converters.avro_types import (
    ENUM,
    UNION,
    AvroTypes,
    Node,
    is_map_entry,
    is_unnamed,
    split_name,
)
from pkafka.connect.data.java_classes import Float32, Int32
from pkafka.connect.data.java_text import to_float32
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp
from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

_TYPES: Final[dict[str, Type]] = {
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
    "enum": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
}
_NARROW: Final[dict[str, Type]] = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL: Final[dict[tuple[str, str], str]] = {
    ("int", "date"): Date.LOGICAL_NAME,
    ("int", "time-millis"): Time.LOGICAL_NAME,
    ("long", "timestamp-millis"): Timestamp.LOGICAL_NAME,
    ("bytes", "decimal"): Decimal.LOGICAL_NAME,
    ("fixed", "decimal"): Decimal.LOGICAL_NAME,
}
_TO_LOGICAL: Final[Mapping[str, Any]] = {
    Date.LOGICAL_NAME: Date.to_logical,
    Time.LOGICAL_NAME: Time.to_logical,
    Timestamp.LOGICAL_NAME: Timestamp.to_logical,
    Decimal.LOGICAL_NAME: Decimal.to_logical,
}
_BITS: Final[dict[Type, int]] = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_CLASSES: Final[dict[Type, type | tuple[type, ...]]] = {
    Type.BOOLEAN: bool,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.STRING: str,
    Type.BYTES: bytes,
    Type.ARRAY: list,
}


class SchemaFromAvro:
    """Makes the schema of Connect of one of Avro.

    Args:
        types: of the schema of Avro.
        options: how.
    """

    def __init__(self, types: AvroTypes, options: AvroOptions) -> None:
        self._types = types
        self._options = options
        self._outer: list[str] = []

    def convert(self, version: int | None = None) -> Schema:
        """The schema of Connect.

        Args:
            version: that it has when Avro's schema tells none.

        Raises:
            DataError: there is none, as for a record that has itself in it.
        """
        return self._schema(self._types.root, version=version)

    def _schema(
        self, node: Node, *, optional: bool = False, default: Node = None, version: int | None = None
    ) -> Schema:
        found = self._types.definition(node)
        if isinstance(found, list):
            return self._union(found, default)
        if isinstance(found, str):
            found = {"type": found}
        kind = found["type"]
        if kind == "null":
            raise DataError("Standalone null schemas are not supported by this converter")
        name = found.get("name")
        if name is not None and name in self._outer:
            raise DataError(f"The record {name} has itself in it, which no schema of Connect can be")
        self._outer.append(name or "")
        try:
            made = self._parts(found, kind)
        finally:
            self._outer.pop()
        return self._described(found, made, optional=optional, default=default, version=version)

    def _union(self, members: list[Node], default: Node) -> Schema:
        some = [each for each in members if each != "null"]
        if len(some) == 1 and len(members) == 2:
            return self._schema(some[0], optional=True)
        fields: list[Field] = []
        for member in some:
            name = self._member_name(member)
            if any(field.name == name for field in fields):
                raise DataError("Multiple union schemas map to the Connect union field name")
            fields.append(Field(name, len(fields), self._schema(member, optional=True)))
        made = Schema(Type.STRUCT, optional=len(some) < len(members), name=UNION, fields=fields)
        if default is None or not fields:
            return made
        value = Struct(made).put(fields[0], default_from_json(fields[0].schema, default))
        return Schema(Type.STRUCT, optional=made.optional, name=UNION, fields=fields, default=value)

    def _member_name(self, member: Node) -> str:
        found = self._types.definition(member)
        kind = self._types.type_of(found)
        if kind not in ("record", "error", "enum"):
            return kind
        return str(found["name"]) if self._options.enhanced else split_name(found["name"])[1]

    def _parts(self, node: Mapping[str, Node], kind: str) -> dict[str, Any]:
        """What the type says of a schema, as arguments of it."""
        if kind in ("record", "error"):
            return self._struct(node)
        if kind == "array":
            return self._array(node)
        if kind == "map":
            values = self._schema(node["values"])
            return {"type": Type.MAP, "key_schema": Schema.STRING, "value_schema": values}
        made: dict[str, Any] = {"type": _TYPES[kind]}
        if kind == "enum":
            made["parameters"] = self._enum_parameters(node)
        logical = _LOGICAL.get((kind, str(node.get("logicalType")).lower()))
        if logical == Decimal.LOGICAL_NAME:
            made["parameters"] = _decimal_parameters(node)
        if logical is not None:
            return {**made, "name": logical, "version": 1}
        if kind == "int" and "connect.type" in node and "logicalType" not in node:
            narrow = _NARROW.get(node["connect.type"])
            if narrow is None:
                raise DataError("Connect type annotation for Avro int field is null")
            made["type"] = narrow
        return made

    def _struct(self, node: Mapping[str, Node]) -> dict[str, Any]:
        parameters, fields = {}, []
        if self._options.meta_data and node.get("doc") is not None:
            parameters[RECORD_DOC] = node["doc"]
        for index, each in enumerate(node["fields"]):
            if self._options.meta_data and each.get("doc") is not None:
                parameters[FIELD_DOC + each["name"]] = each["doc"]
            schema = self._schema(each["type"], default=each.get("default"))
            fields.append(Field(each["name"], index, schema))
        return {"type": Type.STRUCT, "fields": fields, "parameters": parameters}

    def _array(self, node: Mapping[str, Node]) -> dict[str, Any]:
        entry = self._types.definition(node["items"])
        if not is_map_entry(entry):
            return {"type": Type.ARRAY, "value_schema": self._schema(node["items"])}
        fields = {each["name"]: each["type"] for each in entry["fields"]}
        if fields.keys() != {"key", "value"}:
            raise DataError(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected format."
            )
        keys, values = self._schema(fields["key"]), self._schema(fields["value"])
        return {"type": Type.MAP, "key_schema": keys, "value_schema": values}

    def _enum_parameters(self, node: Mapping[str, Node]) -> dict[str, str]:
        parameters = {}
        short = split_name(node["name"])[1]
        if self._options.meta_data:
            for key, attribute in ((ENUM_DOC, "doc"), (ENUM_DEFAULT, "default")):
                if node.get(attribute) is not None:
                    parameters[key + short] = node[attribute]
        parameters[ENUM] = node["name"]
        return parameters | {f"{ENUM}.{symbol}": symbol for symbol in node["symbols"]}

    def _described(
        self,
        node: Mapping[str, Node],
        made: dict[str, Any],
        *,
        optional: bool,
        default: Node,
        version: int | None,
    ) -> Schema:
        parameters = dict(made.pop("parameters", {}))
        if self._options.meta_data:
            made["doc"] = node.get("connect.doc")
            parameters |= _text_parameters(node.get("connect.parameters"))
        parameters |= {key: str(each) for key, each in node.items() if key.startswith("avro")}
        known = node.get("connect.default")
        if default is None:
            default = known
        elif known is None:
            parameters[FIELD_DEFAULT] = "true"
        told = node.get("connect.version", version)
        made["version"] = _same("versions", made.get("version"), told)
        made["name"] = _same("names", made.get("name"), _name(node))
        if parameters:
            made["parameters"] = parameters
        if default is not None:
            made["default"] = default_from_json(Schema(**made), default)
        return Schema(**made, optional=optional)


def default_from_json(schema: Schema, value: Node) -> Value:
    """A default of Connect.

    Args:
        schema: of it.
        value: as schemas of Avro have it.

    Raises:
        DataError: it is not of the schema.
    """
    if value is None:
        return None
    try:
        return _logical(schema, _default(schema, value))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"Invalid default value for {schema}: {value}") from error


def _default(schema: Schema, value: Node) -> Value:
    if schema.type in _BITS:
        return _wrapped(schema.type, int(value))
    if schema.type is Type.FLOAT32:
        return to_float32(float(value))
    if schema.type is Type.FLOAT64:
        return float(value)
    if schema.type is Type.BYTES:
        return value.encode("latin-1")
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [default_from_json(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        keys, values = schema.key_schema, schema.value_schema
        pairs = value.items() if isinstance(value, Mapping) else value
        return {default_from_json(keys, key): default_from_json(values, each) for key, each in pairs}
    if schema.type is Type.STRUCT:
        struct = Struct(schema)
        for field in schema.fields:
            struct.put(field, default_from_json(field.schema, value.get(field.name)))
        return struct
    return value


def value_from_avro(types: AvroTypes, node: Node, schema: Schema, value: Any) -> Value:  # noqa: ANN401
    """The value of Connect of what was read.

    Args:
        types: of the schema that it was read by.
        node: the part of it that is this value's.
        schema: of Connect, made of the same.
        value: a member of a union that has a name stands in a pair with it.

    Raises:
        DataError: the value is not of the schema.
    """
    found = types.definition(node)
    if isinstance(found, list):
        if value is None:
            return None
        some = [each for each in found if each != "null"]
        if schema.name == UNION and schema.type is Type.STRUCT:
            return _of_union(types, some, schema, value)
        found = types.definition(some[0])
        value = value[1] if isinstance(value, tuple) else value
    return _logical(schema, _read(types, found, schema, value))


def _of_union(types: AvroTypes, members: list[Node], schema: Schema, value: Any) -> Struct:  # noqa: ANN401
    if isinstance(value, tuple):
        branch, value = value
        fits = [index for index, each in enumerate(members) if types.branch(each) == branch]
    else:
        kinds = [types.type_of(each) for each in members]
        fields = zip(schema.fields, kinds, strict=True)
        fits = [field.index for field, kind in fields if _is_of(field.schema, kind, value)]
    if not fits:
        raise DataError(f"Did not find matching union field for data: {value}")
    field = schema.fields[fits[0]]
    return Struct(schema).put(field, value_from_avro(types, members[fits[0]], field.schema, value))


def _is_of(schema: Schema, kind: str, value: object) -> bool:
    """Whether a member of a union that has no name may be what was read; numbers are of the first that they fit."""
    if kind in ("record", "error", "enum", "fixed"):
        return False
    if schema.type in _BITS:
        bits = 32 if kind == "int" else 64
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and -(1 << bits - 1) <= value < 1 << bits - 1  # type: ignore[operator]
    if schema.type is Type.MAP:
        return isinstance(value, dict if kind == "map" else list)
    return isinstance(value, _CLASSES[schema.type])


def _read(types: AvroTypes, node: Node, schema: Schema, value: Any) -> Value:  # noqa: ANN401
    if schema.type in _BITS:
        return _wrapped(schema.type, value)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [value_from_avro(types, node["items"], schema.value_schema, each) for each in value]
    if schema.type is Type.MAP:
        return _map(types, node, schema, value)
    if schema.type is Type.STRUCT:
        struct = Struct(schema)
        for field, each in zip(schema.fields, node["fields"], strict=True):
            struct.put(field, value_from_avro(types, each["type"], field.schema, value[field.name]))
        return struct
    return value


def _map(types: AvroTypes, node: Node, schema: Schema, value: Any) -> dict[Value, Value]:  # noqa: ANN401
    keys, values = schema.key_schema, schema.value_schema
    assert keys is not None
    assert values is not None
    if node["type"] == "map":
        assert has_text_keys(schema)
        return {key: value_from_avro(types, node["values"], values, each) for key, each in value.items()}
    of = {each["name"]: each["type"] for each in types.definition(node["items"])["fields"]}
    return {
        value_from_avro(types, of["key"], keys, each["key"]): value_from_avro(
            types, of["value"], values, each["value"]
        )
        for each in value
    }


def anything_from_avro(record: Mapping[str, Any]) -> Value:
    """The value without a schema that stands in a record of ``Anything``."""
    for name, value in record.items():
        if isinstance(value, tuple):
            value = value[1]
        if value is None:
            continue
        if name == "array":
            return [anything_from_avro(each) for each in value]
        if name == "map":
            return {anything_from_avro(each["key"]): anything_from_avro(each["value"]) for each in value}
        # These two are of a class of their own where there is no schema.
        return Int32(value) if name == "int" else Float32(value) if name == "float" else value
    return None


def _logical(schema: Schema, value: Value) -> Value:
    convert = _TO_LOGICAL.get(schema.name or "")
    return value if convert is None or value is None else convert(schema, value)


def _wrapped(type: Type, value: int) -> int:
    """As Java narrows a number: ``Integer.byteValue``."""
    bits = _BITS[type]
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _decimal_parameters(node: Mapping[str, Node]) -> dict[str, str]:
    scale, precision = node.get("scale", 0), node.get("precision", PRECISION_DEFAULT)
    if not isinstance(scale, int) or not isinstance(precision, int):
        raise DataError("scale and precision must be numbers.")
    parameters = {"scale": str(scale)}
    if precision != PRECISION_DEFAULT:
        parameters[PRECISION] = str(precision)
    return parameters


def _text_parameters(parameters: Node) -> dict[str, str]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise DataError(f"Expected JSON object for schema parameters but found: {parameters}")
    odd = [each for each in parameters.values() if not isinstance(each, str)]
    if odd:
        raise DataError(f"Expected schema parameter values to be strings but found: {odd[0]}")
    return dict(parameters)


def _name(node: Mapping[str, Node]) -> str | None:
    name = node.get("connect.name")
    if name is not None and not isinstance(name, str):
        raise DataError(f"Invalid schema name: {name}")
    if name is None and node["type"] in ("record", "error", "enum"):
        name = node["name"]
    return None if name is None or is_unnamed(name) else name


def _same(what: str, one: Any, other: Any) -> Any:  # noqa: ANN401 - a text or a number
    if one is not None and other is not None and one != other:
        raise DataError(
            f"Mismatched {what}: already added to SchemaBuilder ({one}) differs from source schema ({other})"
        )
    return one if other is None else other
