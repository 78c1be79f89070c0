"""Brings a frame to its handler, makes the bytes of the answer, and decides what each kind of failure causes.

An ApiError is answered with its code, a ProtocolError closes the connection, a broken invariant ends the worker, and a
bug in one handler is logged and closes the connection of the request. This module knows nothing of the single APIs.
"""

import logging
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from pkafka.errors import ApiError, ProtocolError
from pkafka.net.answers import Answer, FileRange
from pkafka.net.connection import (
    AFTER_OTHERS,
    AfterOthers,
    Detach,
    FrameHandler,
    LaterAnswer,
    Outcome,
    ServerConnection,
)
from pkafka.net.outcomes import Note
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode_request, encode
from pkafka.protocol.headers import RequestHeader, decode_request_header, decode_response, encode_response
from pkafka.protocol.registry import request_class, response_header_version, versions
from pkafka.protocol.schema import Message
from pkafka.security.principal import ANONYMOUS
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.metrics.counters import FOLLOWERS_FETCH, Metrics
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import Caller, Forwarded, RequestContext
from pkafka.server.serving.control_line import ControlLine
from pkafka.server.serving.request_log import LoggedRequest, is_logged
from pkafka.server.serving.request_log import logger as request_logger

log = logging.getLogger(__name__)

_PLAIN_HEADER = struct.Struct(">ii")
_FLEXIBLE_HEADER = struct.Struct(">iib")
_START = struct.Struct(">hhi")
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)

_TELL_THEMSELVES: Final = frozenset({int(ApiKey.PRODUCE), int(ApiKey.FETCH)})
"""Their handlers make answers that say for how long the client has to wait: because of bytes, or of time."""
_NOT_METERED: Final = frozenset(
    {
        FOLLOWERS_FETCH,
        *map(
            int,
            (
                ApiKey.LEADER_AND_ISR,
                ApiKey.STOP_REPLICA,
                ApiKey.UPDATE_METADATA,
                ApiKey.CONTROLLED_SHUTDOWN,
                ApiKey.WRITE_TXN_MARKERS,
                ApiKey.ALTER_PARTITION,
                ApiKey.ALLOCATE_PRODUCER_IDS,
                ApiKey.SASL_HANDSHAKE,
                ApiKey.SASL_AUTHENTICATE,
            ),
        ),
    }
)
"""Requests of brokers, and those that come before it is known who asks."""

PortT = TypeVar("PortT")

_LENGTH_BYTES: Final = 4
_now_ns: Final = time.perf_counter_ns
_request_logger: Final = request_logger
"""Names of this module, which compiled code does not look up for each request."""


class _Metered(NamedTuple):
    """Names a request whose time counts, beside what logs it."""

    connection: ServerConnection
    header: RequestHeader
    logged: LoggedRequest | None


FrameApi: TypeAlias = Callable[[PortT, ServerConnection, RequestHeader, memoryview, int], Outcome]
"""Serves the bytes of a request itself (the hot paths)."""
MessageApi: TypeAlias = Callable[
    [RequestContext[PortT], Any, int], Message | bytes | Detach | Awaitable[Message | bytes]
]
"""Serves a decoded request: context, request, version -> response (or its encoded body), or moves its connection."""


def frame(header: RequestHeader, body: bytes | bytearray) -> bytes:
    """The whole answer to a request: length prefix, response header, body."""
    if response_header_version(header.api_key, header.api_version):
        return _FLEXIBLE_HEADER.pack(len(body) + 5, header.correlation_id, 0) + body
    return _PLAIN_HEADER.pack(len(body) + 4, header.correlation_id) + body


class Dispatcher(Generic[PortT]):
    """Serves the frames of one worker's connections.

    Args:
        worker: what handlers may ask, by their ports.
        frame_apis: keys whose handlers take bytes.
        message_apis: keys whose handlers take messages.
        control_apis: keys that the control process serves.
        tasks: run what answers later.
        metrics: count requests.
        quotas: of clients; the time of their requests is noted here, bytes where they are sent or taken.
        control_line: leads to the control process.
    """

    def __init__(
        self,
        worker: PortT,
        frame_apis: Mapping[int, FrameApi[PortT]],
        message_apis: Mapping[int, MessageApi[PortT]],
        control_apis: frozenset[int],
        *,
        tasks: Tasks,
        metrics: Metrics,
        quotas: ClientQuotas,
        control_line: ControlLine,
    ) -> None:
        self._worker = worker
        self._frame_apis = frame_apis
        self._message_apis = message_apis
        self._control_apis = control_apis
        self._tasks = tasks
        self._metrics = metrics
        self._quotas = quotas
        self._control_line = control_line
        self._versions: Final = {
            key: versions(key) for key in sorted({*frame_apis, *message_apis, *control_apis})
        }
        self._served_by_frame: Final = {
            key << 16 | version: api for key, api in frame_apis.items() for version in self._versions[key]
        }
        """What :meth:`serve` finds for the hot paths, by key and version, both in one number."""

    @property
    def served(self) -> dict[int, range]:
        """Every API key that is served, with its versions: what ApiVersions answers."""
        return self._versions

    def handle(self, connection: ServerConnection, data: memoryview) -> Outcome:
        """Serve one frame (the connection's handler)."""
        began_ns = _now_ns()
        try:
            header, position = decode_request_header(data)
            api_key, api_version = header.api_key, header.api_version
            if api_key != _PRODUCE and connection.has_answers_due:
                # Produce may be served behind Produce whose records are on their way to other workers. Any other
                # request must find the records in the log.
                return AFTER_OTHERS
            logged = None
            if (
                _request_logger.level <= logging.INFO  # asked first: a look, and no call
                and _request_logger.isEnabledFor(logging.INFO)
                and is_logged(header)
            ):
                logged = LoggedRequest(connection, header, data, position)
            frame_api = self._served_by_frame.get(api_key << 16 | api_version & 0xFFFF)
            if frame_api is not None:
                answer = frame_api(self._worker, connection, header, data, position)
            else:
                answer = self.serve(connection, header, data, position)
            counted_as = api_key if api_key != _FETCH else _kind_of_fetch(connection)
            if self._quotas.limits_requests:
                return self._metered(_Metered(connection, header, logged), counted_as, began_ns, answer)
            if answer is None:
                # The code that finishes the request later finds the facts here.
                connection.pending = (counted_as, api_version, began_ns, _now_ns(), logged)
            elif isinstance(answer, LaterAnswer):
                answer.note = (counted_as, api_version, began_ns, _now_ns(), logged)
            elif not isinstance(answer, Detach):
                took_ns = _now_ns() - began_ns
                self._metrics.request(counted_as, api_version, took_ns)
                if logged is not None and not isinstance(answer, AfterOthers):
                    logged.completed(answer, took_ns, took_ns)
            return answer
        except ProtocolError as error:
            self._refuse(connection, data, error)
        except AssertionError as bug:
            self._tasks.crash(bug)
        except Exception:
            # A bug in one handler costs the connection that hit it, not the worker.
            log.exception("Closing the connection of %s: %s failed", connection.peer_host, _described(data))
            connection.close()
        return ()

    def guarded(self, serve: FrameHandler, connection: ServerConnection, data: memoryview) -> Outcome:
        """Serve a frame by something else, as part of a login. Failures have the same fates as in :meth:`handle`.

        Nothing of the frame is logged: what is no request may be a password.
        """
        try:
            return serve(connection, data)
        except ProtocolError as error:
            log.warning("Closing the connection of %s, which logs in: %s", connection.peer_host, error)
            self._metrics.refused()
            connection.close()
        except AssertionError as bug:
            self._tasks.crash(bug)
        except Exception:
            log.exception("Closing the connection of %s: its login failed by a bug", connection.peer_host)
            connection.close()
        return ()

    def finished(self, note: Note, answer: Answer) -> Answer:
        """Count and log a request whose later answer leaves now (the connection's callback); the answer to send."""
        api_key, api_version, began_ns, handled_ns, logged = note
        local_ns, whole_ns = handled_ns - began_ns, _now_ns() - began_ns
        self._metrics.later_request(api_key, api_version, local_ns, whole_ns)
        if isinstance(logged, _Metered):
            answer = self._slowed_down(logged, api_key, local_ns, answer)
            logged = logged.logged
        if isinstance(logged, LoggedRequest):
            logged.completed(answer, local_ns, whole_ns)
        return answer

    def _metered(self, request: "_Metered", counted_as: int, began_ns: int, outcome: Outcome) -> Outcome:
        """The outcome of a request whose time counts; notes what is to be done when the answer comes later."""
        if isinstance(outcome, (AfterOthers, Detach)):
            return outcome
        note = counted_as, request.header.api_version, began_ns, _now_ns(), request
        if outcome is None:
            request.connection.pending = note
        elif isinstance(outcome, LaterAnswer):
            outcome.note = note
        else:
            took_ns = note[3] - began_ns
            self._metrics.request(counted_as, request.header.api_version, took_ns)
            outcome = self._slowed_down(request, counted_as, took_ns, outcome)
            if request.logged is not None:
                request.logged.completed(outcome, took_ns, took_ns)
        return outcome

    def _slowed_down(self, request: "_Metered", counted_as: int, took_ns: int, answer: Answer) -> Answer:
        """Note how long a request took; the answer that says for how long the client has to wait, if it has."""
        connection, header = request.connection, request.header
        if counted_as in _NOT_METERED or not answer:
            return answer
        throttle_ms = self._quotas.served(*client_of(connection, header), took_ns)
        if not throttle_ms or counted_as in _TELL_THEMSELVES:
            return answer
        connection.pause(throttle_ms / 1000)
        return told_to_wait(header, answer, throttle_ms)

    def serve(
        self, connection: ServerConnection, header: RequestHeader, data: memoryview, position: int
    ) -> Outcome:
        """Serve a request, uncounted and not logged.

        Raises:
            ProtocolError: it is malformed, or of a key or a version that is not served.
        """
        allowed = self._versions.get(header.api_key)
        if allowed is None:
            raise ProtocolError(f"API key {header.api_key} is not served")
        if header.api_version not in allowed:
            return self._unsupported_version(connection, header, allowed)
        serve = self._frame_apis.get(header.api_key)
        if serve is not None:
            return serve(self._worker, connection, header, data, position)
        if header.api_key in self._control_apis:
            # Decoded by the control process; checked here so that bad bytes close the right connection.
            body = bytes(data[position:])
            decode_request(request_class(header.api_key), header.api_version, body)
            self._tasks.spawn(self._ask_control(connection, header, body), connection)
            return None
        return self._serve_message(connection, header, bytes(data[position:]))

    def _unsupported_version(
        self, connection: ServerConnection, header: RequestHeader, allowed: range
    ) -> Outcome:
        if header.api_key != ApiKey.API_VERSIONS:
            raise ProtocolError(
                f"{ApiKey(header.api_key).name} version {header.api_version} is not one of"
                f" {allowed.start}-{allowed.stop - 1}"
            )
        # A client that is newer than this broker learns the versions from an answer of version 0 (KIP-511).
        old = RequestHeader(header.api_key, 0, header.correlation_id, header.client_id)
        context = RequestContext(self._worker, connection, header)
        response = self._message_apis[header.api_key](context, None, header.api_version)
        assert isinstance(response, Message)
        return (frame(old, encode(response, 0)),)

    def _serve_message(
        self, connection: ServerConnection, header: RequestHeader, body: bytes
    ) -> Answer | Detach | None:
        request = decode_request(request_class(header.api_key), header.api_version, body)
        context = RequestContext(self._worker, connection, header)
        try:
            outcome = self._message_apis[header.api_key](context, request, header.api_version)
        except ApiError as error:
            raise ProtocolError(f"{ApiKey(header.api_key).name}: {error}") from error
        if isinstance(outcome, (Message, bytes)):
            return (_encoded(header, outcome),)
        if isinstance(outcome, Detach):
            return outcome
        self._tasks.spawn(self._finish_later(connection, header, outcome), connection)
        return None

    async def _finish_later(
        self, connection: ServerConnection, header: RequestHeader, outcome: Awaitable[Message | bytes]
    ) -> None:
        try:
            answer = _encoded(header, await outcome)
        except ApiError as error:
            # This response has no place for an error of the whole request: Kafka closes the connection, too.
            log.info("Closing the connection of %s: %s: %s", connection.peer_host, _name(header), error)
            connection.close()
        else:
            connection.finish((answer,))

    async def _ask_control(self, connection: ServerConnection, header: RequestHeader, body: bytes) -> None:
        facts = Forwarded(header.api_key, header.api_version, Caller.of(connection, header))
        while not connection.closed:
            control = await self._control_line.ready()
            try:
                throttle_ms, answer, _fds = await control.call(words.API, facts, body)
            except PeerGone:
                # The control process died with the request in hand; its successor answers. All these requests may be
                # repeated, as a client would do after a time-out.
                continue
            except ApiError as error:
                log.info("Closing the connection of %s: %s: %s", connection.peer_host, _name(header), error)
                connection.close()
                return
            if throttle_ms:
                connection.pause(throttle_ms / 1000)
            connection.finish((frame(header, bytes(answer)),))
            return

    def _refuse(self, connection: ServerConnection, data: memoryview, error: ProtocolError) -> None:
        log.warning("Closing the connection of %s: %s: %s", connection.peer_host, _described(data), error)
        self._metrics.refused()
        connection.close()


def _kind_of_fetch(connection: ServerConnection) -> int:
    """The key under which a fetch counts: those of followers have their own."""
    state = connection.state
    return FOLLOWERS_FETCH if isinstance(state, ConnectionState) and state.follows else _FETCH


def client_of(connection: ServerConnection, header: RequestHeader) -> tuple[str, str]:
    """The user and the client id whose quotas apply to a request."""
    state = connection.state
    user = state.principal.name if isinstance(state, ConnectionState) else ANONYMOUS.name
    return user, header.client_id or ""


def told_to_wait(header: RequestHeader, answer: Answer, throttle_ms: int) -> Answer:
    """The same answer, saying for how long the client has to wait at least, where its version can say that."""
    data = b"".join(part for part in answer if not isinstance(part, FileRange))
    _correlation_id, response = decode_response(header.api_key, header.api_version, data[_LENGTH_BYTES:])
    if not hasattr(response, "throttle_time_ms"):
        return answer
    response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
    return (encode_response(header.api_key, header.api_version, header.correlation_id, response),)


def _encoded(header: RequestHeader, response: Message | bytes) -> bytes:
    if isinstance(response, bytes):
        return frame(header, response)
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _name(header: RequestHeader) -> str:
    name, number = ApiKey(header.api_key).name, header.correlation_id
    return f"{name} v{header.api_version}, request {number} of {header.client_id!r}"


def _described(data: memoryview) -> str:
    """How the log names a request, valid or not: by the correlation id that its client's log has, too."""
    try:
        header, _ = decode_request_header(data)
        return f"{_name(header)}, {len(data)} bytes"
    except (ProtocolError, ValueError):
        key, version = _START.unpack_from(data)[:2] if len(data) >= _START.size else (-1, -1)
        return f"request of key {key}, version {version}, {len(data)} bytes"
