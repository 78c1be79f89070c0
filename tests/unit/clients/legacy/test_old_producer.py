"""The old producer where no broker is needed: partitions by Java's hashes, encoders, and a queue that is full."""

import time

import pytest

from pkafka.clients.errors import ClosedError
from pkafka.clients.legacy import FailedToSendMessageError, KeyedMessage, OldProducer, QueueFullError
from pkafka.clients.legacy.producer import default_partition
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pkafka.protocol.schema import Message
from pkafka.records.reading import read_records
from tests.fakes.broker import FakeBroker

# Nothing listens there; a failure is known after one short time-out.
NOWHERE = {"metadata.broker.list": "127.0.0.1:1", "message.send.max.retries": 0, "request.timeout.ms": 300}


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("", 0),
        (7, 7),
        (-7, -7),
        (2**40, 256),
        (b"", 1),
        (b"\x01\xff", 31 * 32 - 1),
    ],
)
def test_keys_go_where_java_sends_them(key: object, java_hash: int) -> None:
    assert default_partition(key, 1_000) == (java_hash & 0x7FFFFFFF) % 1_000


def test_a_key_without_javas_hash_needs_a_partitioner() -> None:
    with pytest.raises(TypeError, match="part_key"):
        default_partition(1.5, 3)


@pytest.mark.parametrize(
    ("key", "name"),
    [("serializer.class", "my.Encoder"), ("partitioner.class", "kafka.producer.Nothing")],
)
def test_class_names_that_are_not_known(key: str, name: str) -> None:
    with pytest.raises(ConfigError, match=key):
        OldProducer({**NOWHERE, key: name})


def test_bytes_are_not_made_of_text_by_chance() -> None:
    with OldProducer(NOWHERE) as producer, pytest.raises(TypeError, match=r"serializer\.class"):
        producer.send(KeyedMessage("t", "text"))


def test_brokers_that_refuse_cost_the_pauses_alone() -> None:
    began = time.monotonic()
    with (
        OldProducer(
            {"metadata.broker.list": "127.0.0.1:1,127.0.0.1:2", "request.timeout.ms": 100_000}
        ) as producer,
        pytest.raises(FailedToSendMessageError, match="Failed to send messages after 3 tries") as failure,
    ):
        producer.send(KeyedMessage("t", b"x"))
    # retry.backoff.ms after each of four tries, as 0.8.2.2, and not one request.timeout.ms.
    assert 0.4 <= time.monotonic() - began < 60
    assert "Connection refused" in str(failure.value.__cause__)


class Log:
    """Answers Produce with the codes it is given, then with success; knows what it was sent."""

    def __init__(self, *codes: dict[int, ErrorCode]) -> None:
        self._codes = list(codes)
        self.sent: list[dict[int, list[bytes | None]]] = []

    def __call__(self, message: Message, _version: int) -> ProduceResponse:
        assert isinstance(message, ProduceRequest)
        codes = self._codes.pop(0) if self._codes else {}
        [topic] = message.topic_data
        self.sent.append(
            {
                each.index: [r.value for r in read_records(each.records or b"")]
                for each in topic.partition_data
            }
        )
        rows = [
            PartitionProduceResponse(index=each.index, error_code=codes.get(each.index, 0), base_offset=0)
            for each in topic.partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=rows)])


def test_a_leader_that_is_gone_is_told_as_soon() -> None:
    log = Log()
    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.PRODUCE] = log
        producer = OldProducer(
            {
                "metadata.broker.list": broker.bootstrap,
                "message.send.max.retries": 1,
                "request.required.acks": 1,
                "request.timeout.ms": 100_000,
            }
        )
        producer.send(KeyedMessage("t", b"x"))
    assert log.sent == [{0: [b"x"]}]
    began = time.monotonic()
    with producer, pytest.raises(FailedToSendMessageError, match="after 1 tries"):
        producer.send(KeyedMessage("t", b"x"))
    assert 0.2 <= time.monotonic() - began < 60


def test_only_what_was_refused_is_sent_again() -> None:
    moved = {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    log = Log(moved, moved)
    with FakeBroker({"t": 2}) as broker:
        broker.handlers[ApiKey.PRODUCE] = log
        keys = {
            "metadata.broker.list": broker.bootstrap,
            "retry.backoff.ms": 1,
            "request.required.acks": 1,
        }
        with OldProducer(keys, partitioner=lambda key, _count: int(key)) as producer:
            producer.send(*(KeyedMessage("t", b"%d" % each, part_key=each % 2) for each in range(4)))
            refused = {1: [b"1", b"3"]}
            assert log.sent == [{0: [b"0", b"2"], **refused}, refused, refused]
            metadata = broker.count(ApiKey.METADATA)
            producer.send(KeyedMessage("t", b"4", part_key=0))
            assert broker.count(ApiKey.METADATA) == metadata
        log = broker.handlers[ApiKey.PRODUCE] = Log(*[moved] * 4)
        with OldProducer(keys, partitioner=lambda _key, _count: 1) as producer:
            with pytest.raises(FailedToSendMessageError, match="after 3 tries") as failure:
                producer.send(KeyedMessage("t", b"x", part_key=0))
            assert isinstance(failure.value.__cause__, ApiError)
            assert len(log.sent) == 4


def test_sync_tells_that_nothing_arrived() -> None:
    with (
        OldProducer(NOWHERE) as producer,
        pytest.raises(FailedToSendMessageError, match="Failed to send messages after 0 tries"),
    ):
        producer.send(KeyedMessage("t", b"x"))
    with pytest.raises(ClosedError, match="producer already closed"):
        producer.send(KeyedMessage("t", b"x"))


@pytest.mark.parametrize("timeout_ms", [0, 20])
def test_async_refuses_when_its_queue_stays_full(timeout_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    keys = {
        **NOWHERE,
        "producer.type": "async",
        "queue.buffering.max.messages": 2,
        "batch.num.messages": 1,
        "queue.enqueue.timeout.ms": timeout_ms,
    }
    with OldProducer(keys) as producer, pytest.raises(QueueFullError):
        producer.send(*[KeyedMessage("t", b"x")] * 200)
    assert "Error in handling batch of 1 events" in caplog.text
