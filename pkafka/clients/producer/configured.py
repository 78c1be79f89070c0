"""What a configuration names for a producer: serializers, partitioner; and the bytes that those make."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pkafka.clients import plugins
from pkafka.clients.config import ProducerConfig
from pkafka.clients.producer.partitioner import PARTITIONERS, Partitioner
from pkafka.clients.serialization import (
    ByteArraySerializer,
    SerializationError,
    Serializer,
    load_serializer,
)
from pkafka.records.compression import Codec

_log = logging.getLogger(__name__)


def serializer_of(key: str, named: object, configs: Mapping[str, object]) -> Serializer | None:
    """The serializer of a configuration; None where bytes go as they are."""
    if named is None:
        return None
    made = load_serializer(key, named, configs, is_key=key == "key.serializer")
    return None if type(made) is ByteArraySerializer else made


def partitioner_of(named: object, configs: Mapping[str, object]) -> tuple[Partitioner | None, bool]:
    """The partitioner of a configuration, None for the built-in one; and whether that leaves keys out."""
    if named is None or named == "":
        return None, False
    simple = named.rpartition(".")[2] if isinstance(named, str) else ""
    if simple in ("DefaultPartitioner", "UniformStickyPartitioner"):
        _log.warning("%s is deprecated: leave partitioner.class out, see partitioner.ignore.keys", simple)
        return None, simple == "UniformStickyPartitioner"
    made: Partitioner = plugins.load(
        "partitioner.class", named, built_in=PARTITIONERS, methods=("partition",)
    )
    plugins.configure(made, configs)
    return made, False


def serialized(
    serializer: Serializer | None,
    topic: str,
    data: Any,  # noqa: ANN401
    headers: Sequence[tuple[str, bytes | None]],
    what: str,
) -> bytes | None:
    """What a serializer makes of a key or value (``what``); without one, see :func:`as_bytes`."""
    return as_bytes(data if serializer is None else serializer.serialize(topic, data, headers), what)


def as_bytes(data: object, what: str) -> bytes | None:
    """A key or value (``what``) that is bytes of some kind, or None.

    Raises:
        SerializationError: it is something else.
    """
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    text = f"Can't convert {what} of class {type(data).__name__} to bytes; name a {what}.serializer"
    raise SerializationError(text)


def all_bytes(
    serializer: Serializer | None,
    topic: str,
    data: Sequence[Any],
    headers: Sequence[tuple[str, bytes | None]],
    what: str,
) -> list[bytes | None]:
    """:func:`serialized` of many; a list of nothing but bytes is returned as it is."""
    if serializer is not None:
        return [serialized(serializer, topic, each, headers, what) for each in data]
    given = data if isinstance(data, list) else list(data)
    if set(map(type, given)) <= {bytes}:
        return given
    return [as_bytes(each, what) for each in given]


def level_of(config: ProducerConfig, codec: Codec) -> int | None:
    """The level of the codec in use; None for its default."""
    levels = {
        Codec.GZIP: (config.compression_gzip_level, -1),
        Codec.LZ4: (config.compression_lz4_level, 9),
        Codec.ZSTD: (config.compression_zstd_level, 3),
    }
    level, default = levels.get(codec, (0, 0))
    return None if level == default else level
