"""Protobuf in Connect: structs to Confluent's form and back."""

import datetime
import sys
from collections.abc import Iterator
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.registry.protobuf_schemas import ProtobufFile, file_of, text_of
from pkafka.clients.registry.protobuf_schemas import field as described
from pkafka.connect.converters.protobuf_from_connect import (
    FileFromConnect,
    ProtobufOptions,
    entry_name,
    scrubbed,
)
from pkafka.connect.data import Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp, Type
from pkafka.connect.data.java_classes import equal_values
from pkafka.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from pkafka.connect.plugins import load_plugins
from pkafka.connect.protobuf_converter import ProtobufConverter
from tests.connect_data import with_schema
from tests.schema_registry import SchemaRegistry, schema_registry

Z = datetime.UTC
SPACE = "io.confluent.connect.protobuf"
_ZEROS: dict[Type, Any] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), 0),
    Type.FLOAT32: 0.0,
    Type.FLOAT64: 0.0,
    Type.BOOLEAN: False,
    Type.STRING: "",
    Type.BYTES: b"",
    Type.ARRAY: [],
    Type.MAP: {},
}


@pytest.fixture(scope="module")
def shared() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _converter(registry: SchemaRegistry, *, is_key: bool = False, **more: object) -> ProtobufConverter:
    made = ProtobufConverter()
    configs = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": "0", **configs}, is_key=is_key)
    return made


def _read_as(schema: Schema, value: Any, *, keeps_null: bool) -> Any:
    """What comes back of a value; structs as lists, since fields may have other names."""
    value = schema.default if value is None else value
    if value is None:
        loses_null = schema.type in (Type.ARRAY, Type.MAP) or (
            not keeps_null and schema.type is not Type.STRUCT and schema.name not in _LOGICAL
        )
        return _ZEROS[schema.type] if loses_null else None
    if schema.type is Type.STRUCT:
        return [_read_as(each.schema, value.get(each), keeps_null=keeps_null) for each in schema.fields]
    inner = schema.value_schema if schema.type in (Type.ARRAY, Type.MAP) else None
    if inner is None:
        return value
    if isinstance(value, dict):
        return {key: _read_as(inner, each, keeps_null=keeps_null) for key, each in value.items()}
    return [_read_as(inner, each, keeps_null=keeps_null) for each in value]


_LOGICAL = (Decimal.LOGICAL_NAME, Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME)


def _seen(value: Any) -> Any:
    if isinstance(value, Struct):
        return [_seen(value.get(field)) for field in value.schema.fields]
    if isinstance(value, dict):
        return {key: _seen(each) for key, each in value.items()}
    return [_seen(each) for each in value] if isinstance(value, list) else value


_MODES: tuple[dict[str, Any], ...] = (
    {},
    {"optional_for_nullables": "true"},
    {"wrapper_for_nullables": "true"},
)
_NOT_IN_PROTOBUF = ("cannot be nested", "has no null in it", "already defined")


@pytest.mark.parametrize("mode", _MODES)
@given(pair=st.one_of(with_schema(only=Type.STRUCT), with_schema(3, only=Type.STRUCT)))
def test_what_protobuf_has_of_connect_comes_back(
    shared: SchemaRegistry, mode: dict[str, Any], pair: tuple[Schema, Any]
) -> None:
    schema, value = pair
    converter = _converter(shared, scrub_invalid_names="true", **mode)
    try:
        written = converter.from_connect("t", None, schema, value)
    except DataError as error:
        if not any(text in str(error) for text in _NOT_IN_PROTOBUF):
            raise
        return
    if value is None:
        assert written is None
        return
    found, back = converter.to_connect("t", None, written)
    assert equal_values(_seen(back), _read_as(schema, value, keeps_null=bool(mode)))
    if "wrapper_for_nullables" in mode:
        return  # wrappers know no bytes and shorts
    # What was read has all that Protobuf has of it: written once more, it stays as it is.
    again = converter.from_connect("u", None, found, back)
    assert again is not None
    found_again, back_again = converter.to_connect("u", None, again)
    assert found is not None
    assert found_again is not None
    assert [each.schema for each in found_again.fields] == [each.schema for each in found.fields]
    assert equal_values(_seen(back_again), _seen(back))


def _file(schema: Schema, **options: bool) -> Any:
    return FileFromConnect(ProtobufOptions(**options)).convert(schema)[0]


def test_the_file_is_made_as_confluents_converter_makes_it() -> None:
    colour = (
        SchemaBuilder.string()
        .name("Colour")
        .parameter(f"{SPACE}.Enum", "Colour")
        .parameter(f"{SPACE}.Enum.RED", "0")
        .parameter(f"{SPACE}.Enum.BLUE", "4")
        .build()
    )
    inner = SchemaBuilder.struct().name("shop.Person").field("name", Schema.STRING).build()
    union = (
        SchemaBuilder.struct()
        .name(f"{SPACE}.Union.who")
        .optional()
        .field("number", Schema.OPTIONAL_INT64)
        .field("someone", inner)
        .build()
    )
    schema = (
        SchemaBuilder.struct()
        .name("shop.Order")
        .field("small", Schema.INT8)
        .field("who_0", union)
        .field("tagged", SchemaBuilder.bool().parameter(f"{SPACE}.Tag", "9"))
        .field("price", Decimal.builder(2).parameter("connect.decimal.precision", "9"))
        .field("colour", colour)
        .field("tags", SchemaBuilder.array(inner))
        .field("sizes", SchemaBuilder.map(Schema.STRING, Schema.FLOAT64).name("by_size"))
        .field("more", SchemaBuilder.struct().field("x", Schema.BYTES).optional())
        .build()
    )

    def one(name: str, number: int, kind: int, **more: Any) -> dict[str, Any]:
        return {"name": name, "number": number, "label": 1, "type": kind, **more}

    assert _file(schema) == {
        "name": "shop.Order.proto",
        "package": "shop",
        "dependency": ["confluent/meta.proto", "confluent/type/decimal.proto"],
        "message_type": [
            {
                "name": "Order",
                "field": [
                    one("small", 1, 5, params={"connect.type": "int8"}),
                    one("number", 2, 3, oneof_index=0),
                    one("someone", 3, 11, type_name=".shop.Order.Person", oneof_index=0),
                    one("tagged", 9, 8),
                    one(
                        "price",
                        4,
                        11,
                        type_name=".confluent.type.Decimal",
                        params={"precision": "9", "scale": "2"},
                    ),
                    one("colour", 5, 14, type_name=".shop.Order.Colour"),
                    one("tags", 6, 11, type_name=".shop.Order.Person", label=3),
                    one("sizes", 7, 11, type_name=".shop.Order.BySizeEntry", label=3),
                    one("more", 8, 11, type_name=".shop.Order.ConnectDefault1"),
                ],
                "oneof_decl": [{"name": "who"}],
                "enum_type": [
                    {"name": "Colour", "value": [{"name": "RED", "number": 0}, {"name": "BLUE", "number": 4}]}
                ],
                "nested_type": [
                    {"name": "Person", "field": [one("name", 1, 9)]},
                    {"name": "BySizeEntry", "field": [one("key", 1, 9), one("value", 2, 1)]},
                    {"name": "ConnectDefault1", "field": [one("x", 1, 12)]},
                ],
            }
        ],
    }


def test_what_may_be_null_is_optional_or_wrapped_where_that_is_asked_for() -> None:
    schema = SchemaBuilder.struct().field("a", Schema.OPTIONAL_INT32).field("b", Schema.INT32).build()
    a, b = _file(schema, optional=True)["message_type"][0]["field"]
    assert (a["proto3_optional"], a["oneof_index"], "proto3_optional" in b) == (True, 0, False)
    made = _file(schema, wraps=True)
    assert made["dependency"] == ["google/protobuf/wrappers.proto"]
    assert made["message_type"][0]["field"][0]["type_name"] == ".google.protobuf.Int32Value"


def test_the_bytes_are_those_of_protobuf_behind_the_id_and_the_place(registry: SchemaRegistry) -> None:
    schema = (
        SchemaBuilder.struct()
        .field("id", Schema.INT64)
        .field("price", Decimal.builder(2))
        .field("day", Date.builder())
        .field("time", Time.builder())
        .field("at", Timestamp.builder())
        .build()
    )
    value = (
        Struct(schema)
        .put("id", 300)
        .put("price", Number("-1.28"))
        .put("day", datetime.datetime(2024, 2, 29, tzinfo=Z))
        .put("time", datetime.datetime(1970, 1, 1, 1, 2, 3, 4000, tzinfo=Z))
        .put("at", datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=Z))
    )
    written = _converter(registry).from_connect("t", None, schema, value)
    assert written == (
        b"\0\0\0\0\1\0"
        + b"\x08\xac\x02"
        + b"\x12\x07\x0a\x01\x80\x10\x03\x18\x02"
        + b"\x1a\x07\x08\xe8\x0f\x10\x02\x18\x1d"
        + b"\x22\x0b\x08\x01\x10\x02\x18\x03\x20\x80\x92\xf4\x01"
        + b"\x2a\x11\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x80\xca\xb5\xee\x01"
    )
    back = _converter(registry).to_connect("t", None, written).value
    assert _seen(back) == _seen(value)


def _registered(registry: SchemaRegistry, subject: str, description: dict[str, Any], **more: Any) -> int:
    return registry.add(subject, text_of(file_of(description)).text, schemaType="PROTOBUF", **more)


def _payload(description: dict[str, Any], name: str, **values: Any) -> bytes:
    """A message of a file, as another program writes it."""
    message = ProtobufFile(file_of(description), {}).message(name)
    written: bytes = message(**values).SerializeToString()
    return written


OTHERS: dict[str, Any] = {
    "name": "others.proto",
    "package": "shop",
    "dependency": ["google/protobuf/wrappers.proto"],
    "message_type": [
        {
            "name": "Order",
            "field": [
                described("big", 1, 4),
                described("many", 2, 11, ".shop.Order.ManyEntry", label=3),
                described("state", 3, 14, ".shop.Order.State"),
                described("note", 4, 11, ".google.protobuf.StringValue"),
                described("numbers", 5, 13, label=3),
                described("left", 6, 9, oneof_index=0),
                described("right", 7, 5, oneof_index=0),
            ],
            "oneof_decl": [{"name": "side"}],
            "enum_type": [
                {"name": "State", "value": [{"name": "NEW", "number": 0}, {"name": "OLD", "number": 1}]}
            ],
            "nested_type": [
                {
                    "name": "ManyEntry",
                    "field": [described("key", 1, 9), described("value", 2, 5)],
                    "options": {"map_entry": True},
                }
            ],
        },
        {"name": "Empty"},
    ],
}


def _taken(struct: Struct) -> dict[str, Any]:
    return {each.name: _seen(struct.get(each)) for each in struct.schema.fields}


def test_messages_of_others_are_mapped_as_confluents_converter_maps_them(registry: SchemaRegistry) -> None:
    _registered(registry, "t-value", OTHERS)
    values = {
        "big": (1 << 64) - 1,
        "many": {"a": 1},
        "state": 1,
        "note": {"value": "hi"},
        "numbers": [(1 << 32) - 1],
        "right": 5,
    }
    data = b"\0\0\0\0\1\0" + _payload(OTHERS, "shop.Order", **values)
    schema, value = _converter(registry).to_connect("t", None, data)
    assert _taken(value) == {
        "side_0": [None, 5],
        "big": -1,
        "many": {"a": 1},
        "state": "OLD",
        "note": ["hi"],
        "numbers": [(1 << 32) - 1],
    }
    assert schema is not None
    assert (schema.name, schema.version) == ("Order", 1)
    state = schema.field("state")
    assert state is not None
    assert state.schema.parameters == {
        f"{SPACE}.Enum": "State",
        f"{SPACE}.Enum.NEW": "0",
        f"{SPACE}.Enum.OLD": "1",
        f"{SPACE}.Tag": "3",
    }
    wrapped = _converter(registry, wrapper_for_nullables="true", enhanced_protobuf_schema_support="true")
    schema, value = wrapped.to_connect("t", None, data)
    assert schema is not None
    assert schema.name == "shop.Order"
    assert _taken(value)["note"] == "hi"
    nothing = wrapped.to_connect("t", None, b"\0\0\0\0\1\0").value
    assert _taken(nothing) == {
        "side_0": None,
        "big": 0,
        "many": {},
        "state": "NEW",
        "note": None,
        "numbers": [],
    }


def test_a_symbol_that_the_schema_does_not_know_is_shown_by_its_number(registry: SchemaRegistry) -> None:
    _registered(registry, "t-value", OTHERS)
    value = _converter(registry).to_connect("t", None, b"\0\0\0\0\1\0\x18\x09").value
    assert value.get("state") == "UNKNOWN_ENUM_VALUE_State_9"


def test_a_message_is_found_by_its_place(registry: SchemaRegistry) -> None:
    _registered(registry, "t-value", OTHERS)
    found, value = _converter(registry).to_connect("t", None, b"\0\0\0\0\1\x02\x02")
    assert found is not None
    assert (found.name, _seen(value)) == ("Empty", [])
    for place in (b"\x02\x04", b"\x04\x02\x00", b"\x02\x01"):
        with pytest.raises(DataError, match="has no message"):
            _converter(registry).to_connect("t", None, b"\0\0\0\0\1" + place)


def test_a_schema_of_the_registry_may_import_another(registry: SchemaRegistry) -> None:
    money = {
        "name": "x",
        "package": "m",
        "message_type": [{"name": "Money", "field": [described("cents", 1, 3)]}],
    }
    _registered(registry, "money", money)
    order = {
        "name": "default",
        "dependency": ["money.proto"],
        "message_type": [{"name": "Order", "field": [described("price", 1, 11, ".m.Money")]}],
    }
    references = [{"name": "money.proto", "subject": "money", "version": 1}]
    _registered(registry, "t-value", order, references=references)
    value = _converter(registry).to_connect("t", None, b"\0\0\0\0\2\0\x0a\x02\x08\x05").value
    assert _seen(value) == [[5]]
    assert all("?format=serialized" in each or each.startswith("POST") for each in registry.asked[:2])
    _registered(registry, "t-value", {**order, "name": "other"})
    with pytest.raises(DataError, match=r"imports money\.proto"):
        _converter(registry).to_connect("t", None, b"\0\0\0\0\3\0")


def test_the_latest_schema_of_a_subject_can_be_written_by(registry: SchemaRegistry) -> None:
    _registered(registry, "t-value", OTHERS)
    schema = (
        SchemaBuilder.struct()
        .name("shop.Order")
        .field("many", SchemaBuilder.map(Schema.STRING, Schema.INT32))
        .field("state", Schema.STRING)
        .build()
    )
    value = Struct(schema).put("many", {"a": 1}).put("state", "OLD")
    converter = _converter(registry, auto_register_schemas="false", use_latest_version="true")
    written = converter.from_connect("t", None, schema, value)
    assert written == b"\0\0\0\0\1\0" + _payload(OTHERS, "shop.Order", many={"a": 1}, state=1)
    with pytest.raises(DataError, match="has no symbol LOST"):
        converter.from_connect("t", None, schema, Struct(schema).put("many", {}).put("state", "LOST"))
    other = SchemaBuilder.struct().field("unknown", Schema.STRING).build()
    with pytest.raises(DataError, match="Cannot find field with name unknown"):
        converter.from_connect("t", None, other, Struct(other).put("unknown", "x"))


def test_a_registry_that_gives_text_alone_is_told(registry: SchemaRegistry) -> None:
    registry.add("t-value", 'syntax = "proto3"; message A {}', schemaType="PROTOBUF")
    with pytest.raises(DataError, match="it has to know format=serialized"):
        _converter(registry).to_connect("t", None, b"\0\0\0\0\1\0")


def test_subjects_are_named_by_the_message(registry: SchemaRegistry) -> None:
    schema = SchemaBuilder.struct().name("shop.Order").field("x", Schema.INT32).build()
    value = Struct(schema).put("x", 1)
    _converter(registry, is_key=True).from_connect("t", None, schema, value)
    by_record = _converter(registry, value_subject_name_strategy="TopicRecordNameStrategy")
    by_record.from_connect("t", None, schema, value)
    assert list(registry.subjects) == ["t-key", "t-shop.Order"]


def test_nothing_is_nothing(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    optional = SchemaBuilder.struct().optional().build()
    assert converter.from_connect("t", None, None, None) is None
    assert converter.from_connect("t", None, optional, None) is None
    assert converter.to_connect("t", None, None).value is None
    assert registry.asked == []


_STRUCT = SchemaBuilder.struct().field("x", Schema.INT32).build()


def _of(schema: Schema | SchemaBuilder) -> Schema:
    return SchemaBuilder.struct().field("x", schema).build()


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (None, "x", "needs values with a schema"),
        (Schema.STRING, "x", "Unsupported root schema"),
        (_STRUCT, None, "null"),
        (_STRUCT, "x", "Invalid"),
        (_of(SchemaBuilder.array(SchemaBuilder.array(Schema.STRING))), [[]], "cannot be nested"),
        (_of(SchemaBuilder.array(SchemaBuilder.map(Schema.STRING, Schema.STRING))), [{}], "cannot be nested"),
        (_of(SchemaBuilder.array(Schema.OPTIONAL_STRING)), [None], "has no null in it"),
        (_of(SchemaBuilder.map(Schema.STRING, Schema.OPTIONAL_STRING)), {"a": None}, "has no null in it"),
        (SchemaBuilder.struct().field("a b", Schema.INT32).build(), 1, "schema of Protobuf"),
        (_of(Time.builder()), datetime.datetime(2024, 1, 1, tzinfo=Z), "Time values"),
        (
            _of(Date.builder()),
            datetime.datetime(2024, 1, 1, 1, tzinfo=Z),
            "Date type should not have any time",
        ),
        (_of(SchemaBuilder.int32().parameter(f"{SPACE}.Tag", "x")), 1, "x is no number"),
        (_of(SchemaBuilder.int32().parameter(f"{SPACE}.Tag", str(1 << 40))), 1, "Protobuf"),
    ],
)
def test_what_protobuf_does_not_have_is_a_data_error(
    registry: SchemaRegistry, schema: Any, value: Any, said: str
) -> None:
    if isinstance(schema, Schema) and schema.type is Type.STRUCT and value not in (None, "x"):
        value = Struct(schema).put(schema.fields[0], value)
    with pytest.raises(DataError, match=said):
        _converter(registry).from_connect("t", None, schema, value)
    assert registry.subjects == {}


def test_a_message_that_has_itself_in_it_is_refused(registry: SchemaRegistry) -> None:
    tree = {
        "name": "t.proto",
        "message_type": [{"name": "Tree", "field": [described("left", 1, 11, ".Tree")]}],
    }
    _registered(registry, "t-value", tree)
    with pytest.raises(DataError, match="Tree has itself in it"):
        _converter(registry).to_connect("t", None, b"\0\0\0\0\1\0")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{}", "at least 5"),
        (b"\0\0\0\0\1", "cut off"),
        (b"\0\0\0\0\1\0\x08", "Failed to deserialize Protobuf data of topic t"),
        (b"\0\0\0\0\2\0", "of AVRO, not of Protobuf"),
        (b"\0\0\0\0\7\0", "Schema not found"),
    ],
)
def test_bytes_that_cannot_be_read_are_data_errors(registry: SchemaRegistry, data: bytes, said: str) -> None:
    _registered(registry, "t-value", OTHERS)
    registry.add("a", '"string"')
    with pytest.raises(DataError, match=said):
        _converter(registry).to_connect("t", None, data)


def test_a_day_that_is_none_is_a_data_error(registry: SchemaRegistry) -> None:
    converter = _converter(registry)
    schema = _of(Date.builder())
    day = Struct(schema).put("x", datetime.datetime(2024, 1, 1, tzinfo=Z))
    converter.from_connect("t", None, schema, day)
    with pytest.raises(DataError, match="is no day"):
        converter.to_connect("t", None, b"\0\0\0\0\1\0\x0a\x02\x10\x0d")


def test_a_registry_that_does_not_answer_is_asked_again() -> None:
    converter = ProtobufConverter()
    converter.configure({"schema.registry.url": "http://127.0.0.1:1", "max.retries": "0"})
    with pytest.raises(RetriableError):
        converter.from_connect("t", None, _STRUCT, Struct(_STRUCT).put("x", 1))
    with pytest.raises(RetriableError):
        converter.to_connect("t", None, b"\0\0\0\0\1\0")


def test_settings_are_looked_at(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be together"):
        _converter(registry, optional_for_nullables="true", wrapper_for_nullables="true")
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ConnectError, match="pip install"):
        _converter(registry)


def test_names_are_changed_so_that_protobuf_can_have_them() -> None:
    assert [scrubbed(each) for each in ("a", "_a", "1", "a b", "é", "a-b")] == [
        "a",
        "x_a",
        "x1",
        "a_b",
        "x_C3_A9",
        "a_b",
    ]
    assert [entry_name(each) for each in ("a", "my_map", "MyMap")] == ["aEntry", "MyMapEntry", "MyMapEntry"]


@pytest.mark.parametrize(
    "name", ["io.confluent.connect.protobuf.ProtobufConverter", "ProtobufConverter", "Protobuf"]
)
def test_configurations_name_it(name: str) -> None:
    assert load_plugins().implementation(name) is ProtobufConverter
