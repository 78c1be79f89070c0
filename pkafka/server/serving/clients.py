"""The connections of one worker's clients: how they come in, by which limits, and how they move to another worker."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from pkafka.net.buffers import ReadBuffers
from pkafka.net.connection import Detach, ServerConnection
from pkafka.net.handshakes import Handshake, Handshakes
from pkafka.net.listener import Acceptor, Admission, CloseLater, open_files_max
from pkafka.net.page_cache import PageCache
from pkafka.net.tls import TlsStream
from pkafka.net.together import Together
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.security.principal_rules import NoRuleError
from pkafka.server.config.broker_config import BrokerConfig, socket_buffer_bytes
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.limits.address_rates import AddressRates
from pkafka.server.limits.connection_limits import ConnectionLimits
from pkafka.server.security.encryption import Encryption
from pkafka.server.security.login import Session
from pkafka.server.serving.authentication import Doors
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.dispatch import Dispatcher

log = logging.getLogger(__name__)
"""The name under which operators set the level of what a worker logs."""
_selector_log = logging.getLogger("org.apache.kafka.common.network.Selector")
"""Kafka's, for the line that its operators look for."""

_ADOPT: Final = "adopt"
_SEND_BUFFER: Final = "socket.send.buffer.bytes"
_LOCAL_SEND_BUFFER_BYTES: Final = 200_000
"""What is on its way within the machine is to fit the processor's cache. Sixteen readers got up to a seventh more than
with 100 kB, and a quarter less with 400."""


class HandedOver(NamedTuple):
    """Travels with the socket of a connection to the worker that takes it over; the blob is what is unread."""

    listener: str
    host: str
    moves: int
    """How often the connection has moved, this time included."""
    software: Sequence[str] | None
    """Name and version that the client gave itself."""
    is_settled: bool
    """Whether it stays where it moves to."""
    principal: Sequence[str] = ANONYMOUS
    """Type and name of whom its client acts for."""
    session: Sequence[Any] | None = None
    """How its client logged in: the row of a :class:`~pkafka.server.security.login.Session`."""


class Clients:
    """The open connections of one worker.

    Args:
        listeners: their names, and the listening socket of each worker.
        config: gives the broker's settings of the moment.
        limits: of connections.
        address_rates: how fast addresses may connect.
        dispatcher: serves what clients ask.
        doors: let clients in where they have to log in.
        peers: the other workers that are there, by their numbers.
        buffers: the memory in which requests are read.
        together: gathers answers of one turn.
        page_cache: tells what of a file is in memory.
        encryption: says which listeners speak TLS, and how.
        ended: called when a connection is closed.
        holds: connections that other workers hand over wait for :meth:`take_held`: this worker does not know yet who
            may do what.
    """

    def __init__(
        self,
        listeners: Sequence[tuple[str, Sequence[socket.socket]]],
        config: Callable[[], BrokerConfig],
        limits: ConnectionLimits,
        address_rates: AddressRates,
        dispatcher: Dispatcher[Any],
        doors: Doors,
        peers: Mapping[int, Peer],
        *,
        buffers: ReadBuffers,
        together: Together,
        page_cache: PageCache,
        encryption: Encryption,
        ended: Callable[[], None],
        holds: bool,
    ) -> None:
        self.connections: set[ServerConnection] = set()
        self._shaking_hands: set[Handshake] = set()
        """Clients that will be in ``connections`` when TLS is agreed on; limits count them alike."""
        self.limits = limits
        self.address_rates = address_rates
        self._listeners = listeners
        self._config = config
        self._dispatcher = dispatcher
        self._doors = doors
        self._peers = peers
        self._buffers = buffers
        self._together = together
        self._page_cache = page_cache
        self._encryption = encryption
        self._handshakes = Handshakes()
        self._ended = ended
        self._acceptors: dict[int, list[Acceptor]] = {}
        """By the worker whose clients they take: this one, and others while they hang."""
        self._seen = 0
        self._is_draining = False
        self._held: list[tuple[HandedOver, bytes, socket.socket]] | None = [] if holds else None
        """Connections that came too early; None when none is held any more."""

    # -- taking them in --

    def accepts_for(self, index: int) -> bool:
        """Whether clients are taken in that the kernel gives to that worker."""
        return index in self._acceptors

    def accept_for(self, index: int) -> None:
        """Take the clients in that the kernel gives to that worker."""
        self._acceptors[index] = [
            Acceptor(
                sockets[index],
                partial(self.take_in, name),
                admit=partial(self.admit, name),
                send_buffer_bytes=socket_buffer_bytes(self._config(), _SEND_BUFFER),
                local_send_buffer_bytes=socket_buffer_bytes(
                    self._config(), _SEND_BUFFER, unset=_LOCAL_SEND_BUFFER_BYTES
                ),
                spare_descriptors=_spare_descriptors(),
            )
            for name, sockets in self._listeners
        ]

    def stop_accepting(self, index: int) -> None:
        """Take in no more clients that the kernel gives to that worker."""
        for acceptor in self._acceptors.pop(index, ()):
            acceptor.close()

    def admit(self, listener: str, host: str) -> Admission | CloseLater:
        """Decide by the limits whether a client may connect."""
        early_ms = self.address_rates.connected(host)
        if early_ms:
            log.debug("A connection from %s comes too early (connection_creation_rate)", host)
            return CloseLater(early_ms / 1000)
        admission = self.limits.admit(listener, host)
        if admission is Admission.REFUSE:
            log.info("Rejected a connection from %s: it has its maximum (max.connections.per.ip)", host)
        elif admission is Admission.ADMIT and self.limits.is_exceeded_by(listener):
            others = [one for one in self._all() if one.listener != listener]
            if others:
                min(others, key=lambda one: one.last_active).close()
        return admission

    def take_in(self, listener: str, client: socket.socket, host: str) -> None:
        """Serve a client that was admitted, where the listener encrypts once the two sides agree how."""
        context = self._encryption.context(listener)
        if context is None:
            self.accept(listener, client, host)
            return
        handshake = Handshake(
            client,
            context,
            listener=listener,
            peer_host=host,
            handshakes=self._handshakes,
            done=self._encrypted,
            failed=self._not_encrypted,
        )
        self._shaking_hands.add(handshake)

    def _encrypted(self, handshake: Handshake, client: socket.socket, tls: TlsStream) -> None:
        self._doors.encrypted(handshake.listener)
        try:
            principal = self._encryption.principal(handshake.listener, tls.peer_certificate_der())
        except NoRuleError as error:
            tls.say_goodbye()
            client.close()
            self._refused(handshake, str(error))
            return
        self._shaking_hands.discard(handshake)
        state = ConnectionState(principal=principal)
        self.accept(handshake.listener, client, handshake.peer_host, state, tls=tls)

    def _not_encrypted(self, handshake: Handshake, reason: str | None) -> None:
        if reason is not None:
            self._doors.not_encrypted(handshake.listener)
        self._refused(handshake, reason)

    def _refused(self, handshake: Handshake, reason: str | None) -> None:
        self._shaking_hands.discard(handshake)
        self._ended_of(handshake)
        if reason is not None:
            _selector_log.info(
                "Failed authentication with %s (SSL handshake failed): %s", handshake.peer_host, reason
            )

    def accept(
        self,
        listener: str,
        client: socket.socket,
        host: str,
        state: ConnectionState | None = None,
        *,
        tls: TlsStream | None = None,
    ) -> ServerConnection:
        """Serve a client whose connection is ready for its requests, or let it log in first.

        Args:
            listener: by which it comes.
            client: its socket.
            host: its address.
            state: what is known of it; None for a client that is new.
            tls: encrypts the connection; None: it is plain.
        """
        connection = ServerConnection(
            client,
            listener=listener,
            peer_host=host,
            buffers=self._buffers,
            handle=self._dispatcher.handle,
            finished=self._dispatcher.finished,
            closed=self._closed,
            frame_bytes_max=self._config().socket_request_max_bytes,
            together=self._together,
            page_cache=self._page_cache,
            tls=tls,
        )
        self._seen += 1
        state = state or ConnectionState()
        state.number = self._seen
        connection.state = state
        door = self._doors.of(listener)
        if door is not None:
            door.receive(connection, state)
        self.connections.add(connection)
        return connection

    def _closed(self, connection: ServerConnection) -> None:
        self.connections.discard(connection)
        self._ended_of(connection)

    def _ended_of(self, connection: ServerConnection | Handshake) -> None:
        self.limits.release(connection.listener, connection.peer_host)
        self._ended()

    # -- moving them --

    def hand_over(self, connection: ServerConnection, owner: int) -> Detach | None:
        """Move a connection, with the request in hand, to the worker that owns all that it asks for.

        A connection that asks now here, now there, moves ever more rarely: the streak of foreign requests that it needs
        grows fourfold with each move.

        Returns:
            What the connection has to do to move; None when it stays here.
        """
        state = connection.state
        assert isinstance(state, ConnectionState)
        state.foreign_streak += 1
        if state.foreign_streak < 4**state.moves:
            return None
        return self._move(connection, state, owner, settles=False)

    def settle(self, connection: ServerConnection, owner: int) -> Detach | None:
        """Move a connection, with the request in hand, to the worker that coordinates its transactional id, for good.

        A producer asks its coordinator several times in each transaction, and may send its records by the same
        connection: the worker that owns these does not get the connection back.

        Returns:
            As :meth:`hand_over`.
        """
        state = connection.state
        assert isinstance(state, ConnectionState)
        return self._move(connection, state, owner, settles=True)

    def _move(
        self, connection: ServerConnection, state: ConnectionState, owner: int, *, settles: bool
    ) -> Detach | None:
        peer = self._peers.get(owner)
        if peer is None or peer.late or state.has_session or state.is_settled or connection.is_encrypted:
            return None

        def take(sock: socket.socket, unread: bytes) -> None:
            facts = HandedOver(
                connection.listener,
                connection.peer_host,
                state.moves + 1,
                state.software,
                settles,
                state.principal,
                state.session,
            )
            peer.note(_ADOPT, facts, unread, [sock.fileno()])
            sock.close()

        return Detach(take)

    @property
    def operations(self) -> dict[str, Handler]:
        """What other workers may ask of this one."""
        return {_ADOPT: self._adopt}

    def _adopt(self, _peer: Peer, payload: Payload, blob: memoryview, fds: list[int]) -> None:
        """Take a connection over that another worker hands over, and serve the request that came with it."""
        facts = HandedOver(*payload)
        sock = socket.socket(fileno=fds[0])
        sock.setblocking(False)
        if self._held is None:
            self._take(facts, bytes(blob), sock)
        else:
            self._held.append((facts, bytes(blob), sock))

    def take_held(self) -> None:
        """Serve those that were handed over so far, and from now on each at once."""
        held, self._held = self._held or (), None
        for facts, unread, sock in held:
            self._take(facts, unread, sock)

    def _take(self, facts: HandedOver, unread: bytes, sock: socket.socket) -> None:
        self.limits.count(facts.listener, facts.host)
        software = None
        if facts.software is not None:
            name, version = facts.software
            software = (name, version)
        state = ConnectionState(
            facts.moves,
            software=software,
            is_settled=facts.is_settled,
            principal=Principal(*facts.principal),
            session=Session.of(facts.session) if facts.session is not None else None,
        )
        connection = self.accept(facts.listener, sock, facts.host, state)
        connection.feed(bytearray(unread))
        if self._is_draining:
            connection.drain()

    # -- their end --

    async def close_idle_for_ever(self) -> None:
        """Close connections that have been idle for connections.max.idle.ms."""
        loop = asyncio.get_running_loop()
        limit_s = self._config().connections_max_idle_ms / 1000
        while limit_s > 0:
            await asyncio.sleep(max(limit_s / 4, 0.1))
            oldest = loop.time() - limit_s
            for connection in [one for one in self._all() if one.is_idle_since(oldest)]:
                connection.close()

    def take_no_more(self) -> None:
        """Stop accepting, for this worker and for others."""
        for index in list(self._acceptors):
            self.stop_accepting(index)

    def drain(self) -> None:
        """Let each connection answer the requests in hand and then end, those included that are handed over later."""
        self._is_draining = True
        for connection in self._all():
            connection.drain()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all():
            connection.close()
        for _facts, _unread, sock in self._held or ():
            sock.close()

    def count_by_listener(self) -> dict[str, int]:
        """Open connections by listener."""
        return dict(Counter(connection.listener for connection in self._all()))

    def _all(self) -> "list[ServerConnection | Handshake]":
        return [*self.connections, *self._shaking_hands]


def _spare_descriptors() -> int:
    """How many open files clients must leave to the logs."""
    return min(1024, open_files_max() // 8)
