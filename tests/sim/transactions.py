"""Transactions under faults: producers that begin, write, commit and abort, and readers of what is committed.

Two producers have one transactional id and fence each other; a third one has its own. A transaction writes to both
partitions of a topic and to the committed offset of a group of its producer. Answers are not waited for now and then,
so that records, markers and decisions of an earlier transaction come late. A producer may give up a record that is
still on its way, and abort; and it may hesitate before it decides.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from pkafka.clients.consumer.transactions import AbortedBatches
from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.net.channel import ChannelError
from pkafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.reading import read_batches
from tests.sim.checker import Checker, Key
from tests.sim.clients import Client
from tests.sim.promises import KEYS, TOPIC, Fate, Promises, Transaction
from tests.sim.world import World

M = TypeVar("M", bound=Message)

STATE: Final[Key] = (TRANSACTION_STATE_TOPIC, 0)
"""The broker that leads it coordinates all transactional ids."""
_GROUP_TYPE: Final = 0
_ID_TYPE: Final = 1
_TIMEOUT_MS: Final = 12_000
_READ_COMMITTED: Final = 1
_IMPATIENT_S: Final = 0.03


class _Fenced(Exception):
    """The producer has lost its epoch, or its transaction."""


class _GivenUp(Exception):
    """The producer does not wait for an answer any longer, and aborts."""


_PASSING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_LOST: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class TransactionalProducer(Client):
    """Writes transaction after transaction, as a client may that keeps to the protocol.

    Args:
        promises: told what it is told.
        transactional_id: that other producers may have, too.
    """

    def __init__(
        self,
        world: World,
        checker: Checker,
        name: str,
        brokers: Sequence[int],
        promises: Promises,
        transactional_id: str,
    ) -> None:
        super().__init__(world, checker, name, brokers)
        self.transactional_id = transactional_id
        self._promises = promises
        self._coordinators: dict[tuple[int, str], int] = {}
        self._producer = -1, -1
        self._sequences: dict[Key, int] = {}
        self._must_bump = True
        """Whether records or a commit of an earlier transaction may still be on their way."""
        self._haste = world.random.choice((0.0, 0.05, 0.15))
        self._rests = world.random.choice((0.1, 0.1, 4.0))
        self._hesitates_s = world.random.choice((0.0, 0.0, 2.0))
        """How long it holds a transaction open at most before it decides."""
        self._gives_up = world.random.choice((0.0, 0.05))
        """How often it does so with records that are still on their way."""
        self.offset: int | None = None
        """What is committed for its group at the end."""
        self.begin(self._live)

    @property
    def group(self) -> str:
        """The group whose offset its transactions commit."""
        return f"group of {self.name}"

    async def _live(self) -> None:
        random = self.world.random
        for number in itertools.count():
            if self.is_stopping:
                return
            transaction = self._promises.begin(self.name, number)
            try:
                if self._must_bump:
                    await self._init()
                is_commit = await self._try_to_write(transaction) and random.random() < 0.7
                await self._end(transaction, is_commit=is_commit)
            except _Fenced:
                self._must_bump = True
                if transaction.fate is Fate.OPEN:
                    transaction.fate = Fate.ABORTED
            await asyncio.sleep(self._rests * random.random())

    async def _init(self) -> None:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=_TIMEOUT_MS
        )
        while True:
            response = await self._ask_coordinator(
                _ID_TYPE, self.transactional_id, request, 4, init_producer_id.InitProducerIdResponse
            )
            if response is not None and response.error_code == ErrorCode.NONE:
                break
            if self.is_stopping:
                raise _Fenced
            await self.pause()
        self._producer = response.producer_id, response.producer_epoch
        self._sequences = dict.fromkeys(KEYS, 0)
        self._must_bump = False

    async def _try_to_write(self, transaction: Transaction) -> bool:
        try:
            await self._write(transaction)
        except _GivenUp:
            # As Java's: what it has given up had a sequence, so it goes on with another epoch (KIP-360).
            self._must_bump = True
            return False
        await asyncio.sleep(self._hesitates_s * self.world.random.random())
        return True

    async def _write(self, transaction: Transaction) -> None:
        random = self.world.random
        keys = [key for key in KEYS if random.random() < 0.8]
        if keys:
            await self._add(keys)
            transaction.is_begun = True
        for part in range(random.randint(1, 3) if keys else 0):
            await self._write_to(transaction, random.choice(keys), part)
        if random.random() < 0.7:
            await self._commit_offset(transaction)

    async def _write_to(self, transaction: Transaction, key: Key, part: int) -> None:
        values = [
            f"{self.name}:{transaction.number}:{part}:{one}".encode()
            for one in range(self.world.random.randint(1, 3))
        ]
        self._promises.sending(transaction, values)
        self.checker.sent.update(values)
        await self._produce(key, values)
        transaction.values.setdefault(key, []).extend(values)

    async def _add(self, keys: Sequence[Key]) -> None:
        producer_id, epoch = self._producer
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in keys]
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        while True:
            response = await self._ask_coordinator(
                _ID_TYPE, self.transactional_id, request, 3, add_partitions_to_txn.AddPartitionsToTxnResponse
            )
            codes = (
                [ErrorCode.NETWORK_EXCEPTION]
                if response is None
                else [
                    ErrorCode(one.partition_error_code)
                    for topic in response.results_by_topic_v3_and_below
                    for one in topic.results_by_partition
                ]
            )
            if not await self._must_ask_again(codes):
                return

    async def _produce(self, key: Key, values: Sequence[bytes]) -> None:
        producer_id, epoch = self._producer
        sequence = self._sequences[key]
        self._sequences[key] += len(values)
        records = [(self.world.now_ms(), None, value, ()) for value in values]
        data = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        one = produce.PartitionProduceData(index=key[1], records=bytes(data))
        request = produce.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=3000,
            topic_data=[produce.TopicProduceData(name=key[0], partition_data=[one])],
        )
        if self.world.random.random() < self._gives_up:
            self.tasks.append(self.loop.create_task(self._send_late(key, request)))
            raise _GivenUp
        while True:
            known = self.known_leader(key) or await self.leader_of(key)
            code = ErrorCode.NETWORK_EXCEPTION
            if known is not None:
                with contextlib.suppress(ChannelError):
                    response = await self._hastily(known[0], request, 9, produce.ProduceResponse)
                    code = ErrorCode(response.responses[0].partition_responses[0].error_code)
            if not await self._must_ask_again([code]):
                return
            await self.leader_of(key)

    async def _send_late(self, key: Key, request: Message) -> None:
        """Records come when their transaction is over, or nearly; the client does not wait for the answer."""
        random = self.world.random
        await asyncio.sleep(random.choice((0.01, 0.3, 3.0)) * random.random())
        known = self.known_leader(key)
        if known is not None:
            with contextlib.suppress(ChannelError):
                channel = await self._connect(known[0])
                await self._ask_on(channel, request, 9, produce.ProduceResponse)
                channel.close()

    async def _commit_offset(self, transaction: Transaction) -> None:
        producer_id, epoch = self._producer
        add = add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=self.group,
        )
        while True:
            added = await self._ask_coordinator(
                _ID_TYPE, self.transactional_id, add, 3, add_offsets_to_txn.AddOffsetsToTxnResponse
            )
            code = ErrorCode.NETWORK_EXCEPTION if added is None else ErrorCode(added.error_code)
            if not await self._must_ask_again([code]):
                break
        transaction.is_begun = True
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=transaction.number, committed_metadata=""
        )
        commit = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        while True:
            response = await self._ask_coordinator(
                _GROUP_TYPE, self.group, commit, 3, txn_offset_commit.TxnOffsetCommitResponse
            )
            code = ErrorCode.NETWORK_EXCEPTION
            if response is not None:
                code = ErrorCode(response.topics[0].partitions[0].error_code)
            if not await self._must_ask_again([code]):
                break
        transaction.offset = transaction.number

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        producer_id, epoch = self._producer
        if not transaction.is_begun:
            # Nothing was begun: as Java's producer, it tells the coordinator nothing.
            transaction.fate = Fate.ABORTED
            self._must_bump = True
            return
        if is_commit:
            transaction.fate = Fate.ASKED
        request = end_txn.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=is_commit,
        )
        while True:
            response = await self._ask_coordinator(
                _ID_TYPE, self.transactional_id, request, 3, end_txn.EndTxnResponse
            )
            code = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)
            if not await self._must_ask_again([code]):
                break
        transaction.fate = Fate.COMMITTED if is_commit else Fate.ABORTED

    async def _must_ask_again(self, codes: Sequence[ErrorCode]) -> bool:
        """Whether to ask once more, after a pause; False when all is well.

        Raises:
            _Fenced: the producer has lost its transaction.
        """
        if any(code in _LOST for code in codes):
            raise _Fenced
        if all(code is ErrorCode.NONE for code in codes):
            return False
        for code in codes:
            if code is not ErrorCode.NONE and code not in _PASSING:
                self.world.violated(f"{self.name} is told {code.name}")
        await self.pause()
        return True

    async def _hastily(self, broker: int, request: Message, version: int, answer: type[M]) -> M:
        """Ask; now and then the answer is not waited for, and what is on its way stays on its way."""
        random = self.world.random
        if random.random() >= self._haste:
            return await self.ask(broker, request, version, answer)
        asking = self.loop.create_task(self.ask(broker, request, version, answer))
        asking.add_done_callback(_heard)
        done, _ = await asyncio.wait([asking], timeout=_IMPATIENT_S * random.random())
        if not done:
            self._channels.pop(broker, None)
            raise ChannelError("not waited for")
        response: M = asking.result()
        return response

    async def _ask_coordinator(
        self, kind: int, name: str, request: Message, version: int, answer: type[M]
    ) -> M | None:
        """The answer of the coordinator of a name; None when there is none at the moment."""
        try:
            broker = self._coordinators.get((kind, name))
            if broker is None:
                broker = await self._find(kind, name)
            if broker is None:
                return None
            response = await self._hastily(broker, request, version, answer)
        except ChannelError:
            self._coordinators.pop((kind, name), None)
            return None
        if _NOT_THERE & set(_codes(response)):
            self._coordinators.pop((kind, name), None)
        return response

    async def _find(self, kind: int, name: str) -> int | None:
        broker = self._brokers[self.world.random.randrange(len(self._brokers))]
        request = find_coordinator.FindCoordinatorRequest(key=name, key_type=kind)
        response = await self.ask(broker, request, 3, find_coordinator.FindCoordinatorResponse, timeout_s=3.0)
        if response.error_code:
            return None
        self._coordinators[kind, name] = response.node_id
        return response.node_id

    # -- the last look --

    async def last_transaction(self) -> None:
        """Nothing happens any more, and no other producer has the id: the next transaction commits."""
        self.is_stopping = False
        self._haste = self._gives_up = 0.0
        number = sum(one.producer == self.name for one in self._promises.transactions)
        transaction = self._promises.begin(self.name, number)
        try:
            await self._init()
            await self._add(KEYS)
            transaction.is_begun = True
            for part, key in enumerate(KEYS):
                await self._write_to(transaction, key, part)
            await self._commit_offset(transaction)
            await self._end(transaction, is_commit=True)
        except _Fenced:
            self.world.violated(f"{self.name} is fenced, and no other producer has its id any more")

    async def last_look(self) -> None:
        """Nothing happens any more: the id has no transaction, and its group's offset is known."""
        while True:
            state = await self._state()
            offset = await self._offset() if state in _OVER else None
            if offset is not None:
                self.offset = offset
                return
            await self.pause()

    async def _state(self) -> str | None:
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        response = await self._ask_coordinator(
            _ID_TYPE,
            self.transactional_id,
            request,
            0,
            describe_transactions.DescribeTransactionsResponse,
        )
        return None if response is None else response.transaction_states[0].transaction_state

    async def _offset(self) -> int | None:
        request = offset_fetch.OffsetFetchRequest(
            group_id=self.group,
            topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
            require_stable=True,
        )
        response = await self._ask_coordinator(
            _GROUP_TYPE, self.group, request, 7, offset_fetch.OffsetFetchResponse
        )
        if response is None or response.error_code:
            return None
        [one] = response.topics[0].partitions
        return None if one.error_code else one.committed_offset


_NOT_THERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_OVER: Final = ("Empty", "CompleteCommit", "CompleteAbort")


def _heard(task: "asyncio.Task[M]") -> None:
    if not task.cancelled():
        task.exception()


def _codes(response: Message) -> Iterator[int]:
    """All error codes of an answer."""
    for one in response.__fields__:
        value = getattr(response, one.name)
        if one.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list):
            for inner in value:
                if isinstance(inner, Message):
                    yield from _codes(inner)


class CommittedReader(Client):
    """Reads what is committed of one partition, from its beginning on."""

    def __init__(
        self, world: World, checker: Checker, name: str, brokers: Sequence[int], key: Key, promises: Promises
    ) -> None:
        super().__init__(world, checker, name, brokers)
        self.key = key
        self.position = 0
        self._promises = promises
        self.begin(self._read)

    async def _read(self) -> None:
        while not self.is_stopping:
            known = self.known_leader(self.key) or await self.leader_of(self.key)
            is_well = False
            if known is not None:
                with contextlib.suppress(ChannelError):
                    is_well = await self._fetch(*known)
            if not is_well:
                await self.pause()
                await self.leader_of(self.key)

    async def _fetch(self, leader: int, epoch: int) -> bool:
        partition = fetch.FetchPartition(
            partition=self.key[1],
            current_leader_epoch=epoch,
            fetch_offset=self.position,
            partition_max_bytes=self.world.random.choice((1, 300, 1 << 16)),
        )
        request = fetch.FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=_READ_COMMITTED,
            topics=[fetch.FetchTopic(topic=self.key[0], partitions=[partition])],
        )
        response = await self.ask(leader, request, 12, fetch.FetchResponse)
        if response.error_code or not response.responses:
            return False
        [data] = response.responses[0].partitions
        if data.error_code:
            return False
        aborted = AbortedBatches(data.aborted_transactions or ())
        for header, records in read_batches(data.records or b""):
            if header.next_offset <= self.position:
                continue
            is_hidden = aborted.skip(header)
            if header.is_control:
                aborted.note_marker(header, records[0].key)
            elif not is_hidden:
                for record in records:
                    if record.offset >= self.position:
                        self._promises.read(self.key, record.offset, record.value or b"", self.name)
            self.position = header.next_offset
        return True
