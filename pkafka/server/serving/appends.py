"""How a fetch hears that something was appended, to a partition of its own worker or of another one."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pkafka.server.ipc.peer import Handler, PeerGone
from pkafka.server.replicas.delayed import DelayedOperation, Purgatory
from pkafka.server.replicas.partition import Bound
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.peers import Peers

AWAIT_APPENDS: Final = "await_appends"
"""Payload: rows of :data:`Seen`, and a time-out in milliseconds."""

Seen: TypeAlias = tuple[str, int, int, int]
"""Topic, partition, the end of what the reader has seen, and which bound that was
(:class:`pkafka.server.replicas.partition.Bound`)."""


class _AppendWait(DelayedOperation):
    """Waits until one of several partitions moved on from what its reader has seen."""

    __slots__ = ("_future", "_partitions", "_seen")

    def __init__(self, partitions: Partitions, seen: Sequence[Seen], future: "asyncio.Future[None]") -> None:
        super().__init__()
        self._partitions = partitions
        self._seen = seen
        self._future = future

    def try_complete(self) -> bool:
        hosted = self._partitions.hosted
        for topic, index, end, bound in self._seen:
            partition = hosted.get((topic, index))
            if partition is None or end != Bound(bound).of(partition.log):
                return True
        return False

    def on_complete(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class Appends:
    """Tells when something was appended, wherever the partition is.

    Args:
        partitions: the replicas of this worker.
        fetches: where fetches wait for appends.
        peers: the other workers.
    """

    def __init__(self, partitions: Partitions, fetches: Purgatory, peers: Peers) -> None:
        self._partitions = partitions
        self._fetches = fetches
        self._peers = peers
        self.operations: dict[str, Handler] = {
            AWAIT_APPENDS: lambda _peer, payload, _blob, _fds: self.here(payload[0], timeout_ms=payload[1])
        }
        """What the other workers ask of this one."""

    def here(self, seen: Sequence[Seen], *, timeout_ms: int) -> "asyncio.Future[None]":
        """Wait until a partition of this worker moved on from what was seen, or the time is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = _AppendWait(self._partitions, seen, future)
        if wait.try_complete():
            wait.force_complete()
            return future
        future.add_done_callback(lambda _future: wait.abandon())
        keys = [Bound(bound).key(topic, index) for topic, index, _end, bound in seen]
        self._fetches.watch(wait, keys, timeout_ms=timeout_ms)
        return future

    async def any(
        self, seen_by_owner: Mapping[int, Sequence[Seen]], *, timeout_ms: int, hurried: asyncio.Event
    ) -> None:
        """Return when any of the partitions, of any worker, moved on, when the time is over, or when told to hurry."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(hurried.wait())]
        for owner, seen in seen_by_owner.items():
            if owner == self._peers.index:
                waits.append(self.here(seen, timeout_ms=timeout_ms))
            else:
                waits.append(self._there(owner, seen, timeout_ms))
        _done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()
        for wait in _done:
            wait.exception()

    def _there(self, owner: int, seen: Sequence[Seen], timeout_ms: int) -> "asyncio.Future[Any]":
        async def wait() -> None:
            try:
                await self._peers.ask(owner, AWAIT_APPENDS, [seen, timeout_ms])
            except PeerGone:
                # Its successor is on its way; look again in a moment.
                await asyncio.sleep(min(timeout_ms, 100) / 1000)

        return asyncio.ensure_future(wait())
