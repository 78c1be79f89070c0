"""The keys that all clients share."""

from collections.abc import Mapping
from typing import Self

from pkafka.clients.config.options import INT_MAX, LONG_MAX, option
from pkafka.clients.config.security import SecurityOptions, check_security
from pkafka.errors import ConfigError

# Keys of Kafka's own clients that have no effect here: names of Java's classes and algorithms, or what comes later.
_ACCEPTED_PREFIXES = (
    *("metrics.recording.", "security.", "auto.include.", "sasl.kerberos.", "sasl.oauthbearer.jwks."),
    *("sasl.oauthbearer.expected.", "sasl.oauthbearer.clock."),
    # What the serializers of a Schema Registry read:
    *(
        "schema.registry.",
        "specific.protobuf.",
        "auto.register.",
        "use.latest.",
        "use.schema.",
        "normalize.schemas",
    ),
    *(
        "basic.auth.",
        "bearer.auth.",
        "key.subject.name.",
        "value.subject.name.",
        "latest.cache.",
        "retries.wait.",
    ),
    *("retries.max.wait.", "max.retries", "http.read.timeout.", "pkafka.key.avro.", "pkafka.value.avro."),
)
_ACCEPTED = frozenset(
    {
        "client.dns.lookup",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "key.deserializer",
        "value.deserializer",
        "partition.assignment.strategy",
        "enable.metrics.push",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "enable.auto.commit",
        "auto.commit.interval.ms",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "allow.auto.create.topics",
        "exclude.internal.topics",
        "bootstrap.controllers",
        "metadata.recovery.strategy",
        "transactional.id",
        "transaction.timeout.ms",
        "internal.leave.group.on.close",
    }
)
FOREIGN_KEYS = frozenset(
    {
        "enable.ssl.certificate.verification",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.password",
        "sasl.username",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
    }
)
"""Keys about security that librdkafka has, or later versions of Kafka; in Kafka 3.9 others say what they say."""


class ClientConfig(SecurityOptions):
    """What all clients share; also the whole configuration of the admin client."""

    bootstrap_servers: tuple[str, ...] = option(())
    client_id: str = option("")
    request_timeout_ms: int = option(30_000, at_least=0)
    default_api_timeout_ms: int = option(60_000, at_least=0)
    retry_backoff_ms: int = option(100, at_least=0)
    retry_backoff_max_ms: int = option(1_000, at_least=0)
    retries: int = option(INT_MAX, at_least=0)
    reconnect_backoff_ms: int = option(50, at_least=0)
    reconnect_backoff_max_ms: int = option(1_000, at_least=0)
    metadata_max_age_ms: int = option(300_000, at_least=0)
    connections_max_idle_ms: int = option(540_000, at_least=-1)
    socket_connection_setup_timeout_ms: int = option(10_000, at_least=0)
    socket_connection_setup_timeout_max_ms: int = option(30_000, at_least=0)
    send_buffer_bytes: int = option(131_072, at_least=-1)
    receive_buffer_bytes: int = option(65_536, at_least=-1)
    interceptor_classes: object = option(())
    metric_reporters: object = option(())
    metrics_num_samples: int = option(2, at_least=1)
    metrics_sample_window_ms: int = option(30_000, at_least=0, at_most=LONG_MAX)

    @classmethod
    def from_properties(cls, values: Mapping[str, object]) -> Self:
        """Make a configuration of Kafka's dotted keys.

        Args:
            values: key to value; text is parsed, Python values of the right type are taken as they are.

        Raises:
            ConfigError: a value has the wrong type or lies outside its limits.
        """
        if not FOREIGN_KEYS.isdisjoint(values):
            from pkafka.clients.config.librdkafka import in_kafkas_keys

            values = in_kafkas_keys(values)
        config = cls(**cls.parsed(values, _note_unknown))
        config.remember(values)
        config.check()
        return config

    def check(self) -> None:
        """Look at the values together.

        Raises:
            ConfigError: two values contradict each other, or a needed one is missing.
        """
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers", "is missing; name at least one broker as host:port")
        if self.security_protocol != "PLAINTEXT":
            check_security(self)


_warned: set[str] = set()


def _note_unknown(key: str) -> None:
    if key in _ACCEPTED or key.startswith(_ACCEPTED_PREFIXES) or key in _warned:
        return
    # A producer's file is often given to the admin client too: a key of another client is not a typo.
    if any(key.replace(".", "_") in cls._options for cls in ClientConfig.__subclasses__()):
        return
    _warned.add(key)
    import logging

    logging.getLogger(__name__).warning("the configuration %r is not known to this client", key)
