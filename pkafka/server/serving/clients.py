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
from pkafka.net.listener import Acceptor, Admission, open_files_max
from pkafka.net.page_cache import PageCache
from pkafka.net.together import Together
from pkafka.server.config.broker_config import BrokerConfig, socket_buffer_bytes
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.limits.connection_limits import ConnectionLimits
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.dispatch import Dispatcher

log = logging.getLogger(__name__)
"""The name under which operators set the level of what a worker logs."""

_ADOPT: Final = "adopt"


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


class Clients:
    """The open connections of one worker.

    Args:
        listeners: their names, and the listening socket of each worker.
        config: gives the broker's settings of the moment.
        limits: of connections.
        dispatcher: serves what clients ask.
        peers: the other workers that are there, by their numbers.
        buffers: the memory in which requests are read.
        together: gathers answers of one turn.
        page_cache: tells what of a file is in memory.
        ended: called when a connection is closed.
    """

    def __init__(
        self,
        listeners: Sequence[tuple[str, Sequence[socket.socket]]],
        config: Callable[[], BrokerConfig],
        limits: ConnectionLimits,
        dispatcher: Dispatcher[Any],
        peers: Mapping[int, Peer],
        *,
        buffers: ReadBuffers,
        together: Together,
        page_cache: PageCache,
        ended: Callable[[], None],
    ) -> None:
        self.connections: set[ServerConnection] = set()
        self.limits = limits
        self._listeners = listeners
        self._config = config
        self._dispatcher = dispatcher
        self._peers = peers
        self._buffers = buffers
        self._together = together
        self._page_cache = page_cache
        self._ended = ended
        self._acceptors: dict[int, list[Acceptor]] = {}
        """By the worker whose clients they take: this one, and others while they hang."""
        self._seen = 0
        self._is_draining = False

    # -- taking them in --

    def accepts_for(self, index: int) -> bool:
        """Whether clients are taken in that the kernel gives to that worker."""
        return index in self._acceptors

    def accept_for(self, index: int) -> None:
        """Take the clients in that the kernel gives to that worker."""
        self._acceptors[index] = [
            Acceptor(
                sockets[index],
                partial(self.accept, name),
                admit=partial(self.admit, name),
                send_buffer_bytes=socket_buffer_bytes(self._config(), "socket.send.buffer.bytes"),
                spare_descriptors=_spare_descriptors(),
            )
            for name, sockets in self._listeners
        ]

    def stop_accepting(self, index: int) -> None:
        """Take in no more clients that the kernel gives to that worker."""
        for acceptor in self._acceptors.pop(index, ()):
            acceptor.close()

    def admit(self, listener: str, host: str) -> Admission:
        """Decide by the limits whether a client may connect."""
        admission = self.limits.admit(listener, host)
        if admission is Admission.REFUSE:
            log.info("Rejected a connection from %s: it has its maximum (max.connections.per.ip)", host)
        elif admission is Admission.ADMIT and self.limits.is_exceeded_by(listener):
            others = [one for one in self.connections if one.listener != listener]
            if others:
                min(others, key=lambda one: one.last_active).close()
        return admission

    def accept(self, listener: str, client: socket.socket, host: str) -> ServerConnection:
        """Serve a client that was admitted."""
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
        )
        self._seen += 1
        connection.state = ConnectionState(number=self._seen)
        self.connections.add(connection)
        return connection

    def _closed(self, connection: ServerConnection) -> None:
        self.connections.discard(connection)
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
        if peer is None or peer.late or state.has_session or state.is_settled:
            return None

        def take(sock: socket.socket, unread: bytes) -> None:
            facts = HandedOver(
                connection.listener, connection.peer_host, state.moves + 1, state.software, settles
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
        unread = bytearray(blob)
        self.limits.count(facts.listener, facts.host)
        connection = self.accept(facts.listener, sock, facts.host)
        software = None
        if facts.software is not None:
            name, version = facts.software
            software = (name, version)
        connection.state = ConnectionState(
            facts.moves, number=self._seen, software=software, is_settled=facts.is_settled
        )
        connection.feed(unread)
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
            for connection in [one for one in self.connections if one.is_idle_since(oldest)]:
                connection.close()

    def take_no_more(self) -> None:
        """Stop accepting, for this worker and for others."""
        for index in list(self._acceptors):
            self.stop_accepting(index)

    def drain(self) -> None:
        """Let each connection answer the requests in hand and then end, those included that are handed over later."""
        self._is_draining = True
        for connection in list(self.connections):
            connection.drain()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self.connections):
            connection.close()

    def count_by_listener(self) -> dict[str, int]:
        """Open connections by listener."""
        return dict(Counter(connection.listener for connection in self.connections))


def _spare_descriptors() -> int:
    """How many open files clients must leave to the logs."""
    return min(1024, open_files_max() // 8)
