"""Brings markers to the workers of this broker that own the partitions, and has them appended there.

The markers come from the coordinators of this broker or, by WriteTxnMarkers, of others. Between workers they travel in
frames, which die with their sender: a worker closes the channel to one that has ended when the successor introduces
itself, and reads nothing more from it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.errors import ErrorCode, PkafkaError
from pkafka.model import Millis, ProducerId
from pkafka.server.ipc.peer import Handler, LaterReply, Payload, Peer, PeerGone, Reply
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.peers import Peers
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.incarnations import Incarnations, Sender
from pkafka.server.transactions.marker_appends import MarkerAppends, ProducerAt
from pkafka.server.transactions.transaction import PartitionKey

_WRITE_MARKERS: Final = "write_markers"
"""Between workers. Payload: the values of a :class:`Sender` or None, and a list of :data:`Row`; the answer: codes."""
_MARKED_PRODUCER: Final = "marked_producer"
"""Between workers. Payload: topic, partition and producer id; the answer: the values of a :class:`ProducerAt`, or
None."""

Row: TypeAlias = tuple[Sequence[Any], Sequence[PartitionKey]]
"""The values of a marker, and the partitions that get it."""
Codes: TypeAlias = Sequence[Sequence[int]]
"""For each row a code for each partition."""
Answered: TypeAlias = Callable[[Codes | None], None]
"""Called once; with None when the receiver is gone or does not answer."""


class _Part(NamedTuple):
    """What one worker gets of some rows."""

    rows: list[Row]
    places: list[tuple[int, list[int]]]
    """For each of its rows the number of the whole row, and the places of the partitions in it."""


class MarkerOwners:
    """Has markers appended by the owners of the partitions. Belongs to one event loop.

    Args:
        partitions: tells which worker owns a partition.
        peers: the other workers.
        appends: to the partitions of this worker.
        incarnations: tells late requests of other brokers.
        timeout_ms: gives how long an append waits for replicas.
    """

    def __init__(
        self,
        partitions: Partitions,
        peers: Peers,
        appends: MarkerAppends,
        incarnations: Incarnations,
        timeout_ms: Callable[[], Millis],
    ) -> None:
        self._partitions = partitions
        self._peers = peers
        self._appends = appends
        self._incarnations = incarnations
        self._timeout_ms = timeout_ms
        self.operations: dict[str, Handler] = {
            _WRITE_MARKERS: self._write,
            _MARKED_PRODUCER: self._marked_producer,
        }
        """What other workers may ask of this one."""

    def write(self, rows: Sequence[Row], sender: Sender | None, answered: Callable[[Codes], None]) -> None:
        """Have markers appended to partitions of any worker of this broker; now or later, call back.

        Args:
            rows: no partition twice in one of them.
            sender: who wants that; None where the client is no pkafka broker.
            answered: gets the codes once all owners have answered. NOT_LEADER_OR_FOLLOWER stands for an owner that has
                died.
        """
        codes = [[int(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(keys) for _values, keys in rows]
        parts = self._parts(rows)
        missing = len(parts)

        def done(part: _Part, outcome: Codes | None) -> None:
            nonlocal missing
            if outcome is not None:
                for (number, places), found in zip(part.places, outcome, strict=True):
                    for place, code in zip(places, found, strict=True):
                        codes[number][place] = code
            missing -= 1
            if not missing:
                answered(codes)

        for owner, part in parts.items():
            self.send(owner, part.rows, partial(done, part), sender=sender)
        if not parts:
            answered(codes)

    def _parts(self, rows: Sequence[Row]) -> Mapping[int, _Part]:
        parts: dict[int, _Part] = {}
        for number, (values, keys) in enumerate(rows):
            of_owner: dict[int, list[int]] = {}
            for place, key in enumerate(keys):
                of_owner.setdefault(self._partitions.owner(*key), []).append(place)
            for owner, places in of_owner.items():
                part = parts.setdefault(owner, _Part([], []))
                part.rows.append((values, [keys[place] for place in places]))
                part.places.append((number, places))
        return parts

    def send(
        self, index: int, rows: Sequence[Row], answered: Answered, *, sender: Sender | None = None
    ) -> None:
        """Have markers appended to partitions of one worker, which may be this one."""
        if index == self._peers.index:
            self._append(rows, sender, answered)
            return
        peer = self._peers.others.get(index)
        if peer is None:
            answered(None)
            return
        is_answered = False

        def replied(reply: Reply | None, _error: PkafkaError | None) -> None:
            nonlocal is_answered
            if not is_answered:  # a worker that seemed to hang may answer yet
                is_answered = True
                answered(None if reply is None else reply[0])

        peer.call_back(_WRITE_MARKERS, [sender, rows], b"", replied)

    async def producer_at(self, key: PartitionKey, producer_id: ProducerId) -> ProducerAt | None:
        """What the log of a partition that this broker leads knows of a producer; None when that cannot be had."""
        owner = self._partitions.owner(*key)
        if owner == self._peers.index:
            return self._appends.producer_at(key, producer_id)
        try:
            reply = await self._peers.ask(owner, _MARKED_PRODUCER, [*key, producer_id])
        except PeerGone:
            return None
        return None if reply[0] is None else ProducerAt(*reply[0])

    # -- what other workers ask --

    def _write(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> LaterReply:
        sender, rows = payload
        later = LaterReply()
        self._append(
            [(values, [(topic, index) for topic, index in keys]) for values, keys in rows],
            None if sender is None else Sender(*sender),
            later.give,
        )
        return later

    def _marked_producer(
        self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[int] | None:
        topic, index, producer_id = payload
        found = self._appends.producer_at((topic, index), producer_id)
        return None if found is None else [*found]

    def _append(self, rows: Sequence[Row], sender: Sender | None, answered: Callable[[Codes], None]) -> None:
        """Append markers to partitions of this worker: all that go to one partition in one write."""
        if sender is not None and not self._incarnations.is_current(sender):
            answered([[int(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(keys) for _values, keys in rows])
            return
        codes = [[0] * len(keys) for _values, keys in rows]
        by_partition: dict[PartitionKey, list[tuple[int, int]]] = {}
        for number, (_values, keys) in enumerate(rows):
            for place, key in enumerate(keys):
                by_partition.setdefault(key, []).append((number, place))
        missing = len(by_partition)

        def done(places: Sequence[tuple[int, int]], outcome: Sequence[ErrorCode]) -> None:
            nonlocal missing
            for (number, place), code in zip(places, outcome, strict=True):
                codes[number][place] = int(code)
            missing -= 1
            if not missing:
                answered(codes)

        of_rows = [Marker._make(values) for values, _keys in rows]
        timeout_ms = self._timeout_ms()
        for key, places in by_partition.items():
            markers = [of_rows[number] for number, _place in places]
            self._appends.append(key, markers, partial(done, places), timeout_ms=timeout_ms)
