"""The markers that this worker's transactions still lack, and the way of each to the leader of its partition.

What is owed is written however long it takes: leaders move, brokers die, disks fill up. It survives this worker in the
decision that is in the log: the next coordinator of the transactional id owes it again.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.errors import ErrorCode, PkafkaError
from pkafka.model import Millis
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.ipc.peer import Handler, LaterReply, Payload, Peer, Reply
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.peers import Peers
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.marker_appends import MarkerAppends
from pkafka.server.transactions.transaction import PartitionKey

log = logging.getLogger(__name__)

_WRITE_MARKERS: Final = "write_markers"
"""Between workers. Payload: rows of :data:`Row`; the answer: for each row a code for each partition."""
_AGAIN_MS: Final = 50
"""The pause before a partition without a leader is looked for again, and before a refused marker is sent again."""

Row: TypeAlias = tuple[Sequence[Any], Sequence[PartitionKey]]
"""The values of a marker, and the partitions that get it."""
Answered: TypeAlias = Callable[[Sequence[Sequence[int]] | None], None]
"""Called once with a code for each partition of each row; with None when the receiver is gone or does not answer."""


class OwedMarkers:
    """Markers of one transaction that are still to be written. Its identity tells it from all others of the same id."""

    __slots__ = ("_paid", "is_cancelled", "marker", "partitions", "transactional_id")

    def __init__(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: Iterable[PartitionKey],
        paid: Callable[[], None],
    ) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.partitions = dict.fromkeys(partitions)
        """Those without a marker yet, in the order in which they were added."""
        self.is_cancelled = False
        self._paid = paid

    def cancel(self) -> None:
        """Send no more of them, and do not say that they are written."""
        self.is_cancelled = True

    def settle(self, key: PartitionKey) -> None:
        """A partition has its marker, or is gone."""
        if key in self.partitions:
            del self.partitions[key]
            if not self.partitions and not self.is_cancelled:
                self._paid()


class _Share(NamedTuple):
    """The partitions of one debt that go to one receiver."""

    debt: OwedMarkers
    keys: Sequence[PartitionKey]


class _Receiver:
    """A worker of this broker, or another broker: one request is in hand at a time, with all that has come until then.

    Args:
        send: sends rows.
        refused: told of a partition without its marker, and why.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Row], Answered], None],
        refused: Callable[[OwedMarkers, PartitionKey, ErrorCode], None],
    ) -> None:
        self._send = send
        self._refused = refused
        self._queue: list[_Share] = []
        self._is_busy = False

    def put(self, share: _Share) -> None:
        """Send a share, with others that come meanwhile when a request is in hand."""
        self._queue.append(share)
        if not self._is_busy:
            self._flush()

    def _flush(self) -> None:
        shares = [one for one in self._queue if not one.debt.is_cancelled]
        self._queue.clear()
        if shares:
            self._is_busy = True
            rows: list[Row] = [(one.debt.marker, one.keys) for one in shares]
            self._send(rows, partial(self._answered, shares))

    def _answered(self, shares: Sequence[_Share], answer: Sequence[Sequence[int]] | None) -> None:
        self._is_busy = False
        for place, (debt, keys) in enumerate(shares):
            codes = [int(ErrorCode.NETWORK_EXCEPTION)] * len(keys) if answer is None else answer[place]
            for key, code in zip(keys, codes, strict=True):
                if debt.is_cancelled:
                    break
                if code == ErrorCode.NONE:
                    debt.settle(key)
                else:
                    self._refused(debt, key, ErrorCode(code))
        if not self._is_busy:
            self._flush()


class MarkerSender:
    """Has markers written by the leaders of partitions. Belongs to one event loop.

    Args:
        metadata: names the leaders.
        partitions: tells which worker of this broker owns a partition.
        peers: the other workers.
        appends: to the partitions of this worker.
        timer: of this worker.
        timeout_ms: how long an append of markers waits for replicas.
    """

    def __init__(
        self,
        *,
        metadata: MetadataCache,
        partitions: Partitions,
        peers: Peers,
        appends: MarkerAppends,
        timer: Timer,
        timeout_ms: Callable[[], Millis],
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._peers = peers
        self._appends = appends
        self._timer = timer
        self._timeout_ms = timeout_ms
        self._workers: dict[int, _Receiver] = {}
        self.operations: dict[str, Handler] = {_WRITE_MARKERS: self._write}
        """What other workers may ask: to append markers to partitions of this one."""

    def owe(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: Sequence[PartitionKey],
        paid: Callable[[], None],
    ) -> OwedMarkers:
        """As :meth:`pkafka.server.transactions.hosted.Markers.owe`."""
        debt = OwedMarkers(transactional_id, marker, partitions, paid)
        # In a later turn, as everything may be written at once.
        self._timer.after(0, partial(self._route, debt, tuple(partitions)))
        return debt

    def _route(self, debt: OwedMarkers, keys: Iterable[PartitionKey]) -> None:
        """Send the markers of one transaction on their way."""
        if debt.is_cancelled:
            return
        own: dict[int, list[PartitionKey]] = {}
        without: list[PartitionKey] = []
        for key in keys:
            leader = self._metadata.leader_of(*key)
            if leader == self._partitions.broker_id:
                own.setdefault(self._partitions.owner(*key), []).append(key)
            else:
                without.append(key)
        for worker, of_worker in own.items():
            self._worker(worker).put(_Share(debt, of_worker))
        if without:
            self._timer.after(_AGAIN_MS, partial(self._route, debt, without))

    def _refused(self, debt: OwedMarkers, key: PartitionKey, code: ErrorCode) -> None:
        log.debug("The marker of %s for %s-%d: %s", debt.transactional_id, *key, code.name)
        self._timer.after(_AGAIN_MS, partial(self._route, debt, (key,)))

    # -- workers of this broker --

    def _worker(self, index: int) -> _Receiver:
        found = self._workers.get(index)
        if found is None:
            found = self._workers[index] = _Receiver(partial(self._to_worker, index), self._refused)
        return found

    def _to_worker(self, index: int, rows: Sequence[Row], answered: Answered) -> None:
        if index == self._peers.index:
            self._append(rows, answered)
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

        peer.call_back(_WRITE_MARKERS, rows, b"", replied)

    def _write(self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]) -> LaterReply:
        later = LaterReply()
        self._append(rows, later.give)
        return later

    def _append(self, rows: Sequence[Row], answered: Callable[[list[list[int]]], None]) -> None:
        """Append markers to partitions of this worker: all that go to one partition in one write."""
        codes = [[int(ErrorCode.NONE)] * len(keys) for _values, keys in rows]
        by_partition: dict[PartitionKey, list[tuple[int, int]]] = {}
        for number, (_values, keys) in enumerate(rows):
            for place, (topic, index) in enumerate(keys):
                by_partition.setdefault((topic, index), []).append((number, place))
        missing = len(by_partition)

        def done(places: Sequence[tuple[int, int]], outcome: Sequence[ErrorCode]) -> None:
            nonlocal missing
            for (number, place), code in zip(places, outcome, strict=True):
                codes[number][place] = int(code)
            missing -= 1
            if not missing:
                answered(codes)

        for key, places in by_partition.items():
            markers = [Marker(*rows[number][0]) for number, _place in places]
            self._appends.append(key, markers, partial(done, places), timeout_ms=self._timeout_ms())
