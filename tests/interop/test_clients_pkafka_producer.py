"""pkafka's producer on Apache Kafka and on pkafka: the same records arrive, once and in order, and the same fails."""

import contextlib
import random
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.clients.errors import ClientTimeoutError, ClosedError
from pkafka.clients.producer import BatchMetadata, Producer, RecordFuture, RecordMetadata
from pkafka.clients.producer.partitioner import partition_of_key
from pkafka.clients.serialization import load_serializer
from pkafka.errors import ApiError, ErrorCode
from pkafka.records.batch import iter_headers
from pkafka.testing import running_broker
from tests.interop import kafka as oracle
from tests.interop.conftest import EITHER, System
from tests.talk import Talk, talking, wait_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000


def made(system: System, **keys: object) -> Producer:
    """A producer; ``_`` in keys stands for ``.``."""
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    return Producer({"bootstrap.servers": system.bootstrap, **dotted})


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_arrive_as_they_were_sent(
    system: System, talk: Talk, topic: str, codec: str
) -> None:
    talk.create(topic, 1, **{"retention.ms": -1})
    with made(system, compression_type=codec, linger_ms=5) as producer:
        futures = [
            producer.send(
                topic,
                None if number % 10 == 0 else b"value %d " % number * (number % 50),
                None if number % 3 else b"k%d" % number,
                timestamp_ms=FIRST_MS + number,
                headers=[("n", b"%d" % number), ("null", None)] if number % 7 == 0 else (),
            )
            for number in range(1_000)
        ]
        bulk = producer.send_batch(
            topic, [b"bulk %d" % number for number in range(5_000)], timestamp_ms=FIRST_MS
        )
        producer.flush(30)
        assert [each.result(0).offset for each in futures] == list(range(1_000))
        assert [
            offset for run in bulk.result(0) for offset in range(run.offset, run.offset + run.length)
        ] == list(range(1_000, 6_000))
    records = talk.read(topic)
    assert len(records) == 6_000
    for number, record in enumerate(records[:1_000]):
        assert record.timestamp == FIRST_MS + number
        assert record.key == (None if number % 3 else b"k%d" % number)
        assert record.value == (None if number % 10 == 0 else b"value %d " % number * (number % 50))
        assert record.headers == ((("n", b"%d" % number), ("null", None)) if number % 7 == 0 else ())
    assert [each.value for each in records[1_000:]] == [b"bulk %d" % number for number in range(5_000)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_delivers(system: System, talk: Talk, topic: str, acks: str) -> None:
    talk.create(topic)
    with made(system, acks=acks) as producer:
        futures = [producer.send(topic, b"%d" % number) for number in range(300)]
        producer.flush(30)
    offsets = [each.result(0).offset for each in futures]
    assert offsets == ([-1] * 300 if acks == "0" else list(range(300)))
    # Without acks nobody tells when the last of them has arrived.
    wait_for(lambda: talk.ends(topic)[1] == 300, what="all records")
    assert [each.value for each in talk.read(topic)] == [b"%d" % number for number in range(300)]


def test_the_brokers_time_is_told_where_the_topic_wants_it(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, 1, **{"message.timestamp.type": "LogAppendTime"})
    with made(system) as producer:
        metadata = producer.send(topic, b"v", b"key", timestamp_ms=FIRST_MS).result(30)
        (run,) = producer.send_batch(topic, [b"v"], timestamp_ms=FIRST_MS).result(30)
    records = talk.read(topic)
    assert metadata == RecordMetadata(topic, 0, 0, records[0].timestamp, 3, 1)
    assert run == BatchMetadata(topic, 0, 1, 1, records[1].timestamp, range(1))
    assert metadata.timestamp_ms > FIRST_MS


def test_batches_that_the_topic_finds_too_large_are_split(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, **{"max.message.bytes": 3_000})
    with made(system, linger_ms=10_000) as producer:
        single = [producer.send(topic, b"%04d" % number + bytes(96)) for number in range(100)]
        many = producer.send_batch(topic, [b"%04d" % number + bytes(96) for number in range(100, 1_000)])
        too_large = producer.send(topic, bytes(4_000))
        last = producer.send(topic, b"last")
        producer.flush(60)
        assert [each.result(0).offset for each in single] == list(range(100))
        assert sum(run.length for run in many.result(0)) == 900
        failure = too_large.exception(0)
        assert isinstance(failure, ApiError)
        assert failure.code is ErrorCode.MESSAGE_TOO_LARGE
        assert last.result(0).offset == 1_000
    assert [(each.value or b"")[:4] for each in talk.read(topic)] == [
        *(b"%04d" % number for number in range(1_000)),
        b"last",
    ]


def test_records_up_to_the_limits_are_taken(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic)
    with made(system) as producer:
        assert producer.send(topic, bytes(1_000_000)).result(30).offset == 0
        assert producer.send_batch(topic, [bytes(1_000_000)] * 3).result(30)[0].offset == 1
        failure = producer.send(topic, bytes(2_000_000)).exception(30)
        assert isinstance(failure, ApiError)
        assert failure.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_refused_batch_does_not_stop_those_behind_it(system: System, talk: Talk, topic: str) -> None:
    """What the broker refuses leaves a gap in the sequence: the epoch is bumped, and nothing else is lost."""
    talk.create(topic, **{"message.timestamp.before.max.ms": 60_000})
    with made(system, batch_size=1) as producer:
        first = [producer.send(topic, b"%d" % number) for number in range(20)]
        bad = [producer.send(topic, b"old", timestamp_ms=1) for _ in range(2)]
        rest = [producer.send(topic, b"%d" % number) for number in range(20, 40)]
        producer.flush(30)
        assert [each.result(0).offset for each in (*first, *rest)] == list(range(40))
        for each in bad:
            failure = each.exception(0)
            assert isinstance(failure, ApiError)
            assert failure.code is ErrorCode.INVALID_TIMESTAMP
    assert [each.value for each in talk.read(topic)] == [b"%d" % number for number in range(40)]
    epochs = [header.producer_epoch for _, header in iter_headers(talk._fetch(topic, 0, 0))]
    assert epochs == sorted(epochs)
    assert epochs[-1] > epochs[0] == 0


def test_connections_that_break_at_any_moment_lose_repeat_and_reorder_nothing(
    system: System, talk: Talk, topic: str
) -> None:
    talk.create(topic, partitions=2)
    chance = random.Random(5)
    with made(system, batch_size=300, retry_backoff_ms=5, reconnect_backoff_ms=5) as producer:
        futures: list[list[RecordFuture]] = [[], []]
        for turn in range(60):
            for number in range(turn * 50, turn * 50 + 50):
                futures[number % 2].append(producer.send(topic, b"%d" % number, partition=number % 2))
            futures[0][chance.randrange(turn * 25 + 25)].exception(60)
            for connection in list(producer._cluster.network._connections.values()):
                with contextlib.suppress(OSError):
                    connection._socket.shutdown(socket.SHUT_RDWR)
        producer.flush(60)
        for index, sent in enumerate(futures):
            assert [each.result(0).offset for each in sent] == list(range(1_500)), index
        assert producer._metrics.value("record-retry-total", "producer-metrics") > 0
    for index in range(2):
        expected = [b"%d" % number for number in range(index, 3_000, 2)]
        assert [each.value for each in talk.read(topic, index)] == expected


def test_records_of_one_key_share_a_partition_and_others_are_spread(
    system: System, talk: Talk, topic: str
) -> None:
    talk.create(topic, partitions=6)
    with made(system, batch_size=1_000) as producer:
        keys = [b"%d" % (number % 20) for number in range(200)]
        futures = [producer.send(topic, b"v", key) for key in keys]
        spread = [producer.send(topic, b"x" * 100) for _ in range(600)]
        assert [each.result(30).partition for each in futures] == [partition_of_key(key, 6) for key in keys]
        assert {each.result(30).partition for each in spread} == set(range(6))


def test_what_cannot_work_fails_in_time(system: System, talk: Talk, topic: str) -> None:
    talk.create(topic, partitions=2)
    with made(system) as producer:
        failure = producer.send("no/topic", b"x").exception(60)
        assert isinstance(failure, ApiError)
        assert failure.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert isinstance(producer.send(topic, b"x", partition=1).exception(60), type(None))
    with made(system, max_block_ms=500) as producer:
        begun = time.monotonic()
        assert isinstance(producer.send(topic, b"x", partition=2).exception(0), ClientTimeoutError)
        assert time.monotonic() - begun < 50  # by itself it waits for a minute


@pytest.fixture(params=EITHER)
def restart(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """A broker of the test's own: its address, what ends it, and what starts it again at the same address."""
    if request.param == "kafka":
        request.getfixturevalue("kafka_classpath")
        with oracle.running_kafka(tmp_path) as broker:
            # A killed Kafka cannot come back before ZooKeeper has forgotten its session.
            yield broker.bootstrap, broker.stop, broker.start
        return
    with running_broker(tmp_path) as pkafka:
        yield pkafka.bootstrap, pkafka.kill, pkafka.start


def test_nothing_is_lost_repeated_or_reordered_when_the_broker_ends_and_comes_back(
    restart: tuple[str, Callable[[], None], Callable[[], None]], topic: str
) -> None:
    bootstrap, end, start = restart
    with talking(bootstrap) as talk:
        talk.create(topic)
    keys = {
        "bootstrap.servers": bootstrap,
        "batch.size": 500,
        "buffer.memory": 10_000,
        "max.block.ms": 60_000,
        "request.timeout.ms": 5_000,
    }
    stop = threading.Event()
    futures: list[RecordFuture] = []
    with Producer(keys) as producer:

        def produce() -> None:
            while not stop.is_set():
                futures.append(producer.send(topic, b"%d" % len(futures)))

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            for restarts in range(3):
                if restarts:
                    end()
                    start()
                reached = len(futures) + 2_000
                wait_for(lambda count=reached: len(futures) >= count, timeout_s=60)  # type: ignore[misc] # of this turn
        finally:
            stop.set()
            thread.join(90)
        producer.flush(60)
        assert not [each.exception(0) for each in futures if each.exception(0)]
    with talking(bootstrap) as talk:
        assert [each.value for each in talk.read(topic)] == [b"%d" % number for number in range(len(futures))]


def test_a_broker_that_is_gone_is_told_of_within_the_time_outs(
    restart: tuple[str, Callable[[], None], Callable[[], None]], topic: str
) -> None:
    bootstrap, end, _ = restart
    with talking(bootstrap) as talk:
        talk.create(topic)
    keys = {
        "bootstrap.servers": bootstrap,
        "batch.size": 1_000,
        "buffer.memory": 3_000,
        "max.block.ms": 300,
        "request.timeout.ms": 500,
        # Longer than a busy machine pauses: until then what waits takes the memory.
        "delivery.timeout.ms": 7_000,
    }
    producer = Producer(keys)
    # It knows the topic, and is connected: on a busy machine that may take longer than it waits for once.
    wait_for(lambda: producer.send(topic, b"x").exception(60) is None, what="a first record")
    end()
    begun = time.monotonic()
    waiting = [producer.send(topic, bytes(900)) for _ in range(3)]
    full = producer.send(topic, bytes(900))
    assert isinstance(full.exception(0), ClientTimeoutError)
    assert all(isinstance(each.exception(60), Exception) for each in waiting)
    unknown = producer.send("another", b"x")
    assert "Topic another not present in metadata after 300 ms." in str(unknown.exception(0))
    left = producer.send(topic, b"y")
    producer.close(0.1)
    assert isinstance(left.exception(60), ClosedError)
    assert time.monotonic() - begun < 60  # by itself it tries for two minutes


def test_values_keys_and_mistakes_are_as_with_kafkas_own_producer(
    kafka_classpath: str, kafka: System | None, tmp_path: Path, topic: str
) -> None:
    if kafka is None:
        pytest.skip("Apache Kafka is left out by PKAFKA_INTEROP_SYSTEMS")
    with talking(kafka.bootstrap) as talk:
        talk.create(topic, partitions=2)
    class_path = oracle.compile_java(kafka_classpath, tmp_path, "ProducerOracle")
    command = [oracle.java_program("java"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path]
    done = subprocess.run(
        [
            *command,
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "ProducerOracle",
            kafka.bootstrap,
            topic,
        ],
        stdout=subprocess.PIPE,
        timeout=100,
        check=True,
    )
    expected = done.stdout.decode().splitlines()
    assert [*_serialized(), *_hashes(), *_mistakes(kafka.bootstrap, topic)] == expected


def _serialized() -> Iterator[str]:
    one = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
    inner = "default.list.value.serde.inner"
    for name, value, configs in (
        ("String", "grün€", {}),
        ("Latin", "grün€", {"value.serializer.encoding": "ISO-8859-1"}),
        ("Short", -2, {}),
        ("Integer", 258, {}),
        ("Long", -(2**63), {}),
        ("Float", 1.1, {}),
        ("Double", -1.1, {}),
        ("Boolean", True, {}),
        ("UUID", one, {}),
        ("ByteBuffer", memoryview(b"\1\2"), {}),
        ("Longs", [1, None, -1], {inner: "org.apache.kafka.common.serialization.Serdes$LongSerde"}),
        ("Strings", ["a", None, ""], {inner: "Serdes$StringSerde"}),
        ("UUIDs", [None, one], {inner: "Serdes$UUIDSerde"}),
        ("Empty", [], {inner: "Serdes$BytesSerde"}),
    ):
        kind = "List" if inner in configs else name.replace("Latin", "String")
        made = load_serializer("value.serializer", f"{kind}Serializer", configs, is_key=False)
        data = made.serialize("t", value)
        assert data is not None
        yield f"{name} {data.hex()}"


def _hashes() -> Iterator[str]:
    for key in ("", "a", "key", "größer", "a-little-bit-long-string"):
        yield f"hash {key} {partition_of_key(key.encode(), 2**31)}"


def _knows(producer: Producer, topic: str) -> bool:
    """Whether a producer knows a topic; what it says of a send is then what it says of the record."""
    try:
        producer.partitions_for(topic)
    except ClientTimeoutError:
        return False
    return True


def _mistakes(bootstrap: str, topic: str) -> Iterator[str]:
    keys = {"max.request.size": 1_000, "buffer.memory": 900, "batch.size": 100}
    producer = Producer({"bootstrap.servers": bootstrap, "max.block.ms": 1_500, **keys})
    wait_for(lambda: _knows(producer, topic), what="the topic")
    for future in (
        producer.send(topic, bytes(2_000), bytes(3)),
        producer.send(topic, bytes(870)),
        producer.send(topic, bytes(1), partition=7),
    ):
        failure = future.exception(0)
        name = failure.code.java_name if isinstance(failure, ApiError) else "TimeoutException"
        yield f"{name} {failure}"
    with Producer({"bootstrap.servers": bootstrap, **keys}) as patient:
        failure = patient.send("no/topic", b"x").exception(0)
    assert isinstance(failure, ApiError)
    yield f"{failure.code.java_name} {failure}"
    producer.close()
    with pytest.raises(ClosedError) as caught:
        producer.send(topic, b"x")
    yield f"closed {caught.value}"
