"""Avro in Connect: schemas and values to Confluent's form and back."""

import datetime
import json
import sys
from collections.abc import Iterator
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.avro_converter import AvroConverter
from pkafka.connect.converters.avro_from_connect import AvroOptions, SchemaToAvro
from pkafka.connect.converters.avro_to_connect import SchemaFromAvro
from pkafka.connect.converters.avro_types import AvroTypes
from pkafka.connect.data import (
    Date,
    Decimal,
    Float32,
    Int32,
    Schema,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
    Type,
)
from pkafka.connect.data.java_classes import equal_values
from pkafka.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from pkafka.connect.plugins import load_plugins
from tests.connect_data import WITHOUT_SCHEMA, with_schema
from tests.schema_registry import SchemaRegistry, schema_registry

Z = datetime.UTC


@pytest.fixture(scope="module")
def shared() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _converter(registry: SchemaRegistry, *, is_key: bool = False, **more: object) -> AvroConverter:
    made = AvroConverter()
    configs = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": "0", **configs}, is_key=is_key)
    return made


def _avro(schema: Schema | None, **options: bool) -> Any:
    return SchemaToAvro(AvroOptions(**options)).convert(schema)


def _connect(avro: Any, **options: bool) -> Schema:
    return SchemaFromAvro(AvroTypes(avro), AvroOptions(**options)).convert()


def _seen(value: Any) -> Any:
    """A value in which defaults stand where nothing else does: so a struct shows itself, and so it is written."""
    if isinstance(value, Struct):
        return {field.name: _seen(value.get(field)) for field in value.schema.fields}
    if isinstance(value, dict):
        return {key: _seen(each) for key, each in value.items()}
    return [_seen(each) for each in value] if isinstance(value, list | tuple) else value


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
    converter = _converter(shared)
    try:
        written = converter.from_connect("t", None, schema, value)
    except DataError as error:
        # Two of the same name, or a field that Avro cannot name.
        if not any(text in str(error) for text in ("redefine", "Illegal character")):
            raise
        return
    found, back = converter.to_connect("t", None, written)
    assert equal_values(_seen(back), _seen(value))
    if value is not None:
        # What tells no version has that of the registry, as with Confluent's converter.
        assert found is not None
        assert found == (schema if schema.version is not None else _with_version(schema, found.version))


@given(WITHOUT_SCHEMA)
def test_values_without_a_schema_come_back(shared: SchemaRegistry, value: Any) -> None:
    converter = _converter(shared)
    written = converter.from_connect("t", None, None, value)
    found, back = converter.to_connect("t", None, written)
    assert found is None
    assert equal_values(back, value)


def test_the_schema_is_written_as_confluents_converter_writes_it() -> None:
    price = Decimal.builder(2).optional().build()
    schema = (
        SchemaBuilder.struct()
        .name("shop.Order")
        .version(3)
        .doc("one")
        .field("small", SchemaBuilder.int8().default(5))
        .field("price", price)
        .field("at", Timestamp.builder())
        .field("tags", SchemaBuilder.array(Schema.STRING))
        .field("sizes", SchemaBuilder.map(Schema.INT32, Schema.OPTIONAL_STRING))
        .field("more", SchemaBuilder.map(Schema.STRING, Schema.FLOAT64).optional())
        .build()
    )
    entry = {
        "type": "record",
        "name": "MapEntry",
        "namespace": "io.confluent.connect.avro",
        "fields": [
            {"name": "key", "type": "int"},
            {"name": "value", "type": ["null", "string"], "default": None},
        ],
    }
    decimal = {
        "type": "bytes",
        "scale": 2,
        "precision": 64,
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "logicalType": "decimal",
    }
    stamp = {
        "type": "long",
        "connect.version": 1,
        "connect.name": "org.apache.kafka.connect.data.Timestamp",
        "logicalType": "timestamp-millis",
    }
    expected = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {
                "name": "small",
                "type": {"type": "int", "connect.default": 5, "connect.type": "int8"},
                "default": 5,
            },
            {"name": "price", "type": ["null", decimal], "default": None},
            {"name": "at", "type": stamp},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "sizes", "type": {"type": "array", "items": entry}},
            {"name": "more", "type": ["null", {"type": "map", "values": "double"}], "default": None},
        ],
        "connect.doc": "one",
        "connect.version": 3,
        "connect.name": "shop.Order",
    }
    assert json.dumps(_avro(schema)) == json.dumps(expected)
    assert _connect(expected) == schema


def test_logical_types_are_told_without_the_meta_data_of_connect() -> None:
    schema = SchemaBuilder.struct().field("day", Date.SCHEMA).field("time", Time.SCHEMA).build()
    avro = _avro(schema, meta_data=False)
    types = [{"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}]
    assert [each["type"] for each in avro["fields"]] == types
    assert _connect(avro) == schema


def test_a_value_of_a_record_becomes_a_struct(registry: SchemaRegistry) -> None:
    avro = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "doc": "of a shop",
        "fields": [
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
            {"name": "before", "type": ["null", "State"], "default": None},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "count", "type": "int", "default": 7, "doc": "how many"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
            },
        ],
    }
    registry.add("t-value", avro)
    found, value = _converter(registry).to_connect("t", None, b"\0\0\0\0\1" + b"\2\2\0ab\x08\4\2\x0f")
    assert isinstance(value, Struct)
    assert found is not None
    day = datetime.datetime(1970, 1, 3, tzinfo=Z)
    assert list(_seen(value).values()) == ["OLD", "NEW", b"ab", 4, day, Number("1.5")]
    prefix = "io.confluent.connect.avro."
    assert (found.name, found.version) == ("shop.Order", 1)
    assert found.parameters == {prefix + "record.doc": "of a shop", prefix + "field.doc.count": "how many"}
    state, before, _hash, count, _day, price = (field.schema for field in found.fields)
    symbols = {prefix + "Enum": "shop.State", prefix + "Enum.NEW": "NEW", prefix + "Enum.OLD": "OLD"}
    assert (state.parameters, state.name, before.optional) == (symbols, "shop.State", True)
    assert (count.default, count.parameters) == (7, {prefix + "field.default": "true"})
    assert price.parameters == {"scale": "1", "connect.decimal.precision": "9"}
    enhanced = _avro(found, enhanced=True)
    assert [each["type"] for each in enhanced["fields"]][:2] == [
        {
            "type": "enum",
            "name": "State",
            "namespace": "shop",
            "symbols": ["NEW", "OLD"],
            "connect.parameters": symbols,
            "connect.name": "shop.State",
        },
        ["null", "shop.State"],
    ]


UNION = [
    "null",
    "long",
    "string",
    {"type": "record", "name": "a.One", "fields": [{"name": "x", "type": "int"}]},
    {"type": "record", "name": "b.Two", "fields": [{"name": "x", "type": "int"}]},
    {"type": "array", "items": "bytes"},
]


@pytest.mark.parametrize(
    ("enhanced", "names"),
    [
        (False, ["long", "string", "One", "Two", "array"]),
        (True, ["long", "string", "a.One", "b.Two", "array"]),
    ],
)
@pytest.mark.parametrize("data", [b"\2\6", b"\4\2x", b"\6\6", b"\x08\6", b"\x0a\2\4ab\0"])
def test_a_union_is_a_struct_of_its_members(
    registry: SchemaRegistry, *, enhanced: bool, names: list[str], data: bytes
) -> None:
    registry.add("t-value", {"type": "record", "name": "U", "fields": [{"name": "u", "type": UNION}]})
    converter = _converter(registry, enhanced_avro_schema_support=str(enhanced))
    found, value = converter.to_connect("t", None, b"\0\0\0\0\1" + data)
    inner = value.get("u")
    assert [field.name for field in inner.schema.fields] == names
    assert [name for name in names if inner.get(name) is not None] == [names[data[0] // 2 - 1]]
    written = converter.from_connect("t", None, found, value)
    assert written is not None
    assert written[5:] == data


def test_the_latest_schema_of_the_registry_is_written(registry: SchemaRegistry) -> None:
    fields = [
        {"name": "b", "type": ["string", "null"]},
        {"name": "a", "type": "long"},
        {"name": "new", "type": ["null", "int"], "default": None},
    ]
    registry.add("t-value", {"type": "record", "name": "R", "fields": fields})
    schema = SchemaBuilder.struct().field("a", Schema.INT64).field("b", Schema.OPTIONAL_STRING).build()
    value = Struct(schema).put("a", 3).put("b", "x")
    converter = _converter(registry, auto_register_schemas="false", use_latest_version="true")
    assert converter.from_connect("t", None, schema, value) == b"\0\0\0\0\1" + b"\0\2x" + b"\6" + b"\0"
    other = SchemaBuilder.struct().field("a", Schema.STRING).field("b", Schema.STRING).build()
    with pytest.raises(DataError, match="long where the value is of"):
        converter.from_connect("t", None, other, Struct(other).put("a", "3").put("b", "x"))
    lacking = SchemaBuilder.struct().field("a", Schema.INT64).build()
    with pytest.raises(DataError, match="a field b, the value has none"):
        converter.from_connect("t", None, lacking, Struct(lacking).put("a", 3))


def test_bytes_alone_have_no_length(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    written = converter.from_connect("t", None, Schema.BYTES, b"ab")
    assert written == b"\0\0\0\0\1ab"
    assert converter.to_connect("t", None, written).value == b"ab"


def test_numbers_without_a_schema_keep_their_class(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    for value in (Int32(5), Float32(0.5)):
        back = converter.to_connect("t", None, converter.from_connect("t", None, None, value)).value
        assert type(back) is type(value)


def test_nothing_is_no_bytes(registry: SchemaRegistry) -> None:
    converter = _converter(registry, is_key=True)
    assert converter.from_connect("t", None, None, None) is None
    assert converter.from_connect("t", None, Schema.OPTIONAL_STRING, None) is None
    assert converter.to_connect("t", None, None) == (None, None)
    assert not registry.asked


def test_values_that_do_not_fit_are_refused_before_anything_is_registered(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    struct = Struct(SchemaBuilder.struct().field("a", Schema.INT32).build())
    for schema, value in (
        (Schema.INT32, "x"),
        (Schema.STRING, None),
        (struct.schema, struct),
        (Schema.INT32, 2**31),
    ):
        with pytest.raises(DataError):
            converter.from_connect("t", None, schema, value)
    assert not registry.subjects


@pytest.mark.parametrize(
    ("avro", "problem"),
    [
        ("null", "Standalone null"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, "itself"),
        ({"type": "int", "connect.type": "int9"}, "annotation"),
        ({"type": "string", "connect.name": 5}, "Invalid schema name"),
        ({"type": "string", "connect.parameters": {"a": 5}}, "to be strings"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]},
            "default",
        ),
        ({"type": "array", "items": "Nowhere"}, "Undefined name"),
        ({"type": "array"}, "no schema"),
        (
            [
                {"type": "record", "name": "a.R", "fields": []},
                {"type": "record", "name": "b.R", "fields": []},
            ],
            "Multiple",
        ),
    ],
)
def test_schemas_that_connect_cannot_have_are_refused(avro: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        _connect(avro)


def test_bytes_that_name_no_schema_are_refused(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    for data in (b"", b"{}", b'{"a": 1}', b"\0\0\0\0\x09"):
        with pytest.raises(DataError, match="Failed to deserialize data for topic t to Avro"):
            converter.to_connect("t", None, data)


def test_a_registry_that_is_gone_may_come_back() -> None:
    with schema_registry() as gone:
        converter = _converter(gone)
    with pytest.raises(RetriableError):
        converter.from_connect("t", None, Schema.STRING, "x")
    with pytest.raises(RetriableError):
        converter.to_connect("t", None, b"\0\0\0\0\1x")


def test_a_converter_forgets_schemas_when_they_are_too_many(registry: SchemaRegistry) -> None:
    converter = _converter(registry, schemas_cache_config="2")
    schemas = (Schema.STRING, Schema.OPTIONAL_STRING, SchemaBuilder.string().doc("a").build())
    for schema in schemas * 2:
        written = converter.from_connect("t", None, schema, "x")
        assert converter.to_connect("t", None, written).value == "x"


def test_a_login_is_sent() -> None:
    with schema_registry("ann:secret") as registry:
        converter = _converter(
            registry, basic_auth_credentials_source="USER_INFO", basic_auth_user_info="ann:secret"
        )
        assert converter.from_connect("t", None, Schema.STRING, "x")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema.registry.url", "localhost:8081"),
        ("schema.registry.url", ""),
        ("value.subject.name.strategy", "Nope"),
        ("max.retries", "-1"),
        ("connect.meta.data", "perhaps"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        AvroConverter().configure({"schema.registry.url": "http://localhost:1", key: value}, is_key=False)


def test_without_fastavro_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConnectError, match=r"pkafka\[registry\]"):
        AvroConverter().configure({"schema.registry.url": "http://localhost:1"}, is_key=False)


def test_workers_know_it_by_its_name_in_java() -> None:
    plugins = load_plugins()
    for name in ("io.confluent.connect.avro.AvroConverter", "AvroConverter", "Avro"):
        assert plugins.implementation(name) is AvroConverter
