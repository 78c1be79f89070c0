"""Client configuration and properties files."""

import pytest

from pkafka.clients.config import ClientConfig, ConsumerConfig, ProducerConfig
from pkafka.errors import ConfigError

HERE = {"bootstrap.servers": "h:1, g:2"}


def test_defaults_are_kafkas() -> None:
    config = ProducerConfig.from_properties(HERE)
    assert config.bootstrap_servers == ("h:1", "g:2")
    assert (config.acks, config.batch_size, config.linger_ms, config.enable_idempotence) == (
        -1,
        16_384,
        0,
        True,
    )
    assert ConsumerConfig.from_properties(HERE).auto_offset_reset == "latest"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batch.size", "x"),
        ("batch.size", "-1"),
        ("acks", "2"),
        ("compression.type", "rar"),
        ("enable.idempotence", "maybe"),
        ("delivery.timeout.ms", "10"),
        ("security.protocol", "TLS"),
        ("bootstrap.servers", ""),
    ],
)
def test_a_bad_value_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_properties({**HERE, key: value})
    assert caught.value.key == key


@pytest.mark.parametrize(
    "other", [{"acks": "1"}, {"retries": "0"}, {"max.in.flight.requests.per.connection": "6"}]
)
def test_a_conflicting_key_turns_idempotence_off(other: dict[str, str]) -> None:
    assert not ProducerConfig.from_properties({**HERE, **other}).enable_idempotence


def test_an_unknown_key_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        ClientConfig.from_properties({**HERE, "batch.sise": "1", "ssl.protocol": "TLS", "batch.size": "5"})
    assert [record.args for record in caplog.records] == [("batch.sise",)]


def test_what_objects_of_the_user_are_handed_is_what_was_given() -> None:
    config = ProducerConfig.from_properties({**HERE, "key.serializer": len, "own.key": 5})
    assert config.key_serializer is len
    assert config.originals == {**HERE, "key.serializer": len, "own.key": 5}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transactional.id", ""),
        ("transaction.timeout.ms", "soon"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("metadata.max.idle.ms", "4999"),
        ("metrics.num.samples", "0"),
    ],
)
def test_more_of_the_producers_values_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_properties({**HERE, key: value})
    assert caught.value.key == key


@pytest.mark.parametrize(
    "more", [{"enable.idempotence": "false"}, {"acks": "1"}, {"retries": "0"}, {"acks": "0"}]
)
def test_transactions_need_idempotence(more: dict[str, str]) -> None:
    config = ProducerConfig.from_properties({**HERE, "transactional.id": "mine"})
    assert (config.transactional_id, config.transaction_timeout_ms) == ("mine", 60_000)
    assert (config.enable_idempotence, config.acks) == (True, -1)
    with pytest.raises(ConfigError, match="cannot be set without also enabling idempotence") as caught:
        ProducerConfig.from_properties({**HERE, "transactional.id": "mine", **more})
    assert caught.value.key == "transactional.id"


def test_a_consumer_without_a_group_commits_nothing() -> None:
    assert not ConsumerConfig.from_properties(HERE).enable_auto_commit
    assert ConsumerConfig.from_properties({**HERE, "group.id": "g"}).enable_auto_commit
    with pytest.raises(ConfigError, match=r"default group id \(null\)"):
        ConsumerConfig.from_properties({**HERE, "enable.auto.commit": "true"})


def test_consumers_have_client_ids_of_their_group_and_instance() -> None:
    named = ConsumerConfig.from_properties({**HERE, "group.id": "g", "group.instance.id": "i"})
    assert named.client_id == "consumer-g-i"
    ids = {ConsumerConfig.from_properties(HERE).client_id for _ in range(3)}
    assert len(ids) == 3
    assert all(each.startswith("consumer-null-") for each in ids)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session.timeout.ms", "3000"),
        ("group.protocol", "consumer"),
        ("group.instance.id", "a b"),
        ("group.instance.id", ""),
        ("max.poll.interval.ms", "0"),
        ("max.poll.records", "0"),
    ],
)
def test_a_bad_value_of_a_member_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.from_properties({**HERE, "group.id": "g", key: value})
    assert caught.value.key in (key, "heartbeat.interval.ms")
