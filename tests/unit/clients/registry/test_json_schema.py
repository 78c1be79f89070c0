"""JSON in producers and consumers: bytes that name a JSON Schema of a registry."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pkafka.clients.registry import (
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    NotFoundError,
    SchemaReference,
    UnavailableError,
)
from pkafka.clients.registry.client import SchemaRegistryClient, SchemaText
from pkafka.clients.registry.json_schemas import JsonSchema
from pkafka.clients.serialization import SerializationError, load_deserializer, load_serializer
from pkafka.errors import ConfigError, PkafkaError
from tests.schema_registry import SchemaRegistry, schema_registry

ORDER: dict[str, Any] = {
    "title": "shop.Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _configured(made: Any, registry: SchemaRegistry, *, is_key: bool = False, **more: object) -> Any:
    configs = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": 0, **configs}, is_key=is_key)
    return made


def test_a_value_comes_back(registry: SchemaRegistry) -> None:
    written = _configured(JsonSchemaSerializer(ORDER), registry).serialize("t", {"id": 7, "note": "é"})
    assert written == b"\0\0\0\0\1" + '{"id":7,"note":"é"}'.encode()
    assert _configured(JsonSchemaDeserializer(), registry).deserialize("t", written) == {"id": 7, "note": "é"}
    assert registry.schemas[0]["schemaType"] == "JSON"
    assert json.loads(registry.schemas[0]["schema"]) == ORDER


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "t-shop.Order"),
    ],
)
def test_subjects_are_named_by_the_title(registry: SchemaRegistry, strategy: str, subject: str) -> None:
    made = _configured(
        JsonSchemaSerializer(ORDER), registry, is_key=True, **{"key_subject_name_strategy": strategy}
    )
    made.serialize("t", {"id": 1})
    assert list(registry.subjects) == [subject]


def test_nothing_is_nothing(registry: SchemaRegistry) -> None:
    assert _configured(JsonSchemaSerializer(ORDER), registry).serialize("t", None) is None
    assert _configured(JsonSchemaDeserializer(), registry).deserialize("t", None) is None
    assert registry.asked == []


def test_the_latest_schema_of_a_subject_can_be_written_by(registry: SchemaRegistry) -> None:
    registry.add("t-value", ORDER, schemaType="JSON")
    made = _configured(JsonSchemaSerializer(), registry, auto_register_schemas=False, use_latest_version=True)
    assert made.serialize("t", {"id": 1}) == b'\0\0\0\0\1{"id":1}'


def test_a_schema_that_the_registry_does_not_have_is_an_error_where_nothing_is_registered(
    registry: SchemaRegistry,
) -> None:
    made = _configured(JsonSchemaSerializer(ORDER), registry, auto_register_schemas=False)
    with pytest.raises(NotFoundError):
        made.serialize("t", {"id": 1})


def test_values_are_held_against_the_schema_where_that_is_asked_for(registry: SchemaRegistry) -> None:
    loose = _configured(JsonSchemaSerializer(ORDER), registry)
    strict = _configured(JsonSchemaSerializer(ORDER), registry, json_fail_invalid_schema="true")
    with pytest.raises(SerializationError, match=r"\$\.id: 'x' is not of type 'integer'"):
        strict.serialize("t", {"id": "x"})
    assert registry.subjects == {}, "nothing is registered for a value that is refused"
    written = loose.serialize("t", {"note": "no id"})
    assert _configured(JsonSchemaDeserializer(), registry).deserialize("t", written) == {"note": "no id"}
    reader = _configured(JsonSchemaDeserializer(), registry, json_fail_invalid_schema="true")
    with pytest.raises(SerializationError, match="'id' is a required property"):
        reader.deserialize("t", written)
    assert reader.deserialize("t", strict.serialize("t", {"id": 1})) == {"id": 1}


def test_a_schema_may_refer_to_others_of_the_registry(registry: SchemaRegistry) -> None:
    registry.add("money", {"type": "object", "properties": {"cents": {"type": "integer"}}}, schemaType="JSON")
    schema = {"type": "object", "properties": {"price": {"$ref": "money.json"}}}
    references = (SchemaReference("money.json", "money", 1),)
    made = _configured(
        JsonSchemaSerializer(schema, references=references), registry, json_fail_invalid_schema=True
    )
    written = made.serialize("t", {"price": {"cents": 5}})
    assert registry.schemas[1]["references"] == [{"name": "money.json", "subject": "money", "version": 1}]
    reader = _configured(JsonSchemaDeserializer(), registry, json_fail_invalid_schema=True)
    assert reader.deserialize("t", written) == {"price": {"cents": 5}}
    with pytest.raises(SerializationError, match=r"\$\.price\.cents"):
        made.serialize("t", {"price": {"cents": "5"}})


def _schema(registry: SchemaRegistry, schema: Any, *references: SchemaReference) -> JsonSchema:
    return JsonSchema(SchemaText(json.dumps(schema), "JSON", references), SchemaRegistryClient(registry.url))


def test_references_lead_into_the_schema_and_into_others(registry: SchemaRegistry) -> None:
    other = {"$id": "http://x/other.json", "definitions": {"a/b": {"type": "null"}}, "allOf": [{"$ref": "#"}]}
    registry.add("other", other, schemaType="JSON")
    whole = {"$id": "http://x/main.json", "$defs": {"n": {"type": "integer"}}}
    found = _schema(registry, whole, SchemaReference("o.json", "other", 1))
    assert found.resolve("#/$defs/n", "") == ({"type": "integer"}, "")
    assert found.resolve("#", "").node == whole
    for name in ("o.json", "other.json", "http://x/other.json"):
        assert found.resolve(f"{name}#/definitions/a~1b", "") == ({"type": "null"}, "o.json")
    assert found.resolve("#/allOf/0", "o.json").node == {"$ref": "#"}
    assert found.resolve("main.json", "o.json") == (whole, "")
    for missing in ("#/$defs/m", "#anchor", "nothing.json", "#/$defs/n/type/x"):
        with pytest.raises(SerializationError, match="which is not there"):
            found.resolve(missing, "")


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_what_is_no_schema_is_refused(registry: SchemaRegistry, text: str) -> None:
    with pytest.raises(SerializationError, match="JSON Schema"):
        JsonSchema(SchemaText(text, "JSON"), SchemaRegistryClient(registry.url))
    with pytest.raises((ConfigError, SerializationError)):
        _configured(JsonSchemaSerializer(text), registry)


def test_a_schema_that_cannot_be_one_is_told_where_values_are_held_against_it(
    registry: SchemaRegistry,
) -> None:
    made = _configured(JsonSchemaSerializer({"type": 5}), registry, json_fail_invalid_schema=True)
    with pytest.raises(SerializationError, match="This is no JSON Schema"):
        made.serialize("t", 1)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"x", object()])
def test_what_json_does_not_have_is_refused(registry: SchemaRegistry, value: object) -> None:
    with pytest.raises(SerializationError, match="cannot be written as JSON"):
        _configured(JsonSchemaSerializer(ORDER), registry).serialize("t", value)


def test_bytes_that_are_something_else_are_refused(registry: SchemaRegistry) -> None:
    registry.add("a", '"string"')
    registry.add("j", ORDER, schemaType="JSON")
    reader = _configured(JsonSchemaDeserializer(), registry)
    for data, said in (
        (b"{}", "at least 5"),
        (b"\0\0\0\0\2{", "are no JSON"),
        (b"\0\0\0\0\1{}", "of AVRO, not of JSON Schema"),
    ):
        with pytest.raises(SerializationError, match=said):
            reader.deserialize("t", data)


def test_without_a_schema_it_says_what_to_do(registry: SchemaRegistry) -> None:
    with pytest.raises(SerializationError, match="needs a schema"):
        _configured(JsonSchemaSerializer(), registry).serialize("t", {})
    with pytest.raises(SerializationError, match="not been configured"):
        JsonSchemaSerializer(ORDER).serialize("t", {})
    with pytest.raises(SerializationError, match="not been configured"):
        JsonSchemaDeserializer().deserialize("t", b"\0\0\0\0\1{}")


def test_a_registry_that_does_not_answer_is_told() -> None:
    made = JsonSchemaSerializer(ORDER)
    made.configure({"schema.registry.url": "http://127.0.0.1:1", "max.retries": 0}, is_key=False)
    with pytest.raises(UnavailableError):
        made.serialize("t", {"id": 1})


def test_jsonschema_is_asked_for_only_where_it_is_needed(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    _configured(JsonSchemaSerializer(ORDER), registry).serialize("t", {"id": 1})
    with pytest.raises(PkafkaError, match="pip install"):
        _configured(JsonSchemaSerializer(ORDER), registry, json_fail_invalid_schema=True)


@pytest.mark.parametrize(
    "where", ["pkafka.clients.registry.Json", "io.confluent.kafka.serializers.json.KafkaJson"]
)
def test_programs_name_them_in_their_configuration(registry: SchemaRegistry, where: str) -> None:
    configs = {"schema.registry.url": registry.url, "pkafka.value.json.schema": json.dumps(ORDER)}
    serializer = load_serializer(
        "value.serializer", f"{where}SchemaSerializer", configs=configs, is_key=False
    )
    deserializer = load_deserializer(
        "value.deserializer", f"{where}SchemaDeserializer", configs=configs, is_key=False
    )
    assert deserializer.deserialize("t", serializer.serialize("t", {"id": 1})) == {"id": 1}
