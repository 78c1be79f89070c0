"""Produce in transactions over workers on one event loop: what is asked before the first batch, what waits for it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.net.connection import LaterAnswer
from pkafka.protocol.headers import RequestHeader, encode_request
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.records.builder import build_batch
from pkafka.records.control import build_end_marker
from pkafka.records.reading import read_records
from pkafka.records.validation import trust
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.handlers import produce
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions.transaction import PartitionKey, Producer
from tests.unit.server.handlers.test_produce import Connection, response_of
from tests.unit.server.workers import Family, follow, know_brokers, until, with_family

STATES = 4
PARTITIONS = range(4)
IDS = {partition_of(name, STATES): name for name in (f"id-{number}" for number in range(40))}
"""A transactional id for each partition of __transaction_state."""
ABORTABLE = 11


def batch(producer: Producer, sequence: int = 0, *values: bytes, transactional: bool = True) -> bytes:
    records = [(1, b"k", value, ()) for value in values or (b"v",)]
    return bytes(
        build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


class Cluster:
    """Two workers that lead all partitions of a topic and of __transaction_state."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.worker = family.workers[0]
        """It has the clients' connections."""

    async def begin(self) -> "Cluster":
        numbers = iter(range(1000, 2000))

        async def new_producer_id() -> int:
            return next(numbers)

        for topic, partitions in (("t", PARTITIONS), (TRANSACTION_STATE_TOPIC, range(STATES))):
            await self.family.lead(topic, partitions)
            know_brokers(self.family, topic, partitions, leader=0, epoch=0)
        for worker in self.family.workers:
            worker.transactions.new_producer_id = new_producer_id
        for name in IDS.values():
            await until(partial(self._is_loaded, name))
        return self

    def _is_loaded(self, transactional_id: str) -> bool:
        return not self.owner_of(transactional_id).transactions.look_up(transactional_id)[0]

    def owner_of(self, transactional_id: str) -> Worker:
        """The worker that coordinates an id."""
        partition = partition_of(transactional_id, STATES)
        return self.family.workers[self.worker.partitions.owner(TRANSACTION_STATE_TOPIC, partition)]

    def id_at(self, index: int) -> str:
        """A transactional id that a worker coordinates."""
        return next(name for name in IDS.values() if self.owner_of(name).index == index)

    def partition_at(self, index: int, *, place: int = 0) -> int:
        """A partition of the topic that a worker owns."""
        return [each for each in PARTITIONS if self.worker.partitions.owner("t", each) == index][place]

    async def producer(self, transactional_id: str, *partitions: int) -> Producer:
        """A producer with a transaction that writes to these partitions."""
        coordinator = self.owner_of(transactional_id).transactions
        result = await coordinator.init(transactional_id, 60_000, None)
        assert result.error is ErrorCode.NONE
        await self.add(transactional_id, result.producer, *partitions)
        return result.producer

    async def add(self, transactional_id: str, producer: Producer, *partitions: int) -> None:
        """AddPartitionsToTxn."""
        if partitions:
            keys = [("t", partition) for partition in partitions]
            outcome = self.owner_of(transactional_id).transactions.add(transactional_id, producer, keys)
            assert (await outcome if isinstance(outcome, asyncio.Future) else outcome) is ErrorCode.NONE

    async def end(self, transactional_id: str, producer: Producer, *, is_commit: bool) -> None:
        """EndTxn, until the markers are written."""
        coordinator = self.owner_of(transactional_id).transactions
        outcome = coordinator.end(transactional_id, producer, is_commit=is_commit)
        assert (await outcome if isinstance(outcome, asyncio.Future) else outcome) is ErrorCode.NONE

        def is_over() -> bool:
            facts = coordinator.describe(transactional_id).facts
            return facts is not None and facts.state.is_idle

        await until(is_over)

    def mark(self, partition: int, producer: Producer, *, committed: bool = False) -> None:
        """A marker that is there before any other task runs."""
        key = "t", partition
        worker = self.family.workers[self.worker.partitions.owner(*key)]
        data = build_end_marker(
            committed=committed,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=0,
            timestamp_ms=1,
        )
        worker.appending.append(worker.partitions.led[key], trust(data), needs_all=True, now_ms=1)

    def values(self, partition: int) -> list[bytes | None]:
        """The values of a partition's records, markers left out."""
        log = (
            self.family.workers[self.worker.partitions.owner("t", partition)]
            .partitions.led["t", partition]
            .log
        )
        end = log.log_end_offset
        if not end:
            return []
        found = log.read(0, bytes_max=100_000, min_one_batch=True, upper_bound=end)
        with memoryview(found.segment.read_bytes(found.position, found.length)) as data:
            return [record.value for record in read_records(data)]

    async def produce(
        self,
        transactional_id: str | None,
        *places: tuple[int, bytes],
        acks: int = -1,
        version: int = 9,
    ) -> list[tuple[ErrorCode, int, str | None]]:
        """Code, base offset and message of each partition, in the order of the request."""
        connection = Connection()
        answer = self.send(connection, transactional_id, *places, acks=acks, version=version)
        if answer is None:
            await until(lambda: bool(connection.answers))
            [answer] = connection.answers
        return rows_of(answer, version)

    def send(
        self,
        connection: Connection,
        transactional_id: str | None,
        *places: tuple[int, bytes],
        acks: int = -1,
        version: int = 9,
    ) -> Any:
        """What is answered at once, None when the answer comes later."""
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(name="t", partition_data=[PartitionProduceData(index=index, records=data)])
                for index, data in places
            ],
        )
        frame = memoryview(bytearray(encode_request(0, version, 5, "me", request)[4:]))
        header = RequestHeader(0, version, 5, "me")
        answer = produce.handle(self.worker, connection, header, frame, 8 + 2 + len("me") + 1)
        if isinstance(answer, LaterAnswer):
            connection.due.append(answer)
            return None
        return answer


def rows_of(answer: Any, version: int = 9) -> list[tuple[ErrorCode, int, str | None]]:
    return [
        (ErrorCode(part.error_code), part.base_offset, part.error_message)
        for topic in response_of(answer, version).responses
        for part in topic.partition_responses
    ]


def on_cluster(
    root: Path, body: Callable[[Cluster], Awaitable[None]], settings: Mapping[str, str] | None = None
) -> None:
    async def run(family: Family) -> None:
        await body(await Cluster(family).begin())

    with_family(root, run, settings={"transaction.state.log.num.partitions": str(STATES), **(settings or {})})


def codes(rows: Sequence[tuple[ErrorCode, int, str | None]]) -> list[ErrorCode]:
    return [code for code, _offset, _message in rows]


@pytest.mark.parametrize("coordinator", [0, 1])
@pytest.mark.parametrize("owner", [0, 1])
def test_a_transaction_writes_to_its_partitions_wherever_they_and_its_coordinator_are(
    tmp_path: Path, coordinator: int, owner: int
) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(coordinator), cluster.partition_at(owner)
        producer = await cluster.producer(name, partition)
        first = await cluster.produce(name, (partition, batch(producer, 0, b"1")))
        second = await cluster.produce(name, (partition, batch(producer, 1, b"2")))
        assert first + second == [(ErrorCode.NONE, 0, None), (ErrorCode.NONE, 1, None)]
        await cluster.end(name, producer, is_commit=True)
        assert cluster.values(partition) == [b"1", b"2"]

    on_cluster(tmp_path, body)


@pytest.mark.parametrize("coordinator", [0, 1])
@pytest.mark.parametrize(
    ("version", "code", "message"),
    [
        (9, ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"),
        (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, None),
    ],
)
def test_a_partition_that_was_not_added_is_refused(
    tmp_path: Path, coordinator: int, version: int, code: ErrorCode, message: str | None
) -> None:
    async def body(cluster: Cluster) -> None:
        name = cluster.id_at(coordinator)
        added, other = cluster.partition_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name, added)
        places = (other, batch(producer)), (added, batch(producer))
        rows = await cluster.produce(name, *places, version=version)
        assert rows == [(code, -1, message), (ErrorCode.NONE, 0, None)]
        assert cluster.values(other) == []

    on_cluster(tmp_path, body)


def test_a_request_without_its_transactional_id_is_refused_as_a_whole(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        producer = await cluster.producer("id-1", *PARTITIONS)
        plain = bytes(build_batch([(1, None, b"v", ())]))
        rows = await cluster.produce(None, (0, plain), (1, batch(producer)))
        assert rows == [(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, None)] * 2
        assert [cluster.values(partition) for partition in PARTITIONS] == [[]] * 4

    on_cluster(tmp_path, body)


def test_a_request_has_one_producer(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        producer = await cluster.producer("id-1", *PARTITIONS)
        other = producer._replace(epoch=producer.epoch + 1)
        rows = await cluster.produce("id-1", (0, batch(producer)), (1, batch(other)))
        message = "Transactional records contained more than one producer ID"
        assert rows == [(ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, message)] * 2

    on_cluster(tmp_path, body)


def test_records_outside_transactions_may_go_along(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name = cluster.id_at(1)
        mine, theirs = cluster.partition_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name, mine)
        plain = bytes(build_batch([(1, None, b"p", ())]))
        rows = await cluster.produce(name, (theirs, plain), (mine, batch(producer)))
        assert rows == [(ErrorCode.NONE, 0, None)] * 2

    on_cluster(tmp_path, body)


def test_one_that_names_its_id_without_a_transaction_is_not_asked_about(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        producer = Producer(7, 0)
        data = batch(producer, transactional=False)
        assert await cluster.produce("id-1", (0, data)) == [(ErrorCode.NONE, 0, None)]

    on_cluster(tmp_path, body)


@pytest.mark.parametrize("coordinator", [0, 1])
def test_a_producer_that_is_not_the_one_of_its_id(tmp_path: Path, coordinator: int) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(coordinator), cluster.partition_at(0)
        old = await cluster.producer(name)
        new = await cluster.producer(name, partition)
        assert new.producer_id == old.producer_id
        other = Producer(77, 0)
        outcomes = [await cluster.produce(name, (partition, batch(one))) for one in (old, other, new)]
        assert [codes(one) for one in outcomes] == [
            [ErrorCode.INVALID_PRODUCER_EPOCH],
            [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
            [ErrorCode.NONE],
        ]

    on_cluster(tmp_path, body)


def test_without_a_coordinator_producers_send_again(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        know_brokers(cluster.family, TRANSACTION_STATE_TOPIC, range(STATES), leader=-1, epoch=1)
        message = (
            "Unable to verify the partition has been added to the transaction."
            " Underlying error: COORDINATOR_NOT_AVAILABLE"
        )
        rows = await cluster.produce(name, (partition, batch(producer)))
        assert rows == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1, message)]
        # What comes after it, and not before it.
        know_brokers(cluster.family, TRANSACTION_STATE_TOPIC, range(STATES), leader=0, epoch=2)
        rows = await cluster.produce(name, (partition, batch(producer, 1)))
        assert codes(rows) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        rows = await cluster.produce(name, (partition, batch(producer, 0)))
        assert codes(rows) == [ErrorCode.NONE]

    on_cluster(tmp_path, body)


def test_the_worker_of_the_coordinator_dies(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        assert cluster.send(connection, name, (partition, batch(producer))) is None
        cluster.worker.peers.others[1].close()
        await until(lambda: bool(connection.answers))
        assert codes(rows_of(connection.answers[0])) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert cluster.values(partition) == []

    on_cluster(tmp_path, body)


def test_the_worker_of_the_coordinator_hangs(tmp_path: Path) -> None:
    """Its answer, when it goes on, is about a batch that the producer has sent again since."""

    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        assert cluster.send(connection, name, (partition, batch(producer))) is None
        await asyncio.sleep(0)  # the question leaves in the next turn
        peer = cluster.worker.peers.others[1]
        peer.set_late(True)
        await until(lambda: bool(connection.answers))
        [(code, _offset, message)] = rows_of(connection.answers[0])
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert message is not None
        assert "NETWORK_EXCEPTION" in message
        peer.set_late(False)
        assert codes(await cluster.produce(name, (partition, batch(producer)))) == [ErrorCode.NONE]
        assert cluster.values(partition) == [b"v"]

    on_cluster(tmp_path, body)


def test_batches_behind_the_first_wait_for_it_and_the_coordinator_is_asked_once(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name = cluster.id_at(1)
        partition, another = cluster.partition_at(0), cluster.partition_at(0, place=1)
        producer = await cluster.producer(name, partition, another)
        connection = Connection()
        for sequence in range(3):
            data = batch(producer, sequence, b"%d" % sequence)
            assert cluster.send(connection, name, (partition, data), (another, data)) is None
        await until(lambda: len(connection.answers) == 3)
        assert [rows_of(answer) for answer in connection.answers] == [
            [(ErrorCode.NONE, sequence, None)] * 2 for sequence in range(3)
        ]
        assert cluster.values(partition) == cluster.values(another) == [b"0", b"1", b"2"]
        assert cluster.worker.questions.times.count == 1

    on_cluster(tmp_path, body)


def test_a_batch_that_waits_is_a_copy(tmp_path: Path) -> None:
    """Its frame is read over meanwhile."""

    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        request = ProduceRequest(
            transactional_id=name,
            acks=1,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=partition, records=batch(producer, 0, b"good"))
                    ],
                )
            ],
        )
        frame = bytearray(encode_request(0, 9, 5, "me", request)[4:])
        header = RequestHeader(0, 9, 5, "me")
        later = produce.handle(cluster.worker, connection, header, memoryview(frame), 13)
        assert isinstance(later, LaterAnswer)
        connection.due.append(later)
        frame[:] = bytes(len(frame))
        await until(lambda: bool(connection.answers))
        assert cluster.values(partition) == [b"good"]

    on_cluster(tmp_path, body)


@pytest.mark.parametrize("owner", [0, 1])
def test_what_a_marker_overtakes_begins_no_transaction(tmp_path: Path, owner: int) -> None:
    """The coordinator has confirmed it, but the end of that transaction came first (KAFKA-14884)."""

    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1 - owner), cluster.partition_at(owner)
        producer = await cluster.producer(name, partition)
        done: list[ErrorCode] = []
        verifier = cluster.family.workers[owner].verifier
        verifier.verify(name, producer, ("t", partition), done.append, sequence=0)
        cluster.mark(partition, producer)
        # The first batch of the next transaction asks for itself, and does not share the answer.
        verifier.verify(name, producer, ("t", partition), done.append, sequence=1)
        await until(lambda: len(done) == 2)
        assert done == [ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE]

    on_cluster(tmp_path, body)


def test_a_fenced_batch_hears_of_its_epoch_first(tmp_path: Path) -> None:
    """Clients go on after INVALID_PRODUCER_EPOCH, and give up after INVALID_TXN_STATE (KAFKA-19690)."""

    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        assert cluster.send(connection, name, (partition, batch(producer))) is None
        cluster.mark(partition, producer._replace(epoch=producer.epoch + 1))
        await until(lambda: bool(connection.answers))
        assert codes(rows_of(connection.answers[0])) == [ErrorCode.INVALID_PRODUCER_EPOCH]

    on_cluster(tmp_path, body)


def test_a_partition_that_this_broker_leads_no_more(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        assert cluster.send(connection, name, (partition, batch(producer))) is None
        await follow(cluster.family, "t", [partition], leader=1, epoch=1)
        await until(lambda: bool(connection.answers))
        assert codes(rows_of(connection.answers[0])) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    on_cluster(tmp_path, body)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_batch_that_comes_again_after_the_end_is_refused(tmp_path: Path, *, is_commit: bool) -> None:
    """The question comes before the look for what is in the log already, as in Kafka."""

    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        data = batch(producer)
        assert codes(await cluster.produce(name, (partition, data))) == [ErrorCode.NONE]
        assert codes(await cluster.produce(name, (partition, data))) == [ErrorCode.NONE]
        await cluster.end(name, producer, is_commit=is_commit)
        assert codes(await cluster.produce(name, (partition, data))) == [ErrorCode.INVALID_TXN_STATE]
        assert cluster.values(partition) == [b"v"]

    on_cluster(tmp_path, body)


def test_a_refused_batch_without_an_answer_closes_the_connection(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        producer = await cluster.producer(cluster.id_at(1))
        for name, place in ((cluster.id_at(1), 0), (cluster.id_at(1), 1), (None, 0)):
            connection = Connection()
            partition = cluster.partition_at(place)
            cluster.send(connection, name, (partition, batch(producer)), acks=0)
            await until(partial(getattr, connection, "closed"))

    on_cluster(tmp_path, body)


def test_a_batch_without_an_answer_is_verified_and_appended(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(0)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        cluster.send(connection, name, (partition, batch(producer)), acks=0)
        await until(lambda: cluster.values(partition) == [b"v"])
        assert not connection.closed

    on_cluster(tmp_path, body)


def test_nothing_is_asked_while_the_broker_is_told_so(tmp_path: Path) -> None:
    key = "transaction.partition.verification.enable"

    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(0)
        one, other = Producer(7, 0), Producer(8, 0)
        assert codes(await cluster.produce(name, (partition, batch(one)))) == [ErrorCode.NONE]
        worker = cluster.worker
        worker._take_settings(worker.config.replace({key: "true"}))
        rows = await cluster.produce(name, (partition, batch(other)))
        assert codes(rows) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    on_cluster(tmp_path, body, {key: "false"})


def test_a_group_of_offsets_is_verified_by_the_same_word(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name = cluster.id_at(1)
        producer = await cluster.producer(name, 0)
        done: dict[PartitionKey, ErrorCode] = {}
        for partition in PARTITIONS:
            key = "t", partition
            owner = cluster.family.workers[cluster.worker.partitions.owner(*key)]
            owner.verifier.verify(name, producer, key, partial(done.__setitem__, key))
        await until(lambda: len(done) == len(PARTITIONS))
        assert done.pop(("t", 0)) is ErrorCode.NONE
        assert set(done.values()) == {ErrorCode.TRANSACTION_ABORTABLE}

    on_cluster(tmp_path, body)


@pytest.mark.parametrize("owner", [0, 1])
def test_a_damaged_batch_of_a_transaction_is_refused_alone(tmp_path: Path, owner: int) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition, other = (
            cluster.id_at(0),
            cluster.partition_at(owner),
            cluster.partition_at(1 - owner),
        )
        producer = await cluster.producer(name, partition, other)
        damaged = bytearray(batch(producer))
        damaged[8:12] = bytes(4)  # its length
        rows = await cluster.produce(name, (partition, bytes(damaged)), (other, batch(producer)))
        assert codes(rows) == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
        assert cluster.values(other) == [b"v"]

    on_cluster(tmp_path, body)
