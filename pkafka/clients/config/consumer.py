"""The consumer's keys."""

import itertools
from collections.abc import Mapping
from typing import Final, Self

from pkafka.clients.config.client import ClientConfig
from pkafka.clients.config.options import option
from pkafka.errors import ConfigError
from pkafka.model import topic_name_problem

_numbers: Final = itertools.count(1)
"""What tells the client ids of this process's consumers apart, where the application gave none."""


class ConsumerConfig(ClientConfig):
    """The consumer's keys. What names classes is taken as it is: see ``clients/plugins.py``."""

    group_id: str | None = option(None)
    group_instance_id: str | None = option(None)
    group_protocol: str = option("classic", choices=("classic", "consumer"))
    session_timeout_ms: int = option(45_000)
    heartbeat_interval_ms: int = option(3_000)
    max_poll_interval_ms: int = option(300_000, at_least=1)
    partition_assignment_strategy: object = option(("RangeAssignor", "CooperativeStickyAssignor"))
    enable_auto_commit: bool = option(True)
    auto_commit_interval_ms: int = option(5_000, at_least=0)
    auto_offset_reset: str = option("latest", choices=("latest", "earliest", "none"))
    fetch_min_bytes: int = option(1, at_least=0)
    fetch_max_wait_ms: int = option(500, at_least=0)
    fetch_max_bytes: int = option(52_428_800, at_least=0)
    max_partition_fetch_bytes: int = option(1_048_576, at_least=0)
    max_poll_records: int = option(500, at_least=1)
    check_crcs: bool = option(True)
    isolation_level: str = option("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    client_rack: str = option("")
    allow_auto_create_topics: bool = option(True)
    exclude_internal_topics: bool = option(True)
    key_deserializer: object = option(None)
    value_deserializer: object = option(None)
    internal_leave_group_on_close: bool = option(True)

    @classmethod
    def from_properties(cls, values: Mapping[str, object]) -> Self:
        """As the base class; without a group nothing is committed, and a client id is made up where there is none."""
        values = dict(values)
        group, instance = values.get("group.id"), values.get("group.instance.id")
        if group is None:
            if str(values.get("enable.auto.commit", "false")).lower() == "true":
                raise ConfigError(
                    "enable.auto.commit", "cannot be set to true when default group id (null) is used."
                )
            values["enable.auto.commit"] = "false"
        if not values.get("client.id"):
            suffix = instance if instance is not None else next(_numbers)
            values["client.id"] = f"consumer-{'null' if group is None else group}-{suffix}"
        return super().from_properties(values)

    def check(self) -> None:
        super().check()
        if self.group_protocol == "consumer":
            raise ConfigError(
                "group.protocol", "only classic is supported by this version", self.group_protocol
            )
        if self.group_instance_id is not None:
            problem = topic_name_problem(self.group_instance_id)
            if problem is not None:
                raise ConfigError("group.instance.id", problem, self.group_instance_id)
        if self.group_id is not None and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"must be set lower than session.timeout.ms ({self.session_timeout_ms})",
                self.heartbeat_interval_ms,
            )
