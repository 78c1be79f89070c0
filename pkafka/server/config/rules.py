"""The rules between configuration keys, and the refusal of features that this broker does not have.

keys/ has the rules for single keys. Kafka checks the same after it has typed all keys
(``KafkaConfig.validateValues``), with the same messages, except that the key comes first here. An empty value is
refused where it has no meaning: most likely the variable from which it was to come is not set.
"""

import os
import re
from typing import TYPE_CHECKING, Final

from pkafka.errors import ConfigError
from pkafka.server.config.keys import broker_keys, broker_synonyms
from pkafka.server.config.keys.values import interim_release
from pkafka.server.config.listeners import check_listeners
from pkafka.server.config.metrics_access import metrics_access
from pkafka.server.config.passwords import password_encoder
from pkafka.server.config.sasl import check_sasl

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
_SELECTORS: Final = (RACK_AWARE_SELECTOR, LEADER_SELECTOR)

_CODEC_MAX: Final = 4

_ABSENT: Final = (
    ("remote.log.storage.system.enable", "there is no tiered storage in pkafka"),
    ("zookeeper.metadata.migration.enable", "pkafka does not migrate to KRaft"),
)
"""Switches of features that are missing. The features' other settings are accepted, as Kafka accepts them while it is
off."""

_AUTHORIZER_STORE: Final = "authorizer.zookeeper.url"
_POLICIES: Final = ("create.topic.policy.class.name", "alter.config.policy.class.name")
"""Classes of Python; policies.py finds them."""
_KAFKAS_OWN: Final = "org.apache.kafka."

# The first may not be less than the second.
_AT_LEAST: Final = tuple(
    (f"group.{kind}.{one}", f"group.{kind}.{other}")
    for kind in ("consumer", "share")
    for one, other in (
        ("max.session.timeout.ms", "min.session.timeout.ms"),
        ("session.timeout.ms", "min.session.timeout.ms"),
        ("max.heartbeat.interval.ms", "min.heartbeat.interval.ms"),
        ("heartbeat.interval.ms", "min.heartbeat.interval.ms"),
    )
)
_AT_MOST: Final = tuple(
    (f"group.{kind}.{one}", f"group.{kind}.{other}")
    for kind in ("consumer", "share")
    for one, other in (
        ("session.timeout.ms", "max.session.timeout.ms"),
        ("heartbeat.interval.ms", "max.heartbeat.interval.ms"),
    )
)
_ASSIGNORS: Final = tuple(
    f"org.apache.kafka.coordinator.group.assignor.{name}Assignor" for name in ("Uniform", "Range")
)
_VOTER: Final = re.compile(r"[0-9]+@[^@,]+:[0-9]+")
_HOST_AND_PORT: Final = re.compile(r"[^,]+:[0-9]+")
_SERVER: Final = re.compile(r"([^\s:\[\]]+|\[[^\s\[\]]+\])(:(?P<port>[0-9]{1,5}))?")
_PORT_MAX: Final = 65535
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]*")
_RECORD_FORMATS: Final = (("0.10.0-IV0", 0), ("0.11.0-IV0", 1))
"""The format of records is older before these releases."""
_NEWEST_FORMAT: Final = 2


def check_config(config: "BrokerConfig") -> None:
    """Check the rules that need more than the type of one key.

    Raises:
        ConfigError: the first rule that is broken.
    """
    _check_mode(config)
    _check_classes(config)
    _check_identity(config)
    _check_logs(config)
    _check_replication(config)
    check_listeners(config)
    check_sasl(config)
    metrics_access(config)
    _check_network(config)
    _check_groups(config)
    _check_formats(config)
    password_encoder(config)


def _check_mode(config: "BrokerConfig") -> None:
    roles = config.originals.get("process.roles", "").strip()
    if roles:
        raise ConfigError(
            "process.roles",
            "is of KRaft mode, and pkafka runs in ZooKeeper mode: remove process.roles, controller.quorum.* and"
            " controller.listener.names, drop the CONTROLLER listener, set broker.id, and either set"
            " zookeeper.connect or leave it out to run one broker on the embedded store",
            roles,
        )
    for name in (
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
    ):
        _check_kraft_list(config, name)
    _check_zookeeper(config)
    for name, problem in _ABSENT:
        if config.get(name):
            raise ConfigError(name, f"{problem}; remove the key to run without", config.originals[name])
    _check_authorizer(config)


def _check_authorizer(config: "BrokerConfig") -> None:
    """Check the keys of Kafka's AclAuthorizer; authorizer.py finds the class."""
    if not config.originals.get("authorizer.class.name", "").strip():
        return
    _ = config.super_users, config.allow_everyone_if_no_acl_found
    url = config.originals.get(_AUTHORIZER_STORE, "").strip()
    if url and url != config.zookeeper_connect:
        problem = "ACLs are kept where zookeeper.connect says; remove the key"
        raise ConfigError(_AUTHORIZER_STORE, problem, url)


def _check_kraft_list(config: "BrokerConfig", name: str) -> None:
    value = config.get(name) or ()
    values = [part.strip() for part in (value.split(",") if isinstance(value, str) else value)]  # type: ignore[union-attr]
    if name == "controller.listener.names":
        if any(values):
            problem = "must be empty when not running in KRaft mode"
            raise ConfigError(name, problem, config.originals.get(name))
        return
    form, pattern = "{host}:{port}", _HOST_AND_PORT
    if name == "controller.quorum.voters":
        form, pattern = "{id}@{host}:{port}", _VOTER
    if not all(map(pattern.fullmatch, values)):
        raise ConfigError(name, f"Each entry should be in the form `{form}`.", config.originals.get(name))


def _check_classes(config: "BrokerConfig") -> None:
    """Refuse classes of Java other than Kafka's defaults: they cannot be loaded, so the setting would do nothing."""
    for name, text in config.originals.items():
        key = broker_keys().get(name)
        if key is None or key.type != "class":
            continue
        if name not in _POLICIES and not text.strip().startswith(_KAFKAS_OWN):
            problem = f"Class {text} could not be found: classes of Java cannot be loaded; remove the key"
            raise ConfigError(name, problem, text)


def _check_zookeeper(config: "BrokerConfig") -> None:
    if config.zookeeper_connect is None:
        if config.is_set("zookeeper.connect"):
            raise ConfigError(
                "zookeeper.connect",
                "is empty: name a ZooKeeper, or remove the key to run one broker on the embedded store",
                config.originals["zookeeper.connect"],
            )
        return
    servers = [part.strip() for part in config.zookeeper_connect.partition("/")[0].split(",")]
    wrong = [server for server in servers if server and not _is_server(server)]
    if wrong or not any(servers):
        problem = f"'{wrong[0]}' is no server" if wrong else "names no server"
        problem += "; wanted is host:port, several separated by commas, then perhaps /chroot"
        raise ConfigError("zookeeper.connect", problem, config.zookeeper_connect)
    # An operator that sets these relies on them. Without them the broker would let in what it was told to keep out.
    for name, problem in (
        ("zookeeper.ssl.crl.enable", "pkafka looks at no list of certificates that are revoked"),
        ("zookeeper.ssl.ocsp.enable", "pkafka asks no service whether a certificate is revoked"),
    ):
        if config.get(name):
            raise ConfigError(name, f"{problem}; remove the key to run without", config.get(name))


def _is_server(text: str) -> bool:
    found = _SERVER.fullmatch(text)
    return found is not None and int(found["port"] or 0) <= _PORT_MAX


def _check_identity(config: "BrokerConfig") -> None:
    ids = {name: config.originals[name] for name in ("broker.id", "node.id") if name in config.originals}
    if len(ids) == 2 and config.get("broker.id") != config.get("node.id"):
        problem = f"You must set `node.id` to the same value as `broker.id` ({ids['broker.id']})."
        raise ConfigError("node.id", problem, ids["node.id"])
    if config.broker_id_generation_enable:
        if not -1 <= config.broker_id <= config.reserved_broker_max_id:
            problem = (
                "must be greater than or equal to -1 and not greater than reserved.broker.max.id"
                f" ({config.reserved_broker_max_id})"
            )
            raise ConfigError("broker.id", problem, config.broker_id)
    elif config.broker_id < 0:
        raise ConfigError("broker.id", "must be greater than or equal to 0", config.broker_id)


def _check_logs(config: "BrokerConfig") -> None:
    if not config.log_dirs:
        problem = "At least one log directory must be defined via log.dirs or log.dir."
        key = "log.dirs" if config.is_set("log.dirs") else "log.dir"
        raise ConfigError(key, problem, config.originals.get(key, ""))
    if len({os.path.realpath(path) for path in config.log_dirs}) < len(config.log_dirs):
        problem = f"Duplicate log directory found: {', '.join(map(str, config.log_dirs))}"
        raise ConfigError("log.dirs", problem, config.originals.get("log.dirs"))
    for topic_key, name, minimum in (
        ("segment.ms", "log.roll.ms", 1),
        ("segment.jitter.ms", "log.roll.jitter.ms", 0),
        ("retention.ms", "log.retention.ms", 1),
    ):
        value = config.topic_default(topic_key)
        assert isinstance(value, int)
        if value < minimum and not (name == "log.retention.ms" and value == -1):
            unlimited = "unlimited (-1) or, " if name == "log.retention.ms" else ""
            key = next((key for key in broker_synonyms(name) if key in config.originals), name)
            problem = f"must be {unlimited}greater than or equal to {minimum}"
            raise ConfigError(key, problem, config.originals.get(key, value))
    buffer_bytes, threads = config.log_cleaner_dedupe_buffer_size, config.log_cleaner_threads
    if config.log_cleaner_enable and threads and buffer_bytes // threads <= 1024 * 1024:
        problem = "must be at least 1MB per cleaner thread."
        raise ConfigError("log.cleaner.dedupe.buffer.size", problem, buffer_bytes)
    if config.log_cleaner_enable and not threads:
        raise ConfigError(
            "log.cleaner.threads", "must be at least 1 unless log.cleaner.enable is false", threads
        )


def _check_replication(config: "BrokerConfig") -> None:
    selector = config.replica_selector_class
    if selector is not None and selector not in _SELECTORS:
        raise ConfigError("replica.selector.class", f"must be one of {', '.join(_SELECTORS)}", selector)
    if config.num_replica_fetchers < 1:
        raise ConfigError("num.replica.fetchers", "must be at least 1", config.num_replica_fetchers)
    wait_ms = config.replica_fetch_wait_max_ms
    if wait_ms > config.replica_socket_timeout_ms:
        problem = "should always be at least replica.fetch.wait.max.ms"
        raise ConfigError("replica.socket.timeout.ms", problem, config.replica_socket_timeout_ms)
    if wait_ms > config.replica_lag_time_max_ms:
        problem = "should always be less than or equal to replica.lag.time.max.ms"
        raise ConfigError("replica.fetch.wait.max.ms", problem, wait_ms)
    acks, replicas = config.offsets_commit_required_acks, config.offsets_topic_replication_factor
    if not -1 <= acks <= replicas:
        problem = (
            f"must be greater or equal -1 and less or equal to offsets.topic.replication.factor ({replicas})"
        )
        raise ConfigError("offsets.commit.required.acks", problem, acks)
    codec = config.offsets_topic_compression_codec
    if not 0 <= codec <= _CODEC_MAX:
        problem = f"must be the number of a codec, 0 to {_CODEC_MAX}"
        raise ConfigError("offsets.topic.compression.codec", problem, codec)


def _check_network(config: "BrokerConfig") -> None:
    queued = config.queued_max_request_bytes
    if 0 < queued < config.socket_request_max_bytes:
        problem = "must be larger or equal to socket.request.max.bytes"
        raise ConfigError("queued.max.request.bytes", problem, queued)
    overrides = config.max_connections_per_ip_overrides
    wrong = [host for host in overrides if not _HOST.fullmatch(host)]
    if wrong:
        name = "max.connections.per.ip.overrides"
        raise ConfigError(name, f"contains invalid addresses : {','.join(wrong)}", config.get(name))
    idle_ms, delay_ms = (
        config.connections_max_idle_ms,
        config.get("connection.failed.authentication.delay.ms"),
    )
    assert isinstance(delay_ms, int)
    if 0 <= idle_ms <= delay_ms:
        problem = (
            f"should always be less than connections.max.idle.ms={idle_ms} to prevent failed authentication responses"
            " from timing out"
        )
        raise ConfigError("connection.failed.authentication.delay.ms", problem, delay_ms)
    if config.max_connections_per_ip == 0 and not overrides:
        problem = "can be set to zero only if max.connections.per.ip.overrides property is set"
        raise ConfigError("max.connections.per.ip", problem, 0)


def _check_groups(config: "BrokerConfig") -> None:
    name = "group.coordinator.rebalance.protocols"
    protocols = config.get(name)
    assert isinstance(protocols, tuple)
    if "classic" not in protocols:
        raise ConfigError(name, "Disabling the 'classic' protocol is not supported.", ",".join(protocols))
    if "consumer" in protocols:
        problem = "The new 'consumer' rebalance protocol is only supported in KRaft cluster."
        raise ConfigError(name, problem, ",".join(protocols))
    for pairs, sign, words in ((_AT_LEAST, 1, "greater"), (_AT_MOST, -1, "less")):
        for one, other in pairs:
            left, right = config.get(one), config.get(other)
            assert isinstance(left, int)
            assert isinstance(right, int)
            if sign * left < sign * right:
                raise ConfigError(one, f"must be {words} than or equals to {other} ({right})", left)
    assignors = config.get("group.consumer.assignors")
    assert isinstance(assignors, tuple)
    for assignor in assignors:
        if assignor not in _ASSIGNORS:
            raise ConfigError("group.consumer.assignors", f"Class {assignor} cannot be found", assignor)


def _check_formats(config: "BrokerConfig") -> None:
    """Check the format of records: since Kafka 3.0 the protocol version alone decides it, unless that is older."""
    release = str(config.get("inter.broker.protocol.version"))
    if interim_release(release) >= interim_release("3.0-IV1"):
        return
    wanted = str(config.get("log.message.format.version"))
    if _record_format(release) < _record_format(wanted):
        problem = (
            f"can only be used when inter.broker.protocol.version is set to such a version too, not {release}"
        )
        raise ConfigError("log.message.format.version", problem, wanted)


def _record_format(release: str) -> int:
    for first, older in _RECORD_FORMATS:
        if interim_release(release) < interim_release(first):
            return older
    return _NEWEST_FORMAT
