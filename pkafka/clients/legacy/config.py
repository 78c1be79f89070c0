"""The keys of the old consumer and the old producer, with the defaults of Kafka 0.8.2."""

import re
from collections.abc import Mapping
from typing import Final, Self

from pkafka.clients.config.options import INT_MAX, Options, option
from pkafka.errors import ConfigError

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9._-]*")
_CODECS: Final = {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4"}


class _OldOptions(Options):
    @classmethod
    def from_properties(cls, values: Mapping[str, object]) -> Self:
        """Make a configuration of dotted keys; unknown ones are warned about, as by Kafka 0.8.

        Raises:
            ConfigError: a value has the wrong type, lies outside its limits, or a needed key is missing.
        """
        config = cls(**cls.parsed(cls._normalised(values), _warn_of))
        config.check()
        return config

    @classmethod
    def _normalised(cls, values: Mapping[str, object]) -> dict[str, object]:
        return dict(values)

    def check(self) -> None:
        """Look at the values together.

        Raises:
            ConfigError: two values contradict each other, or a needed one is missing.
        """


class OldConsumerConfig(_OldOptions):
    """The keys of :class:`~pkafka.clients.legacy.ZookeeperConsumerConnector`."""

    zookeeper_connect: str = option("")
    zookeeper_session_timeout_ms: int = option(6_000, at_least=1)
    zookeeper_connection_timeout_ms: int = option(6_000, at_least=1)
    zookeeper_sync_time_ms: int = option(2_000, at_least=0)
    group_id: str = option("")
    consumer_id: str = option("")
    client_id: str = option("")
    socket_timeout_ms: int = option(30_000, at_least=1)
    socket_receive_buffer_bytes: int = option(65_536, at_least=-1)
    fetch_message_max_bytes: int = option(1_048_576, at_least=1)
    fetch_min_bytes: int = option(1, at_least=0)
    fetch_wait_max_ms: int = option(100, at_least=0)
    auto_commit_enable: bool = option(True)
    auto_commit_interval_ms: int = option(60_000, at_least=1)
    queued_max_message_chunks: int = option(2, at_least=1)
    rebalance_max_retries: int = option(4, at_least=1)
    rebalance_backoff_ms: int = option(2_000, at_least=0)
    refresh_leader_backoff_ms: int = option(200, at_least=0)
    auto_offset_reset: str = option("largest", choices=("largest", "smallest"))
    consumer_timeout_ms: int = option(-1, at_least=-1)
    exclude_internal_topics: bool = option(True)
    partition_assignment_strategy: str = option("range", choices=("range", "roundrobin"))
    offsets_storage: str = option("zookeeper", choices=("zookeeper", "kafka"))
    offsets_channel_backoff_ms: int = option(1_000, at_least=0)
    offsets_channel_socket_timeout_ms: int = option(10_000, at_least=1)
    offsets_commit_max_retries: int = option(5, at_least=0)
    dual_commit_enabled: bool = option(False)

    @classmethod
    def _normalised(cls, values: Mapping[str, object]) -> dict[str, object]:
        result = dict(values)
        defaults = {
            "client.id": "group.id",
            "rebalance.backoff.ms": "zookeeper.sync.time.ms",
            "zookeeper.connection.timeout.ms": "zookeeper.session.timeout.ms",
        }
        for key, source in defaults.items():
            if key not in result and source in result:
                result[key] = result[source]
        if "dual.commit.enabled" not in result:
            result["dual.commit.enabled"] = str(result.get("offsets.storage", "")).strip() == "kafka"
        return result

    def check(self) -> None:
        for key, value in (("zookeeper.connect", self.zookeeper_connect), ("group.id", self.group_id)):
            if not value:
                raise ConfigError(key, "is missing")
        for key, value in (("group.id", self.group_id), ("client.id", self.client_id)):
            if _LEGAL_ID.fullmatch(value) is None:
                raise ConfigError(key, "may contain ASCII alphanumerics, '.', '_' and '-' only", value)
        if self.socket_timeout_ms < self.fetch_wait_max_ms:
            raise ConfigError(
                "socket.timeout.ms", "must not be smaller than fetch.wait.max.ms", self.socket_timeout_ms
            )


class OldProducerConfig(_OldOptions):
    """The keys of :class:`~pkafka.clients.legacy.OldProducer`."""

    metadata_broker_list: tuple[str, ...] = option(())
    client_id: str = option("")
    producer_type: str = option("sync", choices=("sync", "async"))
    partitioner_class: str = option("kafka.producer.DefaultPartitioner")
    serializer_class: str = option("kafka.serializer.DefaultEncoder")
    key_serializer_class: str = option("")
    compression_codec: str = option("none", choices=("none", "gzip", "snappy", "lz4"))
    compressed_topics: tuple[str, ...] = option(())
    message_send_max_retries: int = option(3, at_least=0)
    retry_backoff_ms: int = option(100, at_least=0)
    topic_metadata_refresh_interval_ms: int = option(600_000, at_least=-1)
    request_required_acks: int = option(0, at_least=-1, at_most=1)
    request_timeout_ms: int = option(10_000, at_least=1)
    send_buffer_bytes: int = option(102_400, at_least=-1)
    queue_buffering_max_ms: int = option(5_000, at_least=0)
    queue_buffering_max_messages: int = option(10_000, at_least=1)
    queue_enqueue_timeout_ms: int = option(-1, at_least=-1)
    batch_num_messages: int = option(200, at_least=1, at_most=INT_MAX)

    @classmethod
    def _normalised(cls, values: Mapping[str, object]) -> dict[str, object]:
        result = dict(values)
        if "compression.codec" in result:
            codec = str(result["compression.codec"]).strip()
            result["compression.codec"] = _CODECS.get(codec, codec)
        return result

    def check(self) -> None:
        if not self.metadata_broker_list:
            raise ConfigError("metadata.broker.list", "is missing; name at least one broker as host:port")
        if _LEGAL_ID.fullmatch(self.client_id) is None:
            raise ConfigError(
                "client.id", "may contain ASCII alphanumerics, '.', '_' and '-' only", self.client_id
            )

    def is_compressed(self, topic: str) -> bool:
        """Whether ``compression.codec`` is for this topic."""
        return not self.compressed_topics or topic in self.compressed_topics

    def client_keys(self) -> dict[str, object]:
        """The keys of today's clients for connections that do the same; it is the producer that tries again."""
        return {
            "bootstrap.servers": ",".join(self.metadata_broker_list),
            "client.id": self.client_id,
            "request.timeout.ms": self.request_timeout_ms,
            "socket.connection.setup.timeout.ms": self.request_timeout_ms,
            "socket.connection.setup.timeout.max.ms": self.request_timeout_ms,
            "send.buffer.bytes": self.send_buffer_bytes,
            "retries": 0,
            "reconnect.backoff.ms": 0,
            "reconnect.backoff.max.ms": 0,
        }


_warned: set[str] = set()


def _warn_of(key: str) -> None:
    if key not in _warned:
        _warned.add(key)
        import logging

        logging.getLogger(__name__).warning("Property %s is not valid", key)
