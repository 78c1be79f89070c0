"""What may come before a client is let in, and what is answered; the order of things is Apache Kafka's."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.protocol.schema import Message
from pkafka.security.principal import Principal
from pkafka.security.sasl import ServerExchange
from pkafka.security.sasl.oauthbearer import BearerToken, OAuthBearerServerExchange
from pkafka.security.sasl.plain import PlainServerExchange
from pkafka.server.config.sasl import SaslListener
from pkafka.server.security.login import (
    AskedVersions,
    GoOn,
    LetIn,
    LoggedIn,
    Refused,
    ServerLogin,
    Session,
    Step,
)

NOW_MS = 1_000_000
ALICE = LoggedIn(Principal("User", "alice"), "PLAIN")
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0other"
LISTENER = SaslListener(
    ("SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"),
    {},
    {"SCRAM-SHA-256": 0, "PLAIN": 0, "OAUTHBEARER": 0},
    1_000,
)


def exchange(mechanism: str) -> ServerExchange:
    if mechanism == "OAUTHBEARER":
        return OAuthBearerServerExchange(lambda _token: BearerToken("carol", NOW_MS + 5_000))
    return PlainServerExchange({"alice": "secret", "bob": "bobs"}.get)


def login(renews: LoggedIn | None = None, *, sessions_max_ms: int = 0) -> ServerLogin:
    limits = dict.fromkeys(LISTENER.mechanisms, sessions_max_ms)
    return ServerLogin(LISTENER._replace(sessions_max_ms=limits), exchange, renews)


def frame(request: Message, version: int) -> memoryview:
    assert request.__api_key__ is not None
    return memoryview(encode_request(request.__api_key__, version, 7, "c", request))[4:]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> memoryview:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def token(data: bytes, version: int = 2) -> memoryview:
    return frame(SaslAuthenticateRequest(auth_bytes=data), version)


def steps(login: ServerLogin, frames: Sequence[memoryview]) -> list[Step]:
    return [login.take(one, NOW_MS) for one in frames]


def answered(step: Step, key: int = ApiKey.SASL_AUTHENTICATE, version: int = 2) -> Any:
    assert not isinstance(step, AskedVersions)
    return decode_response(key, version, step.answer[4:])[1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_names_its_mechanism_and_proves_itself(version: int) -> None:
    first, last = steps(login(), [handshake(), token(RIGHT, version)])
    assert isinstance(first, GoOn)
    named = answered(first, ApiKey.SASL_HANDSHAKE, 1)
    assert (named.error_code, named.mechanisms) == (0, ["SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"])
    assert isinstance(last, LetIn)
    assert (last.who, last.lifetime_ms) == (ALICE, None)
    response = answered(last, version=version)
    assert (response.error_code, response.error_message, response.auth_bytes) == (0, "", b"")


def test_an_old_client_sends_bare_tokens() -> None:
    _, last = steps(login(), [handshake(version=0), memoryview(RIGHT)])
    assert last == LetIn(bytes(4), ALICE, None)
    _, last = steps(login(), [handshake(version=0), memoryview(WRONG)])
    assert last == Refused(b"", "Authentication failed: Invalid username or password")


def test_versions_may_be_asked_for_once_and_only_first() -> None:
    asking = login()
    step = asking.take(frame(ApiVersionsRequest(), 0), NOW_MS)
    assert isinstance(step, AskedVersions)
    # The client that was told of an error asks again.
    assert isinstance(asking.take(frame(ApiVersionsRequest(), 0), NOW_MS), AskedVersions)
    asking.versions_told()
    with pytest.raises(ProtocolError, match="twice"):
        asking.take(frame(ApiVersionsRequest(), 0), NOW_MS)
    assert isinstance(login().take(handshake(), NOW_MS), GoOn)


def test_what_is_refused_without_an_answer() -> None:
    for early in ([], [handshake()]):
        step = steps(login(), [*early, frame(MetadataRequest(topics=[]), 9)])[-1]
        assert isinstance(step, Refused)
        assert step.answer == b""
        assert step.reason.startswith("Unexpected Kafka request of type METADATA during SASL")
    for garbage in (b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff" * 8):
        step = login().take(memoryview(garbage), NOW_MS)
        assert step == Refused(
            b"", "Exception handling first SASL packet from client, GSSAPI is not supported by server"
        )
    step = login().take(memoryview(bytes(1_001)), NOW_MS)
    assert step == Refused(b"", "Failing SASL authentication due to invalid receive size")


def test_a_client_of_kafka_0_9_begins_with_a_token_of_gssapi() -> None:
    class Ticket(PlainServerExchange):
        def answer(self, token: bytes) -> bytes:
            if token == b"\x60ticket":
                return b"proof"
            return super().answer(token)

    listener = LISTENER._replace(mechanisms=("GSSAPI",), sessions_max_ms={"GSSAPI": 0})
    asked: list[str] = []

    def exchange(mechanism: str) -> ServerExchange:
        asked.append(mechanism)
        return Ticket({"alice": "secret"}.get)

    first, last = steps(
        ServerLogin(listener, exchange), [memoryview(b"\x60ticket"), memoryview(b"\0alice\0secret")]
    )
    assert first == GoOn(b"\0\0\0\5proof")
    assert last == LetIn(b"", LoggedIn(Principal("User", "alice"), "GSSAPI"), None)
    assert asked == ["GSSAPI"]


def test_requests_that_are_malformed_close_at_once() -> None:
    known = login()
    known.take(frame(ApiVersionsRequest(), 0), NOW_MS)
    for data in (memoryview(b"\x7f\xff" * 8), handshake()[:-1], handshake(version=1)[:4]):
        with pytest.raises(ProtocolError):
            known.take(data, NOW_MS)
    newer = bytearray(handshake())
    newer[3] = 2
    with pytest.raises(ProtocolError, match="version 2"):
        known.take(memoryview(newer), NOW_MS)
    proving = login()
    proving.take(handshake(), NOW_MS)
    with pytest.raises(ProtocolError):
        proving.take(memoryview(RIGHT), NOW_MS)


def test_a_mechanism_that_is_not_enabled() -> None:
    for version in (0, 1):
        step = login().take(handshake("GSSAPI", version), NOW_MS)
        assert isinstance(step, Refused)
        response = answered(step, ApiKey.SASL_HANDSHAKE, version)
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == ["SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"]


def test_the_client_hears_why_it_is_refused_or_nothing_of_use() -> None:
    step = steps(login(), [handshake(), token(WRONG)])[-1]
    assert isinstance(step, Refused)
    response = answered(step)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    step = steps(login(), [handshake("OAUTHBEARER"), token(b"nonsense")])[-1]
    assert answered(step).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
    )


def test_a_name_of_half_a_megabyte_is_cut() -> None:
    for version in (0, 2):
        long = ServerLogin(LISTENER._replace(receive_bytes_max=600_000), exchange)
        long.take(handshake("OAUTHBEARER"), NOW_MS)
        data = b"n,a=" + b"x" * 500_000 + b",\x01auth=Bearer x.y.z\x01\x01"
        step = long.take(token(data, version), NOW_MS)
        assert isinstance(step, Refused)
        assert answered(step, version=version).error_message.startswith(
            "Authentication failed: Client requested"
        )


def test_how_long_a_login_counts() -> None:
    bearer = token(b"n,,\x01auth=Bearer x.y.z\x01\x01")
    cases: list[tuple[str, memoryview, int, int | None]] = [
        ("PLAIN", token(RIGHT), 0, None),
        ("PLAIN", token(RIGHT), 3_000, 3_000),
        ("OAUTHBEARER", bearer, 0, 5_000),
        ("OAUTHBEARER", bearer, 3_000, 3_000),
        ("OAUTHBEARER", bearer, 9_000, 5_000),
    ]
    for mechanism, proof, limit_ms, lifetime_ms in cases:
        step = steps(login(sessions_max_ms=limit_ms), [handshake(mechanism), proof])[-1]
        assert isinstance(step, LetIn)
        assert step.lifetime_ms == lifetime_ms
        assert answered(step).session_lifetime_ms == (lifetime_ms or 0)


def test_a_session_is_renewed_by_the_same_user_and_mechanism() -> None:
    first, last = steps(login(renews=ALICE, sessions_max_ms=50), [handshake(), token(RIGHT)])
    assert isinstance(first, GoOn)
    assert isinstance(last, LetIn)
    assert last.lifetime_ms == 50
    step = steps(login(renews=ALICE), [handshake(), token(b"\0bob\0bobs")])[-1]
    assert isinstance(step, Refused)
    assert (
        answered(step).error_message
        == "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    first, last = steps(login(renews=ALICE), [handshake("OAUTHBEARER"), token(b"x")])
    assert isinstance(first, GoOn)
    assert isinstance(last, Refused)
    assert last.reason == (
        "SASL mechanism 'OAUTHBEARER' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_a_session_travels_as_a_row() -> None:
    session = Session(LoggedIn(Principal("User", "alice"), "PLAIN", is_token=True), 5.5, 2.5)
    row = [[[*session.who.principal], session.who.mechanism, session.who.is_token], 5.5, 2.5]
    assert Session.of(row) == session


FRAMES = [
    handshake(),
    handshake("OAUTHBEARER"),
    handshake(version=0),
    token(RIGHT),
    token(b"x"),
    memoryview(b""),
]


@given(
    st.lists(
        st.sampled_from(FRAMES)
        | st.binary(max_size=80).map(lambda data: memoryview(data))
        | st.tuples(st.sampled_from(FRAMES), st.integers(0, 60)).map(lambda cut: cut[0][: cut[1]]),
        max_size=6,
    )
)
def test_whatever_comes_there_is_a_step_or_the_end(frames: list[memoryview]) -> None:
    going = login()
    for one in frames:
        try:
            step = going.take(one, NOW_MS)
        except ProtocolError:
            break
        if isinstance(step, LetIn | Refused):
            break
