"""The producer against a scripted broker: retries in order, sequences, acks, time-outs, splitting, closing."""

import threading

import pytest

from pkafka.clients.errors import BufferExhaustedError, ClientTimeoutError, ClosedError, DisconnectedError
from pkafka.clients.producer import Producer
from pkafka.clients.registry import IncompatibleSchemaError
from pkafka.clients.serialization import SerializationError
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.init_producer_id import InitProducerIdResponse
from pkafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pkafka.protocol.schema import Message
from pkafka.records.batch import read_header
from pkafka.records.reading import read_records
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.schema_registry import schema_registry
from tests.talk import wait_for
from tests.unit.clients.metadata_wait import wait_for_metadata

KEYS = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "linger.ms": 0}


class Log:
    """One partition that keeps what is produced to it, after the failures that the test planned."""

    def __init__(self, *failures: ErrorCode | None) -> None:
        self.failures = list(failures)
        self.values: list[bytes | None] = []
        self.sequences: list[int] = []
        self.epochs: list[int] = []
        self._next: dict[int, int] = {}

    def __call__(self, message: Message, version: int) -> Message | None:
        assert isinstance(message, ProduceRequest)
        if self.failures:
            code = self.failures.pop(0)
            if code is None:
                return None
            return _answer(message, code, -1)
        base = len(self.values)
        for topic in message.topic_data:
            for part in topic.partition_data:
                assert part.records is not None
                header = read_header(part.records)
                if header.producer_id >= 0:
                    if header.base_sequence != self._next.get(header.producer_epoch, 0):
                        return _answer(message, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
                    self._next[header.producer_epoch] = header.last_sequence + 1
                self.sequences.append(header.base_sequence)
                self.epochs.append(header.producer_epoch)
                self.values += [each.value for each in read_records(part.records)]
        return _answer(message, ErrorCode.NONE, base) if message.acks else NO_ANSWER


def _answer(message: ProduceRequest, code: ErrorCode, base: int) -> Message:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=part.index, error_code=code, base_offset=base)
                    for part in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )


def broker_with(log: Log) -> FakeBroker:
    broker = FakeBroker({"t": 1})
    broker.handlers[ApiKey.PRODUCE] = log
    broker.handlers[ApiKey.INIT_PRODUCER_ID] = lambda *_: InitProducerIdResponse(
        producer_id=7, producer_epoch=0
    )
    return broker


def test_records_arrive_in_order_with_offsets() -> None:
    log = Log()
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **KEYS}) as producer:
        futures = [producer.send("t", b"%d" % number) for number in range(100)]
        producer.flush(60)
        assert [each.result(0).offset for each in futures] == list(range(100))
    assert log.values == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, None])
def test_a_failure_that_passes_is_retried_with_the_same_sequence(failure: ErrorCode | None) -> None:
    log = Log(failure, failure)
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **KEYS}) as producer:
        futures = [producer.send("t", b"%d" % number) for number in range(50)]
        for each in futures:
            each.result(60)
    assert log.values == [b"%d" % number for number in range(50)]
    assert log.sequences == sorted(log.sequences)
    assert log.sequences[0] == 0


def test_a_final_failure_reaches_future_and_callback_and_later_records_go_on() -> None:
    log = Log(ErrorCode.INVALID_RECORD)
    outcomes: list[Exception | None] = []
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **KEYS}) as producer:
        future = producer.send("t", b"bad", callback=lambda _, error: outcomes.append(error))
        with pytest.raises(ApiError) as caught:
            future.result(60)
        assert producer.send("t", b"good").result(60).offset == 0
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert outcomes == [caught.value]
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 1
    # The failed batch left a gap: the sequence begins again, with the next epoch (KIP-360).
    assert (log.sequences, log.epochs) == ([0], [1])


def test_a_batch_that_may_have_arrived_or_not_does_not_stop_those_behind_it() -> None:
    log = Log(None, None)
    keys = {**KEYS, "retries": 1}
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **keys}) as producer:
        assert isinstance(producer.send("t", b"lost").exception(60), DisconnectedError)
        assert producer.send("t", b"kept").result(60).offset == 0
    assert (log.sequences, log.epochs) == ([0], [1])


def test_a_batch_too_large_for_the_broker_is_split() -> None:
    log = Log(ErrorCode.MESSAGE_TOO_LARGE)
    keys = {**KEYS, "linger.ms": 10_000, "delivery.timeout.ms": 60_000}
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **keys}) as producer:
        seen: list[int] = []
        futures = [
            producer.send("t", b"%d" % number, callback=lambda at, _: seen.append(at.offset if at else -1))
            for number in range(5)
        ]
        producer.flush(60)
        assert [each.result(60).offset for each in futures] == [0, 1, 2, 3, 4]
    assert log.values == [b"0", b"1", b"2", b"3", b"4"]
    assert seen == [0, 1, 2, 3, 4]


def test_acks_0_is_done_when_it_is_written() -> None:
    log = Log()
    keys = {**KEYS, "acks": 0}
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **keys}) as producer:
        assert producer.send("t", b"x").result(60).offset == -1
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 0


def test_delivery_timeout_bounds_the_retries() -> None:
    log = Log(*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 10_000)
    keys = {**KEYS, "delivery.timeout.ms": 200, "request.timeout.ms": 100}
    with broker_with(log) as broker, Producer({"bootstrap.servers": broker.bootstrap, **keys}) as producer:
        error = producer.send("t", b"x").exception(60)
    assert isinstance(error, ApiError | ClientTimeoutError)


def test_an_unknown_topic_fails_after_max_block() -> None:
    keys = {**KEYS, "max.block.ms": 500}
    with (
        broker_with(Log()) as broker,
        Producer({"bootstrap.servers": broker.bootstrap, **keys}) as producer,
        pytest.raises(ClientTimeoutError, match="not present in metadata"),
    ):
        producer.send("nope", b"x").result(0)


def test_a_topic_that_no_broker_could_have_fails_at_once() -> None:
    with (
        broker_with(Log()) as broker,
        Producer({"bootstrap.servers": broker.bootstrap, **KEYS}) as producer,
        pytest.raises(ApiError, match=r"Invalid topics: \[no pe\]"),
    ):
        producer.send("no pe", b"x").result(0)


def test_a_full_buffer_blocks_and_then_fails() -> None:
    blocked = threading.Event()

    def stall(*_: object) -> Message:
        blocked.wait(30)
        return NO_ANSWER

    keys = {**KEYS, "buffer.memory": 20_000, "batch.size": 10_000, "max.block.ms": 500}
    with broker_with(Log()) as broker:
        broker.handlers[ApiKey.PRODUCE] = stall
        producer = Producer({"bootstrap.servers": broker.bootstrap, **keys})
        wait_for_metadata(producer)
        producer.send("t", bytes(9_000))
        producer.send("t", bytes(9_000))
        with pytest.raises(BufferExhaustedError, match="Failed to allocate 10000 bytes"):
            producer.send("t", bytes(9_000)).result(0)
        blocked.set()
        producer.close(0)


def test_a_closed_producer_refuses_and_forced_close_fails_what_is_left() -> None:
    with broker_with(Log()) as broker:
        broker.handlers[ApiKey.PRODUCE] = lambda *_: NO_ANSWER
        producer = Producer({"bootstrap.servers": broker.bootstrap, **KEYS})
        future = producer.send("t", b"x")
        producer.close(0.05)
        assert isinstance(future.exception(60), Exception)
        with pytest.raises(ClosedError):
            producer.send("t", b"x")


def test_closing_waits_for_the_thread_that_closes_already() -> None:
    answers = threading.Event()
    with broker_with(Log()) as broker:
        answered = broker.handlers[ApiKey.PRODUCE]

        def produce(request: Message, version: int) -> Message | None:
            answers.wait(60)
            return answered(request, version)

        broker.handlers[ApiKey.PRODUCE] = produce
        producer = Producer({"bootstrap.servers": broker.bootstrap, **KEYS})
        future = producer.send("t", b"x")
        first = threading.Thread(target=producer.close)
        first.start()
        wait_for(lambda: producer._closed)
        threading.Timer(0.1, answers.set).start()
        producer.close()
        assert future.done()
        first.join()
        assert future.result(0).offset == 0


def test_a_record_larger_than_a_request_is_refused_at_once() -> None:
    keys = {**KEYS, "max.request.size": 1_000}
    with (
        broker_with(Log()) as broker,
        Producer({"bootstrap.servers": broker.bootstrap, **keys}) as producer,
        pytest.raises(ApiError) as caught,
    ):
        producer.send("t", bytes(2_000)).result(0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_idempotence_gives_way_only_when_not_asked_for() -> None:
    with pytest.raises(ConfigError, match="acks"):
        Producer({"bootstrap.servers": "h:1", "acks": 1, "enable.idempotence": True})


def test_avro_is_sent_with_the_id_that_the_registry_gives(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    with schema_registry("ann:secret") as registry, broker_with(log) as broker:
        keys = {
            **KEYS,
            "bootstrap.servers": broker.bootstrap,
            "schema.registry.url": registry.url,
            "basic.auth.user.info": "ann:secret",
            "normalize.schemas": True,
            "value.serializer": "io.confluent.kafka.serializers.KafkaAvroSerializer",
            "pkafka.value.avro.schema": '{"type": "array", "items": "long"}',
        }
        with Producer(keys) as producer:
            futures = [producer.send("t", [number]) for number in (1, 2)]
            producer.flush(60)
            assert [each.result(0).offset for each in futures] == [0, 1]
            with pytest.raises(SerializationError, match="does not fit its schema of Avro"):
                producer.send("t", ["three"])
        registry.incompatible.add("t-value")
        with Producer(keys) as producer, pytest.raises(IncompatibleSchemaError):
            producer.send("t", [3])
    assert log.values == [b"\0\0\0\0\1\2\2\0", b"\0\0\0\0\1\2\4\0"]
    assert "not known" not in caplog.text
