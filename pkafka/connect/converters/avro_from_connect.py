"""Values of Connect to Avro: the schema that a registry gets, and the values that are written by it."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pkafka.connect.converters.avro_types import (
    ANYTHING,
    ANYTHING_NAME,
    DEFAULT_NAME,
    ENUM,
    INTERNAL_TYPE,
    MAP_ENTRY,
    NAMESPACE,
    UNION,
    AvroTypes,
    Node,
    split_name,
)
from pkafka.connect.data.java_classes import class_name, schema_type
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp, scale_of
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type, Value
from pkafka.connect.errors import DataError

PRECISION: Final = "connect.decimal.precision"
PRECISION_DEFAULT: Final = 64
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TYPES: Final[dict[Type, str]] = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_ALSO: Final[dict[Type, frozenset[str]]] = {
    Type.STRING: frozenset({"string", "enum"}),
    Type.BYTES: frozenset({"bytes", "fixed"}),
    Type.STRUCT: frozenset({"record", "error"}),
}
_LOGICAL: Final[Mapping[str, tuple[str, Any]]] = {
    Date.LOGICAL_NAME: ("date", Date.from_logical),
    Time.LOGICAL_NAME: ("time-millis", Time.from_logical),
    Timestamp.LOGICAL_NAME: ("timestamp-millis", Timestamp.from_logical),
    Decimal.LOGICAL_NAME: ("decimal", Decimal.from_logical),
}


class AvroOptions(NamedTuple):
    """How schemas are converted.

    Args:
        enhanced: ``enhanced.avro.schema.support``: enums stay enums, members of unions have their full names.
        meta_data: ``connect.meta.data``: names, versions, documentation and defaults of Connect go along.
    """

    enhanced: bool = False
    meta_data: bool = True


def has_text_keys(schema: Schema) -> bool:
    """Whether a map is one of Avro, whose keys are text."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional


class SchemaToAvro:
    """Makes one schema of Avro; what is named is defined where it is met first.

    Args:
        options: how.
    """

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._known: dict[Schema, str] = {}
        self._used: set[str] = set()

    def convert(self, schema: Schema | None) -> Node:
        """The schema of Avro.

        Raises:
            DataError: Avro has no such schema, as of a field whose name is no name there.
        """
        if schema is None:
            if ANYTHING_NAME in self._used:
                return ANYTHING_NAME
            self._used |= {ANYTHING_NAME, f"{NAMESPACE}.{MAP_ENTRY}"}
            return ANYTHING
        if schema.type is Type.STRUCT and schema.name == UNION:
            members = [self._required(_required(field.schema)) for field in schema.fields]
            return ["null", *members] if schema.optional else members
        base = self._required(_required(schema))
        if not schema.optional:
            return base
        return ["null", base] if schema.default is None else [base, "null"]

    def _required(self, schema: Schema) -> Node:
        known = self._known.get(schema)
        if known is not None:
            return known
        node = self._base(schema)
        if schema.type is Type.STRUCT or "symbols" in node:
            space = node.get("namespace")
            self._known[schema] = f"{space}.{node['name']}" if space else node["name"]
        self._add_meta_data(schema, node)
        return node["type"] if len(node) == 1 else node

    def _base(self, schema: Schema) -> dict[str, Node]:
        if schema.type is Type.STRUCT:
            return self._record(schema)
        if schema.type is Type.ARRAY:
            return {"type": "array", "items": self.convert(schema.value_schema)}
        if schema.type is Type.MAP:
            return self._map(schema)
        parameters = schema.parameters or {}
        if schema.type is Type.STRING and self._options.enhanced and ENUM in parameters:
            return self._enum(schema, parameters)
        node: dict[str, Node] = {"type": _TYPES[schema.type]}
        if schema.name == Decimal.LOGICAL_NAME:
            node["scale"] = scale_of(schema)
            node["precision"] = int(parameters.get(PRECISION, PRECISION_DEFAULT))
        return node

    def _record(self, schema: Schema) -> dict[str, Node]:
        parameters = schema.parameters or {}
        node = self._named("record", schema.name, DEFAULT_NAME)
        if RECORD_DOC in parameters:
            node["doc"] = parameters[RECORD_DOC]
        fields = node["fields"] = []
        for field in schema.fields:
            if not _NAME.match(field.name):
                raise DataError(f"Illegal character in a name of Avro: {field.name}")
            fields.append(self._field(field.name, field.schema, parameters.get(FIELD_DOC + field.name)))
        return node

    def _field(self, name: str, schema: Schema | None, doc: str | None) -> dict[str, Node]:
        field: dict[str, Node] = {"name": name, "type": self.convert(schema)}
        if doc is not None:
            field["doc"] = doc
        if schema is None:
            return field
        if schema.default is not None:
            default = default_to_json(schema, schema.default)
            if not _is_odd_number(schema, default):
                field["default"] = default
        elif schema.optional:
            field["default"] = None
        return field

    def _map(self, schema: Schema) -> dict[str, Node]:
        if has_text_keys(schema):
            return {"type": "map", "values": self.convert(schema.value_schema)}
        entry = self._named("record", schema.name, MAP_ENTRY)
        if schema.name is not None:
            entry[INTERNAL_TYPE] = MAP_ENTRY
        keys, values = schema.key_schema, schema.value_schema
        entry["fields"] = [self._field("key", keys, None), self._field("value", values, None)]
        return {"type": "array", "items": entry}

    def _enum(self, schema: Schema, parameters: Mapping[str, str]) -> dict[str, Node]:
        node = self._named("enum", parameters[ENUM], "")
        name = node["name"]
        for key, attribute in ((ENUM_DOC + name, "doc"), (ENUM_DEFAULT + name, "default")):
            if key in parameters:
                node[attribute] = parameters[key]
        node["symbols"] = [value for key, value in parameters.items() if key.startswith(f"{ENUM}.")]
        return node

    def _named(self, kind: str, full: str | None, otherwise: str) -> dict[str, Node]:
        if full is None:
            count, full = 1, f"{NAMESPACE}.{otherwise}"
            while full in self._used:
                count += 1
                full = f"{NAMESPACE}.{otherwise}{count}"
        elif full in self._used:
            raise DataError(f"Can't redefine: {full}")
        if not all(_NAME.match(part) for part in full.split(".")):
            raise DataError(f"Illegal character in a name of Avro: {full}")
        self._used.add(full)
        space, name = split_name(full)
        # Empty: else Avro takes the namespace of the record that this one is in.
        return {"type": kind, "name": name, "namespace": space}

    def _add_meta_data(self, schema: Schema, node: dict[str, Node]) -> None:
        parameters = schema.parameters or {}
        if self._options.meta_data:
            kept = {key: value for key, value in parameters.items() if key != FIELD_DEFAULT}
            meta_data = {
                "connect.doc": schema.doc,
                "connect.version": schema.version,
                "connect.parameters": kept or None,
                "connect.default": None
                if schema.default is None or FIELD_DEFAULT in parameters
                else default_to_json(schema, schema.default),
                "connect.name": schema.name,
                "connect.type": schema.type.value if schema.type in (Type.INT8, Type.INT16) else None,
            }
            node.update({key: value for key, value in meta_data.items() if value is not None})
        logical = _LOGICAL.get(schema.name or "")
        if logical is not None:
            node["logicalType"] = logical[0]
        node.update({key: value for key, value in parameters.items() if key.startswith("avro")})


def default_to_json(schema: Schema, value: Value) -> Any:  # noqa: ANN401 - it is JSON
    """A default as schemas of Avro have it: bytes are text of ISO 8859-1.

    Raises:
        DataError: it does not fit its schema.
    """
    if value is None:
        return None
    value = _plain(schema, value)
    if schema.type is Type.BYTES:
        return bytes(value).decode("latin-1")
    if schema.type is Type.ARRAY:
        return [_inner_default(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP:
        pairs = [
            (_inner_default(schema.key_schema, key), _inner_default(schema.value_schema, each))
            for key, each in value.items()
        ]
        return dict(pairs) if has_text_keys(schema) else [list(pair) for pair in pairs]
    if schema.type is Type.STRUCT:
        return {field.name: default_to_json(field.schema, value.get(field)) for field in schema.fields}
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def value_to_avro(types: AvroTypes, node: Node, schema: Schema | None, value: Value) -> Any:  # noqa: ANN401
    """What is written for a value.

    Args:
        types: of the schema that it is written by.
        node: the part of it that is this value's.
        schema: of Connect; None: there is none.

    Raises:
        DataError: the value is not of its schema, or the schema of Avro has no place for it.
    """
    if schema is None:
        return _anything(value)
    if types.type_of(node) == "union":
        return _in_union(types, types.definition(node), schema, value)
    if value is None:
        raise DataError("Found null value for non-optional schema")
    return _converted(types, types.definition(node), schema, value)


def _in_union(types: AvroTypes, members: list[Node], schema: Schema, value: Value) -> Any:  # noqa: ANN401
    if value is None:
        if "null" not in members:
            raise DataError("Found null value for non-optional schema")
        return None
    some = [each for each in members if each != "null"]
    if schema.name == UNION and schema.type is Type.STRUCT:
        for field in schema.fields:
            inner = value.get(field)
            if inner is not None and field.index < len(some):
                member = some[field.index]
                return types.branch(member), _converted(
                    types, types.definition(member), _required(field.schema), inner
                )
        raise DataError("No member of a union has a value")
    member = _member(types, some, schema)
    return types.branch(member), _converted(types, types.definition(member), schema, value)


def _member(types: AvroTypes, members: list[Node], schema: Schema) -> Node:
    fits = [each for each in members if types.type_of(each) in _fitting(schema)]
    named = [each for each in fits if isinstance(each, Mapping) and each.get("name") == schema.name]
    if not fits:
        raise DataError(f"The union of Avro has no member for {schema}")
    return (named or fits)[0]


def _fitting(schema: Schema) -> frozenset[str]:
    if schema.type is Type.MAP:
        return frozenset({"map"} if has_text_keys(schema) else {"array"})
    return _ALSO.get(schema.type) or frozenset({_TYPES.get(schema.type, schema.type.value)})


def _converted(types: AvroTypes, node: Node, schema: Schema, value: Value) -> Any:  # noqa: ANN401
    kind = types.type_of(node)
    if kind not in _fitting(schema):
        raise DataError(f"The schema of Avro has {kind} where the value is of {schema}")
    value = _plain(schema, value)
    if schema.type is Type.BYTES:
        return bytes(value)
    if schema.type is Type.ARRAY:
        return [value_to_avro(types, node["items"], schema.value_schema, each) for each in value]
    if schema.type is Type.MAP:
        return _map_to_avro(types, node, schema, value)
    if schema.type is Type.STRUCT:
        return _record_to_avro(types, node, schema, value)
    return value


def _map_to_avro(types: AvroTypes, node: Node, schema: Schema, value: Value) -> Any:  # noqa: ANN401
    values = schema.value_schema
    if has_text_keys(schema):
        return {key: value_to_avro(types, node["values"], values, each) for key, each in value.items()}
    of_key, of_value = (each["type"] for each in types.definition(node["items"])["fields"])
    return [
        {
            "key": value_to_avro(types, of_key, schema.key_schema, key),
            "value": value_to_avro(types, of_value, values, each),
        }
        for key, each in value.items()
    ]


def _record_to_avro(types: AvroTypes, node: Node, schema: Schema, value: Struct) -> dict[str, Value]:
    if value.schema.fields != schema.fields:
        raise DataError("Mismatching struct schema")
    record = {}
    for wanted in node["fields"]:
        field = schema.field(wanted["name"])
        if field is not None:
            record[field.name] = value_to_avro(types, wanted["type"], field.schema, value.get(field))
        elif "default" in wanted and wanted["default"] is None:
            record[wanted["name"]] = None
        else:
            raise DataError(f"The schema of Avro has a field {wanted['name']}, the value has none")
    return record


def _anything(value: Value) -> dict[str, Value]:
    """A value without a schema, as a record with one field that is there."""
    if value is None:
        return {}
    kind = schema_type(value)
    if kind is None or kind is Type.STRUCT:
        raise DataError(f"Unknown Java type for schemaless data: class {class_name(value)}")
    if kind is Type.ARRAY:
        return {"array": ("array", [_anything(each) for each in value])}
    if kind is Type.MAP:
        entries = [{"key": _anything(key), "value": _anything(each)} for key, each in value.items()]
        return {"map": ("array", entries)}
    name = _TYPES[kind]
    return {name: (name, bytes(value) if kind is Type.BYTES else value)}


def _plain(schema: Schema, value: Value) -> Value:
    logical = _LOGICAL.get(schema.name or "")
    return value if logical is None else logical[1](schema, value)


def _inner_default(schema: Schema | None, value: Value) -> Any:  # noqa: ANN401
    if schema is None:
        raise DataError("A default without a schema cannot be one of Avro")
    return default_to_json(schema, value)


def _is_odd_number(schema: Schema, default: object) -> bool:
    """Whether a default is NaN or infinite, which no default of a field in Avro can be."""
    return schema.type in (Type.FLOAT32, Type.FLOAT64) and isinstance(default, str)


def _required(schema: Schema) -> Schema:
    """The same schema, without None."""
    if not schema.optional:
        return schema
    keys = schema.key_schema if schema.type is Type.MAP else None
    values = schema.value_schema if schema.type in (Type.MAP, Type.ARRAY) else None
    return Schema(
        schema.type,
        default=schema.default,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=schema.fields if schema.type is Type.STRUCT else (),
        key_schema=keys,
        value_schema=values,
    )
