"""How workers of one broker serve each other's fetches: they lend open files, and tell each other of appends.

Bulk data never crosses a process boundary on a fetch: the owner answers with (generation, position, length), and sends
the descriptor of a generation once to each worker that reads from it. Both sides see the same order of frames, so the
owner decides which descriptors the reader keeps.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.net.connection import FileRange
from pkafka.protocol.hot import CurrentLeader
from pkafka.server.handlers.fetch import Found, Limits, Wanted
from pkafka.server.ipc.peer import FDS_PER_FRAME_MAX, DescriptorsLost, PeerGone
from pkafka.server.replicas.delayed import DelayedOperation
from pkafka.server.replicas.partition import end_key

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker

LENT_MAX: Final = 512
"""How many descriptors a worker keeps of another one; the least recently used goes first. One answer uses fewer."""

Seen: TypeAlias = tuple[str, int, int, bool]
"""Topic, partition, the end of what the reader has seen, whether the reader is a follower, which sees all of the
log."""


class LentFiles:
    """Lends descriptors of segments from the worker that owns them to the workers that answer fetches."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._lent: dict[int, OrderedDict[int, None]] = {}
        self._borrowed: dict[int, dict[int, int]] = {}

    # -- the owner's side --

    def describe(self, peer_index: int, found: Sequence[Found]) -> tuple[list[Any], bytes, list[int]]:
        """Prepare ranges that were read here for another worker, with the descriptors that it does not have yet."""
        lent = self._lent.setdefault(peer_index, OrderedDict())
        fds: list[int] = []
        new: list[int] = []
        dropped: list[int] = []
        rows: list[Any] = []
        for one in found:
            records = one.records
            if type(records) is FileRange and records.length:
                if one.generation in lent:
                    lent.move_to_end(one.generation)
                elif len(fds) < FDS_PER_FRAME_MAX:
                    lent[one.generation] = None
                    fds.append(records.fd)
                    new.append(one.generation)
                else:
                    # More new files than one frame carries: the rest comes with the next fetch.
                    records = FileRange(-1, 0, 0)
                place: Any = [one.generation, records.position, records.length]
            else:
                place = None if type(records) is FileRange else bytes(records)
            rows.append(
                [
                    *one[:5],
                    place,
                    one.diverging,
                    one.readable_end,
                    one.preferred,
                    one.leader,
                    one.is_adding,
                ]
            )
        while len(lent) > LENT_MAX:
            dropped.append(lent.popitem(last=False)[0])
        return [rows, new, dropped], b"", fds

    def take_back(self, generations: Iterable[int]) -> None:
        """Take the descriptors of deleted files back: a worker with the file open would keep its space on the disk."""
        for peer_index, lent in self._lent.items():
            gone = [generation for generation in generations if lent.pop(generation, True) is None]
            if gone:
                self._worker.peers.others[peer_index].note("give_back", gone)

    # -- the reader's side --

    def give_back(self, peer_index: int, generations: Sequence[int]) -> None:
        """Close what the owner takes back, after the fetches that use earlier answers have had their turn."""
        asyncio.get_running_loop().call_soon(self._close, peer_index, generations)

    def _close(self, peer_index: int, generations: Sequence[int]) -> None:
        files = self._borrowed.get(peer_index, {})
        for generation in generations:
            fd = files.pop(generation, None)
            if fd is not None:
                os.close(fd)

    async def fetch(self, owner: int, rows: Sequence[Wanted], limits: Limits) -> list[Found]:
        """Read partitions that another worker owns.

        Raises:
            PeerGone: that worker has died; a client's retry finds its successor.
            DescriptorsLost: this process has too many files open; a retry may find room.
        """
        peer = self._worker.peers.others.get(owner)
        try:
            payload, _blob, fds = await self._worker.peers.ask(owner, "fetch", [rows, *limits])
        except DescriptorsLost:
            self.return_all(owner)
            raise
        if peer is None or peer.gone:
            # It answered and died; what it lent before was closed just now.
            for fd in fds:
                os.close(fd)
            raise PeerGone(f"worker {owner}")
        answers, new, dropped = payload
        files = self._borrowed.setdefault(owner, {})
        self._close(owner, new)
        files.update(zip(new, fds, strict=True))
        if any(type(answer[5]) is list and answer[5][2] and answer[5][0] not in files for answer in answers):
            # This answer was on its way when all descriptors were given back.
            self.return_all(owner)
            raise DescriptorsLost(ErrorCode.UNKNOWN_SERVER_ERROR)
        found = [self._found(files, answer) for answer in answers]
        self._close(owner, dropped)
        return found

    def _found(self, files: Mapping[int, int], answer: Sequence[Any]) -> Found:
        error, high_watermark, last_stable, log_start, aborted, place, diverging, end, preferred = answer[:9]
        leader, is_adding = answer[9:]
        if isinstance(place, list):
            generation, position, length = place
            records: Any = FileRange(files[generation], position, length) if length else FileRange(-1, 0, 0)
        else:
            records = FileRange(-1, 0, 0) if place is None else place
        pairs = None if aborted is None else [(pair[0], pair[1]) for pair in aborted]
        return Found(
            error,
            high_watermark,
            last_stable,
            log_start,
            pairs,
            records,
            None if diverging is None else (diverging[0], diverging[1]),
            end,
            preferred,
            leader=None if leader is None else CurrentLeader(*leader),
            is_adding=is_adding,
        )

    def return_all(self, owner: int) -> None:
        """Give back all files of an owner, which may believe that this worker has a file that never came."""
        self._close(owner, list(self._borrowed.get(owner, ())))
        peer = self._worker.peers.others.get(owner)
        if peer is not None:
            peer.note("lent_returned")

    def returned(self, peer_index: int) -> None:
        """Note that a reader has closed all files of this owner."""
        self._lent.pop(peer_index, None)

    def forget_peer(self, peer_index: int) -> None:
        """Forget a worker that is gone, with all that it lent or borrowed."""
        self._lent.pop(peer_index, None)
        for fd in self._borrowed.pop(peer_index, {}).values():
            os.close(fd)


class _AppendWait(DelayedOperation):
    """Waits until one of several partitions moved on from what its reader has seen."""

    __slots__ = ("_future", "_seen", "_worker")

    def __init__(self, worker: "Worker", seen: Sequence[Seen], future: "asyncio.Future[None]") -> None:
        super().__init__()
        self._worker = worker
        self._seen = seen
        self._future = future

    def try_complete(self) -> bool:
        hosted = self._worker.partitions.hosted
        for topic, index, end, follows in self._seen:
            partition = hosted.get((topic, index))
            if partition is None:
                return True
            if end != (partition.log.log_end_offset if follows else partition.log.high_watermark):
                return True
        return False

    def on_complete(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class Appends:
    """Tells when something was appended, wherever the partition is."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    def here(self, seen: Sequence[Seen], *, timeout_ms: int) -> "asyncio.Future[None]":
        """Wait until a partition of this worker moved on from what was seen, or the time is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = _AppendWait(self._worker, seen, future)
        if wait.try_complete():
            wait.force_complete()
            return future
        future.add_done_callback(lambda _future: wait.abandon())
        keys = [end_key(topic, index) if follows else (topic, index) for topic, index, _, follows in seen]
        self._worker.progress.fetches.watch(wait, keys, timeout_ms=timeout_ms)
        return future

    async def any(
        self, seen_by_owner: Mapping[int, Sequence[Seen]], *, timeout_ms: int, hurried: asyncio.Event
    ) -> None:
        """Return when any of the partitions, of any worker, moved on, when the time is over, or when told to hurry."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(hurried.wait())]
        for owner, seen in seen_by_owner.items():
            if owner == self._worker.index:
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
                await self._worker.peers.ask(owner, "await_appends", [seen, timeout_ms])
            except PeerGone:
                # Its successor is on its way; look again in a moment.
                await asyncio.sleep(min(timeout_ms, 100) / 1000)

        return asyncio.ensure_future(wait())
