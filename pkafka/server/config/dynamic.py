"""Dynamic configuration: the layers a broker's settings are made of, and which changes to them are legal.

Pure: values in, values or ApiError out. repository.py stores the settings, the handlers serve the requests, and
the parts of the broker that use a setting follow its change.

A broker's settings, the weaker first: the default, its own file, the dynamic settings of all brokers, its own dynamic
settings. A topic's: the broker's current value of the key that stands behind it, then the topic's own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.security.password_encoder import PasswordEncoder, PasswordError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.keys import ConfigKey, broker_keys, broker_synonyms, topic_keys
from pkafka.server.config.keys.values import Value, kafka_message, parse, parse_list
from pkafka.server.config.listener_keys import is_of_logins, wrong_value


class ResourceType(IntEnum):
    """What a configuration belongs to, as numbered on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One line of an incremental change. ``operation`` is as it came and may be no :class:`Operation`."""

    name: str
    operation: int
    value: str | None


Configs = Mapping[str, str]
NO_CONFIGS: Final[Configs] = MappingProxyType({})

# A listener's own setting: listener.name.<listener>.[<mechanism>.]<key>
_LISTENER_KEY: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_PER_MECHANISM_KEYS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
_SECURITY_KEYS: Final = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
_CLUSTER_WIDE_LISTENER_KEYS: Final = (
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
)
_CONNECTION_LIMITS: Final = ("max.connections", "max.connection.creation.rate")
"""Without any listener no client could connect to change it back."""
_UNLIMITED: Final = -1
_AS_THE_WHOLE: Final = -2
_THREAD_KEYS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
_REPLICATION_RATES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
_RATE_MAX: Final = str(2**63 - 1)


def _rate_key(name: str) -> ConfigKey:
    return ConfigKey(name, "long", _RATE_MAX, ("range", 0, None), "medium", "per-broker")


DYNAMIC_ONLY_KEYS: Final[Mapping[str, ConfigKey]] = {name: _rate_key(name) for name in _REPLICATION_RATES}
"""Broker keys that a file cannot set: the throttles of reassignment."""


def base_name(name: str) -> str:
    """The key behind a listener's own setting; the name itself for every other."""
    match = _LISTENER_KEY.fullmatch(name)
    if match is None:
        return name
    return next((key for key in _PER_MECHANISM_KEYS if match[1].endswith(key)), match[1])


def broker_key(name: str) -> ConfigKey | None:
    """What is known about a broker key or a listener's own setting; None for a key of a plug-in."""
    return broker_keys().get(base_name(name))


def synonyms_of(name: str) -> tuple[str, ...]:
    """The names whose settings count for ``name``, the strongest first; a listener's own falls back to the base."""
    base = base_name(name)
    return (name, base) if base != name else broker_synonyms(name)


class BrokerLayers:
    """The settings of one broker, layer by layer; immutable.

    Attributes:
        static: the broker's file, command line and defaults.
        cluster: the dynamic settings of all brokers (/config/brokers/<default>).
        broker: the dynamic settings of this broker (/config/brokers/N).
    """

    def __init__(
        self, static: BrokerConfig, *, cluster: Configs = NO_CONFIGS, broker: Configs = NO_CONFIGS
    ) -> None:
        self.static = static
        self.cluster = MappingProxyType(dict(cluster))
        self.broker = MappingProxyType(dict(broker))

    @cached_property
    def static_configs(self) -> Configs:
        """What the file set, the two names of the broker's id made equal as Kafka does."""
        configs = dict(self.static.originals)
        for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
            if name in configs:
                configs.setdefault(other, configs[name])
        return MappingProxyType(configs)

    @cached_property
    def current(self) -> BrokerConfig:
        """The settings in force.

        Raises:
            ConfigError: the layers together break a rule.
        """
        configs = dict(self.static_configs)
        _overlay(configs, self.cluster)
        _overlay(configs, self.broker)
        return BrokerConfig(configs)

    def with_layer(self, configs: Configs, *, per_broker: bool) -> "BrokerLayers":
        """A copy with the broker's own dynamic layer, or that of all brokers, replaced."""
        if per_broker:
            return BrokerLayers(self.static, cluster=self.cluster, broker=configs)
        return BrokerLayers(self.static, cluster=configs, broker=self.broker)

    def layer(self, *, per_broker: bool) -> Configs:
        """One of the dynamic layers."""
        return self.broker if per_broker else self.cluster


def _overlay(configs: dict[str, str], over: Configs) -> None:
    """Put a stronger layer over ``configs``; a key drives out the other names of the same setting."""
    for name, text in over.items():
        for synonym in broker_synonyms(name):
            configs.pop(synonym, None)
        configs[name] = text


def usable_broker_configs(
    stored: Configs, *, per_broker: bool, encoder: PasswordEncoder | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the stored dynamic settings that can be applied, and for each other one a sentence for the log.

    Another version or a person may have written the node. A bad entry must not keep a broker from starting.

    Args:
        stored: as stored, passwords encrypted.
        per_broker: whether they are of one broker.
        encoder: reads passwords; None: they cannot be read.
    """
    usable: dict[str, str] = {}
    problems: list[str] = []
    for name, text in stored.items():
        try:
            check_broker_names({name: text}, per_broker=per_broker)
            if _is_password(name):
                if encoder is None:
                    raise ConfigError(name, "cannot be read: password.encoder.secret is not set")
                text = encoder.decode(text)
        except PasswordError as error:
            problems.append(f"dynamic setting ignored: {name}: {error}")
        except ConfigError as error:
            problems.append(f"dynamic setting ignored: {error}")
        else:
            usable[name] = text
    return usable, problems


def usable_topic_configs(stored: Configs) -> tuple[dict[str, str], list[str]]:
    """As :func:`usable_broker_configs`, for a topic. Unknown keys stay: they do no harm."""
    usable: dict[str, str] = {}
    problems: list[str] = []
    for name, text in stored.items():
        try:
            if name in topic_keys():
                parse(topic_keys()[name], text)
        except ConfigError as error:
            problems.append(f"topic setting ignored: {error}")
        else:
            usable[name] = text
    return usable, problems


def unreadable_passwords(stored: Configs, usable: Configs) -> dict[str, str]:
    """The stored secrets that a change to other settings must not drop although they cannot be read here."""
    return {name: text for name, text in stored.items() if _is_password(name) and name not in usable}


def for_store(configs: Configs, stored: Configs, encoder: PasswordEncoder | None) -> dict[str, str]:
    """Settings as they are stored: passwords encrypted, as before where they have not changed.

    Args:
        configs: that are to be stored.
        stored: what is stored now.
        encoder: None: there are no passwords among them.
    """
    if encoder is None:
        return dict(configs)
    return {
        name: _encoded(text, stored.get(name), encoder) if _is_password(name) else text
        for name, text in configs.items()
    }


def _encoded(password: str, stored: str | None, encoder: PasswordEncoder) -> str:
    try:
        if stored is not None and encoder.decode(stored) == password and not encoder.is_old(stored):
            return stored
    except PasswordError:
        pass  # whatever it was, it is replaced
    return encoder.encode(password)


def _is_password(name: str) -> bool:
    key = broker_key(name)
    return key is not None and key.sensitive


class DynamicConfigError(ConfigError):
    """A dynamic change is refused; ``problem`` is the whole sentence, as Kafka words it."""


def check_broker_names(configs: Configs, *, per_broker: bool) -> None:
    """Check dynamic broker settings one by one: may they change at all, here, to a value of this type?

    Raises:
        ConfigError: the first reason why not.
    """
    keys = broker_keys()
    _refuse_names(
        [name for name in configs if name in keys and not keys[name].dynamic],
        "Cannot update these configs dynamically: Set",
    )
    _refuse_names(
        [name for name in configs if name in _SECURITY_KEYS],
        "These security configs can be dynamically updated only per-listener using the listener prefix: HashSet",
    )
    for name, text in configs.items():
        key = broker_key(name) or DYNAMIC_ONLY_KEYS.get(name)
        value = parse(key, text) if key is not None else None
        if name in _THREAD_KEYS and isinstance(value, int) and value < 1:
            raise _refused_threads(name, value, "value should be at least 1")
    if not per_broker:
        _refuse_names(
            [name for name in configs if _is_per_broker(name)],
            "Cannot update these configs at default cluster level, broker id must be specified: Set",
        )


def _refuse_names(names: Sequence[str], sentence: str) -> None:
    if names:
        raise DynamicConfigError(names[0], f"{sentence}({', '.join(names)})")


def _is_per_broker(name: str) -> bool:
    match = _LISTENER_KEY.fullmatch(name)
    if match is not None:
        return match[1] not in _CLUSTER_WIDE_LISTENER_KEYS
    key = broker_keys().get(name)
    return key is not None and key.update_mode == "per-broker"


def check_broker_change(
    layers: BrokerLayers, configs: Configs, *, per_broker: bool, stores_passwords: bool = False
) -> BrokerLayers:
    """The layers after one dynamic layer is replaced by ``configs``, in which passwords are readable.

    Raises:
        ApiError: INVALID_REQUEST with the sentence that Kafka answers when the change is not legal.
    """
    try:
        check_broker_names(configs, per_broker=per_broker)
        for name in configs:
            is_new = configs[name] != layers.layer(per_broker=per_broker).get(name)
            if is_new and not stores_passwords and _is_password(name):
                sentence = f"Password config {name} cannot be stored: password.encoder.secret is not set."
                raise DynamicConfigError(name, sentence)
        _check_listener_values(layers, configs)
        changed = layers.with_layer(configs, per_broker=per_broker)
        _check_reconfiguration(layers, changed.current)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, _sentence(error)) from error
    return changed


def _sentence(error: ConfigError) -> str:
    return error.problem if isinstance(error, DynamicConfigError) else kafka_message(error)


def _check_reconfiguration(layers: BrokerLayers, new: BrokerConfig) -> None:
    """Check the step from one configuration to the next, as the parts of a broker do that follow a change."""
    old = layers.current
    for name in (*_THREAD_KEYS, "log.cleaner.threads"):
        before, after = old.get(name), new.get(name)
        assert isinstance(before, int)
        assert isinstance(after, int)
        _check_thread_step(name, before, after)
    _check_local_retention(old, new)
    _check_connection_limits(old, new)
    if new.listeners != old.listeners:
        raise _refused_step(
            "listeners", "Listeners cannot be added, changed or removed while the broker runs"
        )
    if _has_listener_change(old, new):
        for listener in new.listeners:
            prefix = f"listener.name.{listener.name.lower()}."
            # Kafka compares with the broker's file, so a setting that an earlier change has brought counts too.
            if _fixed_listener_configs(layers.static, prefix) != _fixed_listener_configs(new, prefix):
                problem = (
                    f"Configs cannot be updated dynamically for existing listener ListenerName({listener.name}),"
                    " restart broker or create a new listener for update"
                )
                raise _refused_step(prefix, problem)


def _check_listener_values(layers: BrokerLayers, configs: Configs) -> None:
    """Check what stands behind the prefixes of listeners whose connections are secured."""
    for listener in layers.static.listeners:
        problem = wrong_value(configs, listener.name) if listener.security_protocol != "PLAINTEXT" else None
        if problem is not None:
            raise _refused_step(listener.name, problem)


def _check_connection_limits(old: BrokerConfig, new: BrokerConfig) -> None:
    for listener in new.listeners:
        for name in _CONNECTION_LIMITS:
            own = f"listener.name.{listener.name.lower()}.{name}"
            before, after = (
                config.originals.get(own, config.originals.get(name, "")).strip() for config in (old, new)
            )
            if after == "0" != before:
                raise _refused_step(name, f"Invalid {name} 0")


def _check_local_retention(old: BrokerConfig, new: BrokerConfig) -> None:
    """Check that a log's local retention (for tiered storage) is not larger than its whole retention."""
    for name, whole, topic_key in (
        ("log.local.retention.ms", "log.retention.ms", "retention.ms"),
        ("log.local.retention.bytes", "log.retention.bytes", "retention.bytes"),
    ):
        local, kept = new.get(name), new.topic_default(topic_key)
        assert isinstance(local, int)
        assert isinstance(kept, int)
        if local == _AS_THE_WHOLE or kept == _UNLIMITED:
            continue
        if (local, kept) == (old.get(name), old.topic_default(topic_key)):
            continue
        problem = ""
        if local == _UNLIMITED:
            problem = f"Value must not be -1 as {whole} value is set as {kept}."
        elif local > kept:
            problem = f"Value must not be more than {whole} property value: {kept}"
        if problem:
            raise _refused_step(name, f"Invalid value {local} for configuration {name}: {problem}")


def _has_listener_change(old: BrokerConfig, new: BrokerConfig) -> bool:
    """Whether a base key of listeners changed; if not, Kafka applies a listener's own setting later."""
    return any(
        key.update_mode == "per-broker" or key.name in _CLUSTER_WIDE_LISTENER_KEYS
        for key in broker_keys().values()
        if old.originals.get(key.name) != new.originals.get(key.name)
    )


def _check_thread_step(name: str, before: int, after: int) -> None:
    cleaner = name == "log.cleaner.threads"
    if after < before // 2:
        if cleaner:
            problem = f"Log cleaner threads cannot be reduced to less than half the current value {before}"
            raise _refused_step(name, problem)
        raise _refused_threads(name, after, f"value should be at least half the current value {before}")
    if after > before * 2:
        if cleaner:
            problem = (
                f"Log cleaner threads cannot be increased to more than double the current value {before}"
            )
            raise _refused_step(name, problem)
        bound = f"value should not be greater than double the current value {before}"
        raise _refused_threads(name, after, bound)


def _refused_threads(name: str, value: int, bound: str) -> DynamicConfigError:
    return _refused_step(name, f"Dynamic thread count update validation failed for {name}={value}, {bound}")


def _refused_step(name: str, problem: str) -> DynamicConfigError:
    # Kafka's sentence has the exception's class and the key; scripts match on it.
    exception = "org.apache.kafka.common.config.ConfigException"
    sentence = f"Invalid value {exception}: {problem} for configuration Invalid dynamic configuration"
    return DynamicConfigError(name, sentence)


def refused_store(error: ConfigError) -> str:
    """The sentence for a store of keys that cannot take the place of the one in use; scripts match on its beginning."""
    part = "SaslChannelBuilder" if error.key.endswith("sasl.jaas.config") else "SSLFactory"
    problem = f"Validation of dynamic config update of {part} failed: {error}"
    return _refused_step(error.key, problem).problem


def _fixed_listener_configs(config: BrokerConfig, prefix: str) -> dict[str, str]:
    changeable = (*_SECURITY_KEYS, *_CLUSTER_WIDE_LISTENER_KEYS)
    return {
        name: text
        for name, text in config.originals.items()
        if name.startswith(prefix)
        and (own := name.removeprefix(prefix)) not in changeable
        and not is_of_logins(own)
    }


def check_topic_configs(broker: BrokerConfig, configs: Configs) -> None:
    """Check the settings of one topic, names first, then values, then the values together.

    Raises:
        ApiError: INVALID_CONFIG with Kafka's sentence for an unknown name or a contradiction.
        ConfigError: a value is wrong; how Kafka words the answer depends on the request.
    """
    keys = topic_keys()
    for name in configs:
        if name not in keys:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    values = {name: parse(keys[name], text) for name, text in configs.items()}

    def effective(name: str) -> Value:
        return values[name] if name in values else broker.topic_default(name)

    least, most = effective("min.compaction.lag.ms"), effective("max.compaction.lag.ms")
    assert isinstance(least, int)
    assert isinstance(most, int)
    if least > most:
        sentence = (
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
        raise ApiError(ErrorCode.INVALID_CONFIG, sentence)
    if values.get("remote.log.copy.disable") or values.get("remote.log.delete.on.disable"):
        sentence = (
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under"
            " Zookeeper's mode."
        )
        raise ApiError(ErrorCode.INVALID_CONFIG, sentence)
    if values.get("remote.storage.enable"):
        sentence = (
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote"
            " log storage."
        )
        raise DynamicConfigError("remote.storage.enable", sentence)


def check_topic_change(topic: str, broker: BrokerConfig, configs: Configs) -> None:
    """Check what AlterConfigs and IncrementalAlterConfigs are to store for ``topic``.

    Raises:
        ApiError: INVALID_CONFIG with the sentence that Kafka answers.
    """
    try:
        check_topic_configs(broker, configs)
    except ConfigError as error:
        resource = f"ConfigResource(type=TOPIC, name='{topic}')"
        sentence = f"Invalid config value for resource {resource}: {_sentence(error)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, sentence) from error


def check_new_topic_configs(broker: BrokerConfig, configs: Configs) -> None:
    """Check the settings that CreateTopics gives.

    Raises:
        ApiError: INVALID_CONFIG with the sentence that Kafka answers.
    """
    try:
        check_topic_configs(broker, configs)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, _sentence(error)) from error


def check_changes(changes: Iterable[Change]) -> None:
    """Check the form of one resource's changes: every key once, every new value there.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    names: set[str] = set()
    missing: list[str] = []
    for change in changes:
        if change.name in names:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        names.add(change.name)
        if change.value is None and change.operation != Operation.DELETE:
            missing.append(change.name)
    if missing:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")


def apply_changes(
    configs: Configs, changes: Iterable[Change], keys: Mapping[str, ConfigKey], *, kind: str
) -> dict[str, str]:
    """What ``configs`` become by incremental changes, not yet checked as a whole.

    Args:
        configs: what is set now.
        changes: as :func:`check_changes` let through.
        keys: the registry that tells which keys are lists.
        kind: 'topic' or 'broker', for the messages.

    Raises:
        ApiError: APPEND or SUBTRACT on what is no list, or an unknown operation.
    """
    changed = dict(configs)
    for name, operation, value in changes:
        if operation == Operation.SET:
            assert value is not None
            changed[name] = value
        elif operation == Operation.DELETE:
            changed.pop(name, None)
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            changed[name] = _changed_list(changed, name, Operation(operation), value or "", keys, kind=kind)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    return changed


def _changed_list(
    configs: Configs, name: str, operation: Operation, value: str, keys: Mapping[str, ConfigKey], *, kind: str
) -> str:
    key = keys.get(name)
    if key is None:
        # Kafka fails with an unexpected error and no message here.
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown {kind} config name: {name}")
    if key.type != "list":
        verb = operation.name.lower()
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {name}")
    text = configs.get(name)
    parts = [part for part in parse_list(text if text is not None else key.default or "") if part]
    given = [part for part in parse_list(value) if part]
    if operation is Operation.APPEND:
        parts += [part for part in dict.fromkeys(given) if part not in parts]
    else:
        parts = [part for part in parts if part not in given]
    return ",".join(parts)
