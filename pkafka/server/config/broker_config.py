"""The broker's configuration: one immutable value made of a server.properties file, overrides and defaults.

Every key is typed and checked when the value is made; an unknown key is reported once, as a warning.
Dynamic changes (dynamic.py) make a new value. This module neither logs nor touches ZooKeeper.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeVar, overload

from pkafka.errors import ConfigError
from pkafka.java.properties import load_properties
from pkafka.java.text import split, trim
from pkafka.security.principal import Principal
from pkafka.server.config.cores import usable_cores
from pkafka.server.config.keys import broker_keys, topic_keys
from pkafka.server.config.keys.values import Value, parse, render
from pkafka.server.config.listeners import Listener, parse_listeners
from pkafka.server.config.rules import check_config

if TYPE_CHECKING:
    from pkafka.storage.config import LogConfig

FILELESS_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "broker.id": "0",
        "listeners": "PLAINTEXT://localhost:9092",
        "group.initial.rebalance.delay.ms": "0",
    }
)
"""What a broker without a file gets over Kafka's defaults: as in Kafka's own sample file, but on loopback."""

EMBEDDED_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
)
"""What a broker without ``zookeeper.connect`` gets: it is alone, so there is never a second replica."""

DATA_DIRECTORY_DEFAULT: Final = "data"

# Prefixes under which plug-ins find keys of their own, whose names the broker cannot know.
_FREE_PREFIXES: Final = ("listener.name.", "rsm.config.", "rlmm.config.", "ssl.", "sasl.", "java.", "log4j.")

_TIMESTAMP_LIMITS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_NO_TIMESTAMP_LIMIT: Final = 2**63 - 1

# What else names classes of Java stops the start (rules.py): these only tell others of what happens.
_JAVA_CLASSES: Final = (
    "metric.reporters",
    "kafka.metrics.reporters",
    "security.providers",
)

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_OF_AUTHORIZER: Final = (SUPER_USERS, ALLOW_EVERYONE)
"""Keys that Kafka does not list, since they belong to its AclAuthorizer."""

_T = TypeVar("_T")


class _Key(Generic[_T]):
    """A typed view of one key on :class:`BrokerConfig`; read once, as a cached property: hot paths ask for some."""

    def __init__(self, name: str, kind: type[_T]) -> None:
        self.name = name
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    @overload
    def __get__(self, config: None, owner: type) -> "_Key[_T]": ...
    @overload
    def __get__(self, config: "BrokerConfig", owner: type) -> _T: ...
    def __get__(self, config: "BrokerConfig | None", owner: type) -> "_Key[_T] | _T":
        if config is None:
            return self
        value = config.get(self.name)
        assert isinstance(value, self._kind), (self.name, value)
        config.__dict__[self._attribute] = value  # is found before this from now on
        return value


class _OptionalKey(Generic[_T]):
    """As :class:`_Key`, of one key that may have no value."""

    def __init__(self, name: str, kind: type[_T]) -> None:
        self.name = name
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    @overload
    def __get__(self, config: None, owner: type) -> "_OptionalKey[_T]": ...
    @overload
    def __get__(self, config: "BrokerConfig", owner: type) -> _T | None: ...
    def __get__(self, config: "BrokerConfig | None", owner: type) -> "_OptionalKey[_T] | _T | None":
        if config is None:
            return self
        value = config.get(self.name)
        assert value is None or isinstance(value, self._kind), (self.name, value)
        config.__dict__[self._attribute] = value
        return value


class BrokerConfig:
    """All settings of one broker; immutable.

    Attributes:
        originals: what was set, by key, as text: the file, the overrides and the defaults that pkafka adds.
        defaulted: the keys in ``originals`` that only pkafka set (:data:`FILELESS_DEFAULTS` and the like).
        warnings: sentences for the log, one for each unknown key and each that names classes of Java.
    """

    originals: Mapping[str, str]
    defaulted: frozenset[str]
    warnings: tuple[str, ...]

    def __init__(
        self, originals: Mapping[str, str], *, defaulted: frozenset[str] = frozenset(), check: bool = True
    ) -> None:
        """Type and check ``originals``; most callers want :meth:`load`.

        Raises:
            ConfigError: the first wrong value, with its key and what is allowed.
        """
        self.originals = MappingProxyType(dict(originals))
        self.defaulted = defaulted
        self._values: dict[str, Value] = {}
        keys = broker_keys()
        for name, text in self.originals.items():
            if name in keys:
                self._values[name] = parse(keys[name], text)
        self.warnings = (*_unknown_key_warnings(self.originals), *_plugin_warnings(self))
        self._listeners: tuple[Listener, ...] | None = None
        self._advertised: tuple[Listener, ...] | None = None
        if check:
            check_config(self)

    @classmethod
    def load(
        cls,
        file: Path | None,
        overrides: Mapping[str, str] = MappingProxyType({}),
        defaults: Mapping[str, str] = MappingProxyType({}),
    ) -> "BrokerConfig":
        """Read a server.properties file and put ``overrides`` over it and ``defaults`` under it.

        Args:
            file: the path; None for a broker on defaults (see :data:`FILELESS_DEFAULTS`).
            overrides: the ``--override key=value`` pairs of the command line.
            defaults: what counts when neither sets a key.

        Raises:
            ConfigError: a wrong value, or a file that cannot be read; the key is then the file's name.
        """
        given = {**defaults, **(load_properties(file) if file is not None else {}), **overrides}
        added: dict[str, str] = {} if file is not None else dict(FILELESS_DEFAULTS)
        if "node.id" in given:
            added.pop("broker.id", None)
        if "zookeeper.connect" not in given:
            added.update(EMBEDDED_DEFAULTS)
        if "log.dirs" not in given and "log.dir" not in given:
            # Kafka's default lies below the system's temporary folder, which a reboot empties.
            added["log.dirs"] = os.path.abspath(DATA_DIRECTORY_DEFAULT)
        added = {name: text for name, text in added.items() if name not in given}
        return cls({**added, **given}, defaulted=frozenset(added))

    def replace(self, changes: Mapping[str, str | None]) -> "BrokerConfig":
        """A copy with some keys set or, where the new value is None, unset.

        Raises:
            ConfigError: the result breaks a rule.
        """
        originals = dict(self.originals)
        for name, text in changes.items():
            if text is None:
                originals.pop(name, None)
            else:
                originals[name] = text
        return BrokerConfig(originals, defaulted=self.defaulted - changes.keys())

    def get(self, name: str) -> Value:
        """The typed value of a broker key; its default when it is not set.

        Raises:
            KeyError: there is no such key.
        """
        try:
            return self._values[name]
        except KeyError:
            value = self._values[name] = parse(broker_keys()[name], broker_keys()[name].default)
            return value

    def is_set(self, name: str) -> bool:
        """Whether the key is set, pkafka's added defaults included."""
        return name in self.originals

    # -- identity and coordination ---------------------------------------------------------------------
    @property
    def broker_id(self) -> int:
        """The configured id; -1: to be generated (see :attr:`broker_id_generation_enable`)."""
        for name in ("node.id", "broker.id"):
            value = self.get(name)
            if name in self.originals and isinstance(value, int):
                return value
        return -1

    broker_id_generation_enable = _Key("broker.id.generation.enable", bool)
    reserved_broker_max_id = _Key("reserved.broker.max.id", int)
    rack = _OptionalKey("broker.rack", str)
    zookeeper_session_timeout_ms = _Key("zookeeper.session.timeout.ms", int)

    @property
    def zookeeper_connect(self) -> str | None:
        """host:port,...[/chroot]; None: this broker runs alone on the embedded store."""
        value = self.get("zookeeper.connect")
        return value if isinstance(value, str) and value else None

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        value = self.get("zookeeper.connection.timeout.ms")
        return value if isinstance(value, int) else self.zookeeper_session_timeout_ms

    zookeeper_set_acl = _Key("zookeeper.set.acl", bool)
    zookeeper_max_in_flight_requests = _Key("zookeeper.max.in.flight.requests", int)

    # -- security --------------------------------------------------------------------------------------
    @property
    def super_users(self) -> frozenset[Principal]:
        """Who may do everything where ACLs decide (a key of Kafka's AclAuthorizer).

        Raises:
            ConfigError: an entry is no principal.
        """
        text = self.originals.get(SUPER_USERS, "")
        try:
            return frozenset(Principal.parse(trim(one)) for one in split(text, ";")) if text else frozenset()
        except ValueError as error:
            raise ConfigError(SUPER_USERS, f"{error}; several are separated by semicolons", text) from None

    @property
    def allow_everyone_if_no_acl_found(self) -> bool:
        """Whether clients may do what no ACL is about (a key of Kafka's AclAuthorizer).

        Raises:
            ConfigError: neither true nor false.
        """
        text = trim(self.originals.get(ALLOW_EVERYONE, "false")).lower()
        if text not in ("true", "false"):
            raise ConfigError(ALLOW_EVERYONE, "must be true or false", text)
        return text == "true"

    # -- processes -------------------------------------------------------------------------------------
    @property
    def workers(self) -> int:
        """Number of worker processes: ``pkafka.workers``, by default one per usable core."""
        configured = self.get("pkafka.workers")
        assert isinstance(configured, int)
        if configured:
            return configured
        return usable_cores()

    heartbeat_timeout_ms = _Key("pkafka.heartbeat.timeout.ms", int)
    metrics_port = _Key("pkafka.metrics.port", int)
    metrics_host = _Key("pkafka.metrics.host", str)
    transaction_fenced_markers_heal_enable = _Key("pkafka.transaction.fenced.markers.heal.enable", bool)

    # -- network ---------------------------------------------------------------------------------------
    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The addresses to bind, in the order of the file."""
        if self._listeners is None:
            text = self.get("listeners")
            self._listeners = parse_listeners("listeners", str(text or ""), self.security_protocols)
        return self._listeners

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The addresses that clients are told; those of :attr:`listeners` unless configured."""
        if self._advertised is None:
            text = self.get("advertised.listeners")
            self._advertised = (
                self.listeners
                if text is None
                else parse_listeners("advertised.listeners", str(text), self.security_protocols)
            )
        return self._advertised

    @property
    def security_protocols(self) -> dict[str, str]:
        """Listener name to security protocol (listener.security.protocol.map)."""
        return _parse_map("listener.security.protocol.map", str(self.get("listener.security.protocol.map")))

    @property
    def inter_broker_listener_name(self) -> str:
        """The listener over which brokers talk to each other."""
        name = self.get("inter.broker.listener.name")
        return str(name).upper() if name else str(self.get("security.inter.broker.protocol"))

    @property
    def control_plane_listener_name(self) -> str | None:
        name = self.get("control.plane.listener.name")
        return str(name).upper() if name else None

    @property
    def controller_listener_name(self) -> str:
        """The listener over which controllers and brokers talk to each other."""
        return self.control_plane_listener_name or self.inter_broker_listener_name

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """Host or address to its own limit of connections."""
        name = "max.connections.per.ip.overrides"
        pairs = _parse_map(name, str(self.get(name)))
        try:
            return {host: int(limit) for host, limit in pairs.items()}
        except ValueError:
            raise ConfigError(name, "must be a list of host:number", self.get(name)) from None

    num_network_threads = _Key("num.network.threads", int)
    num_io_threads = _Key("num.io.threads", int)
    background_threads = _Key("background.threads", int)
    socket_request_max_bytes = _Key("socket.request.max.bytes", int)
    socket_listen_backlog_size = _Key("socket.listen.backlog.size", int)
    socket_connection_setup_timeout_ms = _Key("socket.connection.setup.timeout.ms", int)
    socket_connection_setup_timeout_max_ms = _Key("socket.connection.setup.timeout.max.ms", int)
    max_connections = _Key("max.connections", int)
    max_connections_per_ip = _Key("max.connections.per.ip", int)
    max_connection_creation_rate = _Key("max.connection.creation.rate", int)
    replication_quota_window_num = _Key("replication.quota.window.num", int)
    replication_quota_window_size_seconds = _Key("replication.quota.window.size.seconds", int)
    alter_log_dirs_replication_quota_window_num = _Key("alter.log.dirs.replication.quota.window.num", int)
    alter_log_dirs_replication_quota_window_size_seconds = _Key(
        "alter.log.dirs.replication.quota.window.size.seconds", int
    )
    quota_window_num = _Key("quota.window.num", int)
    controller_quota_window_num = _Key("controller.quota.window.num", int)
    controller_quota_window_size_seconds = _Key("controller.quota.window.size.seconds", int)
    quota_window_size_seconds = _Key("quota.window.size.seconds", int)
    connections_max_idle_ms = _Key("connections.max.idle.ms", int)
    queued_max_requests = _Key("queued.max.requests", int)
    queued_max_request_bytes = _Key("queued.max.request.bytes", int)
    request_timeout_ms = _Key("request.timeout.ms", int)

    # -- topics ----------------------------------------------------------------------------------------
    num_partitions = _Key("num.partitions", int)
    default_replication_factor = _Key("default.replication.factor", int)
    auto_create_topics_enable = _Key("auto.create.topics.enable", bool)
    delete_topic_enable = _Key("delete.topic.enable", bool)
    min_insync_replicas = _Key("min.insync.replicas", int)
    unclean_leader_election_enable = _Key("unclean.leader.election.enable", bool)
    message_max_bytes = _Key("message.max.bytes", int)
    compression_type = _Key("compression.type", str)
    max_request_partition_size_limit = _Key("max.request.partition.size.limit", int)

    # -- logs ------------------------------------------------------------------------------------------
    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """The data directories, absolute, in the order of the file."""
        text = self.get("log.dir") if self.get("log.dirs") is None else self.get("log.dirs")
        parts = (part.strip() for part in str(text).split(","))
        return tuple(Path(os.path.abspath(part)) for part in parts if part)

    log_flush_offset_checkpoint_interval_ms = _Key("log.flush.offset.checkpoint.interval.ms", int)
    log_flush_start_offset_checkpoint_interval_ms = _Key("log.flush.start.offset.checkpoint.interval.ms", int)
    log_flush_scheduler_interval_ms = _Key("log.flush.scheduler.interval.ms", int)
    log_retention_check_interval_ms = _Key("log.retention.check.interval.ms", int)
    log_initial_task_delay_ms = _Key("log.initial.task.delay.ms", int)
    log_cleaner_enable = _Key("log.cleaner.enable", bool)
    log_cleaner_threads = _Key("log.cleaner.threads", int)
    log_cleaner_backoff_ms = _Key("log.cleaner.backoff.ms", int)
    log_cleaner_dedupe_buffer_size = _Key("log.cleaner.dedupe.buffer.size", int)
    log_cleaner_io_buffer_size = _Key("log.cleaner.io.buffer.size", int)
    log_cleaner_io_buffer_load_factor = _Key("log.cleaner.io.buffer.load.factor", float)
    log_cleaner_io_max_bytes_per_second = _Key("log.cleaner.io.max.bytes.per.second", float)
    log_dir_failure_timeout_ms = _Key("log.dir.failure.timeout.ms", int)
    num_recovery_threads_per_data_dir = _Key("num.recovery.threads.per.data.dir", int)

    # -- replication and controller --------------------------------------------------------------------
    replica_lag_time_max_ms = _Key("replica.lag.time.max.ms", int)
    replica_fetch_max_bytes = _Key("replica.fetch.max.bytes", int)
    replica_fetch_min_bytes = _Key("replica.fetch.min.bytes", int)
    replica_fetch_wait_max_ms = _Key("replica.fetch.wait.max.ms", int)
    replica_fetch_backoff_ms = _Key("replica.fetch.backoff.ms", int)
    replica_fetch_response_max_bytes = _Key("replica.fetch.response.max.bytes", int)
    replica_socket_timeout_ms = _Key("replica.socket.timeout.ms", int)
    replica_high_watermark_checkpoint_interval_ms = _Key("replica.high.watermark.checkpoint.interval.ms", int)
    num_replica_fetchers = _Key("num.replica.fetchers", int)
    auto_leader_rebalance_enable = _Key("auto.leader.rebalance.enable", bool)
    leader_imbalance_per_broker_percentage = _Key("leader.imbalance.per.broker.percentage", int)
    leader_imbalance_check_interval_seconds = _Key("leader.imbalance.check.interval.seconds", int)
    controller_socket_timeout_ms = _Key("controller.socket.timeout.ms", int)
    controlled_shutdown_enable = _Key("controlled.shutdown.enable", bool)
    controlled_shutdown_max_retries = _Key("controlled.shutdown.max.retries", int)
    controlled_shutdown_retry_backoff_ms = _Key("controlled.shutdown.retry.backoff.ms", int)
    replica_selector_class = _OptionalKey("replica.selector.class", str)

    # -- fetch and produce -----------------------------------------------------------------------------
    fetch_max_bytes = _Key("fetch.max.bytes", int)
    max_incremental_fetch_session_cache_slots = _Key("max.incremental.fetch.session.cache.slots", int)
    producer_id_expiration_ms = _Key("producer.id.expiration.ms", int)
    producer_id_expiration_check_interval_ms = _Key("producer.id.expiration.check.interval.ms", int)
    transaction_abort_timed_out_transaction_cleanup_interval_ms = _Key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", int
    )
    transaction_max_timeout_ms = _Key("transaction.max.timeout.ms", int)
    transaction_partition_verification_enable = _Key("transaction.partition.verification.enable", bool)
    transactional_ids_max = _Key("pkafka.transactional.ids.max", int)
    transaction_remove_expired_transaction_cleanup_interval_ms = _Key(
        "transaction.remove.expired.transaction.cleanup.interval.ms", int
    )
    transaction_state_log_load_buffer_size = _Key("transaction.state.log.load.buffer.size", int)
    transaction_state_log_num_partitions = _Key("transaction.state.log.num.partitions", int)
    transaction_state_log_replication_factor = _Key("transaction.state.log.replication.factor", int)
    transaction_state_log_min_isr = _Key("transaction.state.log.min.isr", int)
    transaction_state_log_segment_bytes = _Key("transaction.state.log.segment.bytes", int)
    transactional_id_expiration_ms = _Key("transactional.id.expiration.ms", int)

    # -- groups ----------------------------------------------------------------------------------------
    offsets_topic_num_partitions = _Key("offsets.topic.num.partitions", int)
    offsets_topic_replication_factor = _Key("offsets.topic.replication.factor", int)
    offsets_topic_segment_bytes = _Key("offsets.topic.segment.bytes", int)
    offsets_retention_minutes = _Key("offsets.retention.minutes", int)
    offsets_retention_check_interval_ms = _Key("offsets.retention.check.interval.ms", int)
    offset_metadata_max_bytes = _Key("offset.metadata.max.bytes", int)
    offsets_commit_timeout_ms = _Key("offsets.commit.timeout.ms", int)
    offsets_commit_required_acks = _Key("offsets.commit.required.acks", int)
    offsets_topic_compression_codec = _Key("offsets.topic.compression.codec", int)
    offsets_load_buffer_size = _Key("offsets.load.buffer.size", int)
    group_min_session_timeout_ms = _Key("group.min.session.timeout.ms", int)
    group_max_session_timeout_ms = _Key("group.max.session.timeout.ms", int)
    group_initial_rebalance_delay_ms = _Key("group.initial.rebalance.delay.ms", int)
    group_max_size = _Key("group.max.size", int)

    # -- what a topic inherits -------------------------------------------------------------------------
    def topic_default(self, name: str) -> Value:
        """The value that the topic key ``name`` has on this broker when the topic does not set it."""
        value = self._inherited(name)
        if name in _TIMESTAMP_LIMITS and value == _NO_TIMESTAMP_LIMIT:
            # So a topic's own difference counts only where the broker has neither limit nor difference (KIP-937).
            return self._inherited("message.timestamp.difference.max.ms")
        return value

    def _inherited(self, name: str) -> Value:
        for synonym, factor in topic_keys()[name].synonyms:
            value = self.get(synonym)
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and name == "retention.ms"
                and value < 0
            ):
                return -1  # no limit, in whatever unit
            if value is not None:
                return value * factor if isinstance(value, int) and factor != 1 else value
        return parse(topic_keys()[name], topic_keys()[name].default)

    def topic_defaults(self) -> dict[str, str]:
        """Every topic key with the text of its value on this broker."""
        return {name: render(self.topic_default(name)) or "" for name in topic_keys()}

    def log_config(self) -> "LogConfig":
        """The log settings of a topic that sets nothing itself."""
        from pkafka.storage.config import LogConfig

        return LogConfig.from_topic_configs(self.topic_defaults(), LogConfig())


def socket_buffer_bytes(config: BrokerConfig, name: str, *, unset: int | None = None) -> int | None:
    """The size of a client connection's buffer; None: the kernel adapts it.

    Kafka's default of 100 KB would throttle every connection with a delay, so it does not count.

    Args:
        unset: where the file does not have the key.
    """
    if not config.is_set(name):
        return unset
    value = config.get(name)
    return value if isinstance(value, int) and value != -1 else None


def _parse_map(name: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        left, colon, right = part.rpartition(":")
        if not colon or not left:
            raise ConfigError(name, f"'{part}' is not of the form name:value", text)
        pairs[left.strip()] = right.strip()
    return pairs


def _unknown_key_warnings(originals: Mapping[str, str]) -> list[str]:
    return [
        f"{name}: no such configuration key; it is ignored"
        for name in originals
        if name not in broker_keys()
        and not name.startswith(_FREE_PREFIXES)
        and not (name in _OF_AUTHORIZER and originals.get("authorizer.class.name", "").strip())
    ]


def _plugin_warnings(config: BrokerConfig) -> list[str]:
    return [
        f"{name}: classes of Java cannot be loaded; it is ignored"
        for name in _JAVA_CLASSES
        if config.get(name)
    ]
