"""Transforms and predicates of Connect, each with what it makes and what it refuses."""

import contextlib
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.data import (
    Date,
    Decimal,
    Float32,
    Header,
    Headers,
    Int8,
    Int16,
    Int32,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
    Time,
    Timestamp,
)
from pkafka.connect.data.logical import from_millis
from pkafka.connect.errors import ArgumentError, ConfigError, ConnectError, DataError
from pkafka.connect.transforms import PREDICATES, TRANSFORMS, Predicate, Transformation
from pkafka.connect.transforms.field_path import FieldPath
from pkafka.connect.transforms.timestamp_converter import TimestampConverterValue
from tests.connect_data import MAPS, with_schema

PACKAGE = "org.apache.kafka.connect.transforms."
ALL: list[Any] = [*TRANSFORMS, *PREDICATES]
PLUGINS: dict[str, Any] = {each.JAVA_NAME.removeprefix(PACKAGE): each for each in ALL}
MOMENT = 1_234_567_890_123  # 2009-02-13T23:31:30.123Z
INNER = SchemaBuilder.struct().field("x", Schema.INT32).build()
OUTER = SchemaBuilder.struct().name("outer").field("a", Schema.STRING).field("b", INNER).build()
OUTER_VALUE = Struct(OUTER).put("a", "A").put("b", Struct(INNER).put("x", 7))


def transform(name: str, **config: str) -> Transformation:
    made: Transformation = PLUGINS[name.replace("_", "$")]()
    made.configure({key.replace("_", "."): value for key, value in config.items()})
    return made


def of_value(value: Any, schema: Schema | None = None, **more: Any) -> SinkRecord:
    return SinkRecord("t", 3, None, None, schema, value, MOMENT, offset=42, **more)


def applied(made: Transformation, value: Any, schema: Schema | None = None) -> tuple[Schema | None, Any]:
    changed = made.apply(of_value(value, schema))
    assert changed is not None
    return changed.value_schema, changed.value


def refusal(made: Transformation, value: Any, schema: Schema | None = None) -> str:
    with pytest.raises(ConnectError) as refused:
        made.apply(of_value(value, schema))
    return str(refused.value)


def test_there_are_all_of_apache_kafka_connect() -> None:
    assert len(TRANSFORMS) == 26
    assert all(isinstance(each(), Transformation) for each in TRANSFORMS)
    assert all(isinstance(each(), Predicate) for each in PREDICATES)


def test_a_transform_of_keys_leaves_values_alone() -> None:
    record = SourceRecord("t", None, None, {"a": 1}, None, {"a": 2})
    changed = transform("ExtractField_Key", field="a").apply(record)
    assert changed is not None
    assert (changed.key, changed.value) == (1, {"a": 2})


CLASSES = {"int8": Int8, "int32": Int32, "int64": int, "float32": Float32, "float64": float}


def test_cast_changes_the_class_alone() -> None:
    for value in (Int32(5), 5, Float32(5.0), 5.0, "5", True):
        for target, kind in CLASSES.items():
            assert type(applied(transform("Cast_Value", spec=target), value)[1]) is kind


def test_cast_without_a_schema() -> None:
    cast = transform("Cast_Value", spec="a:int8,b:float32,c:string,d:boolean,e:int64,f:float64")
    _, made = applied(
        cast, {"a": 300, "b": "0.1", "c": 1e10, "d": "TRUE", "e": True, "f": Int32(2), "g": "x"}
    )
    assert made == {"a": 44, "b": 0.10000000149011612, "c": "1.0E10", "d": True, "e": 1, "f": 2.0, "g": "x"}
    assert [type(made[name]) for name in "ab"] == [Int8, Float32]


@pytest.mark.parametrize(
    ("schema", "value", "target", "expected"),
    [
        (Schema.FLOAT64, 1e20, "int8", -1),
        (Schema.FLOAT64, 1e20, "int64", 2**63 - 1),
        (Schema.FLOAT32, 0.10000000149011612, "string", "0.1"),
        (Schema.INT64, 2**40 + 5, "int16", 5),
        (Schema.BYTES, b"\x01", "string", "AQ=="),
        (Schema.BOOLEAN, True, "float32", 1.0),
        (Schema.STRING, "-7", "int32", -7),
        (Schema.STRING, "1e2", "float64", 100.0),
        (Schema.INT32, 5, "boolean", True),
        (Timestamp.SCHEMA, from_millis(MOMENT), "string", "2009-02-13T23:31:30.123Z"),
        (Decimal.schema(2), Number("1.50"), "string", "1.50"),
    ],
)
def test_cast_of_the_whole(schema: Schema, value: object, target: str, expected: object) -> None:
    made, result = applied(transform("Cast_Value", spec=target), value, schema)
    assert result == expected
    assert made is not None
    assert made.type.value == target
    assert made.name == schema.name


def test_cast_of_fields_keeps_what_is_optional_and_defaults() -> None:
    field = SchemaBuilder.int64().optional().default(300).build()
    schema = SchemaBuilder.struct().name("n").field("a", field).field("b", Schema.STRING).build()
    made, value = applied(transform("Cast_Value", spec="a:int8"), Struct(schema).put("b", "x"), schema)
    assert made is not None
    cast = made.field("a")
    assert cast is not None
    assert (cast.schema.optional, cast.schema.default, made.name) == (True, 44, "n")
    assert (value.get("a"), value.get("b")) == (44, "x")


@pytest.mark.parametrize(
    ("value", "target", "message"),
    [
        ("x", "int8", "Value (x) was out of range for requested data type"),
        ("300", "int8", "Value (300) was out of range for requested data type"),
        (
            [1],
            "int8",
            "Cast transformation does not support casting from ARRAY; supported types are "
            "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]",
        ),
        (
            from_millis(0),
            "int8",
            "Cast transformation was passed a value of type class java.util.Date "
            "which is not supported by Connect's data API",
        ),
        (b"x", "int8", "Unexpected type in Cast transformation: class [B"),
    ],
)
def test_cast_refuses(value: object, target: str, message: str) -> None:
    assert refusal(transform("Cast_Value", spec=target), value) == message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "Must specify at least one field to cast."),
        ("a:b:c", "Invalid value [a:b:c] for configuration renames: Invalid rename mapping: a:b:c"),
        (
            "a:x",
            "Invalid value java.lang.IllegalArgumentException: No enum constant "
            "org.apache.kafka.connect.data.Schema.Type.X for configuration Invalid type found in casting spec: x",
        ),
        (
            "int8,int8",
            "Cast transformations that specify a type to cast the entire value to may only specify a single "
            "cast in their spec",
        ),
        (
            "bytes",
            "Cast transformation does not support casting to BYTES; supported types are "
            "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]",
        ),
    ],
)
def test_cast_refuses_to_be_configured(spec: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        transform("Cast_Value", spec=spec)
    assert str(refused.value) == message


def test_drop_headers() -> None:
    headers = Headers([Header("a", 1, None), Header("b", 2, None), Header("a", 3, None)])
    changed = transform("DropHeaders", headers="a,x").apply(of_value(1, headers=headers))
    assert changed is not None
    assert [each.key for each in changed.headers] == ["b"]


@pytest.mark.parametrize(
    ("field", "version", "expected"),
    [
        ("a", "V1", 1),
        ("b.c", "v2", 2),
        ("b.c", "V1", None),
        ("`d.e`", "V2", 3),
        ("d.e", "V1", 3),
        ("x.y", "V2", None),
    ],
)
def test_extract_field_of_a_map(field: str, version: str, expected: object) -> None:
    made = transform("ExtractField_Value", field=field, field_syntax_version=version)
    assert applied(made, {"a": 1, "b": {"c": 2}, "d.e": 3}) == (None, expected)
    assert applied(made, None) == (None, None)


def test_extract_field_of_a_struct() -> None:
    assert applied(transform("ExtractField_Value", field="a"), OUTER_VALUE, OUTER) == (Schema.STRING, "A")
    nested = transform("ExtractField_Value", field="b.x", field_syntax_version="V2")
    assert applied(nested, OUTER_VALUE, OUTER) == (Schema.INT32, 7)
    assert refusal(transform("ExtractField_Value", field="z"), OUTER_VALUE, OUTER) == "Unknown field: z"
    assert (
        refusal(nested, 5)
        == "Only Map objects supported in absence of schema for [field extraction], found: java.lang.Long"
    )
    assert (
        refusal(nested, 5, Schema.INT32)
        == "Only Struct objects supported for [field extraction], found: java.lang.Integer"
    )


def test_a_default_stands_for_null_when_it_is_to() -> None:
    schema = SchemaBuilder.struct().field("a", SchemaBuilder.int8().optional().default(5)).build()
    for replace, expected in (("true", 5), ("false", None)):
        made = transform("ExtractField_Value", field="a", replace_null_with_default=replace)
        assert applied(made, Struct(schema), schema)[1] == expected


def steps(text: str) -> tuple[str, ...]:
    return FieldPath(text, "V2")._steps


def test_paths_have_steps() -> None:
    assert steps("a.b") == ("a", "b")
    assert steps("`a.b`.c") == ("a.b", "c")
    assert steps("a.") == ("a", "")
    assert steps("a..b") == ("a", "", "b")
    assert steps("`a`b`.c") == ("a`b", "c")
    assert steps(r"`a\`.b`") == ("a`.b",)
    for text in ("`a", r"`a\`"):
        with pytest.raises(
            ConfigError, match=r"^Incomplete backtick pair in path: .* at position 0 to escape it$"
        ):
            steps(text)
    with pytest.raises(ArgumentError):
        FieldPath("", "V2").value_in_map({})


def test_filter_drops() -> None:
    assert transform("Filter").apply(of_value(1)) is None


def test_flatten_a_map() -> None:
    flat = applied(transform("Flatten_Value"), {"a": {"b": {"c": 1}, "d": None}, "e": [{"f": 1}], "g": {}})
    assert flat == (None, {"a.b.c": 1, "a.d": None, "e": [{"f": 1}]})
    assert refusal(transform("Flatten_Value"), {"a": from_millis(0)}).startswith(
        "Flatten transformation was passed"
    )
    assert applied(transform("Flatten_Value"), None) == (None, None)


def test_flatten_a_struct() -> None:
    made, value = applied(transform("Flatten_Value", delimiter="_"), OUTER_VALUE, OUTER)
    assert (
        made
        == SchemaBuilder.struct().name("outer").field("a", Schema.STRING).field("b_x", Schema.INT32).build()
    )
    assert value.get("b_x") == 7


def test_flatten_makes_what_is_in_the_optional_optional_and_takes_its_defaults() -> None:
    inner = (
        SchemaBuilder.struct()
        .field("x", Schema.INT32)
        .field("y", SchemaBuilder.int32().default(1).build())
        .build()
    )
    default = Struct(inner).put("x", 5)
    optional = (
        SchemaBuilder.struct().optional().field("x", Schema.INT32).field("y", inner.fields[1].schema).build()
    )
    schema = SchemaBuilder.struct().field("o", optional).build()
    made, value = applied(transform("Flatten_Value"), Struct(schema), schema)
    assert made is not None
    assert [field.schema.optional for field in made.fields] == [True, True]
    assert value.get("o.y") == 1
    inner_with_default = SchemaBuilder.struct().field("x", Schema.INT32).field("y", inner.fields[1].schema)
    schema = SchemaBuilder.struct().field("d", inner_with_default.default(default)).build()
    made, _ = applied(transform("Flatten_Value"), Struct(schema), schema)
    assert made is not None
    assert [field.schema.default for field in made.fields] == [5, 1]


def test_flatten_refuses_maps_in_structs() -> None:
    schema = SchemaBuilder.struct().field("m", SchemaBuilder.map(Schema.STRING, Schema.INT8)).build()
    assert (
        refusal(transform("Flatten_Value"), Struct(schema), schema)
        == "Flatten transformation does not support MAP for record with schemas (for field m)."
    )


@pytest.mark.parametrize(("operation", "left"), [("move", ["b"]), ("copy", ["a", "b"])])
def test_header_from(operation: str, left: list[str]) -> None:
    made = transform("HeaderFrom_Value", fields="a", headers="h", operation=operation)
    changed = made.apply(of_value(OUTER_VALUE, OUTER))
    assert changed is not None
    assert list(changed.headers) == [Header("h", "A", Schema.STRING)]
    assert changed.value_schema is not None
    assert [field.name for field in changed.value_schema.fields] == left
    changed = made.apply(of_value({"a": 1, "b": 2}))
    assert changed is not None
    assert (list(changed.headers), list(changed.value)) == ([Header("h", 1, None)], left)


def test_header_from_needs_as_many_headers_as_fields() -> None:
    with pytest.raises(
        ConfigError, match=r"^'fields' config must have the same number of elements as 'headers' config\.$"
    ):
        transform("HeaderFrom_Value", fields="a,b", headers="h", operation="copy")
    missing = transform("HeaderFrom_Value", fields="z", headers="h", operation="copy")
    assert refusal(missing, OUTER_VALUE, OUTER).startswith(
        'Cannot invoke "org.apache.kafka.connect.data.Field.schema()"'
    )


def test_hoist_field() -> None:
    made = transform("HoistField_Value", field="f")
    assert applied(made, 5) == (None, {"f": 5})
    schema, value = applied(made, 5, Schema.INT32)
    assert schema == SchemaBuilder.struct().field("f", Schema.INT32).build()
    assert value.get("f") == 5


ALL_FIELDS = {
    "topic_field": "topic!",
    "partition_field": "partition",
    "offset_field": "offset?",
    "timestamp_field": "timestamp",
    "static_field": "static",
    "static_value": "s",
}


def test_insert_field() -> None:
    made = transform("InsertField_Value", **ALL_FIELDS)
    _, value = applied(made, {"a": 1})
    assert value == {"a": 1, "topic": "t", "partition": 3, "offset": 42, "timestamp": MOMENT, "static": "s"}
    assert type(value["partition"]) is Int32
    schema, struct = applied(made, OUTER_VALUE, OUTER)
    assert schema is not None
    topic, timestamp = schema.field("topic"), schema.field("timestamp")
    assert topic is not None
    assert timestamp is not None
    assert (topic.schema, timestamp.schema) == (Schema.STRING, Timestamp.builder().optional().build())
    assert (struct.get("timestamp"), struct.get("a")) == (from_millis(MOMENT), "A")
    assert applied(made, None) == (None, None)


def test_insert_field_refuses() -> None:
    with pytest.raises(ConfigError, match=r"^No field insertion configured$"):
        transform("InsertField_Value")
    with pytest.raises(
        ConfigError, match=r"^Invalid value null for configuration static.value: No value specified"
    ):
        transform("InsertField_Value", static_field="a")
    made = transform("InsertField_Value", offset_field="o")
    with pytest.raises(DataError) as refused:
        made.apply(SourceRecord("t", None, None, None, None, {}))
    assert str(refused.value) == (
        "Only SinkRecord supported for [field insertion], found: org.apache.kafka.connect.source.SourceRecord"
    )


def test_insert_header() -> None:
    changed = transform("InsertHeader", header="h", value_literal="[1,2]").apply(of_value(1))
    assert changed is not None
    assert list(changed.headers) == [Header("h", [1, 2], SchemaBuilder.array(Schema.INT8).build())]


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (True, False),
        (Int16(5), 0),
        (5, 0),
        (1.5, 0.0),
        (Number("1.5"), Number(0)),
        (from_millis(5), from_millis(0)),
        ("x", ""),
        ([1], []),
        ({"a": 1}, {}),
        (None, None),
    ],
)
def test_mask_field(value: object, masked: object) -> None:
    assert applied(transform("MaskField_Value", fields="a,z"), {"a": value}) == (
        None,
        {"a": masked, "z": None},
    )


def test_mask_field_with_a_replacement() -> None:
    made = transform("MaskField_Value", fields="a", replacement="300")
    for value, expected in ((Int8(1), 44), (1, 300), (1.5, 300.0), ("x", "300"), (Number(1), Number(300))):
        assert applied(made, {"a": value}) == (None, {"a": expected})
    schema = SchemaBuilder.struct().field("a", Schema.INT8).field("b", Schema.STRING).build()
    assert applied(made, Struct(schema).put("a", 1).put("b", "x"), schema)[1].get("a") == 44


@pytest.mark.parametrize(
    ("config", "value", "message"),
    [
        ({}, b"x", "Cannot mask value of type: class [B"),
        (
            {"replacement": "5"},
            True,
            "Cannot mask value of type class java.lang.Boolean with custom replacement.",
        ),
        ({"replacement": "x"}, 5, "Unable to convert x (class java.lang.String) to a number"),
        ({"replacement": "x"}, Number(1), "Unable to convert x (class java.lang.String) to number"),
    ],
)
def test_mask_field_refuses(config: dict[str, str], value: object, message: str) -> None:
    assert refusal(transform("MaskField_Value", fields="a", **config), {"a": value}) == message


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [("(.)", "$1-x", "t-x"), ("x", "y", "t"), (".*", "${topic}", None)],
)
def test_regex_router(regex: str, replacement: str, topic: str | None) -> None:
    made = transform("RegexRouter", regex=regex, replacement=replacement)
    if topic is None:
        assert refusal(made, 1) == "No group with name {topic}"
        return
    changed = made.apply(of_value(1))
    assert changed is not None
    assert (changed.topic, changed.original_topic) == (topic, "t")


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"include": "a"}, ["a"]),
        ({"exclude": "a"}, ["b", "c"]),
        ({"include": "a,b", "exclude": "a"}, ["b"]),
        ({"whitelist": "a"}, ["a"]),
        ({"whitelist": "b", "include": "a"}, ["a"]),
        ({"renames": "a:x,c:y"}, ["x", "b", "y"]),
        ({"renames": "a:x", "exclude": "b"}, ["x", "c"]),
    ],
)
def test_replace_field(config: dict[str, str], names: list[str]) -> None:
    made = transform("ReplaceField_Value", **config)
    assert list(applied(made, {"a": 1, "b": 2, "c": 3})[1]) == names
    schema = (
        SchemaBuilder.struct().field("a", Schema.INT8).field("b", Schema.INT8).field("c", Schema.INT8).build()
    )
    changed, value = applied(made, Struct(schema).put("a", 1).put("b", 2).put("c", 3), schema)
    assert changed is not None
    assert [field.name for field in changed.fields] == names
    assert {field.name: value.get(field) for field in changed.fields} == applied(
        made, {"a": 1, "b": 2, "c": 3}
    )[1]


def test_replace_field_refuses_what_is_no_renaming() -> None:
    with pytest.raises(
        ConfigError, match=r"^Invalid value \[a\] for configuration renames: Invalid rename mapping: a$"
    ):
        transform("ReplaceField_Value", renames="a")


def test_set_schema_metadata() -> None:
    made = transform("SetSchemaMetadata_Value", schema_name="new", schema_version="3")
    schema, value = applied(made, OUTER_VALUE, OUTER)
    assert schema is not None
    assert (schema.name, schema.version, value.schema) == ("new", 3, schema)
    assert refusal(made, 5) == "Schema required for [updating schema metadata]"
    assert refusal(made, 5, Schema.INT8) == "Cannot list fields on non-struct type"
    assert applied(made, None) == (None, None)
    with pytest.raises(ConfigError, match=r"^Neither schema name nor version configured$"):
        transform("SetSchemaMetadata_Value")


TEXT = "2009-02-13 23:31:30.123"
FORMAT = {"format": "yyyy-MM-dd HH:mm:ss.SSS"}


@pytest.mark.parametrize("value", [MOMENT, from_millis(MOMENT), TEXT])
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("string", TEXT),
        ("unix", MOMENT),
        ("Date", from_millis(1_234_483_200_000)),
        ("Time", from_millis(84_690_123)),
        ("Timestamp", from_millis(MOMENT)),
    ],
)
def test_timestamp_converter(value: object, target: str, expected: object) -> None:
    made = transform("TimestampConverter_Value", target_type=target, **FORMAT)
    assert applied(made, value) == (None, expected)
    of_field = transform("TimestampConverter_Value", target_type=target, field="a", **FORMAT)
    assert applied(of_field, {"a": value, "b": 1}) == (None, {"a": expected, "b": 1})


@pytest.mark.parametrize(
    ("precision", "number", "back"),
    [
        ("seconds", 1_234_567_890, 1_234_567_890),
        ("microseconds", 1_234_567_890_123_456, 1_234_567_890_123_000),
        ("nanoseconds", -1_500_000, -1_000_000),
    ],
)
def test_numbers_of_other_precision(precision: str, number: int, back: int) -> None:
    made = transform("TimestampConverter_Value", target_type="unix", unix_precision=precision)
    assert applied(made, number) == (None, back)


def test_timestamp_converter_of_a_field_of_a_struct() -> None:
    schema = SchemaBuilder.struct().field("a", Schema.OPTIONAL_INT64).field("b", Schema.STRING).build()
    made = transform("TimestampConverter_Value", target_type="Date", field="a")
    changed, value = applied(made, Struct(schema).put("a", MOMENT).put("b", "x"), schema)
    assert changed is not None
    assert changed.fields[0].schema == Date.builder().optional().build()
    assert value.get("a") == from_millis(1_234_483_200_000)
    assert applied(made, None, schema)[1] is None
    assert (
        applied(transform("TimestampConverter_Value", target_type="Time"), MOMENT, Schema.INT64)[0]
        == Time.SCHEMA
    )


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("x", None, f"Could not parse timestamp: value (x) does not match pattern ({FORMAT['format']})"),
        (Int32(1), None, "TimestampConverter does not support class java.lang.Integer objects as timestamps"),
        (1, Schema.INT32, "Schema Schema{INT32} does not correspond to a known timestamp type format"),
    ],
)
def test_timestamp_converter_refuses(value: object, schema: Schema | None, message: str) -> None:
    assert (
        refusal(transform("TimestampConverter_Value", target_type="unix", **FORMAT), value, schema) == message
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"target_type": "string"}, "requires format option to be specified when using string timestamps"),
        (
            {"target_type": "unix", "format": "b"},
            "requires a SimpleDateFormat-compatible pattern for string timestamps: b",
        ),
        ({"target_type": "x"}, "String must be one of: string, unix, Date, Time, Timestamp"),
    ],
)
def test_timestamp_converter_refuses_to_be_configured(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        transform("TimestampConverter_Value", **config)


def test_years_of_two_digits_are_those_around_now() -> None:
    made = TimestampConverterValue(now=lambda: 1_709_164_800.0)  # 29 February 2024
    made.configure({"target.type": "string", "format": "yy-MM-dd"})
    to_unix = TimestampConverterValue(now=lambda: 1_709_164_800.0)
    to_unix.configure({"target.type": "Timestamp", "format": "yy-MM-dd"})
    assert [applied(to_unix, f"{year}-06-01")[1].year for year in ("43", "44", "99")] == [2043, 1944, 1999]


def test_timestamp_router() -> None:
    changed = transform("TimestampRouter", topic_format="${topic}.${timestamp}.${topic}").apply(of_value(1))
    assert changed is not None
    assert changed.topic == "t.20090213.t"
    without = of_value(1).new_record(timestamp=None)
    with pytest.raises(DataError, match=r"^Timestamp missing on record: SinkRecord\{kafkaOffset=42"):
        transform("TimestampRouter").apply(without)
    with pytest.raises(ArgumentError, match="Illegal pattern character"):
        transform("TimestampRouter", timestamp_format="b").apply(of_value(1))


def test_value_to_key() -> None:
    made = transform("ValueToKey", fields="a,z")
    changed = made.apply(of_value({"a": 1, "b": 2}))
    assert changed is not None
    assert (changed.key_schema, changed.key) == (None, {"a": 1, "z": None})
    assert refusal(made, OUTER_VALUE, OUTER) == "Field does not exist: z"
    changed = transform("ValueToKey", fields="b").apply(of_value(OUTER_VALUE, OUTER))
    assert changed is not None
    assert changed.key_schema == SchemaBuilder.struct().field("b", INNER).build()
    assert changed.key.get("b").get("x") == 7


def predicate(kind: str, **config: str) -> Predicate:
    made: Predicate = PLUGINS[f"predicates.{kind}"]()
    made.configure(config)
    return made


def test_predicates() -> None:
    record = of_value(None, headers=Headers([Header("h", 1, None)]))
    assert predicate("HasHeaderKey", name="h").test(record)
    assert not predicate("HasHeaderKey", name="x").test(record)
    assert predicate("RecordIsTombstone").test(record)
    assert not predicate("RecordIsTombstone").test(of_value(0))
    assert predicate("TopicNameMatches", pattern="[t-z]").test(record)
    assert not predicate("TopicNameMatches", pattern="tt").test(record)
    with pytest.raises(ConfigError, match="Invalid regex"):
        predicate("TopicNameMatches", pattern="(")


CONFIGS: dict[str, dict[str, str]] = {
    "Cast": {"spec": "a:string"},
    "ExtractField": {"field": "a"},
    "Flatten": {},
    "HeaderFrom": {"fields": "a", "headers": "h", "operation": "move"},
    "HoistField": {"field": "f"},
    "InsertField": {"topic_field": "topic"},
    "MaskField": {"fields": "a"},
    "ReplaceField": {"exclude": "a"},
    "SetSchemaMetadata": {"schema_name": "m"},
    "TimestampConverter": {"field": "a", "target_type": "unix"},
}


@pytest.mark.parametrize("name", CONFIGS)
@given(content=st.one_of(with_schema(), st.tuples(st.none(), MAPS)))
def test_no_record_is_changed_by_what_becomes_of_it(name: str, content: tuple[Schema | None, Any]) -> None:
    schema, value = content
    record = of_value(value, schema)
    before = str(record)
    with contextlib.suppress(ConnectError):
        assert transform(f"{name}_Value", **CONFIGS[name]).apply(record) is not None
    assert str(record) == before
