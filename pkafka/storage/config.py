"""The configuration of one log: Kafka's topic keys, typed, with the defaults of 3.9.

Not the registry of keys and their documentation: that is the server's. This reads texts which the server has checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from pkafka.errors import ConfigError
from pkafka.java.numbers import parse_double, parse_long
from pkafka.java.text import equals_ignore_case, parse_boolean, split_list, trim

_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The topic keys in snake_case; times in milliseconds, sizes in bytes, -1 for no limit where Kafka has it."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LONG_MAX
    flush_ms: int = _LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _LONG_MAX
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = _LONG_MAX
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_difference_max_ms: int = _LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def deletes(self) -> bool:
        """Whether old segments go by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether only the last value of each key must stay."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which a segment rolls: no record of a compacted log may be kept from the cleaner for too long."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def uses_append_time(self) -> bool:
        """Whether the broker stamps records itself."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def timestamp_before_max_ms(self) -> int:
        """How old a record may be: the deprecated difference counts where the newer key has no limit (KIP-937)."""
        limit = self.message_timestamp_before_max_ms
        return limit if limit != _LONG_MAX else self.message_timestamp_difference_max_ms

    @property
    def timestamp_after_max_ms(self) -> int:
        """How far ahead a record may be: as :attr:`timestamp_before_max_ms`."""
        limit = self.message_timestamp_after_max_ms
        return limit if limit != _LONG_MAX else self.message_timestamp_difference_max_ms

    @classmethod
    def from_topic_configs(cls, overrides: Mapping[str, str], defaults: "LogConfig") -> "LogConfig":
        """The configuration of a topic: its own settings over the broker's.

        Args:
            overrides: Kafka's dotted keys to texts; keys that no log has are ignored.
            defaults: what holds where the topic says nothing.

        Raises:
            ConfigError: a text is not of its key's type.
        """
        values: dict[str, object] = {}
        for key, text in overrides.items():
            name = key.replace(".", "_")
            parse = _PARSERS.get(name)
            if parse is None:
                continue
            try:
                values[name] = parse(trim(text))
            except ValueError as error:
                raise ConfigError(key, f"not a legal value ({error})", text) from error
        return replace(defaults, **values) if values else defaults  # type: ignore[arg-type]


def _parse_flag(text: str) -> bool:
    if not equals_ignore_case(text, "true") and not equals_ignore_case(text, "false"):
        raise ValueError("true or false expected")
    return parse_boolean(text)


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, split_list(text)))


_BY_TYPE: Final[Mapping[object, Callable[[str], object]]] = {
    int: parse_long,
    float: parse_double,
    bool: _parse_flag,
    str: str,
    tuple[str, ...]: _parse_list,
}
_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    field.name: _BY_TYPE[field.type] for field in fields(LogConfig)
}
