"""Avro in producers and consumers: bytes that name a schema of a registry."""

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pytest

from pkafka.clients.registry import (
    AvroDeserializer,
    AvroSerializer,
    NotFoundError,
    SchemaReference,
    UnavailableError,
)
from pkafka.clients.serialization import SerializationError, load_deserializer, load_serializer
from pkafka.errors import ConfigError
from tests.schema_registry import SchemaRegistry, schema_registry

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
VALUE = {
    "id": 7,
    "price": decimal.Decimal("1.20"),
    "at": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    "note": None,
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _configured(made: Any, registry: SchemaRegistry, *, is_key: bool = False, **more: object) -> Any:
    configs = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": 0, **configs}, is_key=is_key)
    return made


def test_a_record_comes_back_with_its_logical_types(registry: SchemaRegistry) -> None:
    written = _configured(AvroSerializer(ORDER), registry).serialize("t", VALUE)
    assert written == b"\0\0\0\0\1" + b"\x0e" + b"\2\x78" + bytes.fromhex("80c0c2f79863") + b"\0"
    assert _configured(AvroDeserializer(), registry).deserialize("t", written) == VALUE
    assert list(registry.subjects) == ["t-value"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "t-shop.Order"),
        (lambda topic, is_key, record: f"{topic}/{is_key}/{record}", "t/True/shop.Order"),
    ],
)
def test_the_subject_is_named_by_a_strategy(registry: SchemaRegistry, strategy: object, subject: str) -> None:
    serializer = _configured(AvroSerializer(ORDER), registry, is_key=True, key_subject_name_strategy=strategy)
    serializer.serialize("t", VALUE)
    assert list(registry.subjects) == [subject]


def test_a_strategy_that_does_not_exist_is_refused(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="TopicNameStrategy"):
        _configured(AvroSerializer(), registry, value_subject_name_strategy="Topic")


def test_a_schema_without_a_name_has_no_subject_by_its_name(registry: SchemaRegistry) -> None:
    serializer = _configured(AvroSerializer(), registry, value_subject_name_strategy="RecordNameStrategy")
    with pytest.raises(SerializationError, match="none of a record"):
        serializer.serialize("t", "text")


def test_the_latest_version_is_written_when_nothing_may_be_registered(registry: SchemaRegistry) -> None:
    expected = registry.add("t-value", ORDER)
    serializer = _configured(
        AvroSerializer(), registry, auto_register_schemas="false", use_latest_version=True
    )
    assert serializer.serialize("t", VALUE)[:5] == b"\0\0\0\0" + bytes((expected,))
    by_id = _configured(AvroSerializer(), registry, auto_register_schemas=False, use_schema_id=expected)
    assert by_id.serialize("t", VALUE) == serializer.serialize("t", VALUE)


def test_a_schema_that_is_not_there_is_not_registered_when_that_is_switched_off(
    registry: SchemaRegistry,
) -> None:
    serializer = _configured(AvroSerializer(ORDER), registry, auto_register_schemas=False)
    with pytest.raises(NotFoundError):
        serializer.serialize("t", VALUE)
    assert not registry.subjects


def test_a_value_that_does_not_fit_registers_nothing(registry: SchemaRegistry) -> None:
    serializer = _configured(AvroSerializer(ORDER), registry, normalize_schemas=True)
    with pytest.raises(SerializationError, match="does not fit"):
        serializer.serialize("t", {"id": "seven"})
    assert not registry.asked
    serializer.serialize("t", VALUE)
    assert registry.asked == ["POST /subjects/t-value/versions?normalize=true"]


@pytest.mark.parametrize("value", ["text", 5, 1.5, True, b"\1\2", b""])
def test_single_values_need_no_schema(registry: SchemaRegistry, value: object) -> None:
    written = _configured(AvroSerializer(), registry).serialize("t", value)
    assert _configured(AvroDeserializer(), registry).deserialize("t", written) == value
    if isinstance(value, bytes):
        assert written[5:] == value  # Confluent's serializer writes no length there


def test_null_is_no_value(registry: SchemaRegistry) -> None:
    assert _configured(AvroSerializer(), registry).serialize("t", None) is None
    assert _configured(AvroDeserializer(), registry).deserialize("t", None) is None


def test_a_dict_needs_a_schema(registry: SchemaRegistry) -> None:
    with pytest.raises(SerializationError, match="needs a schema"):
        _configured(AvroSerializer(), registry).serialize("t", {"id": 1})


def test_a_reader_has_a_schema_of_its_own(registry: SchemaRegistry) -> None:
    written = _configured(AvroSerializer(ORDER), registry).serialize("t", VALUE)
    fields = [ORDER["fields"][0], {"name": "currency", "type": "string", "default": "EUR"}]
    reader = _configured(AvroDeserializer({**ORDER, "fields": fields}), registry)
    assert reader.deserialize("t", written) == {"id": 7, "currency": "EUR"}


def test_a_schema_may_refer_to_others_of_the_registry(registry: SchemaRegistry) -> None:
    money = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "int"}]}
    price = {"type": "record", "name": "shop.Price", "fields": [{"name": "of", "type": "Money"}]}
    money_reference = {"name": "shop.Money", "subject": "money", "version": 1}
    registry.add("money", money)
    registry.add("price", price, references=[money_reference])
    union = ["null", "shop.Price", {"type": "array", "items": "shop.Money"}]
    references = (SchemaReference("shop.Price", "price", 1),)
    serializer = _configured(AvroSerializer(union, references=references), registry)
    for value in ({"of": {"cents": 5}}, [{"cents": 1}, {"cents": 2}]):
        written = serializer.serialize("t", value)
        assert _configured(AvroDeserializer(), registry).deserialize("t", written) == value


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b"\1\0\0\0\1x", b"\0\0\0\0\1", b"\0\0\0\0\1\x0e\2\x78\0\0\0", b"{}"]
)
def test_bytes_that_are_none_of_it_are_refused(registry: SchemaRegistry, data: bytes) -> None:
    registry.add("t-value", ORDER)
    with pytest.raises(SerializationError):
        _configured(AvroDeserializer(), registry).deserialize("t", data)


def test_a_schema_of_another_format_is_refused(registry: SchemaRegistry) -> None:
    registry.add("t-value", "x", schemaType="PROTOBUF")
    with pytest.raises(SerializationError, match="of PROTOBUF"):
        _configured(AvroDeserializer(), registry).deserialize("t", b"\0\0\0\0\1")


def test_a_registry_that_is_gone_fails_the_record_and_not_the_client() -> None:
    with schema_registry() as gone:
        serializer = _configured(AvroSerializer(), gone)
    with pytest.raises(UnavailableError):
        serializer.serialize("t", "text")


def test_confluents_names_mean_these() -> None:
    configs = {"schema.registry.url": "http://localhost:1", "pkafka.value.avro.schema": '"string"'}
    of_java = "io.confluent.kafka.serializers.KafkaAvro"
    made = load_serializer("value.serializer", of_java + "Serializer", configs, is_key=False)
    assert isinstance(made, AvroSerializer)
    read = load_deserializer("value.deserializer", of_java + "Deserializer", configs, is_key=False)
    assert isinstance(read, AvroDeserializer)


@pytest.mark.parametrize("schema", ["{", '{"type": "recrd"}'])
def test_what_is_no_schema_is_refused_at_the_start(registry: SchemaRegistry, schema: str) -> None:
    with pytest.raises((ConfigError, SerializationError)):
        _configured(AvroSerializer(schema), registry)
