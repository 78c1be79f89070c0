"""Schemas, structs and logical types: what fits, and every refusal in the words of Apache Kafka Connect."""

import datetime
from decimal import Decimal as Number

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.data import (
    Date,
    Decimal,
    Field,
    Float32,
    Int8,
    Int32,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
    Type,
    validate_value,
)
from pkafka.connect.data.java_classes import class_name, schema_type
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.logical import from_millis, to_millis
from pkafka.connect.errors import DataError, NumberFormatError, SchemaBuilderError
from tests.connect_data import decimals, values_of, with_schema

POINT = (
    SchemaBuilder.struct().name("point").field("x", Schema.INT32).field("y", Schema.OPTIONAL_INT32).build()
)


@given(with_schema())
def test_values_fit_their_schemas_and_equal_themselves(made: tuple[Schema, object]) -> None:
    schema, value = made
    validate_value(schema, value)
    if not schema.optional:
        with pytest.raises(DataError, match="null used for required value"):
            validate_value(schema, None)


@given(st.data())
def test_equal_schemas_have_equal_hashes(data: st.DataObject) -> None:
    schema, _ = data.draw(with_schema())
    copy = Schema(
        schema.type,
        optional=schema.optional,
        default=schema.default,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=schema._fields,
        key_schema=schema._key_schema,
        value_schema=schema._value_schema,
    )
    assert (copy, hash(copy)) == (schema, hash(schema))
    assert Schema(schema.type, optional=not schema.optional) != schema


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (Schema.INT8, None, 'Invalid value: null used for required field: "f", schema type: INT8'),
        (
            Schema.INT8,
            300,
            'Invalid Java object for schema with type INT8: class java.lang.Long for field: "f"',
        ),
        (
            Schema.INT64,
            Int32(1),
            'Invalid Java object for schema with type INT64: class java.lang.Integer for field: "f"',
        ),
        (
            Schema.INT32,
            True,
            'Invalid Java object for schema with type INT32: class java.lang.Boolean for field: "f"',
        ),
        (Schema.STRING, b"x", 'Invalid Java object for schema with type STRING: class [B for field: "f"'),
        (
            Date.SCHEMA,
            5,
            'Invalid Java object for schema "org.apache.kafka.connect.data.Date" with type INT32: '
            'class java.lang.Integer for field: "f"',
        ),
        (
            SchemaBuilder.array(Schema.INT8).build(),
            [1, "x"],
            'Invalid Java object for schema with type INT8: class java.lang.String for element of array field: "f"',
        ),
        (
            SchemaBuilder.map(Schema.STRING, Schema.INT8).build(),
            {"a": None},
            'Invalid value: null used for required value of map field: "f", schema type: INT8',
        ),
        (
            SchemaBuilder.map(Schema.STRING, Schema.INT8).build(),
            {1: 1},
            'Invalid Java object for schema with type STRING: class java.lang.Long for key of map field: "f"',
        ),
        (SchemaBuilder.array_of_null().build(), [None], 'No schema defined for element of array field: "f"'),
        (POINT, Struct(SchemaBuilder.struct().build()), "Struct schemas do not match."),
    ],
)
def test_misfits_are_named(schema: Schema, value: object, message: str) -> None:
    struct = Struct(SchemaBuilder.struct().field("f", schema).build())
    with pytest.raises(DataError) as refused:
        struct.put("f", value)
    assert str(refused.value) == message


def test_structs_have_the_fields_of_their_schema() -> None:
    point = Struct(POINT).put("x", 1)
    assert (point["x"], point.get("y"), str(point)) == (1, None, "Struct{x=1}")
    assert point == Struct(POINT).put("x", 1)
    assert point != Struct(POINT).put("x", 2)
    with pytest.raises(DataError, match=r"^z is not a valid field name$"):
        point.get("z")
    with pytest.raises(DataError, match=r"^field cannot be null\.$"):
        point.put(None, 1)
    with pytest.raises(DataError, match=r"^Field 'x' is not of type STRING$"):
        point.get_of_type("x", Type.STRING)
    with pytest.raises(DataError, match=r"^Not a struct schema: Schema\{INT8\}$"):
        Struct(Schema.INT8)
    with pytest.raises(DataError, match='null used for required field: "x"'):
        Struct(POINT).validate()


def test_a_default_stands_for_what_was_not_put() -> None:
    schema = SchemaBuilder.struct().field("a", SchemaBuilder.int8().default(7)).build()
    struct = Struct(schema)
    struct.validate()
    assert (struct.get("a"), struct.get_without_default("a")) == (7, None)


def test_a_builder_is_told_everything_once() -> None:
    builder = SchemaBuilder.string().optional().name("n").version(1).doc("d").default("x")
    for again in (builder.optional, builder.required):
        with pytest.raises(
            SchemaBuilderError, match=r"^Invalid SchemaBuilder call: optional has already been set\.$"
        ):
            again()
    with pytest.raises(SchemaBuilderError, match="name has already"):
        builder.name("m")
    with pytest.raises(SchemaBuilderError, match="version has already"):
        builder.version(2)
    with pytest.raises(SchemaBuilderError, match="doc has already"):
        builder.doc("e")
    with pytest.raises(SchemaBuilderError, match="default has already"):
        builder.default("y")
    with pytest.raises(SchemaBuilderError, match=r"^Invalid default value$"):
        SchemaBuilder.string().default(1)


def test_fields_are_of_structs_and_named_once() -> None:
    with pytest.raises(SchemaBuilderError, match=r"^Cannot create fields on type INT8$"):
        SchemaBuilder.int8().field("a", Schema.INT8)
    builder = SchemaBuilder.struct().field("a", Schema.INT8)
    with pytest.raises(
        SchemaBuilderError, match=r"^Cannot create field because of field name duplication a$"
    ):
        builder.field("a", Schema.INT8)
    with pytest.raises(SchemaBuilderError, match=r"^fieldName cannot be null\.$"):
        builder.field("", Schema.INT8)
    assert builder.build().fields == (Field("a", 0, Schema.INT8),)


def test_only_structs_maps_and_arrays_have_something_inside() -> None:
    with pytest.raises(DataError, match=r"^Cannot list fields on non-struct type$"):
        _ = Schema.INT8.fields
    with pytest.raises(DataError, match=r"^Cannot look up fields on non-struct type$"):
        Schema.INT8.field("a")
    with pytest.raises(DataError, match=r"^Cannot look up key schema on non-map type$"):
        _ = Schema.INT8.key_schema
    with pytest.raises(DataError, match=r"^Cannot look up value schema on non-array and non-map type$"):
        _ = Schema.INT8.value_schema


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_times_are_milliseconds(millis: int) -> None:
    assert to_millis(from_millis(millis)) == millis
    assert Timestamp.from_logical(Timestamp.SCHEMA, Timestamp.to_logical(Timestamp.SCHEMA, millis)) == millis


def test_a_time_that_python_has_not_is_refused() -> None:
    with pytest.raises(DataError, match="years 1 to 9999"):
        from_millis(2**62)
    assert to_millis(datetime.datetime(1970, 1, 2)) == 86_400_000  # taken for UTC


def test_dates_have_no_time_and_times_no_date() -> None:
    with pytest.raises(DataError, match="Date type should not have any time fields"):
        Date.from_logical(Date.SCHEMA, from_millis(1))
    with pytest.raises(DataError, match="Time type should not have any date fields"):
        Time.from_logical(Time.SCHEMA, from_millis(86_400_001))
    with pytest.raises(DataError, match="greater than 0 and less than 86400000"):
        Time.to_logical(Time.SCHEMA, -1)
    for kind in (Date, Time, Timestamp):
        with pytest.raises(DataError, match="but the schema does not match"):
            kind.from_logical(Schema.INT64, from_millis(0))


@given(st.data(), st.integers(-3, 30))
def test_decimals_are_bytes_and_a_scale(data: st.DataObject, scale: int) -> None:
    number = data.draw(decimals(scale))
    schema = Decimal.schema(scale)
    assert Decimal.to_logical(schema, Decimal.from_logical(schema, number)) == number


@pytest.mark.parametrize(
    ("unscaled", "data"), [(0, "00"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f")]
)
def test_decimals_have_no_more_bytes_than_they_need(unscaled: int, data: str) -> None:
    assert Decimal.from_logical(Decimal.schema(0), Number(unscaled)).hex() == data


def test_decimals_need_their_scale() -> None:
    with pytest.raises(DataError, match=r"mismatching scale .* Schema has scale 2, value has scale 1\.$"):
        Decimal.from_logical(Decimal.schema(2), Number("1.5"))
    with pytest.raises(DataError, match="scale parameter not found"):
        Decimal.to_logical(Schema.BYTES, b"\0")
    with pytest.raises(NumberFormatError, match="Zero length BigInteger"):
        Decimal.to_logical(Decimal.schema(2), b"")


@pytest.mark.parametrize(
    ("value", "name", "type", "text"),
    [
        (1, "java.lang.Long", Type.INT64, "1"),
        (2**63, "java.math.BigInteger", None, "9223372036854775808"),
        (Int8(1), "java.lang.Byte", Type.INT8, "1"),
        (1.0, "java.lang.Double", Type.FLOAT64, "1.0"),
        (Float32(0.10000000149011612), "java.lang.Float", Type.FLOAT32, "0.1"),
        (True, "java.lang.Boolean", Type.BOOLEAN, "true"),
        ([1, None], "java.util.ArrayList", Type.ARRAY, "[1, null]"),
        ({"a": [True]}, "java.util.HashMap", Type.MAP, "{a=[true]}"),
        (bytearray(3), "java.nio.HeapByteBuffer", Type.BYTES, "java.nio.HeapByteBuffer[pos=0 lim=3 cap=3]"),
        (Number("1E+3"), "java.math.BigDecimal", None, "1E+3"),
        (from_millis(1_234_567_890_123), "java.util.Date", None, "Fri Feb 13 23:31:30 UTC 2009"),
        (Struct(POINT).put("x", 1), "org.apache.kafka.connect.data.Struct", Type.STRUCT, "Struct{x=1}"),
        (None, "null", None, "null"),
    ],
)
def test_values_stand_for_classes_of_java(value: object, name: str, type: Type | None, text: str) -> None:
    assert (class_name(value), schema_type(value), java_text(value)) == (name, type, text)


def test_schemas_print_as_in_java() -> None:
    assert str(POINT) == "Schema{point:STRUCT}"
    assert str(SchemaAndValue(Schema.INT8, 1)) == "SchemaAndValue{schema=Schema{INT8}, value=1}"
    assert str(Field("a", 0, Schema.INT8)) == "Field{name=a, index=0, schema=Schema{INT8}}"


@given(st.data())
def test_structs_of_equal_values_are_equal(data: st.DataObject) -> None:
    schema, _ = data.draw(with_schema(only=Type.STRUCT))
    value = data.draw(values_of(schema))
    if value is not None:
        copy = Struct(schema)
        for field in schema.fields:
            copy.put(field, value.get_without_default(field.name))
        assert str(copy) == str(value)
        assert hash(copy) == hash(value)
