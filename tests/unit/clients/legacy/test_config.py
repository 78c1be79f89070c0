"""The old clients' keys: 0.8's defaults, what follows from what, and what is refused."""

import pytest

from pkafka.clients.config import ClientConfig
from pkafka.clients.legacy import Blacklist, OldConsumerConfig, OldProducerConfig, Whitelist
from pkafka.errors import ConfigError

CONSUMER = {"zookeeper.connect": "zk:2181/chroot", "group.id": "g"}
PRODUCER = {"metadata.broker.list": "a:1,b:2"}


def test_the_consumers_defaults() -> None:
    config = OldConsumerConfig.from_properties(CONSUMER)
    assert (config.auto_commit_interval_ms, config.queued_max_message_chunks) == (60_000, 2)
    assert (config.rebalance_max_retries, config.rebalance_backoff_ms) == (4, 2_000)
    assert (config.consumer_timeout_ms, config.auto_offset_reset, config.offsets_storage) == (
        -1,
        "largest",
        "zookeeper",
    )
    assert not config.dual_commit_enabled


def test_what_follows_from_other_keys() -> None:
    config = OldConsumerConfig.from_properties(
        {
            **CONSUMER,
            "offsets.storage": "kafka",
            "zookeeper.sync.time.ms": "7",
            "zookeeper.session.timeout.ms": "9",
        }
    )
    assert config.dual_commit_enabled
    assert (config.rebalance_backoff_ms, config.zookeeper_connection_timeout_ms, config.client_id) == (
        7,
        9,
        "g",
    )
    assert OldConsumerConfig.from_properties({**CONSUMER, "client.id": "c"}).client_id == "c"


@pytest.mark.parametrize(
    "change",
    [
        {"group.id": ""},
        {"group.id": "a b"},
        {"zookeeper.connect": ""},
        {"auto.offset.reset": "earliest"},
        {"partition.assignment.strategy": "sticky"},
        {"offsets.storage": "disk"},
        {"socket.timeout.ms": 50},
        {"queued.max.message.chunks": 0},
    ],
)
def test_what_a_consumer_refuses(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        OldConsumerConfig.from_properties({**CONSUMER, **change})
    assert next(iter(change)) in str(refused.value)


def test_the_producers_defaults() -> None:
    config = OldProducerConfig.from_properties(PRODUCER)
    assert (config.request_required_acks, config.request_timeout_ms, config.producer_type) == (
        0,
        10_000,
        "sync",
    )
    assert (config.message_send_max_retries, config.retry_backoff_ms, config.batch_num_messages) == (
        3,
        100,
        200,
    )
    assert config.topic_metadata_refresh_interval_ms == 600_000
    assert (config.queue_buffering_max_ms, config.queue_buffering_max_messages) == (5_000, 10_000)
    assert (config.queue_enqueue_timeout_ms, config.compression_codec, config.compressed_topics) == (
        -1,
        "none",
        (),
    )


def test_what_the_clients_connections_are_told() -> None:
    config = OldProducerConfig.from_properties(
        {**PRODUCER, "compression.codec": "1", "compressed.topics": "a", "request.timeout.ms": 500}
    )
    assert (config.compression_codec, config.is_compressed("a"), config.is_compressed("b")) == (
        "gzip",
        True,
        False,
    )
    typed = ClientConfig.from_properties(config.client_keys())
    assert typed.bootstrap_servers == ("a:1", "b:2")
    assert (typed.retries, typed.request_timeout_ms, typed.socket_connection_setup_timeout_ms) == (
        0,
        500,
        500,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"metadata.broker.list": ""},
        {"producer.type": "both"},
        {"request.required.acks": 2},
        {"compression.codec": "zstd"},
        {"batch.num.messages": 0},
        {"client.id": "a/b"},
    ],
)
def test_what_a_producer_refuses(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        OldProducerConfig.from_properties({**PRODUCER, **change})
    assert next(iter(change)) in str(refused.value)


def test_topic_filters() -> None:
    white = Whitelist(" \"ab.*, cd'")
    assert white.regex == "ab.*|cd"
    allowed = {name: white.allows(name, exclude_internal=True) for name in ("ab", "abc", "cd", "cde", "xab")}
    assert allowed == {"ab": True, "abc": True, "cd": True, "cde": False, "xab": False}
    black = Blacklist("ab.*")
    assert black.allows("cd", exclude_internal=True)
    assert not black.allows("abc", exclude_internal=True)
    assert not black.allows("__consumer_offsets", exclude_internal=True)
    assert black.allows("__consumer_offsets", exclude_internal=False)
    with pytest.raises(ConfigError):
        Whitelist("a(")
