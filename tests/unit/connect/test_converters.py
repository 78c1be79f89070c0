"""Converters: what is written is read again; texts and refusals are those of Apache Kafka Connect."""

import json
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.converters import (
    BooleanConverter,
    ByteArrayConverter,
    Converter,
    DoubleConverter,
    FloatConverter,
    HeaderConverter,
    IntegerConverter,
    JsonConverter,
    LongConverter,
    ShortConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from pkafka.connect.converters.json_text import text_of
from pkafka.connect.data import Decimal, Float32, Int16, Int32, Schema, SchemaAndValue, SchemaBuilder, Struct
from pkafka.connect.data.logical import from_millis
from pkafka.connect.errors import ConfigError, DataError, SerializationError
from tests.connect_data import FIELD_NAMES, TEXTS, schemas, values_of, with_schema

PLAIN = [
    StringConverter,
    ByteArrayConverter,
    BooleanConverter,
    ShortConverter,
    IntegerConverter,
    LongConverter,
    FloatConverter,
    DoubleConverter,
]
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELD_NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def of_json(**config: str) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({name.replace("_", "."): value for name, value in config.items()}, is_key=False)
    return converter


WITHOUT_SCHEMAS = of_json(schemas_enable="false")
WITH_SCHEMAS = of_json()


@given(JSON_VALUES)
def test_json_without_schemas_comes_back(value: Any) -> None:
    data = WITHOUT_SCHEMAS.from_connect("t", None, None, value)
    assert WITHOUT_SCHEMAS.to_connect("t", None, data) == SchemaAndValue(None, value)
    if data is not None:
        assert json.loads(data) == value


@given(with_schema())
def test_json_with_schemas_comes_back(made: tuple[Schema, Any]) -> None:
    schema, value = made
    data = WITH_SCHEMAS.from_connect("t", None, schema, value)
    read = WITH_SCHEMAS.to_connect("t", None, data)
    assert read.schema == schema
    again = WITH_SCHEMAS.from_connect("t", None, read.schema, read.value)
    # A negative zero is read without its sign.
    assert (again or b"").replace(b"-0.0", b"0.0") == (data or b"").replace(b"-0.0", b"0.0")


@given(st.data())
def test_a_schema_that_was_read_before_means_the_same(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    converter = of_json()
    for _ in range(3):
        value = data.draw(values_of(schema))
        written = converter.from_connect("t", None, schema, value)
        assert converter.to_connect("t", None, written) == of_json().to_connect("t", None, written)


def test_what_was_read_before_changes_nothing() -> None:
    converter = of_json()
    begin = b'{"schema":{"type":"int8"},"payload":'
    for _ in range(2):
        assert converter.to_connect("t", None, begin + b"007} x") == SchemaAndValue(Schema.INT8, 7)
        twice = converter.to_connect("t", None, begin + b'1,"schema":{"type":"int16"}}')
        assert twice == SchemaAndValue(Schema.INT16, 1)
        assert converter.to_connect("t", None, begin + b" 5 }") == SchemaAndValue(Schema.INT8, 5)
        for data in (begin, begin + b"1", begin + b'1,"x":1}'):
            with pytest.raises(DataError):
                converter.to_connect("t", None, data)


def test_the_cache_of_schemas_has_its_size() -> None:
    converter = of_json(schemas_cache_size="1")
    written = [
        converter.from_connect("t", None, schema, 1) for schema in (Schema.INT8, Schema.INT16, Schema.INT8)
    ]
    assert [converter.to_connect("t", None, each).schema for each in (*written, *written)] == [
        Schema.INT8,
        Schema.INT16,
        Schema.INT8,
    ] * 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e10, "1.0E10"),
        (1e-5, "1.0E-5"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (123456.5, "123456.5"),
        (float("nan"), '"NaN"'),
        (-float("inf"), '"-Infinity"'),
        ({"a": [1e100, "x"]}, '{"a":[1.0E100,"x"]}'),
        ("\x1f\n\x7fé\u2028", '"\\u001F\\n\x7fé\u2028"'),
        ("\\u001f", '"\\\\u001f"'),
        ({"b": Number("1.10")}, '{"b":1.10}'),
        ("1e+5 :NaN", '"1e+5 :NaN"'),
        ([12345678, 0.5, -1e20], "[12345678,0.5,-1.0E20]"),
    ],
)
def test_json_is_written_as_jackson_writes_it(value: object, text: str) -> None:
    assert text_of(value) == text


def test_a_struct_is_written_with_its_schema() -> None:
    schema = (
        SchemaBuilder.struct()
        .name("n")
        .version(2)
        .doc("d")
        .parameter("p", "q")
        .field("f", SchemaBuilder.float32().optional().default(0.5))
        .field("m", SchemaBuilder.map(Schema.INT8, SchemaBuilder.array(Schema.BYTES)))
        .build()
    )
    value = Struct(schema).put("f", 0.10000000149011612).put("m", {1: [b"\x01"]})
    assert WITH_SCHEMAS.from_connect("t", None, schema, value) == (
        b'{"schema":{"type":"struct","fields":[{"type":"float","optional":true,"default":0.5,"field":"f"},'
        b'{"type":"map","keys":{"type":"int8","optional":false},"values":{"type":"array","items":'
        b'{"type":"bytes","optional":false},"optional":false},"optional":false,"field":"m"}],"optional":false,'
        b'"name":"n","version":2,"doc":"d","parameters":{"p":"q"}},"payload":{"f":0.1,"m":[[1,["AQ=="]]]}}'
    )


@pytest.mark.parametrize(("replace", "text"), [("true", b"5"), ("false", b"null")])
def test_defaults_stand_for_null_when_they_are_to(replace: str, text: bytes) -> None:
    converter = of_json(schemas_enable="false", replace_null_with_default=replace)
    assert converter.from_connect("t", None, SchemaBuilder.int8().optional().default(5).build(), None) == text


def test_decimals_are_base64_or_numbers() -> None:
    schema = Decimal.schema(2)
    assert of_json(schemas_enable="false").from_connect("t", None, schema, Number("1.10")) == b'"bg=="'
    converter = of_json(decimal_format="numeric")
    written = converter.from_connect("t", None, schema, Number("1.10"))
    assert written is not None
    assert written.endswith(b'"payload":1.10}')
    assert str(converter.to_connect("t", None, written).value) == "1.10"
    with pytest.raises(ConfigError, match="must be one of"):
        of_json(decimal_format="x")


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (
            Schema.INT8,
            None,
            "Conversion error: null value for field that is required and has no default value",
        ),
        (Schema.INT8, "x", "Invalid type for INT8: class java.lang.String"),
        (Schema.BYTES, "x", "Invalid type for bytes type: class java.lang.String"),
        (Decimal.schema(1), 5, "Invalid type for Decimal, expected BigDecimal but was class java.lang.Long"),
        (None, from_millis(0), "Java class class java.util.Date does not have corresponding schema type."),
        (
            SchemaBuilder.struct().build(),
            Struct(SchemaBuilder.struct().name("n").build()),
            "Mismatching schema.",
        ),
        (None, "\ud800", "Converting Kafka Connect data to byte[] failed due to serialization error: "),
    ],
)
def test_what_does_not_fit_is_not_written(schema: Schema | None, value: object, message: str) -> None:
    with pytest.raises(DataError) as refused:
        WITHOUT_SCHEMAS.from_connect("t", None, schema, value)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (b'{"a":1,"a":2} and more', {"a": 2}),
        (b"007", 7),
        (b'{"a":[-00.5,"007"]}', {"a": [-0.5, "007"]}),
        (b" ", None),
        (b"18446744073709551617", 1),
        (b"1e999", float("inf")),
        ('{"a":"é"}'.encode("utf-16"), {"a": "é"}),
    ],
)
def test_json_is_read_as_jackson_reads_it(document: bytes, value: object) -> None:
    assert WITHOUT_SCHEMAS.to_connect("t", None, document) == SchemaAndValue(None, value)


@pytest.mark.parametrize(
    "document", [b"{", b"NaN", b"'a'", b'"\n"', b'"\xff"', b"12x", b"[" * 100_000, b"truth"]
)
def test_what_is_no_json_is_refused(document: bytes) -> None:
    with pytest.raises(DataError, match=r"^Converting byte\[\] to Kafka Connect data failed") as refused:
        WITHOUT_SCHEMAS.to_connect("t", None, document)
    assert isinstance(refused.value.__cause__, SerializationError)


@pytest.mark.parametrize("document", [b"", b"5", b'{"schema":null}', b'{"schema":null,"payload":5,"x":1}'])
def test_an_envelope_is_a_schema_and_a_payload(document: bytes) -> None:
    with pytest.raises(DataError, match='requires "schema" and "payload" fields'):
        WITH_SCHEMAS.to_connect("t", None, document)


@pytest.mark.parametrize(
    ("schema", "payload", "message"),
    [
        ('{"type":"int8"}', "null", "Invalid null value for required INT8 field"),
        ('{"type":"x"}', "1", "Unknown schema type: x"),
        ("{}", "1", "Schema must contain 'type' field"),
        ('{"type":"struct","fields":[]}', "[]", "Structs should be encoded as JSON objects, but found ARRAY"),
        ('{"type":"bytes"}', '"*"', "Invalid bytes field"),
        ('{"type":"array"}', "[]", "Array schema did not specify the element type"),
        ('{"type":"map","keys":{"type":"int8"}}', "[]", "Map schema did not specify the value type"),
        ('{"type":"struct"}', "{}", 'Struct schema\'s "fields" argument is not an array.'),
        ('{"type":"int8","parameters":{"a":1}}', "1", "Schema parameters must have string values."),
    ],
)
def test_payloads_that_do_not_fit_are_refused(schema: str, payload: str, message: str) -> None:
    with pytest.raises(DataError) as refused:
        WITH_SCHEMAS.to_connect("t", None, f'{{"schema":{schema},"payload":{payload}}}'.encode())
    assert str(refused.value) == message


@pytest.mark.parametrize("converter", PLAIN)
def test_no_bytes_are_no_value(converter: type[Converter]) -> None:
    made = converter()
    made.configure({}, is_key=True)
    assert made.from_connect("t", None, None, None) is None
    read = made.to_connect("t", None, None)
    assert read.value is None
    assert read.schema is not None
    assert read.schema.optional
    assert isinstance(made, HeaderConverter)
    made.close()


@pytest.mark.parametrize(
    ("converter", "value", "data"),
    [
        (ShortConverter, Int16(-2), "fffe"),
        (IntegerConverter, Int32(1), "00000001"),
        (LongConverter, 1, "0000000000000001"),
        (FloatConverter, Float32(1.0), "3f800000"),
        (DoubleConverter, 1.0, "3ff0000000000000"),
        (BooleanConverter, True, "01"),
        (ByteArrayConverter, b"x", "78"),
        (StringConverter, [1, None], "5b312c206e756c6c5d"),
    ],
)
def test_plain_values_are_bytes(converter: type[Converter], value: object, data: str) -> None:
    made = converter()
    made.configure({}, is_key=False)
    written = made.from_connect("t", None, None, value)
    assert written == bytes.fromhex(data)
    if converter is not StringConverter:
        assert made.to_connect("t", None, written).value == value


@pytest.mark.parametrize(
    ("converter", "schema", "value", "message"),
    [
        (IntegerConverter, None, 1, "Failed to serialize to integer (was class java.lang.Long): "),
        (LongConverter, Schema.INT32, 1, "Failed to serialize to long (was class java.lang.Integer): "),
        (DoubleConverter, None, "x", "Failed to serialize to double (was class java.lang.String): "),
        (BooleanConverter, Schema.INT8, 1, "Invalid schema type for BooleanConverter: INT8"),
        (
            BooleanConverter,
            None,
            1,
            "BooleanConverter is not compatible with objects of type class java.lang.Long",
        ),
        (ByteArrayConverter, Schema.STRING, "x", "Invalid schema type for ByteArrayConverter: STRING"),
        (
            ByteArrayConverter,
            None,
            "x",
            "ByteArrayConverter is not compatible with objects of type class java.lang.String",
        ),
    ],
)
def test_other_types_are_not_written(
    converter: type[Converter], schema: Schema | None, value: object, message: str
) -> None:
    with pytest.raises(DataError) as refused:
        converter().from_connect("t", None, schema, value)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("converter", "data", "message", "cause"),
    [
        (
            LongConverter,
            b"1",
            "Failed to deserialize long: ",
            "Size of data received by LongDeserializer is not 8",
        ),
        (
            BooleanConverter,
            b"",
            "Failed to deserialize boolean: ",
            "Size of data received by BooleanDeserializer is not 1",
        ),
        (
            BooleanConverter,
            b"\xff",
            "Failed to deserialize boolean: ",
            "Unexpected byte received by BooleanDeserializer: -1",
        ),
    ],
)
def test_other_bytes_are_not_read(converter: type[Converter], data: bytes, message: str, cause: str) -> None:
    with pytest.raises(DataError) as refused:
        converter().to_connect("t", None, data)
    assert (str(refused.value), str(refused.value.__cause__)) == (message, cause)


def test_text_is_in_an_encoding() -> None:
    converter = StringConverter()
    converter.configure({"converter.encoding": "ISO-8859-1"}, is_key=False)
    assert converter.from_connect("t", None, None, "é€") == b"\xe9?"
    assert converter.to_connect("t", None, b"\xe9") == SchemaAndValue(Schema.OPTIONAL_STRING, "é")
    converter.configure({"converter.encoding": "UTF-16"}, is_key=False)
    assert converter.from_connect("t", None, None, "é") == b"\xfe\xff\x00\xe9"
    for data in (b"\xfe\xff\x00\xe9", b"\xff\xfe\xe9\x00", b"\x00\xe9"):
        assert converter.to_connect("t", None, data).value == "é"
    for encoding in ("nonsense", "hex"):
        with pytest.raises(SerializationError, match=f"^Unsupported encoding {encoding}$"):
            converter.configure({"converter.encoding": encoding}, is_key=False)


def test_headers_are_texts_that_mean_something() -> None:
    converter = SimpleHeaderConverter()
    assert converter.from_connect_header("t", "h", None, {"a": [1, "x"]}) == b'{"a":[1,"x"]}'
    assert converter.to_connect_header("t", "h", b"[1,2]").value == [1, 2]
    assert converter.to_connect_header("t", "h", None).value is None
    assert converter.from_connect_header("t", "h", None, None) is None
    deep = b"[" * 100_000
    assert converter.to_connect_header("t", "h", deep) == SchemaAndValue(Schema.BYTES, deep)
    assert isinstance(converter, HeaderConverter)


def test_json_is_for_headers_too() -> None:
    assert WITHOUT_SCHEMAS.from_connect_header("t", "h", None, [1]) == b"[1]"
    assert WITHOUT_SCHEMAS.to_connect_header("t", "h", b"[1]").value == [1]
    assert isinstance(WITHOUT_SCHEMAS, HeaderConverter)
    assert isinstance(WITHOUT_SCHEMAS, Converter)
