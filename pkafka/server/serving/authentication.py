"""How clients of a listener with SASL are let in: the frames of their connections go here until they have logged in.

What may come and what is answered is decided in :mod:`pkafka.server.security.login`. Here are the time, the pause
before a refusal, and the end of sessions (KIP-368). Before a client is let in, nothing of it lies in memory that large
requests wait for, and no frame may be larger than ``sasl.server.max.receive.size``.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from pkafka.clock import Clock
from pkafka.errors import PkafkaError
from pkafka.net.buffers import ReadBuffers
from pkafka.net.connection import AFTER_OTHERS, Outcome, ServerConnection, Service
from pkafka.protocol.api import ApiKey
from pkafka.protocol.registry import versions
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.sasl import SASL_PROTOCOLS, SaslListener, sasl_listener
from pkafka.server.metrics.logins import EXPIRED, FAILED, NOT_RENEWED, RENEWED, SUCCEEDED, no_logins
from pkafka.server.security.credentials import Credentials
from pkafka.server.security.exchanges import Exchanges
from pkafka.server.security.key_sets import KeySets
from pkafka.server.security.login import (
    AskedVersions,
    GoOn,
    LetIn,
    LoggedIn,
    Refused,
    ServerLogin,
    Session,
)
from pkafka.server.security.token_credentials import TokenCredentials
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.dispatch import Dispatcher

log = logging.getLogger("org.apache.kafka.common.network.Selector")
"""Kafka's name for what tells of logins that fail."""

_KEY: Final = struct.Struct(">h")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
_REASON_MAX: Final = 500
_RENEWALS_APART_S: Final = 1.0
"""A session may be renewed once in this time; another SaslHandshake is refused as on any open connection."""


class Doors:
    """The doors of one worker, by which clients come in.

    Args:
        config: the settings of the listeners.
        credentials: of SCRAM's users.
        tokens: delegation tokens.
        key_sets: by which tokens are trusted.
        dispatcher: serves clients that are let in.
        clock: tells the time.
    """

    def __init__(
        self,
        config: BrokerConfig,
        credentials: Credentials,
        tokens: TokenCredentials,
        key_sets: KeySets,
        dispatcher: Dispatcher[Any],
        clock: Clock,
    ) -> None:
        delay_ms = config.get("connection.failed.authentication.delay.ms")
        assert isinstance(delay_ms, int)
        buffers = ReadBuffers()

        def exchanges(settings: SaslListener) -> Exchanges:
            return Exchanges(settings, credentials, tokens, key_sets, clock)

        self._doors: Mapping[str, Door] = {
            listener.name: Door(
                sasl_listener(config, listener.name),
                exchanges,
                dispatcher,
                clock,
                buffers,
                failure_delay_s=delay_ms / 1000,
            )
            for listener in config.listeners
            if listener.security_protocol in SASL_PROTOCOLS
        }
        self._handshakes = {
            listener.name: no_logins() for listener in config.listeners if listener.security_protocol == "SSL"
        }
        """Of listeners without SASL, at which a handshake lets a client in."""

    def of(self, listener: str) -> "Door | None":
        """The door of a listener; None where clients need not log in."""
        return self._doors.get(listener)

    def take(self, config: BrokerConfig) -> None:
        """Let clients in by other settings from now on; those that cannot be used do not count, which the log says."""
        for listener, door in self._doors.items():
            try:
                door.take(sasl_listener(config, listener))
            except PkafkaError as error:
                log.error("The listener %s goes on with the logins that it had: %s", listener, error)

    def counts(self) -> dict[str, dict[str, int]]:
        """What became of logins, and of handshakes, by listener."""
        logins = {listener: dict(door.counts) for listener, door in self._doors.items()}
        return {**logins, **{listener: dict(counts) for listener, counts in self._handshakes.items()}}

    def encrypted(self, listener: str) -> None:
        """Count a handshake that succeeded. Where clients log in afterwards, their logins are counted in its place."""
        if listener in self._handshakes:
            self._handshakes[listener][SUCCEEDED] += 1

    def not_encrypted(self, listener: str) -> None:
        """Count a handshake that failed: a failed authentication, as in Kafka, also where clients log in."""
        door = self._doors.get(listener)
        counts = self._handshakes[listener] if door is None else door.counts
        counts[FAILED] += 1


class Door:
    """Lets the clients of one listener in.

    Args:
        settings: of the listener.
        exchanges: makes the mechanisms of such settings.
        dispatcher: serves clients that are let in.
        clock: tells the time.
        buffers: what clients that are not let in yet are read into.
        failure_delay_s: how long a client waits for the news that its login failed.
    """

    def __init__(
        self,
        settings: SaslListener,
        exchanges: Callable[[SaslListener], Exchanges],
        dispatcher: Dispatcher[Any],
        clock: Clock,
        buffers: ReadBuffers,
        *,
        failure_delay_s: float,
    ) -> None:
        self.dispatcher = dispatcher
        self.clock = clock
        self._buffers = buffers
        self._settings = settings
        self._make_exchanges = exchanges
        self._exchanges = exchanges(settings)
        self._failure_delay_s = failure_delay_s
        self._loop = asyncio.get_running_loop()
        self.counts = no_logins()

    def take(self, settings: SaslListener) -> None:
        """Let clients in by these settings from now on; a login that has begun goes on as it began.

        Raises:
            PkafkaError: they name what is of no use; those before stay.
        """
        if settings != self._settings:
            self._exchanges = self._make_exchanges(settings)
            self._settings = settings

    def receive(self, connection: ServerConnection, state: ConnectionState) -> None:
        """Serve nothing of a new connection but the login of its client, unless that was at another worker."""
        login = _FirstLogin(self)
        strangers = Service(login.handle, self._buffers, self._settings.receive_bytes_max)
        login.served_later = connection.serve_by(strangers)
        if state.session is not None:
            self.let_in(connection, state.session, login.served_later)

    def let_in(self, connection: ServerConnection, session: Session, service: Service) -> None:
        """Serve a connection whose client has logged in.

        Args:
            connection: of the client.
            session: what its login gave it.
            service: how connections are served whose clients need not log in.
        """
        if session.ends_s is not None:
            service = service._replace(handle=_LimitedSession(self).handle)
        connection.serve_by(service)

    def login(self, renews: LoggedIn | None = None) -> ServerLogin:
        """A login, new."""
        return ServerLogin(self._settings, self._exchanges.new, renews)

    def session(self, step: LetIn, renewed_s: float = 0.0) -> Session:
        """What begins with the last answer of a login."""
        ends_s = None if step.lifetime_ms is None else self._loop.time() + step.lifetime_ms / 1000
        return Session(step.who, ends_s, renewed_s)

    def refuse(self, connection: ServerConnection, step: Refused, *, renews: bool = False) -> None:
        """Close a connection whose login failed, after an answer, which comes late: that slows those down who guess."""
        self.counts[NOT_RENEWED if renews else FAILED] += 1
        # The reason may have names in it that the client made up.
        reason = "".join(sign if sign.isprintable() else "?" for sign in step.reason[:_REASON_MAX])
        log.info(
            "Failed %sauthentication with %s (%s)", "re-" if renews else "", connection.peer_host, reason
        )

        def end() -> None:
            connection.drain()
            connection.finish((step.answer,) if step.answer else ())

        self._loop.call_later(self._failure_delay_s, end)


class _FirstLogin:
    """Serves a connection until its client has logged in."""

    __slots__ = ("_door", "_login", "served_later")

    def __init__(self, door: Door) -> None:
        self._door = door
        self._login = door.login()
        self.served_later: Service
        """How the connection is served once its client has logged in."""

    def handle(self, connection: ServerConnection, data: memoryview) -> Outcome:
        """Serve one frame."""
        return self._door.dispatcher.guarded(self._serve, connection, data)

    def _serve(self, connection: ServerConnection, data: memoryview) -> Outcome:
        step = self._login.take(data, self._door.clock.now_ms())
        match step:
            case AskedVersions():
                return self._tell_versions(connection, step, data)
            case GoOn(answer):
                return (answer,)
            case Refused():
                self._door.refuse(connection, step)
            case LetIn():
                # Not from here: the connection is reading into the memory of strangers right now.
                asyncio.get_running_loop().call_soon(self._let_in, connection, step)
        return None

    def _tell_versions(self, connection: ServerConnection, step: AskedVersions, data: memoryview) -> Outcome:
        state, version = connection.state, step.header.api_version
        assert isinstance(state, ConnectionState)
        answer = self._door.dispatcher.serve(connection, step.header, data, step.position)
        is_valid = version < _FIRST_VERSION_WITH_SOFTWARE or state.software is not None
        if is_valid and version in versions(ApiKey.API_VERSIONS):
            self._login.versions_told()
        return answer

    def _let_in(self, connection: ServerConnection, step: LetIn) -> None:
        if connection.closed:
            return
        state, door = connection.state, self._door
        assert isinstance(state, ConnectionState)
        state.principal = step.who.principal
        state.session = session = door.session(step)
        door.counts[SUCCEEDED] += 1
        door.let_in(connection, session, self.served_later)
        connection.finish((step.answer,) if step.answer else ())


class _LimitedSession:
    """Serves a connection whose login counts for a time, and can be renewed."""

    __slots__ = ("_door", "_renewal")

    def __init__(self, door: Door) -> None:
        self._door = door
        self._renewal: ServerLogin | None = None

    def handle(self, connection: ServerConnection, data: memoryview) -> Outcome:
        """Serve one frame."""
        return self._door.dispatcher.guarded(self._serve, connection, data)

    def _serve(self, connection: ServerConnection, data: memoryview) -> Outcome:
        if self._renewal is not None:
            return self._renew(self._renewal, connection, data)
        state = connection.state
        assert isinstance(state, ConnectionState)
        session = state.session
        assert session is not None
        now_s = asyncio.get_running_loop().time()
        if _begins_login(data) and now_s - session.renewed_s >= _RENEWALS_APART_S:
            if connection.has_answers_due:
                return AFTER_OTHERS
            state.session = session._replace(renewed_s=now_s)
            self._renewal = self._door.login(session.who)
            return self._renew(self._renewal, connection, data)
        if session.ends_s is not None and now_s > session.ends_s:
            self._door.counts[EXPIRED] += 1
            log.debug("Disconnecting expired channel: %s, %s", connection.peer_host, session.who.principal)
            connection.close()
            return ()
        return self._door.dispatcher.handle(connection, data)

    def _renew(self, login: ServerLogin, connection: ServerConnection, data: memoryview) -> Outcome:
        step = login.take(data, self._door.clock.now_ms())
        match step:
            case GoOn(answer):
                return (answer,)
            case LetIn(answer):
                state = connection.state
                assert isinstance(state, ConnectionState)
                assert state.session is not None
                state.session = self._door.session(step, state.session.renewed_s)
                self._renewal = None
                self._door.counts[RENEWED] += 1
                return (answer,) if answer else ()
            case Refused():
                self._door.refuse(connection, step, renews=True)
            case AskedVersions():
                raise AssertionError("a renewal begins with its handshake")
        return None


def _begins_login(data: memoryview) -> bool:
    return len(data) >= _KEY.size and _KEY.unpack_from(data)[0] == ApiKey.SASL_HANDSHAKE
