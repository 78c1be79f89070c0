"""What the group coordinator and the keeper of offsets share: the entry of a group, settings, counters."""

from dataclasses import dataclass, field

from pkafka.records.compression import Codec
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.coordinator.settling import Settled
from pkafka.server.coordinator.topic_log import TopicLogSettings
from pkafka.server.groups.group import Group, GroupSettings
from pkafka.server.groups.offsets import GroupOffsets


def offsets_log_settings(config: BrokerConfig) -> TopicLogSettings:
    """Take the settings of the log of __consumer_offsets from the broker's configuration."""
    return TopicLogSettings(
        acks=config.offsets_commit_required_acks,
        codec=Codec(config.offsets_topic_compression_codec),
        commit_timeout_ms=config.offsets_commit_timeout_ms,
        load_buffer_bytes=config.offsets_load_buffer_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Holds the broker's keys for groups and offsets."""

    group: GroupSettings
    offset_metadata_chars_max: int = 4096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> "CoordinatorSettings":
        """Take the settings from the broker's configuration; none of them changes while it runs."""
        group = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
        )
        return cls(
            group=group,
            offset_metadata_chars_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )


@dataclass(slots=True, eq=False)
class Entry(Settled):
    """Holds one group and its offsets."""

    group: Group
    partition: int
    offsets: GroupOffsets = field(default_factory=GroupOffsets)


@dataclass(slots=True)
class GroupCounters:
    """Counts what Kafka counts in its group-coordinator-metrics, under the same names."""

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0

    def by_name(self) -> dict[str, int]:
        """Return the counts by the names on the page of metrics."""
        return {
            "offset_commit": self.offset_commits,
            "offset_expiration": self.offset_expirations,
            "offset_deletion": self.offset_deletions,
            "group_completed_rebalance": self.completed_rebalances,
        }
