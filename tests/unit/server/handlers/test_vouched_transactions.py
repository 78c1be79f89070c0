"""Records that the worker of their coordinator passes on: its word on their transaction goes along with them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.records.control import build_end_marker
from pkafka.records.validation import trust
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions.questions import CoordinatorQuestions
from pkafka.server.transactions.transaction import PartitionKey, Producer
from pkafka.storage.producer_state import NO_SEQUENCE
from tests.unit.server.handlers.test_produce import Connection
from tests.unit.server.handlers.test_produce_in_transactions import Cluster, batch, on_cluster, rows_of
from tests.unit.server.workers import know_brokers, until

Questions = list[PartitionKey]


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    """The partitions whose owners ask the coordinator."""
    asked: Questions = []
    ask = CoordinatorQuestions.ask

    def noted(
        self: CoordinatorQuestions,
        transactional_id: str,
        producer: Producer,
        key: PartitionKey,
        answered: Callable[[ErrorCode], None],
    ) -> None:
        asked.append(key)
        ask(self, transactional_id, producer, key, answered)

    monkeypatch.setattr(CoordinatorQuestions, "ask", noted)
    return asked


def owner_of(cluster: Cluster, partition: int) -> Worker:
    return cluster.family.workers[cluster.worker.partitions.owner("t", partition)]


def mark(cluster: Cluster, partition: int, producer: Producer, *, coordinator_epoch: int) -> None:
    worker = owner_of(cluster, partition)
    data = build_end_marker(
        committed=True,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=1,
    )
    worker.appending.append(worker.partitions.led["t", partition], trust(data), needs_all=True, now_ms=1)


def test_the_owner_does_not_ask_what_the_coordinator_has_said(tmp_path: Path, questions: Questions) -> None:
    async def body(cluster: Cluster) -> None:
        name = cluster.id_at(0)
        theirs = cluster.partition_at(1), cluster.partition_at(1, place=1)
        producer = await cluster.producer(name, *theirs)
        rows = await cluster.produce(name, *((each, batch(producer)) for each in theirs))
        assert rows == [(ErrorCode.NONE, 0, None)] * 2
        assert questions == []

    on_cluster(tmp_path, body)


def test_the_owner_asks_when_another_worker_coordinates(tmp_path: Path, questions: Questions) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(1), cluster.partition_at(1)
        producer = await cluster.producer(name, partition)
        assert await cluster.produce(name, (partition, batch(producer))) == [(ErrorCode.NONE, 0, None)]
        assert questions == [("t", partition)]

    on_cluster(tmp_path, body)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_owner_asks_when_the_coordinator_does_not_know_the_partition(
    tmp_path: Path, questions: Questions, enabled: bool
) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name)
        [(code, _offset, _message)] = await cluster.produce(name, (partition, batch(producer)))
        assert code is (ErrorCode.INVALID_TXN_STATE if enabled else ErrorCode.NONE)
        assert questions == ([("t", partition)] if enabled else [])

    settings = {"transaction.partition.verification.enable": str(enabled).lower()}
    on_cluster(tmp_path, body, settings)


def test_the_owner_asks_when_the_coordinator_knows_another_leader_epoch(
    tmp_path: Path, questions: Questions
) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name, partition)
        await cluster.family.lead("t", [partition], epoch=1)
        know_brokers(cluster.family, "t", [partition], leader=0, epoch=2)
        assert await cluster.produce(name, (partition, batch(producer))) == [(ErrorCode.NONE, 0, None)]
        assert questions == [("t", partition)]

    on_cluster(tmp_path, body)


def test_a_word_does_not_do_for_an_answer_when_anything_has_changed(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name, partition)
        owner = owner_of(cluster, partition)
        led = owner.partitions.led["t", partition]
        words = cluster.worker.verifier.vouch(name, producer, [("t", partition)])
        assert words is not None
        [word] = words
        is_vouched = owner.verifier.is_vouched
        assert is_vouched(led, producer, word)
        coordinator_epoch, leader_epoch, topic_id = word
        assert not is_vouched(led, producer, (coordinator_epoch, leader_epoch + 1, topic_id))
        assert not is_vouched(led, producer, (coordinator_epoch, leader_epoch - 1, topic_id))
        assert not is_vouched(led, producer, (coordinator_epoch, leader_epoch, b"j" * 16))
        # A batch of the producer waits already: this one has to wait behind it.
        led.log.producers.verify(*producer, NO_SEQUENCE, 1)
        assert not is_vouched(led, producer, word)
        led.log.producers.end_verification(producer.producer_id)
        # The coordinator that has said it marks what came before; one after it may have ended this transaction.
        mark(cluster, partition, producer, coordinator_epoch=coordinator_epoch)
        assert is_vouched(led, producer, word)
        mark(cluster, partition, producer, coordinator_epoch=coordinator_epoch + 1)
        assert not is_vouched(led, producer, word)

    on_cluster(tmp_path, body)


def test_a_fenced_producer_has_no_word(tmp_path: Path) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name, partition)
        words = cluster.worker.verifier.vouch(name, producer, [("t", partition)])
        assert words is not None
        mark(cluster, partition, producer._replace(epoch=producer.epoch + 1), coordinator_epoch=words[0][0])
        owner = owner_of(cluster, partition)
        assert not owner.verifier.is_vouched(owner.partitions.led["t", partition], producer, words[0])
        older = producer._replace(epoch=producer.epoch - 1)
        assert cluster.worker.verifier.vouch(name, older, [("t", partition)]) is None

    on_cluster(tmp_path, body)


def test_the_marker_comes_behind_the_records_of_which_the_coordinator_spoke(
    tmp_path: Path, questions: Questions
) -> None:
    async def body(cluster: Cluster) -> None:
        name, partition = cluster.id_at(0), cluster.partition_at(1)
        producer = await cluster.producer(name, partition)
        connection = Connection()
        assert cluster.send(connection, name, (partition, batch(producer))) is None
        # Decided before the owner has read anything.
        await cluster.end(name, producer, is_commit=True)
        await until(lambda: bool(connection.answers))
        assert rows_of(connection.answers[0]) == [(ErrorCode.NONE, 0, None)]
        producers = owner_of(cluster, partition).partitions.led["t", partition].log.producers
        assert not producers.has_open_transaction(*producer)
        assert producers.first_unstable_offset is None
        assert cluster.values(partition) == [b"v"]
        # What is late is asked about, and refused.
        [(code, _offset, _message)] = await cluster.produce(name, (partition, batch(producer, 1)))
        assert code is ErrorCode.INVALID_TXN_STATE
        assert questions == [("t", partition)]

    on_cluster(tmp_path, body)
