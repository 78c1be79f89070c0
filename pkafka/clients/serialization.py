"""Serializers and deserializers: objects to bytes and back.

All of Kafka's built-in ones with the same bytes, and the interface for others. ``None`` is a record without a key or
value. In a configuration also a plain function of one argument will do: ``{"value.serializer": json_bytes}``.
"""

import codecs
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from pkafka.clients import plugins
from pkafka.errors import ConfigError, PkafkaError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
_NULL_ENTRY: Final = -1
_INT: Final = struct.Struct(">i")


class SerializationError(PkafkaError):
    """An object is not what a serializer takes, or bytes are not what a deserializer expects."""


class Serializer:
    """Turns objects into bytes; to be derived from, or imitated: only ``serialize`` is needed."""

    fixed_size: ClassVar[int | None] = None
    """How many bytes every object takes, where that is so; a list of them then needs no lengths."""

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """Take what it needs of the client's configuration.

        Args:
            configs: the client's keys, as they were given.
            is_key: whether it is for keys.
        """

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        """The bytes of an object.

        Args:
            topic: where the record goes.
            data: the object; None stands for null and should stay None.
            headers: of the record.

        Raises:
            SerializationError: the object is not one of those that it knows.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called once when the client is closed."""


class Deserializer:
    """Turns bytes into objects; to be derived from, or imitated: only ``deserialize`` is needed."""

    fixed_size: ClassVar[int | None] = None

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        """As :meth:`Serializer.configure`."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:  # noqa: ANN401
        """The object that bytes stand for; None is null.

        Raises:
            SerializationError: the bytes are not what it expects.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called once when the client is closed."""


# -- bytes ------------------------------------------------------------------------------------------------------


class ByteArraySerializer(Serializer):
    """Bytes, as they are; a bytearray or memoryview is copied."""

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise _wrong(self, data)


class ByteArrayDeserializer(Deserializer):
    """Bytes, as they are."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> bytes | None:
        return data


class VoidSerializer(Serializer):
    """Null and nothing else."""

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> None:  # noqa: ANN401
        if data is not None:
            raise SerializationError("Data should be null for a VoidSerializer.")


class VoidDeserializer(Deserializer):
    """Null and nothing else."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> None:
        if data is not None:
            raise SerializationError("Data should be null for a VoidDeserializer.")


# -- text -------------------------------------------------------------------------------------------------------


class _TextSerializer(Serializer):
    def __init__(self) -> None:
        self._encoding = "utf-8"

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        self._encoding = _encoding(configs, "serializer", is_key)


class _TextDeserializer(Deserializer):
    def __init__(self) -> None:
        self._encoding = "utf-8"

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        self._encoding = _encoding(configs, "deserializer", is_key)


class StringSerializer(_TextSerializer):
    """Text, in the encoding of ``{key,value}.serializer.encoding`` or ``serializer.encoding``, else UTF-8."""

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        if data is None:
            return None
        if not isinstance(data, str):
            raise _wrong(self, data)
        return data.encode(self._encoding, "replace")  # what it cannot express becomes "?", as in Java


class StringDeserializer(_TextDeserializer):
    """Text, in the encoding of ``{key,value}.deserializer.encoding`` or ``deserializer.encoding``, else UTF-8."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> str | None:
        return None if data is None else data.decode(self._encoding, "replace")


class UUIDSerializer(_TextSerializer):
    """A UUID as text of 36 characters, encoded as :class:`StringSerializer` does."""

    fixed_size = 36

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        if data is None:
            return None
        if not isinstance(data, uuid.UUID):
            raise _wrong(self, data)
        return str(data).encode(self._encoding)


class UUIDDeserializer(_TextDeserializer):
    """The reverse of :class:`UUIDSerializer`."""

    fixed_size = 36

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> uuid.UUID | None:
        if data is None:
            return None
        try:
            return uuid.UUID(data.decode(self._encoding))
        except ValueError as error:
            raise SerializationError("Error parsing data into UUID") from error


# -- numbers ----------------------------------------------------------------------------------------------------


class _NumberSerializer(Serializer):
    layout: ClassVar[struct.Struct]
    kinds: ClassVar[tuple[type, ...]] = (int,)

    def __init_subclass__(cls, *, layout: str | None = None) -> None:
        if layout is not None:
            cls.layout = struct.Struct(layout)
            cls.fixed_size = cls.layout.size

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        if data is None:
            return None
        if not isinstance(data, self.kinds) or isinstance(data, bool):
            raise _wrong(self, data)
        try:
            return self.layout.pack(data)
        except (struct.error, OverflowError) as error:
            raise SerializationError(f"{data} is out of the range of {type(self).__name__}") from error


class _NumberDeserializer(Deserializer):
    layout: ClassVar[struct.Struct]

    def __init_subclass__(cls, *, of: type[_NumberSerializer] | None = None) -> None:
        if of is not None:
            cls.layout, cls.fixed_size = of.layout, of.fixed_size

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:  # noqa: ANN401
        if data is None:
            return None
        if len(data) != self.layout.size:
            raise SerializationError(
                f"Size of data received by {type(self).__name__} is not {self.layout.size}"
            )
        return self.layout.unpack(data)[0]


class ShortSerializer(_NumberSerializer, layout=">h"):
    """An integer in two bytes, big-endian."""


class IntegerSerializer(_NumberSerializer, layout=">i"):
    """An integer in four bytes, big-endian."""


class LongSerializer(_NumberSerializer, layout=">q"):
    """An integer in eight bytes, big-endian."""


class FloatSerializer(_NumberSerializer, layout=">f"):
    """A number in the four bytes of IEEE 754."""

    kinds = (float, int)


class DoubleSerializer(_NumberSerializer, layout=">d"):
    """A number in the eight bytes of IEEE 754."""

    kinds = (float, int)


class ShortDeserializer(_NumberDeserializer, of=ShortSerializer):
    """The reverse of :class:`ShortSerializer`."""


class IntegerDeserializer(_NumberDeserializer, of=IntegerSerializer):
    """The reverse of :class:`IntegerSerializer`."""


class LongDeserializer(_NumberDeserializer, of=LongSerializer):
    """The reverse of :class:`LongSerializer`."""


class FloatDeserializer(_NumberDeserializer, of=FloatSerializer):
    """The reverse of :class:`FloatSerializer`."""


class DoubleDeserializer(_NumberDeserializer, of=DoubleSerializer):
    """The reverse of :class:`DoubleSerializer`."""


class BooleanSerializer(Serializer):
    """True as the byte 1, False as the byte 0."""

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        if data is None:
            return None
        if not isinstance(data, bool):
            raise _wrong(self, data)
        return b"\x01" if data else b"\x00"


class BooleanDeserializer(Deserializer):
    """The reverse of :class:`BooleanSerializer`."""

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> bool | None:
        if data is None:
            return None
        if len(data) != 1:
            raise SerializationError("Size of data received by BooleanDeserializer is not 1")
        if data[0] > 1:
            raise SerializationError(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
        return data == b"\x01"


# -- lists ------------------------------------------------------------------------------------------------------

# u8 1: every entry with its length (-1: null) | i32 count | i32 length, bytes ...
# u8 0: entries of a fixed size | i32 number of nulls | i32 index of a null ... | i32 count | bytes ...
_CONSTANT_SIZE: Final = 0
_VARIABLE_SIZE: Final = 1


class ListSerializer(Serializer):
    """A list of objects that another serializer knows.

    Args:
        inner: that serializer; ``default.list.{key,value}.serde.inner`` names it when left out.
    """

    def __init__(self, inner: Serializer | None = None) -> None:
        self._inner = inner

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        if self._inner is None:
            key, named = _inner_name(configs, is_key)
            self._inner = load_serializer(key, _of_serde(named, "Serializer"), configs, is_key=is_key)

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        if data is None:
            return None
        if not isinstance(data, list | tuple):
            raise _wrong(self, data)
        inner = self._inner
        if inner is None:
            raise SerializationError("ListSerializer has not been told what its entries are")
        entries = [None if each is None else inner.serialize(topic, each) for each in data]
        parts: list[bytes] = []
        if inner.fixed_size is None:
            parts.append(bytes((_VARIABLE_SIZE,)) + _INT.pack(len(entries)))
            for entry in entries:
                parts += (_INT.pack(_NULL_ENTRY),) if entry is None else (_INT.pack(len(entry)), entry)
        else:
            nulls = [index for index, entry in enumerate(entries) if entry is None]
            parts.append(bytes((_CONSTANT_SIZE,)) + struct.pack(f">i{len(nulls)}i", len(nulls), *nulls))
            parts.append(_INT.pack(len(entries)))
            parts += (entry for entry in entries if entry is not None)
        return b"".join(parts)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()


class ListDeserializer(Deserializer):
    """The reverse of :class:`ListSerializer`.

    Args:
        inner: the deserializer of the entries; ``default.list.{key,value}.serde.inner`` names it when left out.
    """

    def __init__(self, inner: Deserializer | None = None) -> None:
        self._inner = inner

    def configure(self, configs: Mapping[str, object], *, is_key: bool) -> None:
        if self._inner is None:
            key, named = _inner_name(configs, is_key)
            self._inner = load_deserializer(key, _of_serde(named, "Deserializer"), configs, is_key=is_key)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> list[Any] | None:
        if data is None:
            return None
        if self._inner is None:
            raise SerializationError("ListDeserializer has not been told what its entries are")
        try:
            return self._read(self._inner, topic, data)
        except (struct.error, IndexError) as error:
            raise SerializationError("Unable to deserialize into a List") from error

    def _read(self, inner: Deserializer, topic: str, data: bytes) -> list[Any]:
        nulls: frozenset[int] = frozenset()
        position = 1
        size = inner.fixed_size if data[0] == _CONSTANT_SIZE else None
        if size is not None:
            (count,) = _INT.unpack_from(data, position)
            nulls = frozenset(struct.unpack_from(f">{max(0, count)}i", data, position + 4))
            position += 4 + 4 * max(0, count)
        elif data[0] != _VARIABLE_SIZE:
            raise SerializationError("Invalid serialization strategy flag value")
        (count,) = _INT.unpack_from(data, position)
        position += 4
        found: list[Any] = []
        for index in range(count):
            length = size
            if length is None:
                (length,) = _INT.unpack_from(data, position)
                position += 4
            if length == _NULL_ENTRY or index in nulls:
                found.append(None)
                continue
            if length < 0 or position + length > len(data):
                raise SerializationError("End of the stream was reached prematurely")
            found.append(inner.deserialize(topic, data[position : position + length]))
            position += length
        return found

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()


# -- what a configuration names ---------------------------------------------------------------------------------

SERIALIZERS: Final[dict[str, type[Serializer]]] = {
    "StringSerializer": StringSerializer,
    "ByteArraySerializer": ByteArraySerializer,
    "BytesSerializer": ByteArraySerializer,
    "ByteBufferSerializer": ByteArraySerializer,
    "IntegerSerializer": IntegerSerializer,
    "LongSerializer": LongSerializer,
    "ShortSerializer": ShortSerializer,
    "FloatSerializer": FloatSerializer,
    "DoubleSerializer": DoubleSerializer,
    "BooleanSerializer": BooleanSerializer,
    "UUIDSerializer": UUIDSerializer,
    "VoidSerializer": VoidSerializer,
    "ListSerializer": ListSerializer,
}
"""Kafka's own, by their simple names in Java."""

DESERIALIZERS: Final[dict[str, type[Deserializer]]] = {
    "StringDeserializer": StringDeserializer,
    "ByteArrayDeserializer": ByteArrayDeserializer,
    "BytesDeserializer": ByteArrayDeserializer,
    "ByteBufferDeserializer": ByteArrayDeserializer,
    "IntegerDeserializer": IntegerDeserializer,
    "LongDeserializer": LongDeserializer,
    "ShortDeserializer": ShortDeserializer,
    "FloatDeserializer": FloatDeserializer,
    "DoubleDeserializer": DoubleDeserializer,
    "BooleanDeserializer": BooleanDeserializer,
    "UUIDDeserializer": UUIDDeserializer,
    "VoidDeserializer": VoidDeserializer,
    "ListDeserializer": ListDeserializer,
}
"""Kafka's own, by their simple names in Java."""

_OF_A_REGISTRY: Final[dict[str, str]] = {
    f"io.confluent.kafka.serializers.{java}{end}": f"pkafka.clients.registry.{simple}{end}"
    for java, simple in (
        ("KafkaAvro", "Avro"),
        ("json.KafkaJsonSchema", "JsonSchema"),
        ("protobuf.KafkaProtobuf", "Protobuf"),
    )
    for end in ("Serializer", "Deserializer")
}
"""Those of Confluent's Schema Registry, and their counterparts, which are imported where they are named."""


class _FunctionSerializer(Serializer):
    def __init__(self, function: Callable[[Any], bytes | None]) -> None:
        self._function = function

    def serialize(self, topic: str, data: Any, headers: Headers = ()) -> bytes | None:  # noqa: ANN401
        return None if data is None else self._function(data)


class _FunctionDeserializer(Deserializer):
    def __init__(self, function: Callable[[bytes], Any]) -> None:
        self._function = function

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:  # noqa: ANN401
        return None if data is None else self._function(data)


def load_serializer(key: str, named: object, configs: Mapping[str, object], *, is_key: bool) -> Serializer:
    """The serializer that a value of the configuration stands for, configured.

    Args:
        key: of the configuration, for errors.
        named: a class name (Kafka's own too), a class, an object, or a function from an object to bytes.
        configs: the client's keys.
        is_key: whether it is for keys.

    Raises:
        ConfigError: it is none of them.
    """
    if callable(named) and not isinstance(named, type) and not hasattr(named, "serialize"):
        return _FunctionSerializer(named)
    made: Serializer = plugins.load(key, _of_a_registry(named), built_in=SERIALIZERS, methods=("serialize",))
    _configure(made, configs, is_key)
    return made


def load_deserializer(
    key: str, named: object, configs: Mapping[str, object], *, is_key: bool
) -> Deserializer:
    """The deserializer that a value of the configuration stands for; see :func:`load_serializer`.

    Raises:
        ConfigError: there is no such deserializer.
    """
    if callable(named) and not isinstance(named, type) and not hasattr(named, "deserialize"):
        return _FunctionDeserializer(named)
    made: Deserializer = plugins.load(
        key, _of_a_registry(named), built_in=DESERIALIZERS, methods=("deserialize",)
    )
    _configure(made, configs, is_key)
    return made


def _of_a_registry(named: object) -> object:
    return _OF_A_REGISTRY.get(named.strip(), named) if isinstance(named, str) else named


def _configure(made: Serializer | Deserializer, configs: Mapping[str, object], is_key: bool) -> None:
    if hasattr(made, "configure"):  # an imitation need not have it
        made.configure(configs, is_key=is_key)


def _encoding(configs: Mapping[str, object], kind: str, is_key: bool) -> str:
    for key in (f"{'key' if is_key else 'value'}.{kind}.encoding", f"{kind}.encoding"):
        if (name := configs.get(key)) is not None:
            try:
                codecs.lookup(str(name))
            except LookupError:
                raise ConfigError(key, "is not an encoding", name) from None
            return str(name)
    return "utf-8"


def _inner_name(configs: Mapping[str, object], is_key: bool) -> tuple[str, object]:
    key = f"default.list.{'key' if is_key else 'value'}.serde.inner"
    named = configs.get(key)
    if named is None:
        raise ConfigError(key, "is missing; name the serde of the entries of a list")
    return key, named


def _of_serde(named: object, kind: str) -> object:
    """The class name that goes with a serde's (``...Serdes$IntegerSerde``), which has no place of its own here."""
    if not isinstance(named, str) or not named.endswith("Serde"):
        return named
    return named.rpartition(".")[2].rpartition("$")[2].removesuffix("Serde") + kind


def _wrong(serializer: Serializer, data: object) -> SerializationError:
    return SerializationError(
        f"Can't convert value of class {type(data).__name__} with {type(serializer).__name__}"
    )
