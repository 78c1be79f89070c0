"""The settings of MirrorMaker's three connectors: names, defaults and order are Kafka Connect's, as are refusals."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from pkafka.connect.config_def import NO_DEFAULT, ConfigDef, ConfigType, ConfigValue, Importance
from pkafka.connect.config_validators import one_of, one_of_any_case
from pkafka.connect.connector_config import common_config
from pkafka.connect.data.types import Value
from pkafka.connect.mirror.classes import ForwardingAdmin, configured, named_class
from pkafka.connect.mirror.client_keys import CLIENT_KEYS, define_security
from pkafka.connect.mirror.filters import (
    CONFIGS_EXCLUDE,
    GROUPS,
    GROUPS_EXCLUDE,
    TOPICS,
    TOPICS_EXCLUDE,
    ConfigPropertyFilter,
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    GroupFilter,
    TopicFilter,
)
from pkafka.connect.mirror.policies import DefaultReplicationPolicy, ReplicationPolicy
from pkafka.connect.plugins import prefixed

EMITS_SYNCS: Final = "emit.offset-syncs.enabled"
EMITS_CHECKPOINTS: Final = "emit.checkpoints.enabled"
SYNCS_GROUPS: Final = "sync.group.offsets.enabled"
EXACTLY_ONCE: Final = "exactly.once.support"
TASK_PARTITIONS: Final = "task.assigned.partitions"
TASK_GROUPS: Final = "task.assigned.groups"
TASK_INDEX: Final = "task.index"
_SYNC_LINGER_MS: Final = 10

_B, _S, _L, _C = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS
_INT, _SHORT, _LONG = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG
_LOW, _MEDIUM, _HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH
_Row = tuple[str, ConfigType, Any, Importance, str]

_BASE: Final[tuple[_Row, ...]] = (
    ("enabled", _B, True, _LOW, "Whether anything is copied from the source to the target."),
    ("source.cluster.alias", _S, NO_DEFAULT, _HIGH, "What the source is called."),
    ("target.cluster.alias", _S, "target", _HIGH, "What the target is called."),
    ("admin.timeout.ms", _LONG, 60_000, _LOW, "How long a step of administration may take, as looking for new topics."),
    ("replication.policy.class", _C, DefaultReplicationPolicy, _LOW, "The class that names topics on the target."),
    ("replication.policy.separator", _S, ".", _LOW, "Stands between the source's alias and the name of a topic."),
    ("replication.policy.internal.topic.separator.enabled", _B, True, _LOW,
     "Whether MirrorMaker's own topics have that separator too; false: a dot, as before Kafka 3.4."),
    ("forwarding.admin.class", _C, ForwardingAdmin, _LOW, "The class by which clusters are administered; no other."),
    ("metric.reporters", _L, None, _LOW, "Classes that are told of metrics."),
    ("security.protocol", _S, "PLAINTEXT", _MEDIUM, "How clients talk to brokers, unless their own settings say it."),
)  # fmt: skip
_SOURCE: Final[tuple[_Row, ...]] = (
    ("topics", _L, TOPICS, _HIGH, "Topics to copy: names and regular expressions."),
    ("topics.exclude", _L, TOPICS_EXCLUDE, _HIGH, "Topics not to copy: names and regular expressions."),
    ("topics.blacklist", _L, None, _HIGH, "The earlier name of topics.exclude."),
    ("config.properties.exclude", _L, CONFIGS_EXCLUDE, _HIGH, "Settings of topics not to copy."),
    ("config.properties.blacklist", _L, None, _HIGH, "The earlier name of config.properties.exclude."),
    ("topic.filter.class", _C, DefaultTopicFilter, _LOW, "The class that chooses topics."),
    ("config.property.filter.class", _C, DefaultConfigPropertyFilter, _LOW, "The class that chooses their settings."),
    ("consumer.poll.timeout.ms", _LONG, 1_000, _LOW, "How long a task waits for records of the source."),
    ("refresh.topics.enabled", _B, True, _LOW, "Whether to look for new topics and partitions."),
    ("refresh.topics.interval.seconds", _LONG, 600, _LOW, "How often."),
    ("sync.topic.configs.enabled", _B, True, _LOW, "Whether to copy settings of topics."),
    ("sync.topic.configs.interval.seconds", _LONG, 600, _LOW, "How often."),
    ("use.incremental.alter.configs", _S, "requested", _LOW,
     "requested, required or never: Java's way to change settings; pkafka always changes single ones."),
    ("sync.topic.acls.enabled", _B, True, _LOW, "Whether to copy ACLs of topics."),
    ("sync.topic.acls.interval.seconds", _LONG, 600, _LOW, "How often."),
    ("replication.factor", _INT, 2, _LOW, "Replicas of topics that are created on the target."),
    ("offset-syncs.topic.replication.factor", _SHORT, 3, _LOW, "Replicas of the topic of offset syncs."),
    ("offset.lag.max", _LONG, 100, _LOW, "By so many records may a translated offset be behind at most."),
    ("offset-syncs.topic.location", _S, "source", _LOW, "source or target: where the topic of offset syncs is."),
    ("add.source.alias.to.metrics", _B, False, _LOW, "Whether metrics are tagged with the source's alias."),
    (EMITS_SYNCS, _B, True, _LOW, "Whether to write offset syncs; without them there are no checkpoints."),
)  # fmt: skip
_CHECKPOINT: Final[tuple[_Row, ...]] = (
    ("consumer.poll.timeout.ms", _LONG, 1_000, _LOW, "How long a task waits for records of the source."),
    ("groups", _L, GROUPS, _HIGH, "Groups whose positions are copied: ids and regular expressions."),
    ("groups.exclude", _L, GROUPS_EXCLUDE, _HIGH, "Groups whose positions are not copied."),
    ("groups.blacklist", _L, None, _HIGH, "The earlier name of groups.exclude."),
    ("group.filter.class", _C, DefaultGroupFilter, _LOW, "The class that chooses groups."),
    ("refresh.groups.enabled", _B, True, _LOW, "Whether to look for new groups."),
    ("refresh.groups.interval.seconds", _LONG, 600, _LOW, "How often."),
    (EMITS_CHECKPOINTS, _B, True, _LOW, "Whether to write checkpoints."),
    ("emit.checkpoints.interval.seconds", _LONG, 60, _LOW, "How often."),
    (SYNCS_GROUPS, _B, False, _LOW, "Whether to commit translated offsets on the target, for groups without members."),
    ("sync.group.offsets.interval.seconds", _LONG, 60, _LOW, "How often."),
    ("checkpoints.topic.replication.factor", _SHORT, 3, _LOW, "Replicas of the topic of checkpoints."),
    ("offset-syncs.topic.location", _S, "source", _LOW, "source or target: where the topic of offset syncs is."),
    ("topic.filter.class", _C, DefaultTopicFilter, _LOW, "The class that chooses topics."),
)  # fmt: skip
_HEARTBEAT: Final[tuple[_Row, ...]] = (
    ("emit.heartbeats.enabled", _B, True, _LOW, "Whether to write heartbeats."),
    ("emit.heartbeats.interval.seconds", _LONG, 1, _LOW, "How often."),
    ("heartbeats.topic.replication.factor", _SHORT, 3, _LOW, "Replicas of the topic of heartbeats."),
)  # fmt: skip
_VALIDATORS: Final = {
    "security.protocol": one_of_any_case("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "offset-syncs.topic.location": one_of("source", "target"),
    "use.incremental.alter.configs": one_of("requested", "required", "never"),
}


def _defined(*tables: Sequence[_Row]) -> ConfigDef:
    config = ConfigDef(list(common_config().keys.values()), class_lookup=named_class)
    for table in tables:
        for name, kind, default, importance, documentation in table:
            config.define(name, kind, default, _VALIDATORS.get(name), importance, documentation)
        if table is _BASE:
            config.define(
                "auto.include.jmx.reporter", _B, True, None, _LOW, "Of Java's metrics; without effect here."
            )
            define_security(config)
    return config


SOURCE_CONFIG: Final = _defined(_BASE, _SOURCE)
CHECKPOINT_CONFIG: Final = _defined(_BASE, _CHECKPOINT)
HEARTBEAT_CONFIG: Final = _defined(_BASE, _HEARTBEAT)


class MirrorSettings:
    """The settings of one connector or task, read.

    Args:
        config: the definition of its settings.
        configs: as given.

    Raises:
        ConfigError: one is refused.
    """

    def __init__(self, config: ConfigDef, configs: Mapping[str, str]) -> None:
        self.originals = dict(configs)
        self.parsed = config.parse(configs)
        self.source: str = self.parsed["source.cluster.alias"]
        self.target: str = self.parsed["target.cluster.alias"]

    @property
    def label(self) -> str:
        """What names the connector in client ids."""
        return f"{self.source}->{self.target}|{self.parsed['name']}"

    @property
    def is_enabled(self) -> bool:
        """Whether anything is to be copied."""
        return bool(self.parsed["enabled"])

    @cached_property
    def policy(self) -> ReplicationPolicy:
        """What names topics."""
        made: ReplicationPolicy = self._made(ReplicationPolicy, "replication.policy.class")
        return made

    @cached_property
    def topic_filter(self) -> TopicFilter:
        """What chooses topics."""
        made: TopicFilter = self._made(TopicFilter, "topic.filter.class")
        return made

    @cached_property
    def group_filter(self) -> GroupFilter:
        """What chooses groups."""
        made: GroupFilter = self._made(GroupFilter, "group.filter.class")
        return made

    @cached_property
    def property_filter(self) -> ConfigPropertyFilter:
        """What chooses settings of topics."""
        made: ConfigPropertyFilter = self._made(ConfigPropertyFilter, "config.property.filter.class")
        return made

    def _made(self, kind: type, key: str) -> Value:
        return configured(kind, key, self.parsed[key], {**self.parsed, **self.originals})

    @property
    def admin_timeout_s(self) -> float:
        """How long a step of administration may take."""
        return float(self.parsed["admin.timeout.ms"]) / 1000

    def interval_s(self, what: str) -> float | None:
        """How often something is done, as ``refresh.topics``; None: it is disabled."""
        if not self.parsed[f"{what}.enabled"]:
            return None
        return float(self.parsed[f"{what}.interval.seconds"])

    # -- topics --

    @property
    def are_syncs_on_source(self) -> bool:
        """Whether the topic of offset syncs is on the source."""
        return bool(self.parsed["offset-syncs.topic.location"] == "source")

    @property
    def offset_syncs_topic(self) -> str:
        """The topic of offset syncs: named by the cluster that it is not on."""
        return self.policy.offset_syncs_topic(self.target if self.are_syncs_on_source else self.source)

    @property
    def checkpoints_topic(self) -> str:
        """The topic of checkpoints, on the target."""
        return self.policy.checkpoints_topic(self.source)

    # -- clients --

    def client(self, side: str, kind: str, role: str) -> dict[str, str]:
        """The settings of a client.

        Args:
            side: ``source`` or ``target``.
            kind: ``producer``, ``consumer`` or ``admin``.
            role: what it is for; a part of its client id.
        """
        found = client_settings(self.originals, side, kind)
        label = f"{self.label}|{role}"
        found["client.id"] = f"{found['client.id']}|{label}" if found.get("client.id") else label
        return found

    def sync_client(self, kind: str) -> dict[str, str]:
        """The settings of a client for the topic of offset syncs."""
        side = "source" if self.are_syncs_on_source else "target"
        found = self.client(side, kind, f"offset-syncs-{side}-{kind}")
        if kind == "producer":
            # A task that copies fast has a sync due each millisecond; each alone in a request costs as much as what it
            # tells of.
            found.setdefault("linger.ms", str(_SYNC_LINGER_MS))
        return found


def client_settings(configs: Mapping[str, str], side: str, kind: str) -> dict[str, str]:
    """The settings of a client: of its cluster what all clients have, then those of its kind, then those of both."""
    of_cluster = prefixed(configs, f"{side}.cluster.")
    found = {name: value for name, value in of_cluster.items() if name in CLIENT_KEYS}
    found |= prefixed(configs, f"{kind}.")
    found |= prefixed(configs, f"{side}.{kind}.")
    if kind == "consumer":
        found.pop("poll.timeout.ms", None)  # consumer.poll.timeout.ms is the connector's own
        found["enable.auto.commit"] = "false"
        found.setdefault("auto.offset.reset", "earliest")
    return found


# -- refusals beyond single settings --


def validate_source(configs: Mapping[str, str]) -> list[ConfigValue]:
    """What becomes of the settings of a source connector."""
    values = SOURCE_CONFIG.validate_all(configs)
    if configs.get(EXACTLY_ONCE) == "required" and not reads_committed(configs):
        _refuse(
            values,
            EXACTLY_ONCE,
            "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured"
            " with isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted"
            " transactions will be replicated from the source cluster to the target cluster.",
        )
    if configs.get(EMITS_SYNCS) == "false" and any(
        name.startswith(("offset-syncs-", "offset-syncs.topic.")) for name in configs
    ):
        _refuse(
            values,
            EMITS_SYNCS,
            f"MirrorSourceConnector can't setup offset-syncs feature while {EMITS_SYNCS} set to false",
        )
    return list(values.values())


def reads_committed(configs: Mapping[str, str]) -> bool:
    """Whether records of aborted transactions are left out."""
    return client_settings(configs, "source", "consumer").get("isolation.level") == "read_committed"


def validate_checkpoint(configs: Mapping[str, str]) -> list[ConfigValue]:
    """What becomes of the settings of a checkpoint connector."""
    values = CHECKPOINT_CONFIG.validate_all(configs)
    if configs.get("enabled") == "false":
        return list(values.values())
    if configs.get(EMITS_CHECKPOINTS) == "false":
        _refuse(
            values,
            EMITS_CHECKPOINTS,
            f"MirrorCheckpointConnector can't run with {EMITS_CHECKPOINTS} set to false",
        )
    if configs.get(EMITS_SYNCS) == "false":
        _refuse(values, EMITS_SYNCS, "MirrorCheckpointConnector can't run without offset syncs")
    return list(values.values())


def _refuse(values: dict[str, ConfigValue], name: str, error: str) -> None:
    values.setdefault(name, ConfigValue(name)).errors.append(error)
