"""What Singer taps write, as records: schemas, keys, and which state is the offset of which record."""

import json
from typing import Any

import pytest

from pkafka.connect.connectors.singer_messages import TapOutput
from pkafka.connect.connectors.singer_schemas import stream_schemas, struct_of
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.data.types import Type
from pkafka.connect.errors import ConnectError, DataError

SCHEMA = {
    "type": "SCHEMA",
    "stream": "users",
    "schema": {"type": "object", "properties": {"id": {"type": "integer"}}},
    "key_properties": ["id"],
}


def line(**message: Any) -> bytes:
    return json.dumps(message).encode()


def record(number: int) -> bytes:
    return line(type="RECORD", stream="users", record={"id": number})


def state(value: Any) -> bytes:
    return line(type="STATE", value=value)


def output(*lines: bytes, state: str | None = None, has_schemas: bool = True) -> TapOutput:
    found = TapOutput("tap-users", "in.", has_schemas=has_schemas, state=state)
    found.take(line(**SCHEMA))
    for each in lines:
        found.take(each)
    return found


def offsets(found: TapOutput) -> list[tuple[int, str | None]]:
    """The numbers of the records that are ready, with the state that is stored with each."""
    return [(each.value.get("id"), _state(each)) for each in found.take_ready()]


def _state(found: SourceRecord) -> str | None:
    return None if found.source_offset is None else str(found.source_offset["state"])


def test_a_state_is_the_offset_of_the_last_record_before_it() -> None:
    found = output(record(1), record(2), state({"at": 2}), record(3))
    assert offsets(found) == [(1, None), (2, '{"at":2}')]
    found.take(state({"at": 3}))
    assert offsets(found) == [], "another state may follow"
    found.take(state({"at": "3 again"}))
    found.end()
    assert offsets(found) == [(3, '{"at":"3 again"}')]
    assert found.state == '{"at":"3 again"}'


def test_a_record_without_a_state_behind_it_has_the_one_before_it() -> None:
    found = output(record(8), record(9), state='{"at":7}')
    found.end()
    assert offsets(found) == [(8, '{"at":7}'), (9, '{"at":7}')]


def test_a_state_before_all_records_is_theirs_and_that_of_the_next_run() -> None:
    found = output(state({"at": 0}), record(1))
    found.end()
    assert offsets(found) == [(1, '{"at":0}')]
    assert found.state == '{"at":0}'


def test_a_record_has_topic_key_schemas_and_time() -> None:
    found = output(
        line(type="RECORD", stream="users", record={"id": 1}, time_extracted="2026-01-02T03:04:05.5Z")
    )
    found.end()
    (made,) = found.take_ready()
    assert (made.topic, made.timestamp) == ("in.users", 1767323045500)
    assert made.key.get("id") == made.value.get("id") == 1
    assert made.key_schema is made.key.schema
    assert made.value_schema is made.value.schema
    assert made.source_partition == {"tap": "tap-users"}


def test_without_schemas_records_are_as_json_has_them() -> None:
    whole = {"id": 1, "more": [{"x": None}]}
    found = output(line(type="RECORD", stream="users", record=whole), has_schemas=False)
    found.end()
    (made,) = found.take_ready()
    assert (made.key_schema, made.key, made.value_schema, made.value) == (None, {"id": 1}, None, whole)


def test_names_of_streams_that_no_topic_can_have_are_made_so() -> None:
    found = TapOutput("t", "", has_schemas=True, state=None)
    found.take(line(**{**SCHEMA, "stream": "my schema/users-é"}))
    found.take(line(type="RECORD", stream="my schema/users-é", record={"id": 1}))
    found.end()
    assert found.take_ready()[0].topic == "my_schema_users-_"


def test_a_stream_without_a_key_has_records_without_keys() -> None:
    found = output(line(**{**SCHEMA, "key_properties": []}), record(1))
    found.end()
    assert found.take_ready()[0].key is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"Traceback (most recent call last):", "no message of Singer: Traceback"),
        (b"[1]", "no message of Singer"),
        (b"\xff\xfe", "no message of Singer"),
        (b"x" * 5000, r"x \.\.\.$"),
        (line(type="NEWS"), "of a type that Singer does not have"),
        (line(), "of a type that Singer does not have"),
        (line(type="BATCH", stream="users"), "files of records"),
        (line(type="RECORD", stream="users"), "without a record"),
        (line(type="RECORD", record={}), "without the name of a stream"),
        (line(type="RECORD", stream="others", record={}), "before the SCHEMA of that stream"),
        (
            line(type="RECORD", stream="users", record={"id": "x"}),
            "id is str 'x', and the schema wants a whole number",
        ),
        (line(type="RECORD", stream="users", record={}), "id has no value"),
        (line(type="STATE"), "without a value"),
        (line(**{**SCHEMA, "key_properties": ["nothing"]}), "no property nothing"),
        (line(**{**SCHEMA, "schema": {"type": "string"}}), "that of an object"),
        (line(**{**SCHEMA, "schema": 7}), "lacks the schema"),
    ],
)
def test_nonsense_is_an_error_that_shows_it(text: bytes, said: str) -> None:
    with pytest.raises(ConnectError, match=said):
        output(text)


def test_versions_of_streams_are_no_records() -> None:
    found = output(line(type="ACTIVATE_VERSION", stream="users", version=1))
    found.end()
    assert found.take_ready() == []


def test_schemas_are_told_anew_in_each_run() -> None:
    found = output()
    found.begin()
    with pytest.raises(ConnectError, match="before the SCHEMA"):
        found.take(record(1))


PROPERTIES: dict[str, tuple[Any, Schema]] = {
    "text": ({"type": ["null", "string"]}, Schema.OPTIONAL_STRING),
    "time": ({"type": "string", "format": "date-time"}, Schema.OPTIONAL_STRING),
    "whole": ({"type": ["integer", "null"]}, Schema.OPTIONAL_INT64),
    "number": ({"type": "number"}, Schema.OPTIONAL_FLOAT64),
    "both": ({"type": ["null", "integer", "number"]}, Schema.OPTIONAL_FLOAT64),
    "flag": ({"type": "boolean"}, Schema.OPTIONAL_BOOLEAN),
    "mixed": ({"type": ["string", "integer"]}, Schema.OPTIONAL_STRING),
    "anything": ({}, Schema.OPTIONAL_STRING),
    "odd": (True, Schema.OPTIONAL_STRING),
    "free": ({"type": "object"}, Schema.OPTIONAL_STRING),
    "free_list": ({"type": "array"}, Schema.OPTIONAL_STRING),
    "times": (
        {"anyOf": [{"type": "string", "format": "date-time"}, {"type": ["string", "null"]}]},
        Schema.OPTIONAL_STRING,
    ),
    "null_or": ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, Schema.OPTIONAL_INT64),
    "choice": ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, Schema.OPTIONAL_STRING),
    "list": (
        {"type": "array", "items": {"type": "integer"}},
        Schema(Type.ARRAY, optional=True, value_schema=Schema.OPTIONAL_INT64),
    ),
    "map": (
        {"type": "object", "additionalProperties": {"type": "number"}},
        Schema(Type.MAP, optional=True, key_schema=Schema.STRING, value_schema=Schema.OPTIONAL_FLOAT64),
    ),
    "referred": ({"$ref": "#/definitions/count"}, Schema.OPTIONAL_INT64),
    "elsewhere": ({"$ref": "other.json"}, Schema.OPTIONAL_STRING),
    "nowhere": ({"$ref": "#/definitions/nothing"}, Schema.OPTIONAL_STRING),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_have_the_types_that_a_sink_can_rely_on(name: str) -> None:
    node, wanted = PROPERTIES[name]
    whole = {"properties": {name: node}, "definitions": {"count": {"type": "integer"}}}
    (field,) = stream_schemas(whole, []).value.fields
    assert field.schema == wanted


def test_a_schema_that_has_itself_in_it_ends_as_text() -> None:
    node = {"type": "object", "properties": {"child": {"$ref": "#/definitions/node"}}}
    found = stream_schemas({"properties": {"top": node}, "definitions": {"node": node}}, []).value
    top = found.fields[0].schema
    assert top.fields[0].schema.fields[0].schema == Schema.OPTIONAL_STRING


def test_properties_of_the_key_may_not_be_missing_unless_they_may_be_null() -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": ["null", "string"]}, "c": {"type": "string"}}
    found = stream_schemas({"properties": properties}, ["b", "a"])
    assert found.key is not None
    assert [(each.name, each.schema.optional) for each in found.key.fields] == [("b", True), ("a", False)]
    assert [each.schema.optional for each in found.value.fields] == [False, True, True]


def test_values_are_as_the_schema_says_and_the_rest_is_text() -> None:
    properties = {name: node for name, (node, _schema) in PROPERTIES.items()}
    schema = stream_schemas(
        {"properties": properties, "definitions": {"count": {"type": "integer"}}}, []
    ).value
    found = struct_of(
        schema,
        {
            "text": "a",
            "whole": 3.0,
            "number": 1,
            "mixed": 5,
            "anything": {"a": [1, "é"]},
            "free": {"b": None},
            "free_list": [1, 2],
            "choice": True,
            "list": [1, None],
            "map": {"x": 1},
            "unknown": 1,
        },
    )
    shown = {field.name: found.get(field) for field in schema.fields if found.get(field) is not None}
    assert shown == {
        "text": "a",
        "whole": 3,
        "number": 1.0,
        "mixed": "5",
        "anything": '{"a":[1,"é"]}',
        "free": '{"b":null}',
        "free_list": "[1,2]",
        "choice": "true",
        "list": [1, None],
        "map": {"x": 1.0},
    }
    assert type(shown["whole"]) is int
    assert type(shown["number"]) is float


@pytest.mark.parametrize(
    ("node", "value", "said"),
    [
        ({"type": "integer"}, 1 << 63, "whole number of 64 bits"),
        ({"type": "integer"}, True, "whole number"),
        ({"type": "number"}, "1", "number"),
        ({"type": "boolean"}, 1, "boolean"),
        ({"type": "array", "items": {"type": "integer"}}, [1, "x"], r"a\[1\] is str 'x'"),
        ({"properties": {"b": {"type": "integer"}}}, {"b": "x"}, r"a\.b is str"),
        ({"properties": {"b": {"type": "integer"}}}, [], "object"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": ""}, r"a\.k is str"),
    ],
)
def test_values_that_are_not_as_the_schema_says_are_refused(node: Any, value: Any, said: str) -> None:
    schema = stream_schemas({"properties": {"a": node}}, []).value
    with pytest.raises(DataError, match=said):
        struct_of(schema, {"a": value})
