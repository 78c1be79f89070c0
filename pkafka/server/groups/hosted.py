"""What the group coordinator and the keeper of offsets share: the entry of a group, settings, counters, the log's
port."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pkafka.errors import ErrorCode
from pkafka.records.batch import BatchHeader
from pkafka.records.builder import RecordFields
from pkafka.records.reading import Record
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.groups.group import Group, GroupSettings
from pkafka.server.groups.offsets import GroupOffsets
from pkafka.server.replicas.timing_wheel import TimerTask


class GroupLog(Protocol):
    """Stores the groups (:class:`pkafka.server.groups.offsets_log.OffsetsLog`)."""

    def append(
        self,
        partition: int,
        records: Sequence[RecordFields],
        committed: Callable[[ErrorCode, int], None],
        *,
        acks: int | None = None,
    ) -> None:
        """Append one batch; ``committed`` gets the outcome and the batch's offset, at once or later."""
        ...

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """Read all batches of a partition."""
        ...

    async def all_committed(self, partition: int) -> None:
        """Wait until all records of a partition are committed, or this broker stops leading it."""
        ...


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
class Entry:
    """Holds one group, its offsets and its timer."""

    group: Group
    partition: int
    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    timer: TimerTask | None = None
    timer_ms: int = 0
    is_settling: bool = False


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
