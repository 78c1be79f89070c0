"""The consumer against a scripted broker: positions, sessions, resets, errors, one thread at a time."""

import threading

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.sessions import FetchPosition, FetchSession
from pkafka.clients.errors import NoOffsetError, WakeupError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pkafka.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from tests.fakes.broker import FakeBroker
from tests.talk import wait_for

T0 = TopicPartition("t", 0)
KEYS = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "fetch.max.wait.ms": 1}


class Log:
    """One partition with records of one batch each, which answers Fetch and ListOffsets."""

    def __init__(self, count: int, *failures: ErrorCode) -> None:
        self.batches = [
            bytes(build_batch([(1_000 + number, None, b"%d" % number, ())], base_offset=number))
            for number in range(count)
        ]
        self.failures = list(failures)
        self.session_failures: list[ErrorCode] = []
        self.session = 0
        self.epochs: list[int] = []
        self.aborted: list[AbortedTransaction] | None = None
        self.wanted = 0

    def fetch(self, message: Message, version: int) -> Message:
        assert isinstance(message, FetchRequest)
        self.epochs.append(message.session_epoch)
        if self.session_failures:
            return FetchResponse(error_code=self.session_failures.pop(0), responses=[])
        for topic in message.topics:
            self.wanted = topic.partitions[0].fetch_offset
        data = PartitionData(
            partition_index=0,
            high_watermark=len(self.batches),
            records=b"",
            aborted_transactions=self.aborted,
        )
        if self.failures:
            data.error_code = self.failures.pop(0)
        elif self.wanted > len(self.batches):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            data.records = b"".join(self.batches[self.wanted :])
        if not data.records and not data.error_code:
            return FetchResponse(session_id=5, responses=[])
        row = FetchableTopicResponse(
            topic="t" if version < 13 else "", topic_id=b"t".ljust(16, b"\1"), partitions=[data]
        )
        return FetchResponse(session_id=5, responses=[row])

    def offsets(self, message: Message, version: int) -> Message:
        assert isinstance(message, ListOffsetsRequest)
        asked = message.topics[0].partitions[0].timestamp
        offset = {-1: len(self.batches), -2: 0}.get(asked, asked - 1_000)
        row = ListOffsetsPartitionResponse(partition_index=0, offset=offset, timestamp=asked)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])


def broker_with(log: Log) -> FakeBroker:
    broker = FakeBroker({"t": 1})
    broker.handlers[ApiKey.FETCH] = log.fetch
    broker.handlers[ApiKey.LIST_OFFSETS] = log.offsets
    return broker


def consumer_of(broker: FakeBroker, **keys: object) -> Consumer:
    values: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap,
        "auto.offset.reset": "earliest",
        **KEYS,
    }
    values.update({key.replace("_", "."): value for key, value in keys.items()})
    consumer = Consumer(values)
    consumer.assign([T0])
    return consumer


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    for _ in range(200):
        values += [each.value for each in consumer.poll(50)]
        if len(values) >= count:
            return values
    raise AssertionError(f"only {len(values)} of {count} records came")


def test_all_records_come_once_in_order_within_one_session() -> None:
    log = Log(20)
    with broker_with(log) as broker, consumer_of(broker, max_poll_records=7) as consumer:
        assert read(consumer, 20) == [b"%d" % number for number in range(20)]
        assert consumer.position(T0) == 20
        assert consumer.lag(T0) == 0
        consumer.poll(20)
    assert log.epochs[:2] == [0, 1]


def test_seek_moves_within_a_batch_and_by_time() -> None:
    with broker_with(Log(10)) as broker, consumer_of(broker) as consumer:
        consumer.seek(T0, 8)
        assert read(consumer, 2) == [b"8", b"9"]
        consumer.seek_to_time(1_005)
        assert read(consumer, 5)[0] == b"5"
        consumer.seek_to_end()
        assert consumer.position(T0) == 10
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(T0, -1)
        with pytest.raises(ValueError, match="No current assignment"):
            consumer.seek(TopicPartition("t", 9), 0)


def test_a_position_out_of_range_follows_the_reset_policy() -> None:
    with broker_with(Log(3)) as broker, consumer_of(broker) as consumer:
        consumer.seek(T0, 99)
        assert read(consumer, 3)[0] == b"0"
    with broker_with(Log(3)) as broker, consumer_of(broker, auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetError):
            consumer.poll(50)
        consumer.seek(T0, 99)
        with pytest.raises(NoOffsetError, match="99"):
            read(consumer, 1)


def test_a_lost_session_begins_anew_and_loses_nothing() -> None:
    log = Log(5)
    log.session_failures = [ErrorCode.FETCH_SESSION_ID_NOT_FOUND]
    with broker_with(log) as broker, consumer_of(broker) as consumer:
        assert len(read(consumer, 5)) == 5
    assert log.epochs[:2] == [0, 0]


def test_moving_leaders_are_waited_for_and_other_errors_raised() -> None:
    with broker_with(Log(2, ErrorCode.NOT_LEADER_OR_FOLLOWER)) as broker, consumer_of(broker) as consumer:
        assert len(read(consumer, 2)) == 2
        # Sent before the second fetch, on another turn of the broker's.
        wait_for(lambda: not consumer.poll(5) and broker.count(ApiKey.METADATA) >= 2)
    with (
        broker_with(Log(2, ErrorCode.TOPIC_AUTHORIZATION_FAILED)) as broker,
        consumer_of(broker) as consumer,
        pytest.raises(ApiError) as caught,
    ):
        read(consumer, 2)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_damaged_batch_is_refused_unless_checks_are_off() -> None:
    log = Log(1)
    damaged = bytearray(log.batches[0])
    damaged[40] ^= 1
    log.batches[0] = bytes(damaged)
    with broker_with(log) as broker, consumer_of(broker) as consumer, pytest.raises(ApiError) as caught:
        read(consumer, 1)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    with broker_with(log) as broker, consumer_of(broker, check_crcs=False) as consumer:
        assert len(read(consumer, 1)) == 1


def test_read_committed_leaves_aborted_batches_out() -> None:
    log = Log(0)
    for offset, producer in enumerate((7, 8)):
        batch = build_batch(
            [(1, None, b"%d" % producer, ())],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.batches.append(bytes(batch))
    log.aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    with broker_with(log) as broker, consumer_of(broker, isolation_level="read_committed") as consumer:
        assert read(consumer, 1) == [b"8"]
        assert consumer.position(T0) == 2


def test_a_paused_partition_returns_nothing() -> None:
    with broker_with(Log(2)) as broker, consumer_of(broker) as consumer:
        consumer.pause([T0])
        assert consumer.poll(30) == []
        consumer.resume([T0])
        assert len(read(consumer, 2)) == 2


def test_wakeup_ends_a_poll_and_a_second_thread_is_refused() -> None:
    log, polling = Log(0), threading.Event()
    caught: list[Exception] = []

    def fetch(message: Message, version: int) -> Message:
        polling.set()
        return log.fetch(message, version)

    with broker_with(log) as broker, consumer_of(broker) as consumer:
        broker.handlers[ApiKey.FETCH] = fetch

        def poll() -> None:
            try:
                consumer.poll(60_000)
            except WakeupError as error:
                caught.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        assert polling.wait(60)
        with pytest.raises(RuntimeError, match="multi-threaded"):
            consumer.poll(0)
        consumer.wakeup()
        thread.join(60)
    assert len(caught) == 1


def test_what_an_interrupt_kept_from_being_returned_comes_again() -> None:
    def interrupt(data: bytes) -> bytes:
        if data == b"3" and not interrupted:
            interrupted.append(data)
            raise KeyboardInterrupt
        return data

    interrupted: list[bytes] = []
    with broker_with(Log(5)) as broker, consumer_of(broker, value_deserializer=interrupt) as consumer:
        with pytest.raises(KeyboardInterrupt):
            read(consumer, 5)
        assert consumer.position(T0) == 0
        assert len(read(consumer, 5)) == 5


def test_a_session_sends_only_changes_and_forgets_what_is_gone() -> None:
    session = FetchSession()
    first = FetchPosition(b"a" * 16, 0, 0, 100)
    request = FetchRequest(topics=[])
    assert session.fill(request, {T0: first, TopicPartition("t", 1): first}) is None
    assert request.session_epoch == 0
    assert len(request.topics[0].partitions) == 2
    session.answered(FetchResponse(session_id=9, responses=[]))
    request = FetchRequest(topics=[])
    session.fill(request, {T0: first._replace(offset=5)})
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert [each.fetch_offset for each in request.topics[0].partitions] == [5]
    assert request.forgotten_topics_data[0].partitions == [1]
    assert session.fill(FetchRequest(topics=[]), {T0: first._replace(topic_id=bytes(16))}) == 12


def test_offsets_of_a_topic_that_is_not_subscribed_are_asked_of_the_leader_of_now() -> None:
    """Nothing else asks for its metadata: without that every try would go to the leader of before."""
    log = Log(7)
    with FakeBroker({"t": 1}) as before, broker_with(log) as after:

        def not_any_more(message: Message, version: int) -> Message:
            before.handlers[ApiKey.METADATA] = moved
            row = ListOffsetsPartitionResponse(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])

        def moved(message: Message, version: int) -> Message:
            answer = before._metadata(message, version)
            assert isinstance(answer, MetadataResponse)
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=after.port))
            for topic in answer.topics:
                topic.partitions[0].leader_id = 2
            return answer

        before.handlers[ApiKey.LIST_OFFSETS] = not_any_more
        with Consumer({"bootstrap.servers": before.bootstrap, **KEYS}) as consumer:
            assert consumer.end_offsets([T0], timeout_ms=60_000) == {T0: 7}
        assert before.count(ApiKey.LIST_OFFSETS) == 1
