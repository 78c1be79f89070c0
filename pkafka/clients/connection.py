"""One connection to one broker, as a state machine around a non-blocking socket.

CONNECTING -> ENCRYPTING (TLS) -> NEGOTIATING (ApiVersions) -> AUTHENTICATING (SASL) -> READY -> CLOSED, with those
steps alone that the client's ``security.protocol`` asks for; a login whose session ends goes back to AUTHENTICATING.
Requests given before READY, or while the broker throttles this client, wait in line. Knows no thread and no selector:
its owner (``network.Network``) tells it when the socket can be read or written and when time has passed. Answers come
in the order of the requests; a wrong correlation id closes the connection.
"""

import errno
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pkafka
from pkafka.clients import connect_failures
from pkafka.clients.connection_states import STAGES, TALKING, ConnectionState
from pkafka.clients.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    DisconnectedError,
    Stage,
    UnsupportedApiError,
)
from pkafka.clients.features import NO_FEATURES, Features
from pkafka.clients.pending import Address, Meter, Pending
from pkafka.clients.throttling import is_kept
from pkafka.clock import Clock
from pkafka.errors import ErrorCode, ProtocolError
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import build_request, decode_response
from pkafka.protocol.schema import Message

if TYPE_CHECKING:
    from pkafka.clients.login import Login
    from pkafka.clients.security import Security
    from pkafka.net.tls import TlsStream

__all__ = ["NO_FEATURES", "Address", "Connection", "ConnectionState", "Features", "Meter", "Pending"]

_LENGTH = struct.Struct(">i")
_CHUNK_BYTES: Final = 65_536
_SCRATCHES: Final[list[bytearray]] = []
"""Buffers that no connection uses at the moment. A connection takes one while it reads answers, and puts it back: so an
idle connection has none. A callback that reads from another connection meanwhile takes another buffer."""
_SCRATCHES_MAX: Final = 8
_FRAME_BYTES_MAX: Final = 2**31 - 1
# ApiVersions answers are small: before READY a large number is not a length.
_HANDSHAKE_BYTES_MAX: Final = 2**20
# The first bytes of a TLS alert (record type 21, version 3.x), read as a length prefix, say 352 megabytes.
_TLS_ALERT: Final = (b"\x15\x03",)
_HTTP: Final = b"HTTP"


class Connection:
    """A connection to one broker. Not thread-safe: one thread at a time.

    Args:
        address: the broker.
        client_id: what the broker logs as this client's name.
        clock: its monotonic side bounds how long it takes until the connection is READY.
        setup_timeout_ms: how long TCP may take.
        handshake_timeout_ms: how long the broker may take to answer ApiVersions, once TCP stands.
        send_buffer_bytes, receive_buffer_bytes: socket buffers; -1 leaves the system's.
        security: encryption and login; None for neither.

    Raises:
        ConnectError: the name does not resolve, or every address refuses at once.
    """

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        clock: Clock,
        setup_timeout_ms: int,
        handshake_timeout_ms: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        security: "Security | None" = None,
    ) -> None:
        self.address = address
        self.state = ConnectionState.CONNECTING
        self.api_versions: dict[int, tuple[int, int]] = {}
        self.features = NO_FEATURES
        """What the broker said of the cluster's features when the connection was made."""
        self.failure: ConnectError | DisconnectedError | ClientTimeoutError | None = None
        self.idle_since_ms = 0
        self.meter: Meter | None = None
        self.on_throttled: Callable[[Address, int], None] | None = None
        """Told of the milliseconds for which this client is to send nothing, before the answer that says so is."""
        self.is_held = False
        """Whether requests wait until :meth:`release`."""
        self._client_id = client_id
        self._clock = clock
        self._setup_deadline_ms = clock.monotonic_ms() + setup_timeout_ms
        self._handshake_timeout_ms = handshake_timeout_ms
        self._buffer_bytes = (send_buffer_bytes, receive_buffer_bytes)
        self._waiting: deque[Pending] = deque()
        self._in_flight: deque[Pending] = deque()
        self._next_correlation_id = 0
        self._outbox: deque[memoryview] = deque()
        self._partial = bytearray()
        self._body: bytearray | None = None
        self._body_filled = 0
        self._security = security
        self._stream: TlsStream | None = None
        self._login: Login | None = None
        self._login_again_ms: int | None = None
        """When the session of the login is to be renewed, before the next request."""
        self._has_answered = False
        """Whether a request of a caller's was answered."""
        self._socket: socket.socket
        self._candidates = _resolve(address)
        self._connect_next()

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        """Whether the owner should tell when the socket can be written."""
        if self._stream is not None and self._stream.wants_write:
            return True
        # What is to be sent waits for the end of the TLS handshake, which goes on when something comes.
        return self.state is ConnectionState.CONNECTING or bool(self._outbox)

    @property
    def tls(self) -> "TlsStream | None":
        """The encryption of this connection; None while there is none."""
        return self._stream

    @property
    def in_flight_count(self) -> int:
        """Requests that wait for an answer or for the connection to get ready."""
        return len(self._in_flight) + len(self._waiting)

    @property
    def unsent_count(self) -> int:
        """Requests that the socket has not taken yet; what bounds a producer that wants no answers."""
        return len(self._outbox)

    @property
    def deadline_ms(self) -> int | None:
        """The earliest monotonic time at which :meth:`expire` has something to do."""
        deadlines = [pending.deadline_ms for pending in self._in_flight]
        deadlines += [pending.deadline_ms for pending in self._waiting]
        if self.state is not ConnectionState.READY and self.state is not ConnectionState.CLOSED:
            deadlines.append(self._setup_deadline_ms)
        return min(deadlines, default=None)

    def send(self, pending: Pending) -> None:
        """Send a request, or keep it until the connection takes it; its outcome arrives in ``pending``."""
        if self.state is ConnectionState.CLOSED:
            pending.finish(None, self._lost())
        elif self.state is not ConnectionState.READY or self.is_held:
            self._waiting.append(pending)
        elif self._login_again_ms is not None and self._clock.monotonic_ms() >= self._login_again_ms:
            self._waiting.append(pending)
            self._log_in()
        else:
            self._encode(pending)
            self._flush()

    def release(self, now_ms: int) -> None:
        """The time of the throttle is over: send what waits, which has its whole time to be answered, as in Kafka."""
        self.is_held = False
        for pending in self._waiting:
            pending.deadline_ms = max(pending.deadline_ms, now_ms + pending.timeout_ms)
        if self.state is ConnectionState.READY:
            self._send_waiting()

    def on_writable(self) -> None:
        """The socket can be written: finish connecting, or send what waits."""
        if self.state is ConnectionState.CONNECTING:
            self._finish_connecting()
        elif self.state is ConnectionState.ENCRYPTING:
            self._encrypt()
        elif self.state is not ConnectionState.CLOSED:
            self._flush()

    def on_readable(self) -> None:
        """The socket can be read: take every byte that is there and settle the requests they answer."""
        if self.state is ConnectionState.CONNECTING:
            self._finish_connecting()
        if self.state is ConnectionState.ENCRYPTING:
            self._encrypt()
        try:
            scratch = _SCRATCHES.pop()
        except IndexError:
            scratch = bytearray(_CHUNK_BYTES)
        try:
            self._read(scratch)
        finally:
            if len(_SCRATCHES) < _SCRATCHES_MAX:
                _SCRATCHES.append(scratch)

    def _read(self, scratch: bytearray) -> None:
        source = self._stream or self._socket
        while self.state in TALKING:
            target = memoryview(scratch)
            if self._body is not None:
                target = memoryview(self._body)[self._body_filled :]
            try:
                count = source.recv_into(target)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(self._lost(error))
                return
            if count == 0:
                self.close(self._lost())
                return
            self._take(target, count)
            # OpenSSL hands out a record at a time, and may have the next one already.
            if count < len(target) and self._stream is None:
                return

    def expire(self, now_ms: int) -> None:
        """Give up what has run out of time. A request that got no answer costs the connection, as in Kafka."""
        stage = STAGES.get(self.state)
        if stage is not None and now_ms >= self._setup_deadline_ms:
            self.close(connect_failures.late(str(self.address), stage))
            return
        if any(now_ms >= pending.deadline_ms for pending in self._in_flight):
            late = next(pending for pending in self._in_flight if now_ms >= pending.deadline_ms)
            text = f"{self.address} did not answer a {late.api_key.name} request in time"
            self.close(ClientTimeoutError(Stage.REQUEST, text))
            return
        for pending in [each for each in self._waiting if now_ms >= each.deadline_ms]:
            self._waiting.remove(pending)
            if stage is not None:
                pending.finish(None, connect_failures.late(str(self.address), stage))
            else:
                text = f"{self.address} throttles this client: the request could not be sent in time"
                pending.finish(None, ClientTimeoutError(Stage.REQUEST, text))

    def close(self, failure: ConnectError | DisconnectedError | ClientTimeoutError | None = None) -> None:
        """Close the socket and fail every request under way with ``failure``."""
        if self.state is ConnectionState.CLOSED:
            return
        self.state = ConnectionState.CLOSED
        self.failure = failure
        if self._stream is not None and failure is None:
            self._stream.say_goodbye()
        self._socket.close()
        self._outbox.clear()
        orphans = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for pending in orphans:
            pending.finish(None, failure or self._lost())

    def usable_version(self, api_key: ApiKey, *, max_version: int | None = None) -> int:
        """The highest version of a request that both sides speak.

        Args:
            max_version: do not go above it; without it, above what Kafka 3.9 has.

        Raises:
            UnsupportedApiError: there is none.
        """
        ours = registry.versions(api_key)[-1]
        if max_version is not None:
            ours = min(max_version, registry.declared_versions(api_key)[-1])
        low, high = self.api_versions.get(api_key, (0, -1))
        version = min(high, ours)
        if version < max(low, 0):
            raise UnsupportedApiError(
                f"the broker {self.address} does not support {_camel(api_key.name)} at a version this client speaks"
            )
        return version

    # -- connecting ---------------------------------------------------------------------------------------

    def _connect_next(self) -> None:
        """Start connecting to the next address that the name resolved to."""
        while True:
            family, kind, proto, _, target = self._candidates.popleft()
            self._socket = socket.socket(family, kind, proto)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), self._buffer_bytes, strict=True):
                if size > 0:
                    self._socket.setsockopt(socket.SOL_SOCKET, option, size)
            status = self._socket.connect_ex(target)
            if status in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                return
            self._socket.close()
            if not self._candidates:
                raise connect_failures.refused(str(self.address), status)

    def _finish_connecting(self) -> None:
        status = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status in (errno.EINPROGRESS, errno.EALREADY):
            return
        if status:
            if self._candidates:
                # The descriptor changes: the owner registers it again when it sees another fileno.
                self._socket.close()
                try:
                    self._connect_next()
                except ConnectError as error:
                    self.close(error)
                return
            self.close(connect_failures.refused(str(self.address), status))
            return
        self._setup_deadline_ms = self._clock.monotonic_ms() + self._handshake_timeout_ms
        if self._security is not None and self._security.is_encrypted:
            self.state = ConnectionState.ENCRYPTING
            try:
                self._stream = self._security.stream(self._socket, self.address.host)
            except ValueError:
                self.close(connect_failures.no_name(self.address.host, str(self.address)))
                return
            self._encrypt()
        else:
            self._begin_talking()

    def _encrypt(self) -> None:
        """Go on with the TLS handshake."""
        assert self._stream is not None
        try:
            is_over = self._stream.handshake()
        except OSError as error:
            self.close(self._lost(error))
            return
        if is_over:
            self._begin_talking()

    def _begin_talking(self) -> None:
        self.state = ConnectionState.NEGOTIATING
        self._negotiate(registry.versions(ApiKey.API_VERSIONS)[-1])

    def _negotiate(self, version: int) -> None:
        from pkafka.protocol.messages.api_versions import ApiVersionsRequest

        message = ApiVersionsRequest()
        message.client_software_name = "pkafka"
        message.client_software_version = pkafka.__version__
        self._setup_deadline_ms = self._clock.monotonic_ms() + self._handshake_timeout_ms
        pending = Pending(
            ApiKey.API_VERSIONS, message, address=self.address, deadline_ms=self._setup_deadline_ms
        )
        pending.version = version
        self._put(pending, ApiKey.API_VERSIONS)
        self._flush()

    def _negotiated(self, pending: Pending, response: Message) -> None:
        from pkafka.protocol.messages.api_versions import ApiVersionsResponse

        assert isinstance(response, ApiVersionsResponse)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and pending.version > 0:
            ours = registry.versions(ApiKey.API_VERSIONS)
            theirs = [each.max_version for each in response.api_keys if each.api_key == ApiKey.API_VERSIONS]
            self._negotiate(min(theirs[0] if theirs else 0, pending.version - 1, ours[-1]))
            return
        if response.error_code:
            text = f"{self.address} refused the handshake: {ErrorCode(response.error_code).message}"
            self.close(ConnectError(Stage.HANDSHAKE, str(self.address), text))
            return
        self.api_versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        levels = {each.name: each.max_version_level for each in response.finalized_features}
        self.features = Features(response.finalized_features_epoch, levels)
        if self._security is not None and self._security.logs_in:
            self._log_in()
        else:
            self._get_ready()

    def _get_ready(self) -> None:
        self.state = ConnectionState.READY
        if not self.is_held:
            self._send_waiting()

    def _log_in(self) -> None:
        """Begin a login, or its renewal, which the answers to earlier requests may precede."""
        from pkafka.clients.login import Login

        assert self._security is not None
        self.state = ConnectionState.AUTHENTICATING
        self._setup_deadline_ms = self._clock.monotonic_ms() + self._handshake_timeout_ms
        try:
            self._login = Login(
                self._security.exchange(self.address.host, str(self.address)), str(self.address)
            )
        except ConnectError as error:
            self.close(error)
            return
        self._say(self._login.begin())

    def _say(self, message: Message) -> None:
        """Send a request of the login, past those that wait for its end."""
        assert message.__api_key__ is not None
        pending = Pending(
            ApiKey(message.__api_key__),
            message,
            address=self.address,
            deadline_ms=self._setup_deadline_ms,
            on_done=self._on_login_answer,
        )
        try:
            pending.version = self.usable_version(pending.api_key)
        except UnsupportedApiError as error:
            self.close(connect_failures.broken(str(self.address), f"cannot log clients in: {error.message}"))
            return
        self._put(pending, pending.api_key)
        self._flush()

    def _on_login_answer(self, pending: Pending) -> None:
        if pending.response is None:
            return  # the connection is closed, for a reason that is told to all who wait
        assert self._login is not None
        try:
            following = self._login.answered(pending.response)
        except ConnectError as error:
            self.close(error)
            return
        if following is None:
            self._logged_in(self._login.session_lifetime_ms)
        else:
            self._say(following)

    def _logged_in(self, lifetime_ms: int) -> None:
        import random

        self._login, self._login_again_ms = None, None
        if lifetime_ms > 0:
            share = random.uniform(0.85, 0.95)  # noqa: S311 - as Kafka spreads its clients (KIP-368)
            self._login_again_ms = self._clock.monotonic_ms() + int(lifetime_ms * share)
        self._get_ready()

    # -- sending ------------------------------------------------------------------------------------------

    def _send_waiting(self) -> None:
        while self._waiting:
            self._encode(self._waiting.popleft())
        self._flush()

    def _encode(self, pending: Pending) -> None:
        try:
            pending.version = self.usable_version(pending.api_key, max_version=pending.max_version)
            self._put(pending, pending.api_key)
        except UnsupportedApiError as error:
            pending.finish(None, error)
        except ValueError as error:
            if _fits_nowhere(error):
                pending.finish(None, ClientError(f"the request cannot be written: {error}"))
                return
            # The message uses a field that this version lacks.
            text = f"the broker {self.address} is too old for this request: {error}"
            pending.finish(None, UnsupportedApiError(text))

    def _put(self, pending: Pending, api_key: ApiKey) -> None:
        pending.correlation_id = self._next_correlation_id
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        assert pending.message is not None
        frame = build_request(
            api_key, pending.version, pending.correlation_id, self._client_id, pending.message
        )
        pending.message = None
        self._outbox.append(memoryview(frame))
        if self.meter is not None:
            self.meter.sent(pending, len(frame))
        if pending.expects_answer:
            self._in_flight.append(pending)
        else:
            pending.finish(None, None)

    def _flush(self) -> None:
        sink = self._stream or self._socket
        while self._outbox and self.state is not ConnectionState.CLOSED:
            head = self._outbox[0]
            try:
                count = sink.send(head)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(self._lost(error))
                return
            if count < len(head):
                self._outbox[0] = head[count:]
                continue
            self._outbox.popleft()
        if self._stream is not None and self._stream.wants_write and self.state is not ConnectionState.CLOSED:
            try:
                self._stream.flush()
            except OSError as error:
                self.close(self._lost(error))

    # -- receiving ----------------------------------------------------------------------------------------

    def _take(self, target: memoryview, count: int) -> None:
        """Cut received bytes into frames: small ones out of the scratch buffer, big ones received in place."""
        if self._body is not None:
            self._body_filled += count
            if self._body_filled == len(self._body):
                body, self._body = self._body, None
                self._settle(body)
            return
        data = bytes(target[:count]) if not self._partial else bytes(self._partial) + bytes(target[:count])
        self._partial.clear()
        position = 0
        while self.state is not ConnectionState.CLOSED and len(data) - position >= 4:
            (size,) = _LENGTH.unpack_from(data, position)
            if not self._size_is_sane(size, data[position : position + 4]):
                return
            end = position + 4 + size
            if end > len(data):
                self._body = bytearray(size)
                rest = data[position + 4 :]
                self._body[: len(rest)] = rest
                self._body_filled = len(rest)
                return
            self._settle(data[position + 4 : end])
            position = end
        self._partial += data[position:]

    def _size_is_sane(self, size: int, prefix: bytes) -> bool:
        hint = None
        if prefix.startswith(_TLS_ALERT):
            hint = "the port speaks TLS; set security.protocol=SSL"
        elif prefix == _HTTP:
            hint = "the port speaks HTTP"
        elif 4 <= size <= (_FRAME_BYTES_MAX if self.api_versions else _HANDSHAKE_BYTES_MAX):
            return True
        self.close(connect_failures.wrong_protocol(str(self.address), hint))
        return False

    def _settle(self, frame: bytes | bytearray) -> None:
        if not self._in_flight:
            self.close(self._broken("sent an answer to no request"))
            return
        pending = self._in_flight.popleft()
        correlation_id = _LENGTH.unpack_from(frame)[0]
        if correlation_id != pending.correlation_id:
            self._in_flight.appendleft(pending)
            text = f"answered request {correlation_id} where {pending.correlation_id} was next"
            self.close(self._broken(text))
            return
        if self.meter is not None:
            self.meter.received(pending, len(frame) + 4)
        version = pending.version
        is_handshake = self.state is ConnectionState.NEGOTIATING
        if is_handshake and frame[4:6] == b"\x00\x23":
            version = (
                0  # UNSUPPORTED_VERSION: whatever was asked, the answer has the shape of version 0 (KIP-35)
            )
        try:
            _, response = decode_response(pending.api_key, version, frame)
        except ProtocolError as error:
            self._in_flight.appendleft(pending)
            self.close(self._broken(f"sent an answer that cannot be read: {error}"))
            return
        self._note_throttle(pending.api_key, version, response)
        if is_handshake:
            self._negotiated(pending, response)
            return
        if self.state is ConnectionState.READY:
            self._has_answered = True
        pending.finish(response, None)

    def _note_throttle(self, api_key: ApiKey, version: int, response: Message) -> None:
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if self.meter is not None:
            self.meter.throttled(throttle_ms)
        if throttle_ms > 0 and self.on_throttled is not None and is_kept(api_key, version):
            self.on_throttled(self.address, throttle_ms)

    def _broken(self, what: str) -> ConnectError:
        return connect_failures.broken(str(self.address), what)

    def _lost(self, error: OSError | None = None) -> ConnectError | DisconnectedError:
        """Why the connection is gone, by the state that it was in."""
        if error is not None and self._stream is not None:
            alert = self._stream.alert(error)
            if alert is not None:
                return connect_failures.tls_failure(self.address.host, str(self.address), alert)
        is_first = self.state is ConnectionState.READY and self._in_flight and not self._has_answered
        if is_first and (self._security is None or not self._security.logs_in):
            return connect_failures.unanswered(str(self.address), error)
        return connect_failures.closed(str(self.address), STAGES.get(self.state, Stage.REQUEST), error)


def _fits_nowhere(error: ValueError) -> bool:
    """Whether no version can carry a value: a number beyond its field, or text that is none.

    A null where an older version needs a value fails in the same place, and there the version is to blame.
    """
    if isinstance(error, UnicodeEncodeError):
        return True
    cause = error.__context__  # compiled by mypyc, the codec says no __cause__
    return isinstance(cause, struct.error) and not str(cause).startswith("required argument")


def _resolve(address: Address) -> deque[Any]:
    try:
        # Given text, the library loads the tables of international names, for a name in ASCII too.
        host = address.host.encode() if address.host.isascii() else address.host
        found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise connect_failures.unresolved(address.host, str(address), reason) from error
    return deque(found)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
