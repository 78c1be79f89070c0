"""Markers that are owed: those of one transaction, those that wait for another try, and the queue of a receiver."""

from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from typing import Final, NamedTuple

from pkafka.model import Millis
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.timing_wheel import TimerTask
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.marker_owners import Answered, Codes, Row
from pkafka.server.transactions.transaction import PartitionKey

_PARTITIONS_MAX: Final = 10_000
"""So many markers, or those of one transaction, go into one request at most."""


class OwedMarkers:
    """Markers of one transaction that are still to be written. Its identity tells it from all others of the same id.

    Args:
        transactional_id: for log lines.
        marker: for all partitions.
        partitions: those that lack it.
        paid: called once none does.
    """

    __slots__ = ("_paid", "is_cancelled", "marker", "partitions", "refusals", "transactional_id")

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
        self.refusals = 0
        """How often some of its markers were refused."""
        self._paid = paid

    def cancel(self) -> None:
        """Send no more of them, and do not say that they are written."""
        self.is_cancelled = True

    def settle(self, key: PartitionKey) -> None:
        """Note that a partition has its marker, or is gone."""
        if key in self.partitions:
            del self.partitions[key]
            if not self.partitions and not self.is_cancelled:
                self._paid()


class Share(NamedTuple):
    """The partitions of one debt that go to one receiver."""

    debt: OwedMarkers
    keys: Sequence[PartitionKey]


class Receiver:
    """A worker of this broker, or another broker: one request is in hand at a time, with all that has come until then.

    Args:
        send: sends rows.
        answered: told this receiver, a share, and the codes in the order of its partitions, or None where it did not
            answer.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Row], Answered], None],
        answered: "Callable[[Receiver, Share, Sequence[int] | None], None]",
    ) -> None:
        self._send = send
        self._tell = answered
        self._queue: dict[OwedMarkers, dict[PartitionKey, None]] = {}
        """The partitions of each debt. It has one row in a request, as the answer names it by its producer id alone."""
        self._is_busy = False

    def put(self, share: Share) -> None:
        """Send a share, with others that come meanwhile when a request is in hand."""
        self._queue.setdefault(share.debt, {}).update(dict.fromkeys(share.keys))
        if not self._is_busy:
            self._flush()

    def _flush(self) -> None:
        shares = self._next_shares()
        if shares:
            self._is_busy = True
            self._send([(one.debt.marker, one.keys) for one in shares], partial(self._answered, shares))

    def _next_shares(self) -> list[Share]:
        shares: list[Share] = []
        count = 0
        for debt in list(self._queue):
            if shares and count + len(self._queue[debt]) > _PARTITIONS_MAX:
                break
            keys = list(self._queue.pop(debt))
            if not debt.is_cancelled:
                shares.append(Share(debt, keys))
                count += len(keys)
        return shares

    def _answered(self, shares: Sequence[Share], answer: Codes | None) -> None:
        self._is_busy = False
        for place, share in enumerate(shares):
            self._tell(self, share, None if answer is None else answer[place])
        if not self._is_busy:
            self._flush()


class Waiting:
    """Markers that wait before they are sent again: for news of their topic, but not longer than a while.

    Args:
        timer: of the worker.
        route: sends markers of a debt on their way.
    """

    def __init__(self, timer: Timer, route: Callable[[OwedMarkers, Iterable[PartitionKey]], None]) -> None:
        self._timer = timer
        self._route = route
        self._by_topic: dict[str, dict[tuple[OwedMarkers, PartitionKey], tuple[TimerTask, bool]]] = {}

    def put(self, debt: OwedMarkers, key: PartitionKey, pause_ms: Millis, *, has_leader: bool) -> None:
        """Send a marker again after a pause at the latest."""
        task = self._timer.after(pause_ms, partial(self._due, debt, key))
        self._by_topic.setdefault(key[0], {})[debt, key] = task, has_leader

    def wake(self, topics: Iterable[str]) -> None:
        """Send the markers for some topics now, as there are news of these."""
        for topic in topics:
            for (debt, key), (task, _has_leader) in self._by_topic.pop(topic, {}).items():
                task.cancel()
                self._route(debt, (key,))

    @property
    def topics(self) -> Set[str]:
        """The topics for which markers wait."""
        return self._by_topic.keys()

    @property
    def without_leader(self) -> int:
        """How many of them wait for a leader."""
        return sum(
            not has_leader and not debt.is_cancelled
            for of_topic in self._by_topic.values()
            for (debt, _key), (_task, has_leader) in of_topic.items()
        )

    def _due(self, debt: OwedMarkers, key: PartitionKey) -> None:
        of_topic = self._by_topic.get(key[0], {})
        if of_topic.pop((debt, key), None) is not None and not of_topic:
            del self._by_topic[key[0]]
        self._route(debt, (key,))
