"""The login of one client as its broker sees it: which request may come next, and what is answered (KIP-43, KIP-152).

Pure: frames go in, steps come out; the texts and codes are Apache Kafka's (``SaslServerAuthenticator``). The same steps
on an open connection renew its session (KIP-368).
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode_request
from pkafka.protocol.headers import RequestHeader, decode_request_header, encode_response
from pkafka.protocol.messages.api_versions import ApiVersionsResponse
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pkafka.protocol.registry import request_class, versions
from pkafka.protocol.schema import Message
from pkafka.security.principal import Principal
from pkafka.security.sasl import LoginRefused, SaslError, ServerExchange
from pkafka.server.config.sasl import GSSAPI, SaslListener

_USER: Final = "User"
_TOLD_MAX: Final = 32_000
"""Characters; an old version of the answer holds 32,767 bytes, and what is long has ASCII alone."""


class LoggedIn(NamedTuple):
    """Whom a client acts for, and how it proved that."""

    principal: Principal
    mechanism: str
    is_token: bool = False
    """Whether by a delegation token."""


class Session(NamedTuple):
    """A login that counts; travels with a connection that moves to another worker.

    Times are readings of the monotonic clock, which all processes of a machine share.
    """

    who: LoggedIn
    ends_s: float | None
    """None: with the connection."""
    renewed_s: float = 0.0
    """When its last renewal began; 0 before the first."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> "Session":
        """The session that another worker sent as the row of its fields."""
        (principal, mechanism, is_token), ends_s, renewed_s = row
        return cls(LoggedIn(Principal(*principal), mechanism, is_token), ends_s, renewed_s)


class AskedVersions(NamedTuple):
    """The client asks for ApiVersions; the caller answers, and says by ``versions_told`` that it could."""

    header: RequestHeader
    position: int
    """Where the body begins."""


class GoOn(NamedTuple):
    """An answer after which the client goes on."""

    answer: bytes


class LetIn(NamedTuple):
    """The last answer of a login that succeeded."""

    answer: bytes
    """Empty where there is none."""
    who: LoggedIn
    lifetime_ms: int | None
    """How long this login counts; None for as long as the connection stands."""


class Refused(NamedTuple):
    """The end of a login that failed: the connection is closed after an answer, which may be empty."""

    answer: bytes
    reason: str
    """For this broker's log; has no secret."""


Step: TypeAlias = AskedVersions | GoOn | LetIn | Refused


class _Stage(Enum):
    BEGIN = "begin"
    """Nothing has come; what comes might be no request at all."""
    HANDSHAKE_OR_VERSIONS = "handshake or versions"
    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    OTHER_MECHANISM = "other mechanism"
    """The client renews its session by another mechanism, of which it hears with its first token."""


_BEFORE_TOKENS: Final = frozenset({_Stage.BEGIN, _Stage.HANDSHAKE_OR_VERSIONS, _Stage.HANDSHAKE})


class ServerLogin:
    """One login; see the module.

    Args:
        listener: what the client's listener asks for.
        new_exchange: gives the broker's half of a mechanism, new.
        renews: the login that this one renews; None for the first of a connection.
    """

    def __init__(
        self,
        listener: SaslListener,
        new_exchange: Callable[[str], ServerExchange],
        renews: LoggedIn | None = None,
    ) -> None:
        self._listener = listener
        self._new_exchange = new_exchange
        self._renews = renews
        self._stage = _Stage.HANDSHAKE if renews else _Stage.BEGIN
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._are_bare = True
        """Whether tokens come without a request around them, as after SaslHandshake v0."""

    def versions_told(self) -> None:
        """Note that the client knows the versions: it may not ask again."""
        self._stage = _Stage.HANDSHAKE

    def take(self, frame: memoryview, now_ms: int) -> Step:
        """The next step of the login.

        Args:
            frame: what the client sent, without its length.
            now_ms: the time, since the epoch.

        Raises:
            ProtocolError: the frame is malformed; the connection is to be closed at once.
        """
        if len(frame) > self._listener.receive_bytes_max:
            return Refused(b"", "Failing SASL authentication due to invalid receive size")
        if self._stage in _BEFORE_TOKENS:
            return self._request(frame, now_ms)
        if self._stage is _Stage.OTHER_MECHANISM:
            assert self._renews is not None
            reason = (
                f"SASL mechanism {self._mechanism!r} requested by client is not supported for re-authentication of "
                f"mechanism {self._renews.mechanism!r}"
            )
            return Refused(b"", reason)
        return self._bare_token(bytes(frame), now_ms) if self._are_bare else self._token(frame, now_ms)

    # -- before the tokens --

    def _request(self, frame: memoryview, now_ms: int) -> Step:
        try:
            header, position = decode_request_header(frame)
        except ProtocolError:
            if self._stage is not _Stage.BEGIN:
                raise
            return self._first_token(bytes(frame), now_ms)
        if self._stage is _Stage.BEGIN:
            self._stage = _Stage.HANDSHAKE_OR_VERSIONS
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame, position)
        if header.api_key == ApiKey.API_VERSIONS:
            if self._stage is not _Stage.HANDSHAKE_OR_VERSIONS:
                raise ProtocolError("ApiVersions is asked for twice before the login")
            return AskedVersions(header, position)
        name = ApiKey(header.api_key).name
        return Refused(b"", f"Unexpected Kafka request of type {name} during SASL handshake.")

    def _handshake(self, header: RequestHeader, frame: memoryview, position: int) -> Step:
        request = _decoded(header, frame, position)
        assert isinstance(request, SaslHandshakeRequest)
        self._are_bare = header.api_version == 0
        self._mechanism = request.mechanism
        response = SaslHandshakeResponse(mechanisms=list(self._listener.mechanisms))
        if request.mechanism not in self._listener.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            # Kafka answers this at the first login only.
            answer = b"" if self._renews else _answer(header, response)
            return Refused(answer, f"Unsupported SASL mechanism {request.mechanism!r}")
        if self._renews is not None and request.mechanism != self._renews.mechanism:
            self._stage = _Stage.OTHER_MECHANISM
        else:
            self._exchange = self._new_exchange(request.mechanism)
            self._stage = _Stage.TOKENS
        return GoOn(_answer(header, response))

    # -- the tokens --

    def _first_token(self, token: bytes, now_ms: int) -> Step:
        """A client of Kafka 0.9 begins with a token of GSSAPI."""
        if GSSAPI not in self._listener.mechanisms:
            return Refused(
                b"", "Exception handling first SASL packet from client, GSSAPI is not supported by server"
            )
        self._mechanism = GSSAPI
        self._exchange = self._new_exchange(GSSAPI)
        self._stage = _Stage.TOKENS
        return self._bare_token(token, now_ms)

    def _bare_token(self, token: bytes, now_ms: int) -> Step:
        try:
            answer = self._next_token(token)
        except SaslError as error:
            return Refused(b"", str(error))
        assert self._exchange is not None
        # GSSAPI ends without a token of the broker's; bare, that is no frame at all.
        is_silent = self._mechanism == GSSAPI and self._exchange.is_complete
        framed = b"" if is_silent else len(answer).to_bytes(4) + answer
        return self._after_token(framed, self._lifetime_ms(now_ms))

    def _token(self, frame: memoryview, now_ms: int) -> Step:
        header, position = decode_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            name = ApiKey(header.api_key).name
            reason = f"Unexpected Kafka request of type {name} during SASL authentication."
            return Refused(_out_of_turn(header), reason)
        request = _decoded(header, frame, position)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            answer = self._next_token(request.auth_bytes)
        except SaslError as error:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=self._told(error)
            )
            return Refused(_answer(header, response), str(error))
        lifetime_ms = self._lifetime_ms(now_ms)
        response = SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms or 0)
        return self._after_token(_answer(header, response), lifetime_ms)

    def _next_token(self, token: bytes) -> bytes:
        assert self._exchange is not None
        answer = self._exchange.answer(token)
        before = self._renews.principal if self._renews else None
        if self._exchange.is_complete and before is not None and before != self._who().principal:
            after = self._who().principal
            raise LoginRefused(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{after.type}.{after.name}"
            )
        return answer

    def _told(self, error: SaslError) -> str:
        """What the client may read of a failure: nothing that would tell it whether there is such a user."""
        if isinstance(error, LoginRefused):
            # It may have a name in it that the client made up, of half a megabyte; Kafka fails where it is too long.
            return str(error)[:_TOLD_MAX]
        during = "re-authentication" if self._renews else "authentication"
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._mechanism}"

    def _after_token(self, answer: bytes, lifetime_ms: int | None) -> Step:
        assert self._exchange is not None
        return LetIn(answer, self._who(), lifetime_ms) if self._exchange.is_complete else GoOn(answer)

    def _who(self) -> LoggedIn:
        assert self._exchange is not None
        return LoggedIn(Principal(_USER, self._exchange.user), self._mechanism, self._exchange.is_token)

    def _lifetime_ms(self, now_ms: int) -> int | None:
        """The shorter of what the listener allows and what is left of the client's token."""
        assert self._exchange is not None
        if not self._exchange.is_complete:
            return None
        limits = []
        if self._exchange.expires_ms is not None:
            limits.append(max(self._exchange.expires_ms - now_ms, 0))
        if self._listener.sessions_max_ms[self._mechanism]:
            limits.append(self._listener.sessions_max_ms[self._mechanism])
        return min(limits, default=None)


def _decoded(header: RequestHeader, frame: memoryview, position: int) -> Message:
    allowed = versions(header.api_key)
    if header.api_version not in allowed:
        raise ProtocolError(
            f"{ApiKey(header.api_key).name} version {header.api_version} is not one of {allowed}"
        )
    return decode_request(request_class(header.api_key), header.api_version, bytes(frame[position:]))


def _out_of_turn(header: RequestHeader) -> bytes:
    """The answer to a request that a client may not send while it proves itself; empty for those that have none.

    Kafka answers all requests in this way, each in a form of its own, and then closes the connection.
    """
    if header.api_version in versions(header.api_key):
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return _answer(header, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        if header.api_key == ApiKey.API_VERSIONS:
            return _answer(header, ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
    return b""


def _answer(header: RequestHeader, response: Message) -> bytes:
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)
