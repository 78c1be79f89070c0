"""The other workers of a broker, as one of them sees them: which are there, and what to ask of them."""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final

from pkafka.net.buffers import Arena, map_arena
from pkafka.server.ipc.peer import Blob, Handler, Payload, Peer, PeerGone, Reply

_ARENA: Final = "arena"


class Peers:
    """The channels to the other workers.

    Args:
        index: the number of this worker.
        owner: gives the number of the worker that owns a partition.
        arena: the memory in which this worker reads large frames, and which the others map; None for a worker alone.
    """

    def __init__(self, index: int, owner: Callable[[str, int], int], arena: Arena | None) -> None:
        self.index = index
        self.others: dict[int, Peer] = {}
        """The workers that are there, by number."""
        self.arena = arena
        self.arenas: dict[int, memoryview] = {}
        """The memory in which the other workers read large frames, by worker."""
        self._owner = owner

    def came(self, peer: Peer) -> None:
        """Note that another worker is there, and lend it this worker's memory."""
        self.others[peer.index] = peer
        if self.arena is not None:
            peer.note(_ARENA, fds=[self.arena.descriptor])

    def lost(self, index: int) -> None:
        """Forget a worker that is gone, and its memory."""
        del self.others[index]
        self.arenas.pop(index, None)

    @property
    def operations(self) -> dict[str, Handler]:
        """What other workers may ask of this one."""
        return {_ARENA: self._map_arena}

    def _map_arena(self, peer: Peer, _payload: Payload, _blob: memoryview, fds: list[int]) -> None:
        """Map the memory that another worker lends."""
        self.arenas[peer.index] = map_arena(fds[0])
        os.close(fds[0])

    def ask(
        self, index: int, operation: str, payload: Payload = None, blob: Blob = b""
    ) -> "asyncio.Future[Reply]":
        """Call another worker.

        Raises (from the future):
            PeerGone: it died, and its successor is not there yet; or it seems to hang.
            ApiError: it refused.
        """
        peer = self.others.get(index)
        if peer is None:
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            future.set_exception(PeerGone(f"worker {index}"))
            return future
        return peer.call(operation, payload, blob)

    def foreign_owner(self, keys: Iterable[tuple[str | None, int]]) -> int | None:
        """The one other worker that owns all of these partitions; None when there is no such one."""
        owners = {self._owner(topic, partition) for topic, partition in keys if topic is not None}
        if len(owners) == 1:
            owner = owners.pop()
            if owner != self.index:
                return owner
        return None
