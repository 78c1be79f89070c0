"""What a transactional producer sends, drops and waits for; on a scripted broker."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pkafka.clients.errors import ClientError, ClientTimeoutError, ClosedError, IllegalStateError
from pkafka.clients.producer import (
    Partitioner,
    Producer,
    ProducerFencedError,
    RecordFuture,
    RecordMetadata,
    TransactionAbortedError,
    TransactionError,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from pkafka.protocol.messages.api_versions import FinalizedFeatureKey
from pkafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pkafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pkafka.protocol.schema import Message
from pkafka.records.batch import read_header
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.talk import wait_for
from tests.unit.clients.metadata_wait import wait_for_metadata

QUICK = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5}


def finalize(broker: FakeBroker, version: int, epoch: int = 1) -> None:
    """Be a broker of Kafka 4 whose cluster has finalized this transaction.version."""
    broker.versions |= {ApiKey.PRODUCE: (0, 13), ApiKey.END_TXN: (0, 5), ApiKey.TXN_OFFSET_COMMIT: (0, 5)}
    level = FinalizedFeatureKey(
        name="transaction.version", max_version_level=version, min_version_level=version
    )
    broker.features = {"finalized_features_epoch": epoch, "finalized_features": [level]}


class Coordinated:
    """A broker that is its own transaction coordinator; errors are answered while there are some."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.errors: dict[ApiKey, list[ErrorCode]] = {}
        self.silent: set[ApiKey] = set()
        self.ends: list[bool] = []
        self.batches: list[tuple[str | None, bool, int, int, int]] = []
        broker.handlers[ApiKey.FIND_COORDINATOR] = self._coordinator
        broker.handlers[ApiKey.INIT_PRODUCER_ID] = self._init
        broker.handlers[ApiKey.ADD_PARTITIONS_TO_TXN] = self._add
        broker.handlers[ApiKey.ADD_OFFSETS_TO_TXN] = lambda *_: AddOffsetsToTxnResponse()
        broker.handlers[ApiKey.TXN_OFFSET_COMMIT] = self._store
        broker.handlers[ApiKey.END_TXN] = self._end
        broker.handlers[ApiKey.PRODUCE] = self._append

    def _error(self, key: ApiKey) -> ErrorCode:
        errors = self.errors.get(key)
        return errors.pop(0) if errors else ErrorCode.NONE

    def _coordinator(self, message: Message, version: int) -> Message:
        assert isinstance(message, FindCoordinatorRequest)
        keys = message.coordinator_keys
        rows = [Coordinator(key=each, node_id=1, host="127.0.0.1", port=self.broker.port) for each in keys]
        return FindCoordinatorResponse(coordinators=rows)

    def _init(self, message: Message, version: int) -> Message:
        assert isinstance(message, InitProducerIdRequest)
        if ApiKey.INIT_PRODUCER_ID in self.silent:
            return NO_ANSWER
        epoch = message.producer_epoch + 1
        code = self._error(ApiKey.INIT_PRODUCER_ID)
        return InitProducerIdResponse(producer_id=7, producer_epoch=epoch, error_code=code)

    def _add(self, message: Message, version: int) -> Message:
        assert isinstance(message, AddPartitionsToTxnRequest)
        assert version <= 3, "later versions are for brokers"
        code = self._error(ApiKey.ADD_PARTITIONS_TO_TXN)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in message.v3_and_below_topics
            ]
        )

    def _end(self, message: Message, version: int) -> Message:
        assert isinstance(message, EndTxnRequest)
        if ApiKey.END_TXN in self.silent:
            return NO_ANSWER
        self.ends.append(message.committed)
        answer = EndTxnResponse(error_code=self._error(ApiKey.END_TXN))
        if version >= 5:
            answer.producer_id, answer.producer_epoch = message.producer_id, message.producer_epoch + 1
        return answer

    def _store(self, message: Message, version: int) -> Message:
        assert isinstance(message, TxnOffsetCommitRequest)
        rows = [TxnOffsetCommitResponsePartition(partition_index=0)]
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=rows)])

    def said(self) -> list[tuple[ApiKey, int]]:
        """The requests, and their versions; those of metadata and lookups left out."""
        left_out = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR}
        return [(key, version) for key, version, _ in self.broker.requests if key not in left_out]

    def _append(self, message: Message, version: int) -> Message:
        assert isinstance(message, ProduceRequest)
        is_silent = ApiKey.PRODUCE in self.silent  # before a test hears of the batch, and goes on
        rows = []
        for topic in message.topic_data:
            for part in topic.partition_data:
                assert part.records is not None
                header = read_header(part.records)
                self.batches.append(
                    (
                        message.transactional_id,
                        header.is_transactional,
                        header.producer_id,
                        header.producer_epoch,
                        header.base_sequence,
                    )
                )
                code = self._error(ApiKey.PRODUCE)
                row = PartitionProduceResponse(index=part.index, base_offset=3, error_code=code)
                rows.append(TopicProduceResponse(name=topic.name, partition_responses=[row]))
        return NO_ANSWER if is_silent else ProduceResponse(responses=rows)


@contextmanager
def running(*, finalized: int | None = None, **keys: object) -> Iterator[tuple[Coordinated, Producer]]:
    """A broker with a topic ``t`` of two partitions, and a producer; ``_`` in keys stands for ``.``."""
    with FakeBroker({"t": 2}) as broker:
        if finalized is not None:
            finalize(broker, finalized)
        coordinated = Coordinated(broker)
        dotted = {key.replace("_", "."): value for key, value in keys.items()}
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "mine", **QUICK, **dotted}
        )
        try:
            yield coordinated, producer
        finally:
            coordinated.silent.clear()
            producer.close(60)


def test_batches_say_that_they_are_of_a_transaction() -> None:
    with running() as (broker, producer):
        assert producer.config.client_id == "producer-mine"
        producer.init_transactions()
        for _ in range(2):
            with producer.transaction():
                producer.send("t", b"v", partition=0)
        assert broker.batches == [("mine", True, 7, 0, 0), ("mine", True, 7, 0, 1)]
        assert broker.ends == [True, True]


def test_a_commit_does_not_wait_for_linger() -> None:
    with running(linger_ms=60_000, delivery_timeout_ms=120_000) as (broker, producer):
        producer.init_transactions()
        begun = time.monotonic()
        with producer.transaction():
            future = producer.send("t", b"v", partition=0)
        assert future.result(0).offset == 3
        assert time.monotonic() - begun < 20
        producer.begin_transaction()
        waiting = producer.send("t", b"v", partition=0)
        wait_for(lambda: broker.broker.count(ApiKey.ADD_PARTITIONS_TO_TXN) == 2)
        assert not waiting.done(), "in the next transaction it lingers again"
        producer.abort_transaction()
        assert isinstance(waiting.exception(0), TransactionAbortedError)


def test_no_batch_goes_before_its_partition_is_in_the_transaction() -> None:
    with running() as (broker, producer):
        producer.init_transactions()
        broker.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
        with producer.transaction():
            producer.send("t", b"v", partition=1).result(60)
        kinds = [key for key, _, _ in broker.broker.requests]
        assert kinds.index(ApiKey.PRODUCE) > len(kinds) - 1 - kinds[::-1].index(ApiKey.ADD_PARTITIONS_TO_TXN)


def test_an_abort_drops_what_is_not_sent_and_tells_callbacks() -> None:
    told: list[tuple[RecordMetadata, Exception | None]] = []
    with running(linger_ms=60_000, delivery_timeout_ms=120_000) as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v", partition=0, callback=lambda *outcome: told.append(outcome))
        bulk = producer.send_batch("t", [b"w"] * 10, partition=1)
        producer.abort_transaction()
        assert isinstance(bulk.exception(0), TransactionAbortedError)
        (metadata, error) = told[0]
        assert (metadata.offset, type(error)) == (-1, TransactionAbortedError)
        assert broker.batches == []
        free = [
            each.value for name, each in producer.metrics().items() if name.name == "buffer-available-bytes"
        ]
        assert free == [producer.config.buffer_memory], "the memory was given back"


def test_an_abort_waits_for_what_is_under_way() -> None:
    with running(request_timeout_ms=400) as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        broker.silent.add(ApiKey.PRODUCE)
        future = producer.send("t", b"v", partition=0)
        wait_for(lambda: broker.batches)
        broker.silent.clear()
        producer.abort_transaction()
        assert (
            future.result(0).offset == 3
        )  # its second attempt was answered, or a later one on a busy machine
        assert len(broker.batches) > 1
        assert {each[4] for each in broker.batches} == {0}
        assert broker.said()[-1][0] is ApiKey.END_TXN


def test_a_refused_batch_fails_what_waits_and_begins_anew_with_the_next_epoch() -> None:
    with running() as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        broker.errors[ApiKey.PRODUCE] = [ErrorCode.INVALID_RECORD]
        error = producer.send("t", b"v", partition=0).exception(60)
        assert isinstance(error, ApiError)
        with pytest.raises(TransactionError, match="error state") as failed:
            producer.send("t", b"v")
        assert failed.value.__cause__ is error
        with pytest.raises(TransactionError):
            producer.send_batch("t", [b"v"])
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"v", partition=0)
        assert broker.batches[-1] == ("mine", True, 7, 1, 0)
        assert broker.ends == [False, True]


def test_a_fenced_producer_fails_everything() -> None:
    with running() as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        broker.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.PRODUCER_FENCED]
        assert isinstance(producer.send("t", b"v").exception(60), ProducerFencedError)
        assert isinstance(producer.send("t", b"v").exception(0), ProducerFencedError)
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(ProducerFencedError):
                call()
        with pytest.raises(ProducerFencedError):
            producer.send_batch("t", [b"v"])


def test_a_commit_that_fails_in_a_block_is_aborted_and_told() -> None:
    with running() as (broker, producer):
        producer.init_transactions()
        broker.errors[ApiKey.PRODUCE] = [ErrorCode.INVALID_RECORD]
        with pytest.raises((ApiError, TransactionError)) as failed, producer.transaction():
            producer.send("t", b"v", partition=0)
        # When the answer is quicker than the call of commit, that refuses, for the same reason.
        cause = failed.value.__cause__ if isinstance(failed.value, TransactionError) else failed.value
        assert isinstance(cause, ApiError)
        assert cause.code is ErrorCode.INVALID_RECORD
        assert broker.ends == [False]
        with producer.transaction():
            producer.send("t", b"v", partition=0)
        assert broker.ends == [False, True]


def test_calls_wait_no_longer_than_they_are_told_and_can_be_made_again() -> None:
    with running(max_block_ms=300, request_timeout_ms=1_000) as (broker, producer):
        broker.silent.add(ApiKey.INIT_PRODUCER_ID)
        with pytest.raises(ClientTimeoutError, match="300ms while awaiting init_transactions"):
            producer.init_transactions()
        with pytest.raises(IllegalStateError, match="`init_transactions` timed out"):
            producer.begin_transaction()
        broker.silent.clear()
        wait_for(
            lambda: _goes(producer.init_transactions), what="the attempt after the one without an answer"
        )
        producer.begin_transaction()


def _goes(call: Callable[[], None]) -> bool:
    try:
        call()
    except ClientTimeoutError:
        return False
    return True


def test_closing_ends_an_open_transaction_but_not_at_all_costs() -> None:
    with running(linger_ms=60_000, delivery_timeout_ms=120_000) as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send("t", b"v", partition=0)
        producer.close()
        assert future.result(0).offset == 3
        assert broker.ends == [False]
        with pytest.raises(ClosedError):
            producer.begin_transaction()
    with running(max_block_ms=200) as (broker, producer):
        wait_for(lambda: _goes(producer.init_transactions))
        wait_for_metadata(producer)
        producer.begin_transaction()
        producer.send("t", b"v", partition=0).result(60)
        broker.silent.add(ApiKey.END_TXN)
        begun = time.monotonic()
        producer.close()
        assert time.monotonic() - begun < 20


def test_what_comes_behind_the_end_of_its_transaction_waits_for_the_next_and_not_for_ever() -> None:
    """A thread may have begun to send before another one commits: the record is kept, as Kafka's producer keeps it."""
    chosen, go_on = threading.Event(), threading.Event()

    class Slow(Partitioner):
        def partition(self, topic: str, key: object, *_: object) -> int:
            if key == b"late":
                chosen.set()
                go_on.wait(30)
            return 0

    late: list[RecordFuture] = []
    with running(partitioner_class=Slow(), delivery_timeout_ms=60_000) as (broker, producer):
        producer.init_transactions()
        for _ in range(2):
            chosen.clear()
            go_on.clear()
            producer.begin_transaction()
            thread = threading.Thread(target=lambda: late.append(producer.send("t", b"v", b"late")))
            thread.start()
            assert chosen.wait(30)
            producer.commit_transaction()
            go_on.set()
            thread.join(30)
            if len(late) == 1:
                producer.begin_transaction()
                assert late[0].result(30).offset == 3
                producer.commit_transaction()
        begun = time.monotonic()
        producer.close()
        assert time.monotonic() - begun < 20
        assert isinstance(late[1].exception(0), ClosedError)
        assert len(broker.batches) == 1


def test_closing_at_once_lets_callers_go() -> None:
    with running() as (broker, producer):
        broker.silent.add(ApiKey.INIT_PRODUCER_ID)
        with pytest.raises(ClientTimeoutError):
            producer.init_transactions(0.05)
        producer.close(0)
        with pytest.raises(ClosedError):
            producer.init_transactions()


def test_a_callback_cannot_wait_for_transactions() -> None:
    raised: list[Exception] = []

    def called(*_: object) -> None:
        try:
            producer.commit_transaction()
        except ClientError as error:
            raised.append(error)

    with running() as (_, producer):
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"v", callback=called)
    assert "callback" in str(raised[0])


def test_a_record_that_is_not_taken_spoils_the_transaction() -> None:
    with running(max_request_size=500) as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        error = producer.send("t", bytes(1_000)).exception(0)
        assert isinstance(error, ApiError)
        with pytest.raises(TransactionError) as failed:
            producer.commit_transaction()
        assert failed.value.__cause__ is error
        producer.abort_transaction()
        producer.begin_transaction()
        failure = producer.send_batch("t", [bytes(1_000)]).exception(0)
        with pytest.raises(TransactionError) as failed:
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
        assert failed.value.__cause__ is failure
        producer.abort_transaction()
        assert broker.ends == []


def test_a_plain_producer_has_no_transactions() -> None:
    with FakeBroker({"t": 1}) as broker, Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(IllegalStateError, match="non-transactional producer"):
                call()


# -- transaction.version 2 ----------------------------------------------------------------------------------------


def test_with_version_2_records_and_offsets_say_all_and_each_transaction_has_its_epoch() -> None:
    with running(finalized=2) as (broker, producer):
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"v", partition=0).result(60)
            producer.send("t", b"v", partition=0).result(60)
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
        broker.errors[ApiKey.PRODUCE] = [ErrorCode.INVALID_RECORD]
        producer.begin_transaction()
        assert isinstance(producer.send("t", b"v", partition=0).exception(60), ApiError)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"v", partition=0)
        assert broker.batches == [("mine", True, 7, *each) for each in ((0, 0), (0, 1), (1, 0), (2, 0))]
        assert broker.said() == [
            (ApiKey.INIT_PRODUCER_ID, 5),
            (ApiKey.PRODUCE, 12),
            (ApiKey.PRODUCE, 12),
            (ApiKey.TXN_OFFSET_COMMIT, 5),
            (ApiKey.END_TXN, 5),
            (ApiKey.PRODUCE, 12),
            (ApiKey.END_TXN, 5),
            (ApiKey.PRODUCE, 12),
            (ApiKey.END_TXN, 5),
        ]


@pytest.mark.parametrize("finalized", [0, 1])
def test_with_an_older_version_a_newer_broker_hears_what_an_older_one_does(finalized: int) -> None:
    """A later version of Produce alone would begin a transaction of version 2."""
    with running(finalized=finalized) as (broker, producer):
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"v", partition=0).result(60)
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
        assert broker.said() == [
            (ApiKey.INIT_PRODUCER_ID, 5),
            (ApiKey.ADD_PARTITIONS_TO_TXN, 3),
            (ApiKey.PRODUCE, 11),
            (ApiKey.ADD_OFFSETS_TO_TXN, 4),
            (ApiKey.TXN_OFFSET_COMMIT, 4),
            (ApiKey.END_TXN, 4),
        ]


def test_a_producer_hears_of_an_upgrade_when_it_connects_again() -> None:
    with running(finalized=1, reconnect_backoff_ms=5) as (broker, producer):
        producer.init_transactions()
        producer.begin_transaction()
        finalize(broker.broker, 2, epoch=2)
        broker.broker.handlers.pop(ApiKey.PRODUCE)  # it closes the connection instead
        future = producer.send("t", b"v", partition=0)
        wait_for(lambda: broker.broker.count(ApiKey.PRODUCE) >= 2, what="another attempt")
        broker.broker.handlers[ApiKey.PRODUCE] = broker._append
        assert future.result(60).offset == 3
        producer.commit_transaction()
        with producer.transaction():
            producer.send("t", b"v", partition=0)
        said = broker.said()
        first = said.index((ApiKey.END_TXN, 4))
        assert (ApiKey.PRODUCE, 12) not in said[:first], "a transaction ends in the version in which it began"
        assert said[first:] == [
            (ApiKey.END_TXN, 4),
            (ApiKey.INIT_PRODUCER_ID, 5),
            (ApiKey.PRODUCE, 12),
            (ApiKey.END_TXN, 5),
        ]
        assert broker.batches[-1] == ("mine", True, 7, 1, 0)
