"""The settings of a distributed worker beside those of every worker: ``DistributedConfig`` of Apache Kafka 3.9.

Those of clients stand here too, since Java's worker refuses what they must not be before it makes any client.
"""

from collections.abc import Mapping
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance, Key, Validator
from pkafka.connect.config_validators import in_range, one_of_any_case
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.connect.plugins import Plugins
from pkafka.connect.storage.session_key import (
    check_key_algorithm,
    check_signature_algorithm,
    check_verification_algorithms,
    key_size_bytes,
)
from pkafka.connect.worker_config import WorkerConfig

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_INT_MAX: Final = 0x7FFFFFFF
_ALGORITHM: Final = "HmacSHA256"
PROTOCOLS: Final = ("eager", "compatible", "sessioned")
"""What ``connect.protocol`` may be, in any case; every worker of a cluster has to speak the one that is in force."""


def _partitions(name: str, value: Value) -> None:
    if value != -1 and value < 1:
        raise ConfigError.of(
            name, value, "Number of partitions must be positive, or -1 to use the broker's default"
        )


def _replicas(name: str, value: Value) -> None:
    if value != -1 and value < 1:
        raise ConfigError.of(
            name,
            value,
            "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, or -1"
            " to use the broker's default",
        )


def _no_less_than_none(name: str, value: Value) -> None:
    if value is not None and value < 0:
        raise ConfigError.of(name, value, "Value must be at least 0")


def _protocol(name: str, value: Value) -> None:
    if value.lower() not in PROTOCOLS:
        raise ConfigError.of(name, value, "Invalid Connect protocol compatibility")


def distributed_config_def() -> ConfigDef:
    """What a distributed worker has beside what every worker has."""
    return ConfigDef([*_group_keys(), *_client_keys(), *_sasl_keys(), *_storage_keys(), *_worker_keys()])


def distributed_config(originals: Mapping[str, str], plugins: Plugins) -> WorkerConfig:
    """The settings of a distributed worker.

    Raises:
        ConfigError: one is refused, or does not fit another.
    """
    config = WorkerConfig.of(originals, plugins, distributed_config_def())
    check_together(config.parsed)
    return config


def check_together(parsed: Mapping[str, Value]) -> None:
    """Look at settings that have to fit each other.

    Raises:
        ConfigError: they do not.
    """
    key_size_bytes(parsed["inter.worker.key.generation.algorithm"], parsed["inter.worker.key.size"])
    name, listed = "inter.worker.signature.algorithm", "inter.worker.verification.algorithms"
    if parsed[name] not in parsed[listed]:
        raise ConfigError.of(name, parsed[name], f"Signature algorithm must be present in {listed} list")


def _group_keys() -> list[Key]:
    return [
        _key("group.id", ConfigType.STRING, importance=_HIGH, documentation="Names the cluster of this worker."),
        _with_default("session.timeout.ms", ConfigType.INT, 10_000, _HIGH,
            "How long the group waits for a sign of life of a worker before it counts as gone."),
        _with_default("rebalance.timeout.ms", ConfigType.INT, 60_000, _HIGH,
            "How long workers may take to join when the group rebalances."),
        _with_default("heartbeat.interval.ms", ConfigType.INT, 3_000, _HIGH,
            "How often a worker gives a sign of life."),
        _with_default("exactly.once.source.support", ConfigType.STRING, "disabled", _HIGH,
            "Whether source connectors may write exactly once (KIP-618): disabled, preparing or enabled.",
            one_of_any_case("disabled", "preparing", "enabled")),
    ]  # fmt: skip


def _client_keys() -> list[Key]:
    rows: list[tuple[str, ConfigType, Value, Importance, Validator | None]] = [
        ("metadata.max.age.ms", ConfigType.LONG, 300_000, _LOW, in_range(0)),
        ("client.id", ConfigType.STRING, "", _LOW, None),
        ("send.buffer.bytes", ConfigType.INT, 128 * 1024, _MEDIUM, in_range(-1)),
        ("receive.buffer.bytes", ConfigType.INT, 32 * 1024, _MEDIUM, in_range(-1)),
        ("reconnect.backoff.ms", ConfigType.LONG, 50, _LOW, in_range(0)),
        ("reconnect.backoff.max.ms", ConfigType.LONG, 1_000, _LOW, in_range(0)),
        ("socket.connection.setup.timeout.ms", ConfigType.LONG, 10_000, _LOW, in_range(0)),
        ("socket.connection.setup.timeout.max.ms", ConfigType.LONG, 30_000, _LOW, in_range(0)),
        ("retry.backoff.ms", ConfigType.LONG, 100, _LOW, in_range(0)),
        ("retry.backoff.max.ms", ConfigType.LONG, 1_000, _LOW, in_range(0)),
        ("request.timeout.ms", ConfigType.INT, 40_000, _MEDIUM, in_range(0)),
        ("connections.max.idle.ms", ConfigType.LONG, 540_000, _MEDIUM, None),
        (
            "security.protocol",
            ConfigType.STRING,
            "PLAINTEXT",
            _MEDIUM,
            one_of_any_case("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        ),
        (
            "metadata.recovery.strategy",
            ConfigType.STRING,
            "none",
            _LOW,
            one_of_any_case("none", "rebootstrap"),
        ),
    ]
    return [_of_client(*row) for row in rows]


def _sasl_keys() -> list[Key]:
    text, number, whole, short = ConfigType.STRING, ConfigType.DOUBLE, ConfigType.LONG, ConfigType.SHORT
    rows: list[tuple[str, ConfigType, Value, Importance, Validator | None]] = [
        ("sasl.kerberos.service.name", text, None, _MEDIUM, None),
        ("sasl.kerberos.kinit.cmd", text, "/usr/bin/kinit", _LOW, None),
        ("sasl.kerberos.ticket.renew.window.factor", number, 0.8, _LOW, None),
        ("sasl.kerberos.ticket.renew.jitter", number, 0.05, _LOW, None),
        ("sasl.kerberos.min.time.before.relogin", whole, 60_000, _LOW, None),
        ("sasl.login.refresh.window.factor", number, 0.8, _LOW, in_range(0.5, 1.0)),
        ("sasl.login.refresh.window.jitter", number, 0.05, _LOW, in_range(0.0, 0.25)),
        ("sasl.login.refresh.min.period.seconds", short, 60, _LOW, in_range(0, 900)),
        ("sasl.login.refresh.buffer.seconds", short, 300, _LOW, in_range(0, 3600)),
        ("sasl.mechanism", text, "GSSAPI", _MEDIUM, None),
        ("sasl.jaas.config", ConfigType.PASSWORD, None, _MEDIUM, None),
        ("sasl.client.callback.handler.class", text, None, _MEDIUM, None),
        ("sasl.login.callback.handler.class", text, None, _MEDIUM, None),
        ("sasl.login.class", text, None, _MEDIUM, None),
        ("sasl.login.connect.timeout.ms", ConfigType.INT, None, _LOW, None),
        ("sasl.login.read.timeout.ms", ConfigType.INT, None, _LOW, None),
        ("sasl.login.retry.backoff.max.ms", whole, 10_000, _LOW, None),
        ("sasl.login.retry.backoff.ms", whole, 100, _LOW, None),
        ("sasl.oauthbearer.scope.claim.name", text, "scope", _LOW, None),
        ("sasl.oauthbearer.sub.claim.name", text, "sub", _LOW, None),
        ("sasl.oauthbearer.token.endpoint.url", text, None, _MEDIUM, None),
        ("sasl.oauthbearer.jwks.endpoint.url", text, None, _MEDIUM, None),
        ("sasl.oauthbearer.jwks.endpoint.refresh.ms", whole, 3_600_000, _LOW, None),
        ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", whole, 10_000, _LOW, None),
        ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", whole, 100, _LOW, None),
        ("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, 30, _LOW, None),
        ("sasl.oauthbearer.expected.audience", ConfigType.LIST, None, _LOW, None),
        ("sasl.oauthbearer.expected.issuer", text, None, _LOW, None),
        ("sasl.oauthbearer.header.urlencode", ConfigType.BOOLEAN, False, _LOW, None),
    ]
    return [_of_client(*row) for row in rows]


def _storage_keys() -> list[Key]:
    rows = []
    for kind, purpose, partitions in (
        ("offset", "offsets of source connectors", 25),
        ("config", "configurations of connectors", None),
        ("status", "states of connectors and tasks", 5),
    ):
        prefix = f"{kind}.storage."
        rows.append(
            _key(
                f"{prefix}topic",
                ConfigType.STRING,
                importance=_HIGH,
                documentation=f"The topic with the {purpose}.",
            )
        )
        if partitions is not None:
            rows.append(
                _with_default(f"{prefix}partitions", ConfigType.INT, partitions, _LOW,
                    "How many partitions the topic gets when it is made; -1: the broker's default.", _partitions)
            )  # fmt: skip
        rows.append(
            _with_default(f"{prefix}replication.factor", ConfigType.SHORT, 3, _LOW,
                "How many replicas the topic gets when it is made; -1: the broker's default.", _replicas)
        )  # fmt: skip
    return rows


def _worker_keys() -> list[Key]:
    return [
        _with_default("worker.sync.timeout.ms", ConfigType.INT, 3_000, _MEDIUM,
            "How long a worker that lags behind may take to read what the group goes by, before it leaves."),
        _with_default("worker.unsync.backoff.ms", ConfigType.INT, 300_000, _MEDIUM,
            "How long such a worker stays away."),
        _with_default("connect.protocol", ConfigType.STRING, "sessioned", _LOW,
            "How workers share what there is: sessioned, compatible or eager.", _protocol),
        _with_default("scheduled.rebalance.max.delay.ms", ConfigType.INT, 300_000, _LOW,
            "How long what a gone worker ran waits for its return.", in_range(0, _INT_MAX)),
        _with_default("inter.worker.key.ttl.ms", ConfigType.INT, 3_600_000, _LOW,
            "How long a key serves by which workers sign what they ask of each other.", in_range(0, _INT_MAX)),
        _with_default("inter.worker.key.generation.algorithm", ConfigType.STRING, _ALGORITHM, _LOW,
            "How such a key is made.", check_key_algorithm),
        _with_default("inter.worker.key.size", ConfigType.INT, None, _LOW,
            "How many bits it has; left out: as many as is usual."),
        _with_default("inter.worker.signature.algorithm", ConfigType.STRING, _ALGORITHM, _LOW,
            "How this worker signs.", check_signature_algorithm),
        _with_default("inter.worker.verification.algorithms", ConfigType.LIST, _ALGORITHM, _LOW,
            "Which signatures this worker takes; that of its own is to be one of them.",
            check_verification_algorithms),
        _with_default("pkafka.connect.hosts", ConfigType.INT, None, _LOW,
            "How many processes run connectors and tasks, at most one for each core; left out: one, and more as they"
            " are busy. 0: the worker's own process does.", _no_less_than_none),
        _with_default("pkafka.connect.restart.max", ConfigType.INT, 3, _LOW,
            "How often in 10 minutes a connector or a task starts again whose process has ended.", in_range(0)),
    ]  # fmt: skip


def _key(name: str, type: ConfigType, *, importance: Importance, documentation: str) -> Key:
    return Key(name=name, type=type, importance=importance, documentation=documentation)


def _with_default(
    name: str,
    type: ConfigType,
    default: Value,
    importance: Importance,
    documentation: str,
    validator: Validator | None = None,
) -> Key:
    return Key(
        name=name,
        type=type,
        default=default,
        importance=importance,
        documentation=documentation,
        validator=validator,
    )


def _of_client(
    name: str, type: ConfigType, default: Value, importance: Importance, validator: Validator | None
) -> Key:
    return _with_default(name, type, default, importance, "As of every client of Kafka.", validator)
