"""What a user of the producer sees: callbacks, futures, plug-ins, bulk sends, memory, closing. On a scripted broker."""

import gc
import multiprocessing
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pkafka.clients.cluster import ClusterView
from pkafka.clients.errors import BufferExhaustedError, ClientError, ClientTimeoutError, ClosedError
from pkafka.clients.metrics import Metric
from pkafka.clients.producer import BatchFuture, Producer, ProducerRecord, RecordFuture, RecordMetadata
from pkafka.clients.serialization import SerializationError
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.init_producer_id import InitProducerIdResponse
from pkafka.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from pkafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pkafka.protocol.schema import Message
from pkafka.records.batch import read_header
from pkafka.records.reading import Record, read_records
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.talk import wait_for
from tests.unit.clients.metadata_wait import wait_for_metadata

FAST = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5}


class Logs:
    """Partitions that keep what is produced to them; ``answer`` may come in between."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.records: dict[tuple[str, int], list[Record]] = {}
        self.batch_sizes: list[int] = []
        self.held = threading.Event()
        self.held.set()
        self.errors: list[PartitionProduceResponse | None] = []
        self.throttle_ms = 0
        self.endpoints: list[NodeEndpoint] = []
        self._lock = threading.Lock()
        broker.handlers[ApiKey.PRODUCE] = self._append
        broker.handlers[ApiKey.INIT_PRODUCER_ID] = lambda *_: InitProducerIdResponse(
            producer_id=7, producer_epoch=0
        )

    def values(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        return [each.value for each in self.records.get((topic, partition), [])]

    def count(self) -> int:
        return sum(map(len, self.records.values()))

    def _append(self, message: Message, version: int) -> Message | None:
        assert isinstance(message, ProduceRequest)
        self.held.wait(30)
        answers = []
        with self._lock:
            for topic in message.topic_data:
                rows = []
                for part in topic.partition_data:
                    assert part.records is not None
                    if self.errors:
                        error = self.errors.pop(0)
                        if error is None:
                            return None
                        error.index = part.index
                        rows.append(error)
                        continue
                    log = self.records.setdefault((topic.name, part.index), [])
                    rows.append(PartitionProduceResponse(index=part.index, base_offset=len(log)))
                    self.batch_sizes.append(read_header(part.records).size_bytes)
                    log += read_records(part.records)
                answers.append(TopicProduceResponse(name=topic.name, partition_responses=rows))
        answer = ProduceResponse(
            responses=answers, throttle_time_ms=self.throttle_ms, node_endpoints=self.endpoints
        )
        return answer if message.acks else NO_ANSWER


@contextmanager
def running(topics: dict[str, int] | None = None, **keys: object) -> Iterator[tuple[Logs, Producer]]:
    """A broker with a topic ``t`` and a producer for it; ``_`` in keys stands for ``.``."""
    with FakeBroker(topics or {"t": 1}) as broker:
        logs = Logs(broker)
        dotted = {key.replace("_", "."): value for key, value in keys.items()}
        producer = Producer({"bootstrap.servers": broker.bootstrap, **FAST, **dotted})
        try:
            yield logs, producer
        finally:
            logs.held.set()
            producer.close(60)


def error(code: ErrorCode, **more: Any) -> PartitionProduceResponse:
    return PartitionProduceResponse(error_code=code, base_offset=-1, **more)


# -- callbacks and futures -------------------------------------------------------------------------------------


def test_callbacks_come_once_in_order_from_one_thread_before_the_future_is_done() -> None:
    seen: list[tuple[int, str, bool]] = []
    futures: list[RecordFuture] = []

    def called(metadata: RecordMetadata, failure: Exception | None) -> None:
        assert failure is None
        done = futures[metadata.offset].done() if metadata.offset < len(futures) else False
        seen.append((metadata.offset, threading.current_thread().name, done))

    with running(linger_ms=5) as (_, producer):
        for number in range(500):
            futures.append(producer.send("t", b"%d" % number, callback=called))
        producer.flush(60)
        assert [offset for offset, _, _ in seen] == list(range(500))
        assert {name for _, name, _ in seen} == {
            f"kafka-producer-network-thread | {producer.config.client_id}"
        }
        assert not any(done for _, _, done in seen)
        assert all(each.done() for each in futures)


def test_a_callback_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with running() as (_, producer):
        bad = producer.send("t", b"a", callback=lambda *_: 1 / 0)  # type: ignore[arg-type] # on purpose
        assert bad.result(60).offset == 0
        assert producer.send("t", b"b").result(60).offset == 1
    assert "ZeroDivisionError" in caplog.text


def test_the_future_has_the_methods_of_concurrent_futures() -> None:
    done: list[RecordFuture] = []
    with running() as (logs, producer):
        logs.held.clear()
        future = producer.send("t", b"xyz", b"k", timestamp_ms=5)
        future.add_done_callback(done.append)
        assert (future.done(), future.running(), future.cancel(), future.cancelled()) == (
            False,
            True,
            False,
            False,
        )
        with pytest.raises(ClientTimeoutError, match="not acknowledged"):
            future.result(0.01)
        assert done == []
        logs.held.set()
        assert future.result(60) == RecordMetadata("t", 0, 0, 5, 1, 3)
        wait_for(lambda: done == [future])
        future.add_done_callback(done.append)
        assert done == [future, future]
        assert future.exception() is None


def test_what_fails_before_it_is_sent_is_the_futures_and_the_callbacks_to_tell() -> None:
    outcomes: list[tuple[RecordMetadata, Exception | None]] = []
    with running(max_request_size=1_000) as (_, producer):
        future = producer.send("t", bytes(2_000), callback=lambda *each: outcomes.append(each))
        assert future.done()
        failure = future.exception()
        assert isinstance(failure, ApiError)
        assert failure.code is ErrorCode.MESSAGE_TOO_LARGE
        assert "The message is 2086 bytes when serialized which is larger than 1000" in str(failure)
        assert outcomes == [(RecordMetadata("t", -1, -1, -1), failure)]
        with pytest.raises(ValueError, match="Invalid partition: -1"):
            producer.send("t", b"x", partition=-1)
        with pytest.raises(ValueError, match="Invalid timestamp: -1"):
            producer.send("t", b"x", timestamp_ms=-1)
        with pytest.raises(SerializationError, match="Can't convert value of class str"):
            producer.send("t", "text")


def test_errors_of_single_records_reach_those_records() -> None:
    with running(linger_ms=10_000) as (logs, producer):
        own = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
        logs.errors.append(error(ErrorCode.INVALID_RECORD, record_errors=[own], error_message="some are bad"))
        futures = [producer.send("t", b"%d" % number) for number in range(3)]
        producer.flush(60)
        texts = [str(each.exception(0)) for each in futures]
    assert "no key" in texts[1]
    assert all("part of a batch which had one more more invalid records" in texts[index] for index in (0, 2))


# -- bulk --------------------------------------------------------------------------------------------------------


def test_a_batch_of_records_has_one_outcome_and_keeps_its_order_with_single_ones() -> None:
    with running(linger_ms=10_000) as (logs, producer):
        first = producer.send("t", b"first")
        future = producer.send_batch("t", [b"%d" % number for number in range(10_000)], timestamp_ms=9)
        last = producer.send("t", b"last")
        producer.flush(60)
        runs = future.result(0)
        assert future.done()
        assert [position for run in runs for position in run.positions] == list(range(10_000))
        assert [(run.offset, run.timestamp_ms) for run in runs[:1]] == [(1, 9)]
        assert sum(run.length for run in runs) == 10_000
        assert (first.result(0).offset, last.result(0).offset) == (0, 10_001)
        assert producer.send_batch("t", []).result(0) == []
    assert logs.values() == [b"first", *(b"%d" % number for number in range(10_000)), b"last"]
    assert max(logs.batch_sizes) <= 262_144


def test_keys_decide_the_partition_of_each_record() -> None:
    keys: list[bytes | None] = [b"k%d" % (number % 7) for number in range(100)]
    values = [b"%d" % number for number in range(100)]
    with running({"t": 4}) as (logs, producer):
        single = [producer.send("t", value, key) for key, value in zip(keys, values, strict=True)]
        producer.flush(60)
        alone = dict(logs.records)
        logs.records.clear()
        runs = producer.send_batch("t", values, keys).result(60)
        assert {run.partition for run in runs} == {each.result(0).partition for each in single}
        for run in runs:
            kept = [each.value for each in logs.records["t", run.partition]][run.offset :][: run.length]
            assert kept == [values[position] for position in run.positions]
    assert {place: [each.value for each in log] for place, log in logs.records.items()} == {
        place: [each.value for each in log] for place, log in alone.items()
    }


def test_records_without_a_key_are_spread_in_runs_and_null_values_are_sent() -> None:
    with running({"t": 3}, batch_size=1_000) as (logs, producer):
        producer.send_batch("t", [b"x" * 90] * 600).result(60)
        assert len(logs.records) == 3
        assert max(logs.batch_sizes) <= 1_000
        run = producer.send_batch("t", [None, b"v"], [b"k", None], partition=2, headers=[("h", b"1")]).result(
            60
        )
        assert (run[0].partition, run[0].length) == (2, 2)
        last = logs.records["t", 2][-2:]
        assert [(each.key, each.value, each.headers) for each in last] == [
            (b"k", None, (("h", b"1"),)),
            (None, b"v", (("h", b"1"),)),
        ]


def test_a_batch_of_records_says_what_was_not_sent() -> None:
    with running(buffer_memory=30_000, batch_size=10_000, max_block_ms=200) as (logs, producer):
        wait_for_metadata(producer)
        logs.held.clear()
        future = producer.send_batch("t", [b"x" * 1_000] * 100)
        logs.held.set()
        with pytest.raises(BufferExhaustedError):
            future.result(60)
        good, bad = future.outcomes()[:-1], future.outcomes()[-1]
        assert isinstance(bad.error, BufferExhaustedError)
        assert sum(run.length for run in good) + bad.length == 100
        assert logs.count() == 100 - bad.length > 0
        assert list(bad.positions) == list(range(100 - bad.length, 100))
        for values, failure in ([b"x", "y"], SerializationError), ([b"x", 5], SerializationError):
            with pytest.raises(failure):
                producer.send_batch("t", values)
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            producer.send_batch("t", [b"x", b"y"], [b"k"])
    with running(max_request_size=1_000) as (logs, producer):
        future = producer.send_batch("t", [b"x", bytes(1_000)])
        assert isinstance(future.exception(0), ApiError)
        assert logs.count() == 0


@pytest.mark.parametrize("in_bulk", [False, True])
def test_a_future_with_a_callback_leaves_nothing_to_collect(in_bulk: bool) -> None:
    """Its batch has a quarter of a megabyte, and a fast producer thousands of batches before anybody collects."""

    class Told:
        count = 0

        def __call__(self, _future: object) -> None:
            Told.count += 1

    told = Told()
    gone = weakref.ref(told)
    with running() as (logs, producer):
        logs.held.clear()
        future = producer.send_batch("t", [b"x"]) if in_bulk else producer.send("t", b"x")
        future.add_done_callback(told)
        del told, future
        gc.collect()
        assert gone() is not None
        gc.disable()
        try:
            logs.held.set()
            producer.flush(60)
            wait_for(lambda: Told.count == 1)
            wait_for(lambda: gone() is None)
        finally:
            gc.enable()


def test_halves_of_a_batch_that_was_too_large_tell_where_their_records_are() -> None:
    with running(linger_ms=10_000) as (logs, producer):
        logs.errors += [error(ErrorCode.MESSAGE_TOO_LARGE)] * 3
        called: list[int] = []
        one = producer.send("t", b"0", callback=lambda metadata, _: called.append(metadata.offset))
        many = producer.send_batch("t", [b"%d" % number for number in range(1, 9)])
        done: list[object] = []
        many.add_done_callback(done.append)
        one.add_done_callback(done.append)
        producer.flush(60)
        assert one.result(0).offset == 0
        offsets = [run.offset + step for run in many.result(0) for step in range(run.length)]
        assert offsets == list(range(1, 9))
        wait_for(lambda: len(done) == 2)
    assert called == [0]
    assert logs.values() == [b"%d" % number for number in range(9)]


# -- plug-ins ----------------------------------------------------------------------------------------------------


class Marks:
    """An interceptor that marks what goes and notes what comes."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, Exception | None]] = []
        self.closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, f"{record.value}!", record.key, headers=[("seen", b"1")])

    def on_acknowledgement(self, metadata: RecordMetadata, failure: Exception | None) -> None:
        self.noted.append((metadata.offset, failure))

    def close(self) -> None:
        self.closed = True


class Breaks:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise KeyError("on_send")

    def on_acknowledgement(self, metadata: RecordMetadata, failure: Exception | None) -> None:
        raise KeyError("on_acknowledgement")


def test_interceptors_see_records_before_serializers_and_outcomes_before_callbacks() -> None:
    marks = Marks()
    order: list[int] = []
    with running(
        interceptor_classes=[marks, Breaks],
        value_serializer="org.apache.kafka.common.serialization.StringSerializer",
        max_request_size=2_000,
    ) as (logs, producer):
        future = producer.send(ProducerRecord("t", "a"), callback=lambda *_: order.append(len(marks.noted)))
        assert future.result(60).offset == 0
        assert producer.send("t", "b" * 3_000).exception(0) is not None
        producer.send_batch("t", ["c", "d"]).result(60)
    assert logs.values() == [b"a!", b"c!", b"d!"]
    assert logs.records["t", 0][0].headers == (("seen", b"1"),)
    assert [offset for offset, _ in marks.noted] == [0, -1, 1, 2]
    assert order == [1]
    assert marks.closed


def test_serializers_are_configured_used_and_closed() -> None:
    class Upper:
        closed = False

        def configure(self, configs: dict[str, object], *, is_key: bool) -> None:
            self.suffix = f"{configs['suffix']}{is_key}"

        def serialize(self, topic: str, data: Any, headers: object = ()) -> bytes:
            return f"{topic}:{data}{self.suffix}".encode()

        def close(self) -> None:
            self.closed = True

    upper = Upper()
    with running(value_serializer=upper, key_serializer="UUIDSerializer", suffix="?") as (logs, producer):
        producer.send("t", 5, uuid.UUID(int=1)).result(60)
        producer.send_batch("t", [6], [uuid.UUID(int=1)]).result(60)
        with pytest.raises(SerializationError):
            producer.send("t", 5, "no uuid")
    assert logs.values() == [b"t:5?False", b"t:6?False"]
    assert logs.records["t", 0][0].key == b"00000000-0000-0000-0000-000000000001"
    assert upper.closed
    with pytest.raises(ConfigError) as caught:
        Producer({"bootstrap.servers": "h:1", "value.serializer": "no.such.Class"})
    assert caught.value.key == "value.serializer"


def test_a_partitioner_of_ones_own_decides() -> None:
    class ByLength:
        def partition(
            self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: ClusterView
        ) -> int:
            return len(value) if len(value) < 3 else -1

    with running({"t": 3}, partitioner_class=ByLength) as (_, producer):
        assert producer.send("t", b"xx").result(60).partition == 2
        assert producer.send("t", b"xx", partition=0).result(60).partition == 0
        assert [run.partition for run in producer.send_batch("t", [b"x", b"", b"xx"]).result(60)] == [1, 0, 2]
        with pytest.raises(ValueError, match="The partitioner generated an invalid partition number: -1"):
            producer.send("t", b"xxx")
    with running({"t": 3}, partitioner_class="RoundRobinPartitioner") as (_, producer):
        assert [producer.send("t", b"x", b"k").result(60).partition for _ in range(4)] == [0, 1, 2, 0]


def test_keys_can_be_left_out_of_the_choice() -> None:
    with running({"t": 8}, partitioner_ignore_keys=True, batch_size=200) as (logs, producer):
        for _ in range(60):
            producer.send("t", b"x" * 50, b"same")
        producer.flush(60)
    assert len(logs.records) > 3


def test_metrics_have_kafkas_names_and_reporters_see_them() -> None:
    class Reporter:
        def __init__(self) -> None:
            self.names: set[str] = set()
            self.closed = False

        def init(self, metrics: list[Metric]) -> None:
            assert metrics == []

        def metric_change(self, metric: Metric) -> None:
            self.names.add(metric.name.name)

        def metric_removal(self, metric: Metric) -> None:
            raise AssertionError

        def close(self) -> None:
            self.closed = True

    reporter = Reporter()
    with running(metric_reporters=[reporter], client_id="me", compression_type="gzip") as (logs, producer):
        logs.errors.append(error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for _ in range(3):
            producer.send("t", b"x" * 1_000).result(60)
        logs.errors.append(error(ErrorCode.INVALID_RECORD))
        assert producer.send("t", b"x").exception(60)
        found = {
            (name.name, name.tag("topic")): each.value
            for name, each in producer.metrics().items()
            if name.tag("client-id") == "me" and name.group != "producer-node-metrics"
        }
        assert found["record-send-total", None] == found["record-send-total", "t"] == 4
        assert found["record-retry-total", None] == found["record-retry-total", "t"] == 1
        assert found["record-error-total", None] == found["record-error-total", "t"] == 1
        assert found["buffer-total-bytes", None] == found["buffer-available-bytes", None] == 33_554_432
        assert 0 < found["compression-rate-avg", None] < 1
        assert found["records-per-request-avg", None] == 1
        assert found["requests-in-flight", None] == found["waiting-threads", None] == 0
        assert found["metadata-age", None] >= 0
        assert found["connection-count", None] == 1
        assert found["request-total", None] == found["response-total", None] >= 6
        nodes = {name.tag("node-id") for name in producer.metrics() if name.group == "producer-node-metrics"}
        assert "node-1" in nodes
        assert producer._metrics.value("request-latency-max", node_id="node-1") > 0
        assert found["outgoing-byte-total", None] > 300
    assert {"record-send-rate", "batch-size-avg", "request-latency-max", "byte-total"} <= reporter.names
    assert reporter.closed


# -- batches, memory, time ---------------------------------------------------------------------------------------


def test_linger_gathers_until_the_batch_is_full() -> None:
    with running(linger_ms=60_000, delivery_timeout_ms=100_000, batch_size=1_000) as (logs, producer):
        futures = [producer.send("t", b"x" * 90) for _ in range(25)]
        assert futures[0].result(60).offset == 0
        assert not futures[-1].done()
        producer.flush(60)
        assert len(logs.batch_sizes) == 3


def test_compression_fills_batches_by_what_is_left_of_them() -> None:
    with running(
        compression_type="zstd", compression_zstd_level=19, linger_ms=60_000, delivery_timeout_ms=100_000
    ) as (
        logs,
        producer,
    ):
        for _ in range(200):
            producer.send_batch("t", [b"x" * 1_000] * 100, partition=0)
            producer.flush(60)
        logs.batch_sizes.clear()
        for _ in range(100):
            producer.send("t", b"x" * 1_000)
        assert logs.batch_sizes == []  # 100 kB that become a few hundred bytes are no full batch of 16 kB yet
        producer.flush(60)
        assert len(logs.batch_sizes) == 1


def test_batches_take_the_memory_that_they_need_and_not_what_they_may_grow_to() -> None:
    keys: dict[str, Any] = {"linger_ms": 60_000, "delivery_timeout_ms": 100_000, "max_block_ms": 20_000}
    with running({"t": 50}, buffer_memory=1_000_000, compression_type="lz4", **keys) as (logs, producer):
        free = _gauge(producer, "buffer-available-bytes")
        producer.partitions_for("t")
        producer._topics["t"].ratio = 0.05  # so that a batch may have twenty times batch.size
        futures = [producer.send("t", b"x", partition=index) for index in range(50)]
        assert free() == 1_000_000 - 50 * 16_384
        futures += [producer.send("t", bytes(10_000), partition=0) for _ in range(5)]
        assert free() < 1_000_000 - 50 * 16_384 - 30_000
        assert logs.count() == 0
        producer.flush(60)
        assert all(each.exception(0) is None for each in futures)
        wait_for(lambda: free() == 1_000_000)
    with running({"t": 50}, buffer_memory=1_000_000, **keys) as (logs, producer):
        free = _gauge(producer, "buffer-available-bytes")
        small = [producer.send_batch("t", [b"x", b"y" * 20_000], partition=index) for index in range(25)]
        assert free() < 1_000_000 - 25 * 20_000
        assert logs.count() == 0
        producer.flush(60)
        assert all(each.exception(0) is None for each in small)
        wait_for(lambda: free() == 1_000_000)


def test_who_waits_for_memory_is_served_in_order() -> None:
    with running(buffer_memory=10_000, batch_size=5_000, max_block_ms=20_000) as (logs, producer):
        producer.partitions_for("t")
        logs.held.clear()
        producer.send("t", bytes(4_000))
        producer.send("t", bytes(4_000))
        waiting = _gauge(producer, "waiting-threads")
        # The second fits as soon as one batch is done, before the first does; no two of them fit at once.
        sizes = (9_000, 5_500, 5_600)
        threads = [threading.Thread(target=producer.send, args=("t", bytes(size))) for size in sizes]
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_for(lambda count=number: waiting() == count)  # type: ignore[misc] # the loop's number, not its last
        logs.held.set()
        for thread in threads:
            thread.join(60)
        producer.flush(60)
        assert [len(value or b"") for value in logs.values()] == [4_000, 4_000, *sizes]


def _gauge(producer: Producer, name: str) -> Callable[[], float]:
    metric = next(each for key, each in producer.metrics().items() if key.name == name)
    return lambda: metric.value


def test_a_record_larger_than_the_buffer_is_refused_at_once() -> None:
    with running(buffer_memory=5_000, max_block_ms=60_000) as (_, producer):
        for future in (producer.send("t", bytes(6_000)), producer.send_batch("t", [b"x", bytes(6_000)])):
            failure = future.exception(0)
            assert "larger than the total memory buffer" in str(failure)


def test_delivery_timeout_bounds_what_is_under_way_too() -> None:
    with running(request_timeout_ms=200, delivery_timeout_ms=250, retries=0) as (logs, producer):
        producer.partitions_for("t")
        logs.held.clear()
        begun = time.monotonic()
        failure = producer.send("t", b"x").exception(60)
        assert isinstance(failure, ClientError)
        assert time.monotonic() - begun < 20


def test_a_broker_that_is_not_there_yet_costs_no_retries() -> None:
    with FakeBroker({"t": 1}) as broker:
        logs = Logs(broker)
        keys = {"bootstrap.servers": broker.bootstrap, **FAST, "retries": 0, "enable.idempotence": False}
        with Producer(keys) as producer:
            producer.send("t", b"a").result(60)
            logs.errors.append(None)  # the connection is closed instead of an answer
            assert isinstance(producer.send("t", b"b").exception(60), ClientError)
            assert producer.send("t", b"c").result(60).offset == 1


def test_one_request_in_flight_keeps_the_order_without_idempotence() -> None:
    keys = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1, "batch.size": 100}
    with FakeBroker({"t": 1}) as broker:
        logs = Logs(broker)
        logs.errors += [
            error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            None,
            error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ]
        with Producer({"bootstrap.servers": broker.bootstrap, **FAST, **keys}) as producer:
            for number in range(100):
                producer.send("t", b"%03d" % number)
            producer.flush(60)
    assert logs.values() == [b"%03d" % number for number in range(100)]


def test_a_broker_has_the_next_batch_while_callbacks_of_the_last_one_run() -> None:
    keys = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    with running(None, **keys) as (logs, producer):
        arrived: list[bool] = []

        def called(future: BatchFuture) -> None:
            offset = future.outcomes(0)[0].offset
            end = time.monotonic() + 1
            while logs.count() < offset + 2 and time.monotonic() < end:
                time.sleep(0.001)
            arrived.append(logs.count() >= offset + 2)

        logs.held.clear()
        for number in range(20):
            # Each call makes a batch, as it has a time of its own.
            sent = producer.send_batch("t", [b"%d" % number], partition=0, timestamp_ms=number)
            sent.add_done_callback(called)
        logs.held.set()
        producer.flush(60)
        assert logs.values() == [b"%d" % number for number in range(20)]
        # The last has none after it; a request for metadata may have the connection once or twice.
        assert arrived.count(True) >= 15


def test_batches_that_fail_are_told_of_in_the_order_of_their_partition() -> None:
    keys = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "retries": 0}
    with running(None, **keys) as (logs, producer):
        seen: list[tuple[int, bool]] = []

        def note(number: int, future: BatchFuture) -> None:
            seen.append((number, future.outcomes(0)[0].error is None))

        logs.held.clear()
        logs.errors += [error(ErrorCode.INVALID_RECORD) for _ in range(2)]
        for number in range(20):
            sent = producer.send_batch("t", [b"%d" % number], partition=0, timestamp_ms=number)
            sent.add_done_callback(partial(note, number))
        logs.held.set()
        producer.flush(60)
        assert [number for number, _ in seen] == list(range(20))
        assert [written for _, written in seen].count(False) >= 2


def test_a_broker_that_throttles_is_left_alone_so_long() -> None:
    with running() as (logs, producer):
        logs.throttle_ms = 300
        begun = time.monotonic()
        producer.send("t", b"a").result(60)
        producer.send("t", b"b").result(60)
        assert time.monotonic() - begun >= 0.29
        assert _gauge(producer, "produce-throttle-time-max")() == 300


# -- metadata ----------------------------------------------------------------------------------------------------


def test_a_topic_that_may_not_be_used_fails_at_once() -> None:
    with running(max_block_ms=60_000) as (logs, producer):
        metadata = logs.broker.handlers[ApiKey.METADATA]

        def refuse(message: Message, version: int) -> Message | None:
            answer = metadata(message, version)
            assert isinstance(answer, MetadataResponse)
            for topic in answer.topics:
                topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
            return answer

        logs.broker.handlers[ApiKey.METADATA] = refuse
        with pytest.raises(ApiError) as caught:
            producer.send("t", b"x").result(0)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(ApiError):
            producer.partitions_for("t")


def test_a_partition_that_does_not_exist_is_waited_for() -> None:
    with running({"t": 2}, max_block_ms=300, metadata_max_age_ms=50) as (logs, producer):
        assert wait_for_metadata(producer) == [0, 1]
        with pytest.raises(ClientTimeoutError, match="Partition 5 of topic t with partition count 2"):
            producer.send("t", b"x", partition=5).result(0)
        logs.broker.topics["t"] = 6

        def is_sent() -> bool:
            try:
                return producer.send("t", b"x", partition=5).result(60).partition == 5
            except ClientTimeoutError:  # after no more than 300 ms, which may be all that the machine needs
                return False

        wait_for(is_sent)


def test_metadata_of_an_idle_topic_is_not_asked_for_any_more() -> None:
    with running({"t": 1, "u": 1}, metadata_max_idle_ms=5_000, metadata_max_age_ms=20) as (logs, producer):
        producer._sender._config = producer.config.but(metadata_max_idle_ms=100)
        producer.send("u", b"x").result(60)
        producer.send("t", b"x").result(60)

        def asked_without_u() -> bool:
            producer.send("t", b"x")
            names = [
                [each.name for each in message.topics or []]  # type: ignore[attr-defined]
                for key, _, message in list(logs.broker.requests)
                if key is ApiKey.METADATA
            ]
            return names[-1] == ["t"] and ["t", "u"] not in names[-2:]

        wait_for(asked_without_u)
        assert producer.send("u", b"y").result(60).offset == 1


@pytest.mark.parametrize("timeout_ms", [0, 50])
def test_records_without_a_key_leave_out_a_leader_that_takes_nothing(timeout_ms: int) -> None:
    keys: dict[str, object] = {"partitioner.availability.timeout.ms": timeout_ms}
    with running({"t": 2}, batch_size=100, delivery_timeout_ms=100_000) as (logs, _):
        metadata = logs.broker.handlers[ApiKey.METADATA]

        def second_partition_elsewhere(message: Message, version: int) -> Message | None:
            answer = metadata(message, version)
            assert isinstance(answer, MetadataResponse)
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1))
            for topic in answer.topics:
                topic.partitions[1].leader_id = 2
            return answer

        logs.broker.handlers[ApiKey.METADATA] = second_partition_elsewhere
        own = {"bootstrap.servers": logs.broker.bootstrap, **FAST, "batch.size": 100, **keys}
        producer = Producer(own)
        try:
            for _ in range(20):
                producer.send("t", b"x" * 90)
            topic = producer._topics["t"]
            if timeout_ms:
                wait_for(lambda: topic.unavailable == {1})
            waiting = len(topic.queue(1).batches)
            for _ in range(40):
                wait_for(lambda: not topic.queue(0).batches)
                producer.send("t", b"x" * 90)
            more = len(topic.queue(1).batches) - waiting
            # Its long queue alone makes it rare; only the time-out rules it out. One batch may be begun already.
            assert more <= 2 if timeout_ms else more < 20
        finally:
            producer.close(0)


def test_a_new_leader_that_an_answer_names_is_used_at_once() -> None:
    with (
        FakeBroker({"t": 1}) as other,
        running(retry_backoff_ms=100_000, delivery_timeout_ms=300_000) as (
            logs,
            producer,
        ),
    ):
        new = Logs(other)
        refused = error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        refused.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
        logs.errors.append(refused)
        logs.endpoints = [NodeEndpoint(node_id=2, host="127.0.0.1", port=other.port)]
        assert producer.send("t", b"x").result(60).offset == 0
        assert (logs.values(), new.values()) == ([], [b"x"])


def test_nothing_overtakes_the_first_record_when_its_leader_is_not_ready_yet() -> None:
    """An answer of that kind to the first of several in flight, and a broker would take the second for the first."""
    with running(linger_ms=0) as (logs, producer):
        logs.held.clear()
        logs.errors.append(error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        futures = [producer.send("t", b"1")]
        wait_for(lambda: producer._topics["t"].queue(0).unanswered)
        futures += [producer.send("t", b"2"), producer.send("t", b"3")]
        wait_for(lambda: logs.broker.count(ApiKey.PRODUCE) == 1)
        logs.held.set()
        for future in futures:
            future.result(60)
        assert logs.values() == [b"1", b"2", b"3"]


def test_a_new_leader_gets_nothing_before_the_old_one_has_answered() -> None:
    with FakeBroker() as other, running({"t": 1, "u": 1, "v": 1}, linger_ms=0) as (logs, producer):
        new = Logs(other)
        leader_of_t = 1
        metadata = logs.broker.handlers[ApiKey.METADATA]

        def both(message: Message, version: int) -> Message | None:
            answer = metadata(message, version)
            assert isinstance(answer, MetadataResponse)
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=other.port))
            for topic in answer.topics:
                topic.partitions[0].leader_id = leader_of_t if topic.name == "t" else 2
            return answer

        logs.broker.handlers[ApiKey.METADATA] = other.handlers[ApiKey.METADATA] = both
        producer.send("u", b"connects").result(60)
        producer.send("t", b"0").result(60)
        logs.held.clear()
        futures = []
        for sent in range(1, 6):
            futures.append(producer.send("t", b"%d" % sent))
            wait_for(lambda: producer._topics["t"].queue(0).unanswered == sent)  # noqa: B023 - called at once
        leader_of_t = 2
        futures.append(producer.send("t", b"6"))
        producer.send("v", b"needs metadata, and is sent when t has had its turn").result(60)
        assert new.values() == []
        logs.errors += [error(ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in futures[:5]]
        logs.held.set()
        for future in futures:
            future.result(60)
        assert (logs.values(), new.values()) == ([b"0"], [b"1", b"2", b"3", b"4", b"5", b"6"])


def test_a_connection_that_nobody_uses_is_closed_and_made_again() -> None:
    with running(connections_max_idle_ms=100) as (logs, producer):
        producer.send("t", b"a").result(60)
        before = logs.broker.connections
        wait_for(lambda: not producer._cluster.network._connections)
        assert producer.send("t", b"b").result(60).offset == 1
        assert logs.broker.connections > before


# -- the end -----------------------------------------------------------------------------------------------------


def test_close_in_a_callback_does_not_wait_for_itself() -> None:
    with running() as (logs, producer):
        logs.held.clear()
        called = threading.Event()

        def close(*_: object) -> None:
            producer.close()
            called.set()

        producer.send("t", b"a", callback=close)
        wait_for(lambda: _gauge(producer, "requests-in-flight")() == 1)
        later = producer.send("t", b"b", partition=0)
        logs.held.set()
        assert called.wait(60)
        producer._sender.thread.join(60)
        assert not producer._sender.thread.is_alive()
        assert later.done()
        with pytest.raises(ClosedError, match="Cannot perform operation after producer has been closed"):
            producer.send("t", b"c")


def test_flush_in_a_callback_is_refused() -> None:
    caught: list[Exception] = []

    def called(*_: object) -> None:
        try:
            producer.flush()
        except ClientError as failure:
            caught.append(failure)

    with running() as (_, producer):
        producer.send("t", b"a", callback=called).result(60)
    assert len(caught) == 1


def test_closing_says_what_was_dropped_and_tells_who_waits(caplog: pytest.LogCaptureFixture) -> None:
    with running(buffer_memory=20_000) as (logs, producer):
        producer.partitions_for("t")
        logs.held.clear()
        first = producer.send("t", b"x" * 15_000)
        raised: list[BaseException] = []

        def waits() -> None:
            try:
                producer.send("t", b"y" * 15_000)
            except ClosedError as failure:
                raised.append(failure)

        thread = threading.Thread(target=waits)
        thread.start()
        wait_for(lambda: _gauge(producer, "waiting-threads")() == 1)
        with pytest.raises(ValueError, match="cannot be negative"):
            producer.close(-1)
        producer.close(0)
        thread.join(60)
        assert isinstance(first.exception(0), ClosedError)
        assert len(raised) == 1
        producer.close()
    assert "1 record(s) for t-0 were not sent" in caplog.text


def test_a_producer_that_is_dropped_warns_and_still_sends() -> None:
    with FakeBroker({"t": 1}) as broker:
        logs = Logs(broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap, **FAST, "linger.ms": 1_000})
        thread = producer._sender.thread
        producer.send("t", b"x")
        box = [producer]
        del producer
        with pytest.warns(ResourceWarning, match="dropped without close"):
            box.clear()
        thread.join(60)
        assert logs.values() == [b"x"]


def test_a_producer_can_be_dropped_by_the_collector_on_its_own_thread() -> None:
    with FakeBroker({"t": 1}) as broker:
        logs = Logs(broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap, **FAST, "linger.ms": 1_000})
        sender = producer._sender
        producer.send("t", b"x")
        box = [producer]
        del producer
        with sender.accumulator.lock, pytest.warns(ResourceWarning, match="dropped without close"):
            box.clear()
        sender.thread.join(60)
        assert not sender.thread.is_alive()
        assert logs.values() == [b"x"]


def test_a_child_process_cannot_use_its_parents_producer() -> None:
    with running() as (_, producer):
        producer.send("t", b"x").result(60)
        parent, child = multiprocessing.Pipe()

        def use() -> None:
            refused = 0
            for attempt in (lambda: producer.send("t", b"y"), producer.flush):
                try:
                    attempt()
                except ClosedError:
                    refused += 1
            producer.close()
            child.send(refused)

        process = multiprocessing.get_context("fork").Process(target=use)
        process.start()
        assert parent.poll(20)
        assert parent.recv() == 2
        process.join(60)
        assert producer.send("t", b"z").result(60).offset == 1


def test_many_threads_share_a_producer() -> None:
    with running({"t": 3}, batch_size=500) as (logs, producer):

        def work(number: int) -> None:
            for step in range(200):
                producer.send("t", b"%d-%d" % (number, step), b"%d" % number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        producer.flush(20)
    for number in range(5):
        mine = [each.value for log in logs.records.values() for each in log if each.key == b"%d" % number]
        assert mine == [b"%d-%d" % (number, step) for step in range(200)]
