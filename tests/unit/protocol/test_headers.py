"""Headers and whole frames."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkafka.errors import ProtocolError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from pkafka.protocol.messages.api_versions import ApiVersionsResponse
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.registry import keys, request_class, response_class, versions
from tests.unit.protocol.strategies import flip

EVERY = [(key, version) for key in keys() for version in versions(key)]


@pytest.mark.parametrize(("key", "version"), EVERY, ids=lambda part: getattr(part, "name", part))
def test_a_request_comes_back(key: ApiKey, version: int) -> None:
    cls = request_class(key)
    message = cls()
    for client_id in (None, "", "client-é"):
        frame = encode_request(key, version, 7, client_id, message)
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        header, position = decode_request_header(frame[4:])
        sent = None if (key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0) else client_id
        assert header == RequestHeader(key, version, 7, sent)
        assert decode(cls, version, frame[4:], position) == decode(cls, version, encode(message, version))


@pytest.mark.parametrize(("key", "version"), EVERY, ids=lambda part: getattr(part, "name", part))
def test_a_response_comes_back(key: ApiKey, version: int) -> None:
    message = response_class(key)()
    frame = encode_response(key, version, -3, message)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, -3)
    assert decode_response(key, version, frame[4:]) == (-3, message)


def test_bytes_of_each_header_version() -> None:
    assert encode_request(7, 0, 1, "c", request_class(7)(broker_id=2)).hex(" ", 4) == (
        "0000000c 00070000 00000001 00000002"
    )
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert encode_request(12, 0, 5, "cli", heartbeat) == (
        b"\x00\x00\x00\x17\x00\x0c\x00\x00\x00\x00\x00\x05\x00\x03cli\x00\x01g\x00\x00\x00\x01\x00\x01m"
    )
    # The client id keeps its 2-byte size in a flexible header; one byte of (no) tags follows it.
    assert encode_request(12, 4, 5, "cli", heartbeat) == (
        b"\x00\x00\x00\x18\x00\x0c\x00\x04\x00\x00\x00\x05\x00\x03cli\x00\x02g\x00\x00\x00\x01\x02m\x00\x00"
    )


def test_the_answer_to_api_versions_has_no_tags_in_its_header() -> None:
    frame = encode_response(ApiKey.API_VERSIONS, 3, 9, ApiVersionsResponse())
    assert frame[4:] == b"\x00\x00\x00\x09" + encode(ApiVersionsResponse(), 3)


def test_an_unknown_version_is_the_callers_to_answer() -> None:
    header, position = decode_request_header(struct.pack(">hhih", 18, 99, 1, -1) + b"\x00")
    assert header == RequestHeader(18, 99, 1, None)
    assert position == 11


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="empty"),
        pytest.param(struct.pack(">hh", 18, 3), id="cut short"),
        pytest.param(struct.pack(">hhih", 18, 3, 1, 0), id="no tag section"),
        pytest.param(struct.pack(">hhih", 999, 0, 1, -1), id="unknown key"),
        pytest.param(struct.pack(">hhih", -1, 0, 1, -1), id="negative key"),
        pytest.param(
            struct.pack(">hhih", int(ApiKey.VOTE), 0, 1, -1) + b"\x00", id="key of KRaft controllers"
        ),
        pytest.param(struct.pack(">hhih", 12, 0, 1, -2), id="negative size"),
        pytest.param(struct.pack(">hhih", 12, 0, 1, 4) + b"abc", id="client id beyond the frame"),
        pytest.param(struct.pack(">hhih", 12, 0, 1, 1) + b"\xff", id="not UTF-8"),
        pytest.param(struct.pack(">hhih", 12, 4, 1, -1) + b"\x02\x05\x00\x05\x00", id="repeated tag"),
    ],
)
def test_a_bad_request_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(frame)


def test_unknown_tags_of_headers_are_stepped_over() -> None:
    header, position = decode_request_header(struct.pack(">hhih", 12, 4, 1, -1) + b"\x01\x05\x02ab" + b"body")
    assert (header.client_id, position) == (None, 15)
    body = encode(response_class(12)(), 4)
    assert decode_response(12, 4, struct.pack(">i", 8) + b"\x01\x05\x02ab" + body) == (
        8,
        response_class(12)(),
    )


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x01\x05"])
def test_a_bad_response_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response(12, 4, frame)


def test_a_client_id_over_its_length_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="32768"):
        encode_request(12, 0, 1, "x" * 32768, HeartbeatRequest())


@given(st.data())
@settings(max_examples=4 * settings().max_examples)
def test_damaged_headers_raise_nothing_but_protocol_error(data: st.DataObject) -> None:
    key, version = data.draw(st.sampled_from(EVERY))
    frame = encode_request(key, version, 1, "client", request_class(key)())[4:]
    try:
        header, position = decode_request_header(flip(frame, data))
    except ProtocolError:
        return
    assert isinstance(header, RequestHeader)
    assert position >= 8
