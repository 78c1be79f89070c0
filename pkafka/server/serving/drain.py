"""The last moments of a worker: requests in hand are answered, its own clients' and those of other workers."""

import asyncio
import logging
from typing import Final

from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.serving.clients import Clients
from pkafka.server.serving.peers import Peers

log = logging.getLogger(__name__)

QUIET: Final = "quiet"
"""A worker tells the others that it has answered its clients, and needs nothing of them any more."""
DRAIN_MAX_S: Final = 1.0
"""A stop waits so long for the answers to requests in hand, of clients and of other workers."""


class Drain:
    """Waits until no request needs this worker any more. Belongs to one event loop.

    Args:
        peers: the other workers.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._quiet: set[int] = set()
        """Other workers that have answered their clients, and need nothing of this one any more."""
        self._changed = asyncio.Event()
        self.operations: dict[str, Handler] = {QUIET: self._other_is_quiet}

    def changed(self) -> None:
        """Look again: a connection has ended, or another worker is gone."""
        self._changed.set()

    async def drain(self, clients: Clients) -> None:
        """Answer the requests in hand, and wait for other workers to be as far; not for long."""
        clients.drain()
        try:
            async with asyncio.timeout(DRAIN_MAX_S):
                while clients.connections:
                    await self._next_change()
                for peer in self._peers.others.values():
                    peer.note(QUIET)
                # The other workers may have requests in hand that need this one.
                while not self._peers.others.keys() <= self._quiet:
                    await self._next_change()
        except TimeoutError:
            log.info("Stopping with requests in hand of %d connections", len(clients.connections))

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _other_is_quiet(self, peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        self._quiet.add(peer.index)
        self._changed.set()
