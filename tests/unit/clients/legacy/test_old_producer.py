"""The old producer where no broker is needed: partitions by Java's hashes, encoders, and a queue that is full."""

import pytest

from pkafka.clients.errors import ClosedError
from pkafka.clients.legacy import FailedToSendMessageError, KeyedMessage, OldProducer, QueueFullError
from pkafka.clients.legacy.producer import default_partition
from pkafka.errors import ConfigError

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
        producer.send(*[KeyedMessage("t", b"x")] * 4)
    assert "Error in handling batch of 1 events" in caplog.text
