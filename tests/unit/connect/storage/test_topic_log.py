"""Which settings of a worker are those of its internal topics and of the clients that use them."""

from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.plugins import load_plugins
from pkafka.connect.storage.topic_log import LogTopic, internal_clients, storage_topic
from pkafka.connect.worker_config import WorkerConfig
from tests.connect_stores import worker_settings


def config_of(**more: str) -> WorkerConfig:
    return distributed_config({**worker_settings("a:1,b:2", "g"), **more}, load_plugins())


def test_clients_have_the_settings_of_the_worker_without_prefix() -> None:
    config = config_of(
        **{
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "connections.max.idle.ms": "7",
            "request.timeout.ms": "9",
            "producer.linger.ms": "5",
            "session.timeout.ms": "1000",
            "metadata.max.age.ms": "8",
        }
    )
    clients = internal_clients(config, "w", read_committed=True)
    common = {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "w",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "connections.max.idle.ms": "7",
        "request.timeout.ms": "9",
        "metadata.max.age.ms": "8",
    }
    assert clients.admin == common
    assert clients.consumer == {**common, "isolation.level": "read_committed"}
    assert clients.producer == {
        **common,
        "delivery.timeout.ms": "2147483647",
        "enable.idempotence": "false",
    }
    assert "isolation.level" not in internal_clients(config, "w", read_committed=False).consumer


def test_a_topic_is_made_with_further_settings_of_the_worker() -> None:
    config = config_of(**{"status.storage.segment.bytes": "5", "status.storage.partitions": "-1"})
    assert storage_topic(config, "status", "statuses") == LogTopic(
        "g-status", "status.storage.topic", "statuses", -1, 1, {"segment.bytes": "5"}
    )
    config = config_of(**{"config.storage.partitions": "3", "config.storage.cleanup.policy": "delete"})
    assert storage_topic(config, "config", "configs", partitions=1) == LogTopic(
        "g-config", "config.storage.topic", "configs", 1, 1, {}
    )
