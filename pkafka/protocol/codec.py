"""Bytes to messages and back, by functions that are compiled when a class and version first meet here."""

from collections.abc import Callable
from struct import error as StructError
from typing import Any, TypeVar

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer
from pkafka.protocol.compiler import compile_decoder, compile_encoder
from pkafka.protocol.schema import Message, version_range

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Callable[..., tuple[Any, int]]] = {}
_encoders: dict[tuple[type[Message], int], Callable[..., None]] = {}


def encode(message: Message, version: int) -> bytes:
    """The body of ``message`` in ``version``, without any header.

    Raises:
        ValueError: the class has no such version, a value is not of its field's range, or a field that is not
            ignorable is set although the version lacks it.
    """
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Like :func:`encode`, appended to ``out``, whose added part is undefined when this raises."""
    cls = type(message)
    encoder = _encoders.get((cls, version))
    if encoder is None:
        _check_version(cls, version)
        encoder = _encoders[cls, version] = compile_encoder(cls, version)
    try:
        encoder(message, out)
    except (StructError, TypeError, AttributeError) as error:
        where = _first_wrong_null(message, version) or cls.__name__
        raise ValueError(f"{where} does not fit into version {version}: {error}") from error


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> M:
    """The message that fills ``buffer`` from ``position`` to its end.

    Raises:
        ProtocolError: the bytes are no such message, or more follow it.
        ValueError: the class has no such version.
    """
    message, end = decode_prefix(cls, version, buffer, position)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes follow {cls.__name__} v{version}")
    return message


def decode_request(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> M:
    """The request that begins at ``position``; what follows it in its frame is ignored, as Kafka does.

    librdkafka needs that: its Metadata request for all topics is three bytes too long.

    Raises:
        ProtocolError: the bytes are no such request.
        ValueError: the class has no such version.
    """
    return decode_prefix(cls, version, buffer, position)[0]


def decode_prefix(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    """The message that begins at ``position``, and the position after it.

    Record sets come as memoryviews into ``buffer``; everything else is copied out of it.

    Raises:
        ProtocolError: the bytes are no such message.
        ValueError: the class has no such version.
    """
    decoder = _decoders.get((cls, version))
    if decoder is None:
        _check_version(cls, version)
        decoder = _decoders[cls, version] = compile_decoder(cls, version)
    try:
        return decoder(buffer, position, len(buffer))
    except (StructError, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version} is cut short") from error
    except UnicodeDecodeError as not_utf8:
        raise ProtocolError(f"{cls.__name__} v{version} holds a string that is not UTF-8") from not_utf8


def _check_version(cls: type[Message], version: int) -> None:
    if version not in version_range(cls.__versions__):
        raise ValueError(f"{cls.__name__} has versions {cls.__versions__}, not {version}")


def _first_wrong_null(message: Message, version: int) -> str | None:
    """The name of the first field that is None where the version does not allow it."""
    for field in message.__fields__:
        if not field.is_in(version):
            continue
        value = getattr(message, field.name)
        if value is None:
            if not field.is_nullable(version):
                return f"{type(message).__name__}.{field.name}"
            continue
        inner = value if field.kind == "array" else [value]
        for item in inner if field.struct is not None else []:
            found = _first_wrong_null(item, version)
            if found:
                return found
    return None
