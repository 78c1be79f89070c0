"""How workers of one broker serve each other's fetches: the owner of a partition lends the files of its log.

Bulk data never crosses a process boundary on a fetch: the owner answers with (generation, position, length), and sends
the descriptor of a generation once to each worker that reads from it. Both sides see the same order of frames, so the
owner decides which descriptors the reader keeps.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pkafka.errors import ErrorCode
from pkafka.net.answers import FileRange
from pkafka.protocol.hot import CurrentLeader
from pkafka.server.ipc.peer import FDS_PER_FRAME_MAX, DescriptorsLost, Handler, PeerGone
from pkafka.server.replicas import reading
from pkafka.server.replicas.reading import NO_RECORDS, Found, Limits, Wanted
from pkafka.server.serving.peers import Peers

FETCH: Final = "fetch"
"""Payload: rows of :class:`.Wanted`, and the fields of :class:`.Limits`; descriptors go along with the answer."""
LENT_RETURNED: Final = "lent_returned"
"""The reader has closed all files that the owner had lent."""
GIVE_BACK: Final = "give_back"
"""Payload: generations that the owner takes back."""

LENT_MAX: Final = 512
"""How many descriptors a worker keeps of another one; the least recently used goes first. One answer uses fewer."""


class LentFiles:
    """Lends descriptors of segments from the worker that owns them to the workers that answer fetches.

    Args:
        peers: the other workers.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._lent: dict[int, OrderedDict[int, None]] = {}
        self._borrowed: dict[int, dict[int, int]] = {}

    def operations(self, worker: reading.Port) -> dict[str, Handler]:
        """What the other workers ask of this one.

        Args:
            worker: reads the partitions of this worker.
        """
        return {
            FETCH: lambda peer, payload, _blob, _fds: self._read_for(worker, peer.index, payload),
            LENT_RETURNED: lambda peer, _payload, _blob, _fds: self._returned(peer.index),
            GIVE_BACK: lambda peer, generations, _blob, _fds: self._give_back(peer.index, generations),
        }

    # -- the owner's side --

    def _read_for(
        self, worker: reading.Port, peer_index: int, payload: Sequence[Any]
    ) -> tuple[list[Any], bytes, list[int]]:
        """Read for another worker.

        Returns:
            File ranges as (generation, position, length), with the descriptors that the other worker does not have yet.
        """
        rows, *limits_of_all = payload
        return self._describe(peer_index, reading.read(worker, rows, Limits(*limits_of_all)))

    def _describe(self, peer_index: int, found: Sequence[Found]) -> tuple[list[Any], bytes, list[int]]:
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
                    records = NO_RECORDS
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
                self._peers.others[peer_index].note(GIVE_BACK, gone)

    # -- the reader's side --

    def _give_back(self, peer_index: int, generations: Sequence[int]) -> None:
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
        peer = self._peers.others.get(owner)
        try:
            payload, _blob, fds = await self._peers.ask(owner, FETCH, [rows, *limits])
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
        if any(type(answer[5]) is tuple and answer[5][2] and answer[5][0] not in files for answer in answers):
            # This answer was on its way when all descriptors were given back.
            self.return_all(owner)
            raise DescriptorsLost(ErrorCode.UNKNOWN_SERVER_ERROR)
        found = [self._found(files, answer) for answer in answers]
        self._close(owner, dropped)
        return found

    def _found(self, files: Mapping[int, int], answer: Sequence[Any]) -> Found:
        (
            error,
            high_watermark,
            last_stable,
            log_start,
            aborted,
            place,
            diverging,
            end,
            preferred,
            leader,
            is_adding,
        ) = answer
        if isinstance(place, tuple):
            generation, position, length = place
            records: Any = FileRange(files[generation], position, length) if length else NO_RECORDS
        else:
            records = NO_RECORDS if place is None else place
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
        peer = self._peers.others.get(owner)
        if peer is not None:
            peer.note(LENT_RETURNED)

    def _returned(self, peer_index: int) -> None:
        """Note that a reader has closed all files of this owner."""
        self._lent.pop(peer_index, None)

    def forget_peer(self, peer_index: int) -> None:
        """Forget a worker that is gone, with all that it lent or borrowed."""
        self._lent.pop(peer_index, None)
        for fd in self._borrowed.pop(peer_index, {}).values():
            os.close(fd)
