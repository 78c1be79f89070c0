"""Records whose schemas a Schema Registry has: of producers and consumers, and of a worker of Connect."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.clients.registry import AvroSerializer, JsonSchemaSerializer, ProtobufDeserializer
from pkafka.testing import Broker
from tests.connect_workers import standalone
from tests.raw_client import new_topic_name
from tests.schema_registry import SchemaRegistry, schema_registry
from tests.talk import Talk, wait_for

ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry("ann:secret") as running:
        yield running


@pytest.fixture
def topic(talk: Talk) -> str:
    name = new_topic_name()
    talk.create(name)
    return name


def _keys(registry: SchemaRegistry) -> dict[str, object]:
    return {"schema.registry.url": registry.url, "basic.auth.user.info": "ann:secret"}


def _values(broker: Broker, topic: str, count: int, configs: Mapping[str, object]) -> list[object]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", "group.id": topic, **configs}
    )
    found: list[object] = []

    def has_all() -> bool:
        found.extend(each.value for each in consumer.poll(200))
        return len(found) >= count

    try:
        consumer.subscribe([topic])
        wait_for(has_all)
    finally:
        consumer.close()
    return found


def test_dicts_are_sent_and_read_as_avro(broker: Broker, registry: SchemaRegistry, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "value.serializer": AvroSerializer(ORDER), **_keys(registry)}
    )
    for number in range(3):
        producer.send(topic, {"id": number})
    producer.close(60)
    named = {"value.deserializer": "io.confluent.kafka.serializers.KafkaAvroDeserializer", **_keys(registry)}
    assert _values(broker, topic, 3, named) == [{"id": number} for number in range(3)]
    assert list(registry.subjects) == [f"{topic}-value"]


def test_messages_are_sent_and_read_as_protobuf(broker: Broker, registry: SchemaRegistry, topic: str) -> None:
    named = {"value.serializer": "pkafka.clients.registry.ProtobufSerializer", **_keys(registry)}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **named})
    producer.send(topic, Timestamp(seconds=5))
    producer.close(60)
    read = {"value.deserializer": ProtobufDeserializer(Timestamp)}
    assert _values(broker, topic, 1, read) == [Timestamp(seconds=5)]


def test_dicts_are_sent_and_read_as_json_with_a_schema(
    broker: Broker, registry: SchemaRegistry, topic: str
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    serializer = JsonSchemaSerializer(schema)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "value.serializer": serializer, **_keys(registry)}
    )
    producer.send(topic, {"id": 5})
    producer.close(60)
    named = {
        "value.deserializer": "io.confluent.kafka.serializers.json.KafkaJsonSchemaDeserializer",
        "json.fail.invalid.schema": "true",
        **_keys(registry),
    }
    assert _values(broker, topic, 1, named) == [{"id": 5}]


@pytest.mark.parametrize(
    ("converter", "hoisted", "lines"),
    [
        ("avro.AvroConverter", False, "one\ntwo\n"),
        ("json.JsonSchemaConverter", True, "Struct{line=one}\nStruct{line=two}\n"),
        ("protobuf.ProtobufConverter", True, "Struct{line=one}\nStruct{line=two}\n"),
    ],
)
def test_a_worker_writes_and_reads_by_the_schemas_of_a_registry(
    broker: Broker,
    registry: SchemaRegistry,
    topic: str,
    tmp_path: Path,
    converter: str,
    hoisted: bool,
    lines: str,
) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_text("one\ntwo\n")
    converters = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": f"io.confluent.connect.{converter}",
        "value.converter.schema.registry.url": registry.url,
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": "ann:secret",
    }
    hoist = {
        "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
    }
    of_source = {
        "name": f"{topic}-in",
        "connector.class": "FileStreamSource",
        "file": str(source),
        "topic": topic,
    }
    of_sink = {
        "name": f"{topic}-out",
        "connector.class": "FileStreamSink",
        "file": str(sink),
        "topics": topic,
    }
    with standalone(tmp_path / "worker", broker.bootstrap) as worker:
        worker.create({**of_source, **converters, **(hoist if hoisted else {})})
        worker.create({**of_sink, **converters})
        wait_for(lambda: sink.exists() and sink.read_text() == lines)
    kind = {"avro": "Avro", "json": "JsonSchema"}.get(converter.partition(".")[0])
    if kind is not None:
        named = {"value.deserializer": f"pkafka.clients.registry.{kind}Deserializer", **_keys(registry)}
        wanted = [{"line": each} if hoisted else each for each in ("one", "two")]
        assert _values(broker, topic, 2, named) == wanted
