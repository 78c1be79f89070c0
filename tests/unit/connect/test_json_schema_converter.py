"""JSON Schema in Connect: schemas and values to Confluent's form and back."""

import datetime
import json
import math
from collections.abc import Iterator
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pkafka.connect.converters.jsonschema_from_connect import JsonSchemaOptions, SchemaToJsonSchema
from pkafka.connect.converters.jsonschema_to_connect import SchemaFromJsonSchema
from pkafka.connect.data import Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp, Type
from pkafka.connect.data.java_classes import equal_values
from pkafka.connect.errors import ConfigError, DataError, RetriableError
from pkafka.connect.json_schema_converter import JsonSchemaConverter
from pkafka.connect.plugins import load_plugins
from tests.connect_data import with_schema
from tests.schema_registry import SchemaRegistry, schema_registry

Z = datetime.UTC
ONE_OF = "io.confluent.connect.json.OneOf"


@pytest.fixture(scope="module")
def shared() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _converter(registry: SchemaRegistry, *, is_key: bool = False, **more: object) -> JsonSchemaConverter:
    made = JsonSchemaConverter()
    configs = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": "0", **configs}, is_key=is_key)
    return made


def _json_schema(schema: Schema, **options: bool) -> Any:
    return SchemaToJsonSchema(JsonSchemaOptions(**options)).convert(schema)


def _connect(node: Any, **options: bool) -> Schema:
    """The schema of Connect of a JSON Schema, which may refer to its definitions."""

    def resolve(reference: str, document: str) -> tuple[Any, str]:
        assert reference.startswith("#")
        found = node
        for step in reference.split("/")[1:]:
            found = found[step]
        return found, document

    return SchemaFromJsonSchema(resolve, JsonSchemaOptions(**options)).convert(node)


def _seen(value: Any) -> Any:
    """A value in which defaults stand where nothing else does: so a struct shows itself, and so it is written."""
    if isinstance(value, Struct):
        return {field.name: _seen(value.get(field)) for field in value.schema.fields}
    if isinstance(value, dict):
        return {key: _seen(each) for key, each in value.items()}
    return [_seen(each) for each in value] if isinstance(value, list | tuple) else value


def _is_plain(number: float) -> bool:
    """Whether JSON, as Jackson reads it, has the number: it has no infinite ones and no negative zero."""
    return math.isfinite(number) and (number != 0 or math.copysign(1, number) > 0)


def _is_finite(schema: Schema, value: Any) -> bool:
    """Whether all numbers in a value and its schema are such."""
    if isinstance(schema.default, float) and not _is_plain(schema.default):
        return False
    if isinstance(value, float):
        return _is_plain(value)
    if schema.type is Type.STRUCT:
        return all(
            _is_finite(each.schema, None if value is None else value.get(each)) for each in schema.fields
        )
    inner = schema.value_schema if schema.type in (Type.ARRAY, Type.MAP) else None
    if inner is None:
        return True
    values = value.values() if isinstance(value, dict) else value or [None]
    return all(_is_finite(inner, each) for each in [None, *values])


def _with_defaults(schema: Schema | None, value: Any) -> Any:
    """What stands where null was written and the schema has a default."""
    if schema is None:
        return value
    if value is None:
        return schema.default
    if schema.type is Type.ARRAY:
        return [_with_defaults(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP:
        return {key: _with_defaults(schema.value_schema, each) for key, each in value.items()}
    if schema.type is Type.STRUCT:
        return {each.name: _with_defaults(each.schema, value.get(each)) for each in schema.fields}
    return value


def _with_version(schema: Schema, version: int | None) -> Schema:
    parts: dict[str, Any] = {"fields": schema.fields} if schema.type is Type.STRUCT else {}
    if schema.type is Type.MAP:
        parts["key_schema"] = schema.key_schema
    if schema.type in (Type.MAP, Type.ARRAY):
        parts["value_schema"] = schema.value_schema
    about = {each: getattr(schema, each) for each in ("optional", "default", "name", "doc", "parameters")}
    return Schema(schema.type, version=version, **about, **parts)


@given(st.one_of(with_schema(), with_schema(only=Type.STRUCT), with_schema(3, only=Type.STRUCT)))
def test_what_connect_has_comes_back(shared: SchemaRegistry, pair: tuple[Schema, Any]) -> None:
    schema, value = pair
    assume(_is_finite(schema, value))
    converter = _converter(shared)
    written = converter.from_connect("t", None, schema, value)
    found, back = converter.to_connect("t", None, written)
    assert equal_values(_seen(back), _with_defaults(schema, value))
    assert found is not None
    assert found == (schema if schema.version is not None else _with_version(schema, found.version))


def test_the_schema_is_made_as_confluents_converter_makes_it() -> None:
    colour = (
        SchemaBuilder.string()
        .parameter("io.confluent.connect.json.Enum", "")
        .parameter("io.confluent.connect.json.Enum.RED", "RED")
        .build()
    )
    schema = (
        SchemaBuilder.struct()
        .name("shop.Order")
        .version(3)
        .doc("one")
        .field("small", SchemaBuilder.int8().default(5))
        .field("price", Decimal.builder(2).optional())
        .field("at", Timestamp.builder())
        .field("colour", colour)
        .field("tags", SchemaBuilder.array(Schema.STRING))
        .field("sizes", SchemaBuilder.map(Schema.INT32, Schema.OPTIONAL_STRING))
        .field("more", SchemaBuilder.map(Schema.STRING, Schema.FLOAT64).optional())
        .field("inner", SchemaBuilder.struct().optional().field("x", Schema.BYTES))
        .build()
    )

    def whole(**more: Any) -> dict[str, Any]:
        return {"type": "integer", **more}

    assert _json_schema(schema) == {
        "type": "object",
        "title": "shop.Order",
        "description": "one",
        "connect.version": 3,
        "properties": {
            "small": whole(**{"connect.type": "int8", "default": 5, "connect.index": 0}),
            "price": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "number",
                        "title": Decimal.LOGICAL_NAME,
                        "connect.type": "bytes",
                        "connect.version": 1,
                        "connect.parameters": {"scale": "2"},
                    },
                ],
                "connect.index": 1,
            },
            "at": whole(
                **{
                    "title": Timestamp.LOGICAL_NAME,
                    "connect.type": "int64",
                    "connect.version": 1,
                    "connect.index": 2,
                }
            ),
            "colour": {"enum": ["RED"], "connect.index": 3},
            "tags": {"type": "array", "items": {"type": "string"}, "connect.index": 4},
            "sizes": {
                "type": "array",
                "connect.type": "map",
                "connect.index": 5,
                "items": {
                    "type": "object",
                    "properties": {
                        "key": whole(**{"connect.type": "int32", "connect.index": 0}),
                        "value": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
                    },
                },
            },
            "more": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "connect.type": "map",
                        "additionalProperties": {"type": "number", "connect.type": "float64"},
                    },
                ],
                "connect.index": 6,
            },
            "inner": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "properties": {"x": {"type": "string", "connect.type": "bytes", "connect.index": 0}},
                    },
                ],
                "connect.index": 7,
            },
        },
    }
    assert _connect(_json_schema(schema)) == schema


def test_the_bytes_are_json_behind_the_id(registry: SchemaRegistry) -> None:
    schema = (
        SchemaBuilder.struct()
        .field("price", Decimal.builder(2))
        .field("day", Date.builder())
        .field("time", Time.builder())
        .field("raw", Schema.BYTES)
        .field("sizes", SchemaBuilder.map(Schema.INT32, Schema.STRING))
        .field("big", Schema.FLOAT64)
        .build()
    )
    value = (
        Struct(schema)
        .put("price", Number("1.20"))
        .put("day", datetime.datetime(1970, 1, 3, tzinfo=Z))
        .put("time", datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=Z))
        .put("raw", b"\0\1")
        .put("sizes", {7: "a"})
        .put("big", 1e10)
    )
    rest = b'"day":2,"time":1000,"raw":"AAE=","sizes":[{"key":7,"value":"a"}],"big":1.0E10}'
    written = _converter(registry).from_connect("t", None, schema, value)
    assert written == b'\0\0\0\0\1{"price":"eA==",' + rest
    numeric = _converter(registry, decimal_format="numeric")
    written = numeric.from_connect("t", None, schema, value)
    assert written == b'\0\0\0\0\1{"price":1.20,' + rest
    back = _converter(registry).to_connect("t", None, written).value
    assert str(back.get("price")) == "1.20"


def _union(*members: Schema, optional: bool = False) -> Schema:
    builder = SchemaBuilder.struct().name(ONE_OF)
    for index, each in enumerate(members):
        builder.field(f"{ONE_OF}.field.{index}", each)
    return (builder.optional() if optional else builder).build()


_PERSON = SchemaBuilder.struct().optional().field("name", Schema.STRING).build()
_CASES: list[tuple[Any, Schema]] = [
    ({"type": "integer"}, Schema.INT64),
    ({"type": "number"}, Schema.FLOAT64),
    ({"type": ["string"]}, Schema.STRING),
    ({"type": ["null", "string"]}, Schema.OPTIONAL_STRING),
    ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, Schema.OPTIONAL_BOOLEAN),
    ({"type": ["string", "integer"]}, _union(Schema.OPTIONAL_STRING, Schema.OPTIONAL_INT64)),
    (
        {"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "number"}]},
        _union(Schema.OPTIONAL_STRING, Schema.OPTIONAL_FLOAT64, optional=True),
    ),
    ({"type": "string", "format": "date-time"}, Schema.STRING),
    ({"type": "string", "const": "x"}, Schema.STRING),
    (
        {"type": "string", "enum": ["A"]},
        SchemaBuilder.string()
        .parameter("io.confluent.connect.json.Enum", "")
        .parameter("io.confluent.connect.json.Enum.A", "A")
        .build(),
    ),
    ({"type": "integer", "enum": [1, 2]}, Schema.INT64),
    ({"items": {"type": "integer"}}, SchemaBuilder.array(Schema.INT64).build()),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, SchemaBuilder.struct().build()),
    (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}},
                {"$ref": "#/definitions/b"},
            ],
            "definitions": {"b": {"properties": {"b": {"type": "string"}}}},
        },
        SchemaBuilder.struct().field("a", Schema.INT64).field("b", Schema.STRING).build(),
    ),
    (
        {
            "type": "array",
            "items": {"$ref": "#/$defs/p"},
            "$defs": {"p": {"$ref": "#/$defs/q"}, "q": {"type": "string"}},
        },
        SchemaBuilder.array(Schema.STRING).build(),
    ),
    (
        {"type": "integer", "title": "n", "description": "d", "default": 7},
        SchemaBuilder.int64().name("n").doc("d").default(7).build(),
    ),
    (
        {
            "properties": {
                "z": {"type": "string", "connect.index": 1},
                "a": {"type": "string", "connect.index": 0},
            }
        },
        SchemaBuilder.struct().field("a", Schema.STRING).field("z", Schema.STRING).build(),
    ),
]


@pytest.mark.parametrize(("node", "schema"), _CASES)
def test_schemas_of_others_are_mapped_as_confluents_converter_maps_them(node: Any, schema: Schema) -> None:
    assert _connect(node) == schema


def test_what_is_not_required_may_be_optional() -> None:
    node = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    found = _connect(node, optional_unless_required=True)
    assert [each.schema.optional for each in found.fields] == [False, True]
    assert _connect(node).fields[1].schema == Schema.STRING
    back = _json_schema(found, optional_unless_required=True, additional_properties=False)
    assert (back["required"], back["additionalProperties"]) == (["a"], False)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({}, "without a type"),
        (True, "without a type"),
        ({"type": "null"}, "The type null"),
        ({"type": []}, "The type none"),
        ({"const": 1}, "without a type"),
        ({"enum": [1, 2]}, "The type None"),
        ({"type": "array"}, "did not specify the items type"),
        ({"type": "integer", "connect.type": "int128"}, "Unsupported type int128"),
        ({"properties": {"me": {"$ref": "#"}}}, "has itself in it"),
        ({"$ref": "#/a", "a": {"$ref": "#/a"}}, "has itself in it"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "allOf of several type"),
        ({"allOf": [{"allOf": [{"type": "string"}]}]}, "allOf in allOf"),
        ({"type": "object", "connect.type": "map"}, "without a type"),
    ],
)
def test_what_has_no_schema_of_connect_is_refused(node: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        _connect(node)


def _read(registry: SchemaRegistry, node: Any, value: Any) -> Any:
    schema_id = registry.add("t-value", node, schemaType="JSON")
    payload = json.dumps(value).encode()
    return _seen(_converter(registry).to_connect("t", None, b"\0" + schema_id.to_bytes(4) + payload).value)


def test_a_value_of_a_union_is_in_the_field_of_its_type(registry: SchemaRegistry) -> None:
    person = {"type": "object", "properties": {"name": {"type": "string"}}}
    node = {
        "oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": "boolean"}, person]
    }
    for index, value in enumerate([5, 5.5, "x", True, {"name": "Ann"}]):
        found = _read(registry, node, value)
        assert {name: each for name, each in found.items() if each is not None} == {
            f"{ONE_OF}.field.{index}": value
        }
    with pytest.raises(DataError, match="Did not find matching oneof field"):
        _read(registry, node, {"other": 1})


def test_a_union_is_written_as_its_value(registry: SchemaRegistry) -> None:
    schema = _union(Schema.OPTIONAL_STRING, _PERSON, optional=True)
    converter = _converter(registry)
    value = Struct(schema).put(f"{ONE_OF}.field.1", Struct(_PERSON).put("name", "Ann"))
    written = converter.from_connect("t", None, schema, value)
    assert written == b'\0\0\0\0\1{"name":"Ann"}'
    found, back = converter.to_connect("t", None, written)
    assert (found, _seen(back)) == (_with_version(schema, 1), _seen(value))
    assert converter.from_connect("t", None, schema, Struct(schema)) == b"\0\0\0\0\1null"


def test_nothing_is_nothing_and_null_of_a_schema_is_null(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    assert converter.from_connect("t", None, None, None) is None
    assert converter.to_connect("t", None, None).value is None
    written = converter.from_connect("t", None, Schema.OPTIONAL_STRING, None)
    assert written == b"\0\0\0\0\1null", "as Confluent's writes it"
    assert converter.to_connect("t", None, written) == (_with_version(Schema.OPTIONAL_STRING, 1), None)
    assert converter.to_connect("t", None, b"\0\0\0\0\1") == (None, None)


def test_a_schema_of_the_registry_may_refer_to_another(registry: SchemaRegistry) -> None:
    money = {
        "title": "Money",
        "type": "object",
        "properties": {"cents": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "integer"}},
    }
    registry.add("money", money, schemaType="JSON")
    order = {"type": "object", "properties": {"price": {"$ref": "money.json"}}}
    references = [{"name": "money.json", "subject": "money", "version": 1}]
    registry.add("t-value", order, schemaType="JSON", references=references)
    found, value = _converter(registry).to_connect("t", None, b'\0\0\0\0\2{"price":{"cents":5}}')
    assert found is not None
    assert (found.version, _seen(value)) == (1, {"price": {"cents": 5}})
    price = found.field("price")
    assert price is not None
    assert price.schema.name == "Money"


def test_the_latest_schema_of_a_subject_can_be_written_by(registry: SchemaRegistry) -> None:
    registry.add("t-value", {"type": "string"}, schemaType="JSON")
    converter = _converter(registry, auto_register_schemas="false", use_latest_version="true")
    assert converter.from_connect("t", None, Schema.STRING, "x") == b'\0\0\0\0\1"x"'
    assert converter.from_connect("t", None, Schema.OPTIONAL_STRING, "y") == b'\0\0\0\0\1"y"'
    missing = _converter(registry, auto_register_schemas="false")
    with pytest.raises(DataError, match="Schema not found"):
        missing.from_connect("t", None, Schema.INT32, 1)


def test_subjects_are_named_by_the_title(registry: SchemaRegistry) -> None:
    schema = SchemaBuilder.struct().name("shop.Order").field("x", Schema.INT32).build()
    value = Struct(schema).put("x", 1)
    _converter(registry, is_key=True).from_connect("t", None, schema, value)
    _converter(registry, value_subject_name_strategy="TopicRecordNameStrategy").from_connect(
        "t", None, schema, value
    )
    assert list(registry.subjects) == ["t-key", "t-shop.Order"]


def test_values_are_held_against_the_schema_where_that_is_asked_for(registry: SchemaRegistry) -> None:
    registry.add("t-value", {"type": "string", "maxLength": 2}, schemaType="JSON")
    strict = _converter(
        registry, auto_register_schemas="false", use_latest_version="true", json_fail_invalid_schema="true"
    )
    with pytest.raises(DataError, match="'long' is too long"):
        strict.from_connect("t", None, Schema.STRING, "long")
    with pytest.raises(DataError, match="'long' is too long"):
        strict.to_connect("t", None, b'\0\0\0\0\1"long"')
    assert strict.to_connect("t", None, b'\0\0\0\0\1"ok"').value == "ok"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{}", "at least 5"),
        (b"\0\0\0\0\1{", "Failed to deserialize JSON Schema data of topic t"),
        (b"\0\0\0\0\1[]", "Structs should be encoded as JSON objects"),
        (b'\0\0\0\0\1{"id": null}', "Invalid null value for required"),
        (b"\0\0\0\0\2{}", "of AVRO, not of JSON Schema"),
        (b"\0\0\0\0\3{}", "which is not there"),
        (b"\0\0\0\0\7{}", "Schema not found"),
    ],
)
def test_bytes_that_cannot_be_read_are_data_errors(registry: SchemaRegistry, data: bytes, said: str) -> None:
    registry.add("t-value", {"type": "object", "properties": {"id": {"type": "integer"}}}, schemaType="JSON")
    registry.add("a", '"string"')
    registry.add("b", {"$ref": "#/nothing"}, schemaType="JSON")
    with pytest.raises(DataError, match=said):
        _converter(registry).to_connect("t", None, data)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema.STRING, 1),
        (Schema.STRING, None),
        (None, "x"),
        (_PERSON, Struct(SchemaBuilder.struct().build())),
    ],
)
def test_values_that_do_not_fit_are_data_errors(registry: SchemaRegistry, schema: Any, value: Any) -> None:
    with pytest.raises(DataError):
        _converter(registry).from_connect("t", None, schema, value)
    assert registry.subjects == {}


def test_a_registry_that_does_not_answer_is_asked_again() -> None:
    converter = JsonSchemaConverter()
    converter.configure({"schema.registry.url": "http://127.0.0.1:1", "max.retries": "0"})
    with pytest.raises(RetriableError):
        converter.from_connect("t", None, Schema.STRING, "x")
    with pytest.raises(RetriableError):
        converter.to_connect("t", None, b'\0\0\0\0\1"x"')


def test_settings_are_looked_at(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="BASE64 or NUMERIC"):
        _converter(registry, decimal_format="HEX")
    with pytest.raises(ConfigError):
        JsonSchemaConverter().configure({})


@pytest.mark.parametrize(
    "name", ["io.confluent.connect.json.JsonSchemaConverter", "JsonSchemaConverter", "JsonSchema"]
)
def test_configurations_name_it(name: str) -> None:
    assert load_plugins().implementation(name) is JsonSchemaConverter
