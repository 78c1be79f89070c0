"""Serializers and deserializers; that the bytes are Kafka's is what tests/interop asks."""

import uuid

import pytest

from pkafka.clients.serialization import (
    DESERIALIZERS,
    SERIALIZERS,
    Headers,
    IntegerDeserializer,
    IntegerSerializer,
    ListDeserializer,
    ListSerializer,
    LongSerializer,
    SerializationError,
    load_deserializer,
    load_serializer,
)
from pkafka.errors import ConfigError

ONE = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("String", "ä", b"\xc3\xa4"),
        ("ByteArray", b"\x00", b"\x00"),
        ("Bytes", b"x", b"x"),
        ("ByteBuffer", b"x", b"x"),
        ("Short", -2, b"\xff\xfe"),
        ("Integer", 258, b"\x00\x00\x01\x02"),
        ("Long", -1, b"\xff" * 8),
        ("Float", 1.5, b"\x3f\xc0\x00\x00"),
        ("Double", 1.5, b"\x3f\xf8" + bytes(6)),
        ("Boolean", True, b"\x01"),
        ("Boolean", False, b"\x00"),
        ("UUID", ONE, b"01234567-89ab-cdef-0123-456789abcdef"),
    ],
)
def test_there_and_back(name: str, value: object, data: bytes) -> None:
    serializer = load_serializer("k", f"{name}Serializer", {}, is_key=True)
    deserializer = load_deserializer("k", f"{name}Deserializer", {}, is_key=True)
    assert serializer.serialize("t", value) == data
    assert deserializer.deserialize("t", data) == value


def test_null_stays_null_everywhere() -> None:
    configs = {"default.list.value.serde.inner": "Serdes$LongSerde"}
    for name in SERIALIZERS:
        assert load_serializer("k", name, configs, is_key=False).serialize("t", None) is None
    for name in DESERIALIZERS:
        assert load_deserializer("k", name, configs, is_key=False).deserialize("t", None) is None
    assert load_serializer("k", len, {}, is_key=True).serialize("t", None) is None
    assert load_deserializer("k", len, {}, is_key=True).deserialize("t", None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("String", b"x"),
        ("ByteArray", "x"),
        ("Integer", 2**31),
        ("Integer", "1"),
        ("Integer", True),
        ("Long", 1.0),
        ("Float", 1e300),
        ("Boolean", 1),
        ("UUID", "x"),
        ("Void", 1),
    ],
)
def test_objects_of_another_kind_are_refused(name: str, value: object) -> None:
    with pytest.raises(SerializationError):
        load_serializer("k", f"{name}Serializer", {}, is_key=True).serialize("t", value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Integer", b"123"),
        ("Double", b"1234"),
        ("Boolean", b"\x02"),
        ("Boolean", b""),
        ("UUID", b"01234567"),
        ("Void", b""),
    ],
)
def test_bytes_of_another_kind_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(SerializationError):
        load_deserializer("k", f"{name}Deserializer", {}, is_key=True).deserialize("t", data)


def test_the_encoding_is_that_of_keys_or_of_both() -> None:
    configs = {"key.serializer.encoding": "utf-16-be", "serializer.encoding": "iso-8859-1"}
    assert load_serializer("k", "StringSerializer", configs, is_key=True).serialize("t", "é") == b"\x00\xe9"
    assert load_serializer("k", "StringSerializer", configs, is_key=False).serialize("t", "é€") == b"\xe9?"
    with pytest.raises(ConfigError) as caught:
        load_serializer("k", "StringSerializer", {"serializer.encoding": "utf-seven"}, is_key=True)
    assert caught.value.key == "serializer.encoding"


def test_a_function_will_do() -> None:
    assert load_serializer("k", str.encode, {}, is_key=True).serialize("t", "x") == b"x"
    assert load_deserializer("k", bytes.decode, {}, is_key=True).deserialize("t", b"x") == "x"


def test_the_built_in_ones_can_be_derived_from() -> None:
    class Cents(IntegerSerializer):
        def serialize(self, topic: str, data: float | None, headers: Headers = ()) -> bytes | None:
            return super().serialize(topic, None if data is None else round(data * 100), headers)

    class Amount(IntegerDeserializer):
        pass

    assert (Cents.fixed_size, Cents().serialize("t", 1.5)) == (4, b"\0\0\0\x96")
    assert (Amount.fixed_size, Amount().deserialize("t", b"\0\0\0\x96")) == (4, 150)


@pytest.mark.parametrize("inner", ["String", "Integer", "UUID"])
def test_lists_with_nulls_go_there_and_back(inner: str) -> None:
    values = {"String": ["a", None, ""], "Integer": [1, None, -1], "UUID": [None, ONE]}[inner]
    configs = {"default.list.key.serde.inner": f"org.apache.kafka.common.serialization.Serdes${inner}Serde"}
    data = load_serializer("k", "ListSerializer", configs, is_key=True).serialize("t", values)
    reader = load_deserializer("k", "ListDeserializer", configs, is_key=True)
    assert data is not None
    assert reader.deserialize("t", data) == values
    for end in range(len(data)):
        with pytest.raises(SerializationError):
            reader.deserialize("t", data[:end])


def test_the_bytes_of_lists() -> None:
    assert ListSerializer(LongSerializer()).serialize("t", [None, 1]) == (
        b"\x00" + b"\0\0\0\x01" + b"\0\0\0\0" + b"\0\0\0\x02" + b"\0\0\0\0\0\0\0\x01"
    )
    with pytest.raises(ConfigError) as caught:
        load_serializer("k", "ListSerializer", {}, is_key=False)
    assert caught.value.key == "default.list.value.serde.inner"
    with pytest.raises(SerializationError):
        ListSerializer().serialize("t", [])
    with pytest.raises(SerializationError):
        ListDeserializer().deserialize("t", b"")
