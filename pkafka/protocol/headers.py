"""Headers around messages, and whole frames with their length prefix.

Headers are written out here instead of being declared: every request passes through them, the client id is
never compact even in flexible headers, and their version follows from key and version of the body.
"""

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, cast

from pkafka.errors import ProtocolError
from pkafka.protocol import Buffer
from pkafka.protocol.codec import decode, encode_into
from pkafka.protocol.primitives import skip_tags
from pkafka.protocol.registry import request_header_version, response_class, response_header_version
from pkafka.protocol.schema import Message

_REQUEST_START: Final = Struct(">hhih")
"""API key, version, correlation id, and the size of the client id, which headers of version 0 alone have not."""
_request_start: Final = cast("Callable[[Buffer, int], tuple[int, int, int, int]]", _REQUEST_START.unpack_from)
"""Its types are said because compiled code compares numbers of unknown types as objects."""
_CLIENT_ID: Final = 10
"""Where the client id begins. A number, since compiled code asks a Struct for its size each time."""
_BODY_WITHOUT_CLIENT_ID: Final = 8
_SIZE_START: Final = Struct(">ihhi")
_STRING_SIZE: Final = Struct(">h")
_SIZE_CORRELATION: Final = Struct(">ii")
_INT32: Final = Struct(">i")
_new: Final = tuple.__new__


class RequestHeader(NamedTuple):
    """What stands before the body of every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request frame (without length prefix), and the position of the body.

    The version is not checked against the known ones: ApiVersions has to answer the unknown too.

    Raises:
        ProtocolError: cut short, malformed, or of a key that pkafka does not know.
    """
    try:
        key, version, correlation_id, size = _request_start(frame, 0)
        header_version = request_header_version(key, version)
        if header_version == 0:
            return RequestHeader(key, version, correlation_id, None), _BODY_WITHOUT_CLIENT_ID
        position = _CLIENT_ID
        client_id = None
        if size >= 0:
            position += size
            if position > len(frame):
                raise ProtocolError("client id is longer than its frame")
            client_id = str(frame[_CLIENT_ID:position], "utf-8")
        elif size != -1:
            raise ProtocolError(f"client id has size {size}")
        if header_version == 2:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, tags, len(frame))
        # A call of the class takes three times as long.
        return _new(RequestHeader, (key, version, correlation_id, client_id)), position
    except KeyError as unknown:
        raise ProtocolError(f"unknown API key {unknown}") from unknown
    except (StructError, IndexError) as error:
        raise ProtocolError("request header is cut short") from error
    except UnicodeDecodeError as refused:
        raise ProtocolError("client id is not UTF-8") from refused


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes:
    """A whole request frame with its 4-byte length prefix.

    Raises:
        ValueError: see :func:`pkafka.protocol.codec.encode`.
    """
    return bytes(build_request(api_key, version, correlation_id, client_id, message))


def build_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytearray:
    """As :func:`encode_request`, without the copy that makes bytes of it.

    Raises:
        ValueError: see :func:`pkafka.protocol.codec.encode`.
    """
    out = bytearray(_SIZE_START.pack(0, api_key, version, correlation_id))
    header_version = request_header_version(api_key, version)
    if header_version:
        if client_id is None:
            out += b"\xff\xff"
        else:
            name = client_id.encode()
            if len(name) > 0x7FFF:
                raise ValueError(f"client id is {len(name)} bytes long, over 32767")
            out += _STRING_SIZE.pack(len(name))
            out += name
        if header_version == 2:
            out.append(0)
    encode_into(message, version, out)
    _INT32.pack_into(out, 0, len(out) - 4)
    return out


def encode_response(api_key: int, version: int, correlation_id: int, message: Message) -> bytes:
    """A whole response frame with its 4-byte length prefix.

    Raises:
        ValueError: see :func:`pkafka.protocol.codec.encode`.
    """
    out = bytearray(_SIZE_CORRELATION.pack(0, correlation_id))
    if response_header_version(api_key, version):
        out.append(0)
    encode_into(message, version, out)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """Correlation id and message of a response frame (without length prefix).

    Raises:
        ProtocolError: the bytes are no such response.
    """
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
        position = 4
        if response_header_version(api_key, version):
            tags = frame[4]
            position = skip_tags(frame, 5, tags, len(frame)) if tags else 5
    except (StructError, IndexError) as error:
        raise ProtocolError("response header is cut short") from error
    return correlation_id, decode(response_class(api_key), version, frame, position)
