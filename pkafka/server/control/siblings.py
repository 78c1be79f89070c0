"""The other processes of this broker, as its control process sees them: the workers and the cleaner."""

import asyncio
from collections.abc import Collection

from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Payload, Peer, Reply


class Siblings:
    """The channels to the workers that take part, and to the cleaner. Belongs to one event loop."""

    def __init__(self) -> None:
        self.cleaner: Peer | None = None
        """None until it has come for the first time."""
        self._workers: dict[int, Peer] = {}
        """Those that know all that they have to know, by number."""
        self._following: set[Peer] = set()
        """Workers that hear of every change: those above, and those that are just being told what there is."""
        self._worker_came = asyncio.Condition()
        self._serve = False
        """Whether workers take clients in."""

    @property
    def workers(self) -> Collection[Peer]:
        """The workers that take part."""
        return self._workers.values()

    async def worker(self, index: int) -> Peer:
        """The worker of that index, as soon as there is one that is up to date."""
        async with self._worker_came:
            await self._worker_came.wait_for(lambda: index in self._workers)
            return self._workers[index]

    def follow(self, peer: Peer) -> None:
        """Tell a worker of all changes from now on."""
        self._following.add(peer)

    async def take_part(self, peer: Peer) -> None:
        """Count on a worker from now on: it is up to date. It may have died meanwhile."""
        async with self._worker_came:
            if peer.gone:
                self._following.discard(peer)
                return
            self._workers[peer.index] = peer
            self._worker_came.notify_all()
        if self._serve:
            peer.note(words.SERVE)

    def lost(self, peer: Peer) -> None:
        """Count no more on a process that is gone."""
        self._following.discard(peer)
        if self._workers.get(peer.index) is peer:
            del self._workers[peer.index]

    def tell_workers(self, operation: str, payload: Payload) -> None:
        """Send a note to every worker."""
        for peer in self._following:
            peer.note(operation, payload)

    async def heard(self) -> None:
        """Wait until the workers have heard all that they were told so far, but for those that are gone or hang."""
        await asyncio.gather(*self.ask_workers(words.HEARD, None), return_exceptions=True)

    def ask_workers(self, operation: str, payload: Payload) -> "list[asyncio.Future[Reply]]":
        """Ask every worker; one that is gone, or hangs, answers with PeerGone."""
        return [peer.call(operation, payload) for peer in self._following]

    def let_clients_in(self) -> None:
        """Have the workers of now, and those that come, take clients in."""
        self._serve = True
        for peer in self._workers.values():
            peer.note(words.SERVE)
