"""The markers that this worker's transactions still lack, and the way of each to the leader of its partition.

What is owed is written however long it takes: leaders move, brokers die, disks fill up. It survives this worker in the
decision that is in the log: the next coordinator of the transactional id owes it again. What each refusal means is as
in Kafka's TransactionMarkerRequestCompletionHandler, but for a marker that is fenced (:meth:`MarkerSender._fenced`).
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import NO_LEADER, BrokerId, ProducerId
from pkafka.server.cluster.metadata import MetadataCache, MetadataChange
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.transactions.debts import OwedMarkers, Receiver, Share, Waiting
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.marker_appends import ProducerAt
from pkafka.server.transactions.marker_owners import Answered, MarkerOwners, Row
from pkafka.server.transactions.transaction import PartitionKey

log = logging.getLogger(__name__)

_AGAIN_MS: Final = 50
_AGAIN_MAX_MS: Final = 1_000
"""The pauses after the first refusals of a transaction's markers double up to this. News of the topic end a pause."""
_LOOK_AGAIN_MS: Final = 1_000
"""The pause before a partition without a leader is looked for again; news of its topic come first."""
_FENCED_AGAIN_MS: Final = 5_000

_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_UNSUPPORTED: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The partition's log cannot hold a transaction, so the producer has written nothing to it."""
_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Existing: TypeAlias = Callable[[Sequence[PartitionKey]], Awaitable[Sequence[PartitionKey] | None]]
"""Gives those of some partitions that the cluster has; None when that is not known at the moment."""


class Link(Protocol):
    """The way to one other broker (:class:`pkafka.server.transactions.marker_links.MarkerLink`)."""

    def send(self, rows: Sequence[Row], answered: Answered) -> None:
        """Have markers appended there; later, call back."""
        ...

    async def producer_at(self, key: PartitionKey, producer_id: ProducerId) -> ProducerAt | None:
        """What the leader of a partition knows of a producer; None when it does not say."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


class MarkerSender:
    """Has markers written by the leaders of partitions. Belongs to one event loop.

    Args:
        metadata: names the leaders.
        partitions: tells which worker of this broker owns a partition.
        owners: the workers of this broker.
        new_link: makes the way to another broker.
        existing: asks the cluster's store for partitions that the metadata do not know.
        timer: of this worker.
        spawn: runs a coroutine on the worker's loop.
        heals: whether a fenced marker is looked into (``pkafka.transaction.fenced.markers.heal.enable``).
    """

    def __init__(
        self,
        *,
        metadata: MetadataCache,
        partitions: Partitions,
        owners: MarkerOwners,
        new_link: Callable[[BrokerId], Link],
        existing: Existing,
        timer: Timer,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        heals: bool,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._owners = owners
        self._new_link = new_link
        self._existing = existing
        self._timer = timer
        self._spawn = spawn
        self._heals = heals
        self._workers: dict[int, Receiver] = {}
        self._brokers: dict[BrokerId, tuple[Link, Receiver]] = {}
        self._waiting = Waiting(timer, self._route)
        self._unknown: list[Share] = []
        """Of partitions that the metadata do not know, for the next question to the store."""
        self._is_asking = False
        metadata.on_change(self._metadata_changed)

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
        self._timer.in_next_turn(partial(self._route, debt, tuple(debt.partitions)))
        return debt

    @property
    def unknown_destinations(self) -> int:
        """How many markers wait for a leader (Kafka's UnknownDestinationQueueSize)."""
        return self._waiting.without_leader + sum(len(one.keys) for one in self._unknown)

    def close(self) -> None:
        """Give up the connections to other brokers, as this worker ends."""
        for broker_id in list(self._brokers):
            self._drop(broker_id)

    # -- where markers go --

    def _route(self, debt: OwedMarkers, keys: Iterable[PartitionKey]) -> None:
        """Send markers of one transaction on their way."""
        if debt.is_cancelled:
            return
        shares: dict[Receiver, list[PartitionKey]] = {}
        unknown: list[PartitionKey] = []
        for key in keys:
            receiver = self._receiver(key)
            if receiver is not None:
                shares.setdefault(receiver, []).append(key)
            elif self._metadata.partition(*key) is None:
                unknown.append(key)
            else:
                self._waiting.put(debt, key, _LOOK_AGAIN_MS, has_leader=False)
        for receiver, of_receiver in shares.items():
            receiver.put(Share(debt, of_receiver))
        if unknown:
            self._look_for(Share(debt, unknown))

    def _receiver(self, key: PartitionKey) -> Receiver | None:
        leader = self._metadata.leader_of(*key)
        if leader == self._partitions.broker_id:
            return self._worker(self._partitions.owner(*key))
        if leader == NO_LEADER or leader not in self._metadata.brokers:
            return None
        return self._broker(leader)[1]

    def _worker(self, index: int) -> Receiver:
        found = self._workers.get(index)
        if found is None:
            found = self._workers[index] = Receiver(partial(self._owners.send, index), self._answered)
        return found

    def _broker(self, broker_id: BrokerId) -> tuple[Link, Receiver]:
        found = self._brokers.get(broker_id)
        if found is None:
            link = self._new_link(broker_id)
            found = self._brokers[broker_id] = link, Receiver(link.send, self._answered)
        return found

    def _drop(self, broker_id: BrokerId) -> None:
        self._brokers.pop(broker_id)[0].close()

    def _metadata_changed(self, change: MetadataChange) -> None:
        if change.brokers_changed:
            for broker_id in self._brokers.keys() - self._metadata.brokers.keys():
                self._drop(broker_id)
        if (
            topics := self._waiting.topics
            if change.brokers_changed
            else self._waiting.topics & change.changed
        ):
            # In a later turn, as the update has to reach all others first.
            self._timer.in_next_turn(partial(self._waiting.wake, tuple(topics)))

    # -- what becomes of them --

    def _answered(self, receiver: Receiver, share: Share, codes: Sequence[int] | None) -> None:
        """Take an answer of a receiver; None for a receiver that is gone or does not answer."""
        debt, keys = share
        again: list[PartitionKey] = []
        for key, number in zip(keys, codes or [ErrorCode.NETWORK_EXCEPTION] * len(keys), strict=True):
            if debt.is_cancelled:
                return
            if not number:
                debt.settle(key)
                continue
            code = ErrorCode(number)
            if code in _UNSUPPORTED:
                debt.settle(key)
            elif code in _FENCED:
                self._fenced(debt, key, code)
            else:
                self._log_refusal(debt, key, code)
                again.append(key)
        if again:
            self._try_again(receiver, debt, again)

    def _try_again(self, receiver: Receiver, debt: OwedMarkers, keys: Sequence[PartitionKey]) -> None:
        """Send refused markers again: at once where the leader has changed meanwhile, else after a pause."""
        moved = [key for key in keys if self._receiver(key) is not receiver]
        pause_ms = min(_AGAIN_MS << debt.refusals, _AGAIN_MAX_MS)
        debt.refusals = min(debt.refusals + 1, 10)
        for key in keys:
            if key not in moved:
                self._waiting.put(debt, key, pause_ms, has_leader=True)
        if moved:
            self._route(debt, moved)

    def _log_refusal(self, debt: OwedMarkers, key: PartitionKey, code: ErrorCode) -> None:
        level = logging.DEBUG if code in _PASSING else logging.WARNING
        log.log(
            level,
            "The marker of transactional id %s for %s-%d was not written: %s; trying again",
            debt.transactional_id,
            *key,
            code.name,
        )

    def _fenced(self, debt: OwedMarkers, key: PartitionKey, code: ErrorCode) -> None:
        """The partition has a marker, or a batch, of a higher epoch than that of the refused marker.

        Kafka forgets then what it owes, and the id stays in its Prepare state until another coordinator loads it, and
        longer where the same refusal comes again. Here the leader says what its log knows of the producer: without an
        open transaction the partition lacks nothing.
        """
        if self._heals:
            self._spawn(self._look_into(debt, key, code))
            return
        log.warning(
            "%s-%d refuses the marker of transactional id %s: %s; its end is given up",
            *key,
            debt.transactional_id,
            code.name,
        )
        debt.cancel()

    async def _look_into(self, debt: OwedMarkers, key: PartitionKey, code: ErrorCode) -> None:
        found = await self._producer_at(key, debt.marker.producer_id)
        if debt.is_cancelled:
            return
        if found is None or found.is_open:
            log.warning(
                "%s-%d refuses the marker of transactional id %s: %s, and %s; trying again in %d ms",
                *key,
                debt.transactional_id,
                code.name,
                "its leader does not say why" if found is None else "has a transaction of the producer open",
                _FENCED_AGAIN_MS,
            )
            self._waiting.put(debt, key, _FENCED_AGAIN_MS, has_leader=True)
            return
        log.warning(
            "%s-%d refuses the marker of transactional id %s, which has producer id %d, epoch %d and coordinator epoch"
            " %d: %s. Another marker, with epoch %d and coordinator epoch %d, has ended the transaction there",
            *key,
            debt.transactional_id,
            debt.marker.producer_id,
            debt.marker.producer_epoch,
            debt.marker.coordinator_epoch,
            code.name,
            found.producer_epoch,
            found.coordinator_epoch,
        )
        debt.settle(key)

    async def _producer_at(self, key: PartitionKey, producer_id: ProducerId) -> ProducerAt | None:
        leader = self._metadata.leader_of(*key)
        if leader == self._partitions.broker_id:
            return await self._owners.producer_at(key, producer_id)
        if leader == NO_LEADER or leader not in self._metadata.brokers:
            return None
        return await self._broker(leader)[0].producer_at(key, producer_id)

    # -- partitions that the metadata do not know --

    def _look_for(self, share: Share) -> None:
        """Find out whether partitions are deleted, which lack no marker then.

        A worker that has just come may not know all partitions yet, so its metadata alone prove nothing.
        """
        self._unknown.append(share)
        if not self._is_asking:
            self._is_asking = True
            self._spawn(self._ask_for_unknown())

    async def _ask_for_unknown(self) -> None:
        try:
            while asked := list(self._unknown):
                existing = await self._existing(list({key: None for one in asked for key in one.keys}))
                del self._unknown[: len(asked)]
                for debt, keys in asked:
                    self._found(debt, keys, existing)
        finally:
            self._is_asking = False

    def _found(
        self, debt: OwedMarkers, keys: Sequence[PartitionKey], existing: Sequence[PartitionKey] | None
    ) -> None:
        for key in keys:
            if self._metadata.partition(*key) is not None:
                self._route(debt, (key,))
            elif existing is None or key in existing:
                self._waiting.put(debt, key, _LOOK_AGAIN_MS, has_leader=False)
            elif not debt.is_cancelled:
                log.info(
                    "%s-%d does not exist any more: it gets no marker of transactional id %s",
                    *key,
                    debt.transactional_id,
                )
                debt.settle(key)
