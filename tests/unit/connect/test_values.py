"""Values: from text and to text, and from one type to another."""

from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.data import (
    Date,
    Decimal,
    Float32,
    Int8,
    Int32,
    Schema,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
    Type,
)
from pkafka.connect.data.logical import from_millis
from pkafka.connect.data.values import convert, infer_schema, parse_decimal, parse_string, to_text
from pkafka.connect.errors import DataError, NullError, NumberFormatError, SchemaBuilderError
from tests.connect_data import TEXTS, values_of, with_schema

NOON = from_millis(43_200_000)


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("1", Schema.INT8, 1),
        ("-129", Schema.INT16, -129),
        ("40000", Schema.INT32, 40000),
        ("5000000000", Schema.INT64, 5_000_000_000),
        ("9223372036854775808", Decimal.schema(0), Number(2**63)),
        ("1e3", Schema.INT16, 1000),
        ("1.5", Schema.FLOAT32, 1.5),
        ("1e39", Schema.FLOAT64, 1e39),
        ("1e400", Decimal.schema(-400), Number("1e400")),
        ("true", Schema.BOOLEAN, True),
        (" false ", Schema.BOOLEAN, False),
        ("true}", Schema.STRING, "true}"),
        ("null", None, None),
        ("", Schema.STRING, ""),
        ("  ", Schema.STRING, "  "),
        ("a b", Schema.STRING, "a b"),
        ("-", Schema.STRING, "-"),
        ('"x"', Schema.STRING, '"x"'),
        ("1_0", Schema.STRING, "1_0"),
        ("2020-01-02", Date.SCHEMA, from_millis(1_577_923_200_000)),
        ("12:00:00.000Z", Time.SCHEMA, NOON),
        ("1970-01-01T12:00:00.000Z", Timestamp.SCHEMA, NOON),
        ("12\\:00\\:00.000Z", Time.SCHEMA, NOON),
        ("[1, 2, 300]", SchemaBuilder.array(Schema.INT16).build(), [1, 2, 300]),
        ('["a", 1]', SchemaBuilder.array_of_null().build(), ["a", 1]),
        ("[]", SchemaBuilder.array_of_null().build(), []),
        (
            '{"a": 1, "b": 2.5}',
            SchemaBuilder.map(Schema.STRING, Schema.FLOAT32).build(),
            {"a": 1.0, "b": 2.5},
        ),
        ('{"a": null}', SchemaBuilder.map_with_null_values(Schema.STRING).build(), {"a": None}),
        ("{}", SchemaBuilder.map_of_null().build(), {}),
        ("[1", Schema.STRING, "[1"),
        ("[1,,2]", Schema.STRING, "[1,,2]"),
        ("{1}", Schema.STRING, "{1}"),
        ("{null: 1}", Schema.STRING, "{null: 1}"),
    ],
)
def test_texts_are_taken_for_what_they_look_like(text: str, schema: Schema | None, value: object) -> None:
    parsed = parse_string(text)
    assert (parsed.schema, parsed.value) == (schema, value)


@given(
    st.recursive(
        st.one_of(st.integers(), st.booleans(), TEXTS), lambda inner: st.lists(inner, min_size=1, max_size=3)
    )
)
def test_lists_come_back_from_their_text(value: Any) -> None:
    if isinstance(value, list):
        assert isinstance(parse_string(to_text(value)).value, list | str)


def test_nesting_ends_somewhere() -> None:
    with pytest.raises(DataError, match="too deeply"):
        parse_string("[" * 100_000)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ([1, 'a"b\\', None, True], '[1,"a\\"b\\\\",null,true]'),
        ({"a": b"\x01", 1: 1e10}, '{"a":"AQ==",1:1.0E10}'),
        (b"\x01", "AQ=="),
        (Number("1.50"), "1.50"),
        (Float32(0.10000000149011612), "0.1"),
        (NOON, "12:00:00.000Z"),
        (Struct(SchemaBuilder.struct().field("b", Schema.BYTES).build()).put("b", b"\x01"), '{"b":"AQ=="}'),
        (from_millis(86_400_000), "1970-01-02"),
        (from_millis(86_400_001), "1970-01-02T00:00:00.001Z"),
        (
            Struct(SchemaBuilder.struct().field("f", Schema.FLOAT32).build()).put("f", 0.10000000149011612),
            '{"f":0.1}',
        ),
    ],
)
def test_values_have_texts(value: object, text: str) -> None:
    assert to_text(value) == text


def test_what_is_no_value_of_connect_has_no_text() -> None:
    with pytest.raises(DataError, match=r"^Failed to serialize unexpected value type builtins.object: "):
        to_text(object())


@pytest.mark.parametrize(
    ("to", "schema", "value", "expected"),
    [
        (Schema.INT8, None, "300", 44),
        (Schema.INT32, None, 2.9, 2),
        (Schema.INT64, None, float("nan"), 0),
        (Schema.INT64, None, 1e300, 2**63 - 1),
        (Schema.INT64, None, "1e400", 0),
        (Schema.INT64, None, ".9", 0),
        (Schema.FLOAT32, None, "0.1", 0.10000000149011612),
        (Schema.FLOAT64, None, 3, 3.0),
        (Schema.BOOLEAN, None, "true", True),
        (Schema.BOOLEAN, None, "7", True),
        (Schema.BOOLEAN, None, 0.5, False),
        (Schema.STRING, None, 1, "1"),
        (Schema.BYTES, None, bytearray(b"x"), b"x"),
        (Schema.OPTIONAL_INT8, None, None, None),
        (Decimal.schema(1), None, "1.50", Number("1.50")),
        (Decimal.schema(1), None, b"\x0f", Number("1.5")),
        (Decimal.schema(1), None, 2, Number("2.0")),
        (Date.SCHEMA, None, 1, from_millis(86_400_000)),
        (Date.SCHEMA, Timestamp.SCHEMA, from_millis(86_400_001), from_millis(86_400_000)),
        (Time.SCHEMA, Timestamp.SCHEMA, from_millis(86_400_001), from_millis(1)),
        (Time.SCHEMA, None, "12:00:00.000Z", NOON),
        (Timestamp.SCHEMA, Date.SCHEMA, from_millis(86_400_000), from_millis(86_400_000)),
        (Timestamp.SCHEMA, Time.SCHEMA, NOON, NOON),
        (Timestamp.SCHEMA, None, "5", from_millis(5)),
        (Schema.INT64, Timestamp.SCHEMA, NOON, 43_200_000),
        (SchemaBuilder.array(Schema.INT8).build(), None, "[1]", [1]),
        (SchemaBuilder.map(Schema.STRING, Schema.INT8).build(), None, '{"a":1}', {"a": 1}),
    ],
)
def test_values_become_others(to: Schema, schema: Schema | None, value: object, expected: object) -> None:
    assert convert(to, schema, value) == expected


@pytest.mark.parametrize(
    ("to", "schema", "value", "message"),
    [
        (Schema.INT8, None, None, "Unable to convert a null value to a schema that requires a value"),
        (Schema.INT8, None, "x", "Unable to convert x (class java.lang.String) to a number"),
        (Schema.INT8, Schema.STRING, "x", "Unable to convert x (class java.lang.String) to Schema{STRING}"),
        (Schema.FLOAT64, None, [1], "Unable to convert [1] (class java.util.ArrayList) to a number"),
        (Schema.BYTES, None, 5, "Unable to convert 5 (class java.lang.Long) to Schema{BYTES}"),
        (
            SchemaBuilder.array(Schema.INT8).build(),
            None,
            5,
            "Unable to convert 5 (class java.lang.Long) to Schema{ARRAY}",
        ),
        (
            SchemaBuilder.struct().build(),
            None,
            "{}",
            "Unable to convert {} (class java.lang.String) to Schema{STRUCT}",
        ),
        (
            Decimal.schema(1),
            None,
            True,
            "Unable to convert true (class java.lang.Boolean) to "
            "Schema{org.apache.kafka.connect.data.Decimal:BYTES}",
        ),
    ],
)
def test_what_cannot_become_another_is_refused(
    to: Schema, schema: Schema | None, value: object, message: str
) -> None:
    with pytest.raises(DataError) as refused:
        convert(to, schema, value)
    assert str(refused.value) == message


def test_a_number_is_of_the_class_that_was_asked_for() -> None:
    for value in (Int8(1), Int32(1), Float32(1.0)):
        assert type(convert(Schema.INT64, None, value)) is int
        assert type(convert(Schema.FLOAT64, None, value)) is float


def test_the_text_null_is_nothing_to_convert() -> None:
    for to in (Schema.BOOLEAN, Date.SCHEMA, SchemaBuilder.array(Schema.INT8).build()):
        with pytest.raises(NullError):
            convert(to, None, " null ")


@given(with_schema(1))
def test_everything_has_a_text(made: tuple[Schema, Any]) -> None:
    schema, value = made
    assert isinstance(to_text(value, schema), str)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_0", "nan", "inf", "0x1", "1e", "e1", ".", "1e99999999999"]
)
def test_what_is_no_decimal_is_refused(text: str) -> None:
    with pytest.raises(NumberFormatError):
        parse_decimal(text)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, Schema.INT64),
        (Int8(1), Schema.INT8),
        (Int32(1), Schema.INT32),
        ([None, "a"], SchemaBuilder.array(Schema.OPTIONAL_STRING).build()),
        ({"a": 1}, SchemaBuilder.map(Schema.STRING, Schema.INT64).build()),
        ([1, "a"], None),
        ([], None),
        ({}, None),
        (NOON, None),
    ],
)
def test_schemas_are_inferred_where_they_can_be(value: object, schema: Schema | None) -> None:
    assert infer_schema(value) == schema


@given(st.data())
def test_a_struct_has_its_schema(data: st.DataObject) -> None:
    schema, _ = data.draw(with_schema(only=Type.STRUCT))
    value = data.draw(values_of(schema))
    assert infer_schema(value) == (None if value is None else schema)


def test_nothing_but_none_has_no_type() -> None:
    with pytest.raises(SchemaBuilderError, match=r"^type cannot be null$"):
        infer_schema([None])
