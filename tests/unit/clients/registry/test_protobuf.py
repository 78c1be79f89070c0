"""Protobuf in producers and consumers: generated messages, and bytes that name their schema."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.registry import ProtobufDeserializer, ProtobufSerializer, wire
from pkafka.clients.serialization import SerializationError, load_serializer
from pkafka.errors import ConfigError
from tests.schema_registry import SchemaRegistry, schema_registry

_STRING, _MESSAGE = 9, 11


def _messages() -> dict[str, type[Any]]:
    """Classes as protoc makes them: two files, of which one imports the other and one that everybody has."""
    pool = descriptor_pool.DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    stamp.ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(stamp)
    money = descriptor_pb2.FileDescriptorProto(name="shop/money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="text", number=1, type=_STRING, label=1)
    pool.Add(money)
    order = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    order.dependency.extend([money.name, stamp.name])
    first = order.message_type.add(name="Zebra")
    first.field.add(name="price", number=1, type=_MESSAGE, label=1, type_name=".shop.Money")
    first.field.add(name="at", number=2, type=_MESSAGE, label=1, type_name=".google.protobuf.Timestamp")
    second = order.message_type.add(name="Ant")
    second.nested_type.add(name="Other")
    second.nested_type.add(name="Leg").field.add(name="text", number=1, type=_STRING, label=1)
    pool.Add(order)
    names = ("shop.Money", "shop.Zebra", "shop.Ant", "shop.Ant.Leg")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


MESSAGES = _messages()


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def _serializer(registry: SchemaRegistry, **more: object) -> ProtobufSerializer:
    made = ProtobufSerializer()
    configs = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": 0, **configs}, is_key=False)
    return made


@pytest.mark.parametrize(
    ("name", "place"), [("shop.Money", b"\0"), ("shop.Ant", b"\2\2"), ("shop.Ant.Leg", b"\4\2\2")]
)
def test_a_message_comes_back(registry: SchemaRegistry, name: str, place: bytes) -> None:
    kind = MESSAGES[name]
    message = kind(text="é") if name != "shop.Ant" else kind()
    written = _serializer(registry).serialize("t", message)
    assert written is not None
    assert written[5:] == place + message.SerializeToString()
    assert registry.schemas[written[4] - 1]["schemaType"] == "PROTOBUF"
    assert ProtobufDeserializer(kind).deserialize("t", written) == message


def test_files_that_are_imported_are_registered_but_for_those_that_every_registry_has(
    registry: SchemaRegistry,
) -> None:
    message = MESSAGES["shop.Zebra"](price=MESSAGES["shop.Money"](text="1"))
    written = _serializer(registry, value_subject_name_strategy="RecordNameStrategy").serialize("t", message)
    assert list(registry.subjects) == ["shop/money.proto", "shop.Zebra"]
    body = registry.schemas[1]
    assert body["references"] == [{"name": "shop/money.proto", "subject": "shop/money.proto", "version": 1}]
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(body["schema"]))
    assert file.name == "shop/order.proto"
    assert ProtobufDeserializer(MESSAGES["shop.Zebra"]).deserialize("t", written) == message


def test_another_message_than_the_class_is_refused(registry: SchemaRegistry) -> None:
    written = _serializer(registry).serialize("t", MESSAGES["shop.Ant"]())
    with pytest.raises(SerializationError, match=r"message \[1\] of their file, shop.Zebra is \[0\]"):
        ProtobufDeserializer(MESSAGES["shop.Zebra"]).deserialize("t", written)


@pytest.mark.parametrize("value", ["text", {"text": "x"}, 5])
def test_what_is_no_message_is_refused(registry: SchemaRegistry, value: object) -> None:
    with pytest.raises(SerializationError, match="no message of Protobuf"):
        _serializer(registry).serialize("t", value)
    assert _serializer(registry).serialize("t", None) is None


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\0\1", b"\0\0\0\0\1\x80", b"\0\0\0\0\1\0\xff", b"\0\0\0\0\1\1"]
)
def test_bytes_that_are_none_of_it_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        ProtobufDeserializer(MESSAGES["shop.Money"]).deserialize("t", data)


def test_the_class_is_named_in_the_configuration() -> None:
    deserializer = ProtobufDeserializer()
    named = "google.protobuf.timestamp_pb2.Timestamp"
    deserializer.configure({"specific.protobuf.value.type": named}, is_key=False)
    moment = timestamp_pb2.Timestamp(seconds=5)
    data = b"\0\0\0\0\1\0" + moment.SerializeToString()
    assert deserializer.deserialize("t", data) == moment
    with pytest.raises(ConfigError, match=r"specific\.protobuf\.key\.type"):
        ProtobufDeserializer().configure({}, is_key=True)


def test_confluents_name_means_this() -> None:
    named = "io.confluent.kafka.serializers.protobuf.KafkaProtobufSerializer"
    configs = {"schema.registry.url": "http://localhost:1"}
    made = load_serializer("value.serializer", named, configs, is_key=False)
    assert isinstance(made, ProtobufSerializer)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6))
def test_places_come_back(indexes: list[int]) -> None:
    written = wire.indexes_to_bytes(indexes)
    assert wire.indexes_from_bytes(b"x" + written + b"y", 1) == (indexes, 1 + len(written))
