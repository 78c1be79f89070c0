"""The transaction coordinator of one worker: its transactional ids, and the requests about them.

The coordinator finds the id of a request, has the id's transaction decide (transaction.py), writes the decision, and
answers once that is committed. Ids are loaded and let go as every coordinator does it (pkafka/server/coordinator/). No
id is in two processes.
"""

import asyncio
import heapq
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.model import (
    NO_PRODUCER_ID,
    TRANSACTION_STATE_TOPIC,
    LeaderEpoch,
    Millis,
    ProducerId,
    TopicPartition,
)
from pkafka.server.coordinator.shards import Shards
from pkafka.server.coordinator.topic_log import TopicLog
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.delayed import Timer
from pkafka.server.transactions.hosted import CoordinatorSettings, Entry, Marker, Markers
from pkafka.server.transactions.loading import TransactionLoading
from pkafka.server.transactions.records import encode_key, encode_value
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.stored import StoredIds
from pkafka.server.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    Facts,
    PartitionKey,
    Producer,
    Transaction,
    unused,
)

log = logging.getLogger(__name__)

COMPLETION_WAIT_MS: Final = 20
"""How long a new transaction waits for the markers of the one before, before its producer has to ask again."""
_APPEND_TIMEOUT_MIN_MS: Final = 5_000
"""A record waits for replicas as long as the transaction may take, but a time-out of 1 ms, as old admin clients send to
fence a producer, is no reason to fail (KAFKA-16047)."""
_COMPLETE_AGAIN_MS: Final = 100
_TOMBSTONE_BYTES_MAX: Final = 256 * 1024
"""At most so many bytes of keys go into one batch of tombstones (KAFKA-13099)."""
_TOMBSTONE_OVERHEAD_BYTES: Final = 16
_FORGOTTEN_AT_ONCE: Final = 1_000

_NO_COORDINATOR: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_NOT_AVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class InitResult(NamedTuple):
    """The answer to InitProducerId."""

    error: ErrorCode
    producer: Producer = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Described(NamedTuple):
    """The answer to DescribeTransactions for one id."""

    error: ErrorCode
    facts: Facts | None = None


class TransactionCoordinator:
    """Loads the transactional ids of this worker, serves requests about them and ends their transactions.

    Args:
        settings: of the broker.
        state_log: stores the ids.
        partition_of: gives the partition of __transaction_state that an id belongs to.
        leader_epoch_of: gives the leader epoch of such a partition, which this worker leads.
        markers: has the markers of decided transactions written.
        new_producer_id: gives an unused producer id; None when there is none at the moment.
        timer: of the worker.
        clock: wall clock.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        state_log: TopicLog,
        partition_of: Callable[[str], int],
        leader_epoch_of: Callable[[int], int],
        markers: Markers,
        new_producer_id: Callable[[], Awaitable[ProducerId | None]],
        timer: Timer,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.settings = settings
        self.partition_of = partition_of
        """Gives the partition of __transaction_state that an id belongs to."""
        self.new_producer_id = new_producer_id
        """Gives an unused producer id; None when there is none at the moment."""
        self._log = state_log
        self._leader_epoch_of = leader_epoch_of
        self._markers = markers
        self._timer = timer
        self._clock = clock
        self._shards: Shards[Entry, TransactionLoading] = Shards(
            state_log,
            self._new_loading,
            self._bury,
            what="transactions",
            timer=timer,
            spawn=spawn,
            replay=lambda partition, loading: state_log.read_last(partition, loading.values, loading.play),
            new_shard=TransactionLoading.shard,
        )
        self._ids: dict[int, StoredIds] = {}
        """By partition: what the shards are."""
        self.load_times = self._shards.load_times
        self._ongoing: set[Entry] = set()
        """Those with an open transaction, which may time out."""
        self.append_retries: set[Entry] = set()
        """Those whose end could not be noted, and is going to be tried again (Kafka's LogAppendRetryQueueSize)."""

    def look_up(self, transactional_id: str) -> tuple[ErrorCode, Entry | None]:
        """Find an id.

        Returns:
            NONE when this worker coordinates the id, with the entry if it exists; else the reason for a refusal.
        """
        return self._shards.look_up(self.partition_of(transactional_id), transactional_id)

    # -- requests of producers --

    async def init(self, transactional_id: str, timeout_ms: Millis, expected: Producer | None) -> InitResult:
        """Serve InitProducerId of a producer with a transactional id."""
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            return InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        error, entry = self.look_up(transactional_id)
        new_producer_id: ProducerId | None = None
        if not error and (entry is None or entry.transaction.needs_producer_id(expected)):
            new_producer_id = await self.new_producer_id()
            if new_producer_id is None:
                return InitResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            error, entry = self.look_up(transactional_id)  # much may have happened meanwhile
        if error:
            return InitResult(error)
        now_ms = self._clock.now_ms()
        if entry is None:
            if new_producer_id is None:
                return InitResult(ErrorCode.CONCURRENT_TRANSACTIONS)  # the id has just expired
            entry = self._create(transactional_id, unused(new_producer_id, timeout_ms, now_ms))
        transaction = entry.transaction
        if transaction.needs_producer_id(expected) and new_producer_id is None:
            return InitResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        decision = transaction.init(
            expected, timeout_ms=timeout_ms, now_ms=now_ms, new_producer_id=new_producer_id
        )
        if isinstance(decision, ErrorCode):
            return InitResult(decision)
        if decision.state is TransactionState.PREPARE_ABORT:
            error = await self._outcome(partial(self._decide, entry, decision))
            return InitResult(error or ErrorCode.CONCURRENT_TRANSACTIONS)
        error = await self._outcome(partial(self._write, entry, decision))
        return InitResult(error) if error else InitResult(error, decision.producer)

    def add(
        self, transactional_id: str, producer: Producer, partitions: Sequence[PartitionKey]
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """Serve AddPartitionsToTxn and AddOffsetsToTxn."""
        error, entry = self._existing(transactional_id)
        if entry is None:
            return error
        return _now_or_later(partial(self._add, entry, producer, partitions, may_wait=True))

    def _add(
        self,
        entry: Entry,
        producer: Producer,
        partitions: Sequence[PartitionKey],
        done: Callable[[ErrorCode], None],
        *,
        may_wait: bool,
    ) -> None:
        if entry.is_gone:
            done(ErrorCode.NOT_COORDINATOR)
            return
        decision = entry.transaction.add(producer, partitions, self._clock.now_ms())
        if isinstance(decision, Facts):
            self._write(entry, decision, done)
        elif (
            decision is ErrorCode.CONCURRENT_TRANSACTIONS
            and may_wait
            and entry.transaction.facts.state.is_decided
        ):
            again = partial(self._add, entry, producer, partitions, done, may_wait=False)
            self._when_complete(entry, again)
        else:
            done(decision)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Iterable[PartitionKey]
    ) -> Mapping[PartitionKey, ErrorCode] | ErrorCode:
        """Serve the question of partitions' leaders whether a transaction writes to them."""
        error, entry = self._existing(transactional_id)
        return error if entry is None else entry.transaction.verify(producer, partitions)

    def epoch_vouching_for(
        self, transactional_id: str, producer: Producer, partitions: Iterable[PartitionKey]
    ) -> LeaderEpoch | None:
        """The epoch under which this worker coordinates a transaction that writes to all of these partitions.

        Returns:
            None where it does not coordinate the id, or where the transaction does not write to all of them.
        """
        error, entry = self.look_up(transactional_id)
        if error or entry is None:
            return None
        found = entry.transaction.verify(producer, partitions)
        if isinstance(found, ErrorCode) or any(found.values()):
            return None
        return entry.coordinator_epoch

    def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """Serve EndTxn; the answer comes once the decision is committed, before the markers are written."""
        error, entry = self._existing(transactional_id)
        if entry is None:
            return error
        decision = entry.transaction.end(producer, self._clock.now_ms(), is_commit=is_commit)
        if isinstance(decision, ErrorCode):
            return decision
        return _now_or_later(partial(self._decide, entry, decision))

    def _existing(self, transactional_id: str) -> tuple[ErrorCode, Entry | None]:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST, None
        error, entry = self.look_up(transactional_id)
        if not error and entry is None:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return error, entry

    # -- what there is --

    def describe(self, transactional_id: str) -> Described:
        """Serve DescribeTransactions for one id."""
        if not transactional_id:
            return Described(ErrorCode.INVALID_REQUEST)
        error, entry = self.look_up(transactional_id)
        if error:
            return Described(error)
        if entry is None:
            return Described(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        facts = entry.transaction.facts
        if facts.state.is_decided and entry.debt is not None:
            facts = facts._replace(partitions=tuple(entry.debt.partitions))
        return Described(ErrorCode.NONE, facts)

    def overview(self) -> tuple[ErrorCode, Iterator[Entry]]:
        """Serve ListTransactions: all ids of this worker, to look at, or the reason why some are missing."""
        return self._shards.all_there(), chain.from_iterable(ids.all() for ids in self._ids.values())

    # -- partitions come and go --

    def begin(self, partition: int) -> None:
        """This broker leads a partition from now on, or still does."""
        self._shards.begin(partition)

    def end_partition(self, partition: int) -> None:
        """This broker leads a partition no more; what its ids still owe is the next coordinator's."""
        self._ids.pop(partition, None)
        count = self._shards.end(partition)
        if count:
            log.info("Unloaded %d transaction metadata of %s-%d", count, TRANSACTION_STATE_TOPIC, partition)

    def resign(self) -> None:
        """Stop coordinating all ids, as the broker stops."""
        self._ids.clear()
        self._shards.resign()

    def _new_loading(self, partition: int) -> TransactionLoading:
        source = TopicPartition(TRANSACTION_STATE_TOPIC, partition)
        return TransactionLoading(source, self._restored, self._loaded)

    def _restored(self, transactional_id: str, partition: int, facts: Facts) -> Entry:
        return Entry(transactional_id, partition, -1, Transaction(facts))

    def _loaded(self, partition: int, ids: StoredIds) -> None:
        self._ids[partition] = ids
        ids.coordinator_epoch = self._leader_epoch_of(partition)
        decided: list[Entry] = []
        for entry in ids.values():
            entry.coordinator_epoch = ids.coordinator_epoch
            state = entry.transaction.facts.state
            if state is TransactionState.ONGOING:
                self._ongoing.add(entry)
            elif state.is_decided:
                decided.append(entry)
        for entry in decided:
            self._send_markers(entry)

    def _create(self, transactional_id: str, facts: Facts) -> Entry:
        self._make_room()
        partition = self.partition_of(transactional_id)
        entry = Entry(transactional_id, partition, self._leader_epoch_of(partition), Transaction(facts))
        self._shards.add(partition, transactional_id, entry)
        return entry

    def _bury(self, entry: Entry) -> None:
        entry.is_gone = True
        self._ongoing.discard(entry)
        self.append_retries.discard(entry)
        if entry.debt is not None:
            entry.debt.cancel()
            entry.debt = None
        _call_waiting(entry)

    # -- writing --

    def _write(self, entry: Entry, facts: Facts, done: Callable[[ErrorCode], None]) -> None:
        """Write pending facts; they count once their record is committed."""

        def committed(error: ErrorCode, _offset: int) -> None:
            if entry.is_gone:
                done(ErrorCode.NOT_COORDINATOR)
                return
            if error:
                log.warning(
                    "The state of transactional id %s could not be written: %s",
                    entry.transactional_id,
                    error.name,
                )
                entry.transaction.failed()
                done(_append_error(error))
                return
            entry.transaction.stored()
            if facts.state is TransactionState.ONGOING:
                self._ongoing.add(entry)
            else:
                self._ongoing.discard(entry)
            done(ErrorCode.NONE)

        self._append(entry, facts, committed)

    def _append(self, entry: Entry, facts: Facts, committed: Callable[[ErrorCode, int], None]) -> None:
        record = self._clock.now_ms(), encode_key(entry.transactional_id), encode_value(facts), ()
        timeout_ms = max(facts.timeout_ms, _APPEND_TIMEOUT_MIN_MS)
        self._log.append(entry.partition, [record], committed, timeout_ms=timeout_ms)

    async def _outcome(self, begin: Callable[[Callable[[ErrorCode], None]], None]) -> ErrorCode:
        outcome = _now_or_later(begin)
        return outcome if isinstance(outcome, ErrorCode) else await outcome

    # -- the end of transactions --

    def _decide(self, entry: Entry, facts: Facts, done: Callable[[ErrorCode], None]) -> None:
        """Write a decision, and have the markers written once it is committed."""

        def stored(error: ErrorCode) -> None:
            if not error:
                self._send_markers(entry)
            done(error)

        self._write(entry, facts, stored)

    def _send_markers(self, entry: Entry) -> None:
        transaction = entry.transaction
        facts = transaction.facts
        transaction.complete(self._clock.now_ms())
        if not facts.partitions:
            self._complete(entry)
            return
        marker = Marker(
            *facts.producer, entry.coordinator_epoch, facts.state is TransactionState.PREPARE_COMMIT
        )
        entry.debt = self._markers.owe(
            entry.transactional_id, marker, facts.partitions, partial(self._complete, entry)
        )

    def _complete(self, entry: Entry) -> None:
        """All markers are written: note that the transaction is over, however often that takes."""
        entry.debt = None
        self.append_retries.discard(entry)
        facts = entry.transaction.pending
        if entry.is_gone or facts is None:
            return

        def committed(error: ErrorCode, _offset: int) -> None:
            if entry.is_gone:
                return
            if error:
                self.append_retries.add(entry)
                self._timer.after(_COMPLETE_AGAIN_MS, partial(self._complete, entry))
                return
            entry.transaction.stored()
            _call_waiting(entry)

        self._append(entry, facts, committed)

    def _when_complete(self, entry: Entry, call: Callable[[], None]) -> None:
        """Call when the transaction that is decided is over, or after a while."""

        def late() -> None:
            if once in entry.waiting:
                entry.waiting.remove(once)
                call()

        def once() -> None:
            timer.cancel()
            call()

        timer = self._timer.after(COMPLETION_WAIT_MS, late)
        entry.waiting.append(once)

    async def abort_for_ever(self) -> None:
        """Abort the transactions that have had their time, every now and then."""
        while True:
            await asyncio.sleep(self.settings.abort_interval_ms / 1000)
            self.abort_timed_out()

    def abort_timed_out(self) -> None:
        """Abort the transactions that have had their time."""
        now_ms = self._clock.now_ms()
        for entry in [one for one in self._ongoing if one.transaction.is_timed_out(now_ms)]:
            decision = entry.transaction.fence(now_ms)
            if isinstance(decision, Facts):
                self._decide(entry, decision, partial(_log_abort, entry))

    # -- expiry --

    async def expire_for_ever(self) -> None:
        """Forget ids that were not used for long, every now and then."""
        while True:
            await asyncio.sleep(self.settings.expire_interval_ms / 1000)
            await self.expire()

    async def expire(self) -> None:
        """Forget the ids that were not used for ``transactional.id.expiration.ms``."""
        turns = Turns()
        now_ms = self._clock.now_ms()
        last_ms = now_ms - self.settings.expiration_ms
        due: list[str] = []
        for ids in list(self._ids.values()):
            for updated_ms, transactional_id in ids.idle():
                if updated_ms <= last_ms:
                    due.append(transactional_id)
                await turns.step()
        for start in range(0, len(due), _FORGOTTEN_AT_ONCE):
            # Some may have begun a transaction meanwhile.
            found = self._found(due[start : start + _FORGOTTEN_AT_ONCE])
            self._forget_all(
                one for one in found if one.transaction.is_expired(now_ms, self.settings.expiration_ms)
            )
            await turns.step()

    def _make_room(self) -> None:
        """Forget the ids that were idle for longest, when there are as many as there may be."""
        if len(self._shards) < self.settings.ids_max:
            return
        idle = chain.from_iterable(ids.idle() for ids in self._ids.values())
        # Many at once, since each look takes all of them; where few are allowed, one.
        count = min(_FORGOTTEN_AT_ONCE, max(self.settings.ids_max // 100, 1))
        oldest = [transactional_id for _updated_ms, transactional_id in heapq.nsmallest(count, idle)]
        log.warning(
            "There are %d transactional ids (pkafka.transactional.ids.max): forgetting %d that were idle for longest",
            self.settings.ids_max,
            len(oldest),
        )
        self._forget_all(self._found(oldest))

    def _found(self, transactional_ids: Iterable[str]) -> list[Entry]:
        found = (self.look_up(transactional_id)[1] for transactional_id in transactional_ids)
        return [one for one in found if one is not None]

    def _forget_all(self, entries: Iterable[Entry]) -> None:
        """Forget ids, in batches that the topic takes."""
        due: dict[int, list[Entry]] = defaultdict(list)
        sizes: Counter[int] = Counter()
        for entry in entries:
            due[entry.partition].append(entry)
            sizes[entry.partition] += len(entry.transactional_id.encode()) + _TOMBSTONE_OVERHEAD_BYTES
            if sizes[entry.partition] > _TOMBSTONE_BYTES_MAX:
                del sizes[entry.partition]
                self._forget(due.pop(entry.partition))
        for of_partition in due.values():
            self._forget(of_partition)

    def _forget(self, entries: Sequence[Entry]) -> None:
        now_ms = self._clock.now_ms()
        there = [one for one in entries if not one.is_gone and one.transaction.pending is None]
        if not there:
            return
        for entry in there:
            entry.transaction.expire()

        def committed(error: ErrorCode, _offset: int) -> None:
            for entry in there:
                if entry.is_gone:
                    continue
                if error:
                    entry.transaction.failed()
                else:
                    self._shards.remove(entry.partition, entry.transactional_id)
                    self._bury(entry)

        tombstones = [(now_ms, encode_key(one.transactional_id), None, ()) for one in there]
        self._log.append(there[0].partition, tombstones, committed)


def _call_waiting(entry: Entry) -> None:
    waiting, entry.waiting = entry.waiting, []
    for call in waiting:
        call()


def _log_abort(entry: Entry, error: ErrorCode) -> None:
    if error:
        log.warning(
            "The open transaction of transactional id %s has had its time, and could not be aborted yet: %s",
            entry.transactional_id,
            error.name,
        )
    else:
        log.info(
            "Completed rollback of ongoing transaction for transactionalId %s due to timeout",
            entry.transactional_id,
        )


def _append_error(error: ErrorCode) -> ErrorCode:
    """The error that a client hears when a record of its id could not be written."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NOT_COORDINATOR if error in _NO_COORDINATOR else ErrorCode.UNKNOWN_SERVER_ERROR


def _now_or_later(
    begin: Callable[[Callable[[ErrorCode], None]], None],
) -> "ErrorCode | asyncio.Future[ErrorCode]":
    """The outcome of what calls back now or later."""
    outcome: ErrorCode | None = None
    waiter: asyncio.Future[ErrorCode] | None = None

    def done(code: ErrorCode) -> None:
        nonlocal outcome
        outcome = code
        if waiter is not None and not waiter.done():
            waiter.set_result(code)

    begin(done)
    if outcome is not None:
        return outcome
    waiter = asyncio.get_running_loop().create_future()
    return waiter
