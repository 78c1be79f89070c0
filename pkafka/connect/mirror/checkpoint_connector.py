"""``MirrorCheckpointConnector``: finds groups of consumers whose positions are copied, and shares them out to tasks."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pkafka import KAFKA_VERSION
from pkafka.connect.config_def import ConfigValue
from pkafka.connect.connector import SourceConnector
from pkafka.connect.mirror.both_clusters import BothClusters
from pkafka.connect.mirror.checkpoint_task import MirrorCheckpointTask
from pkafka.connect.mirror.internal_topics import create_compacted
from pkafka.connect.mirror.offset_checks import Offsets, check_offsets
from pkafka.connect.mirror.settings import (
    CHECKPOINT_CONFIG,
    TASK_GROUPS,
    TASK_INDEX,
    MirrorSettings,
    validate_checkpoint,
)
from pkafka.connect.mirror.topic_plan import groups_in_chunks
from pkafka.errors import ApiError

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorCheckpointConnector")

_CONSUMERS: Final = ("consumer", "")
"""The protocols of groups of consumers; groups that only store offsets have none."""


class MirrorCheckpointConnector(SourceConnector):
    """Copies positions of groups, by tasks that share the groups."""

    JAVA_NAME = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
    VERSION = KAFKA_VERSION
    CONFIG = CHECKPOINT_CONFIG
    task_class = MirrorCheckpointTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Create the topic, find groups, and begin to look for new ones.

        A cluster that does not answer is asked again: the connector has no tasks until then.
        """
        self._known: list[str] = []
        self._given: list[str] | None = None
        self._settings = settings = MirrorSettings(CHECKPOINT_CONFIG, configs)
        if not settings.is_enabled:
            return
        self._takes_group = settings.group_filter.takes_group
        self._takes_topic = settings.topic_filter.takes_topic
        self._topic = settings.checkpoints_topic
        self._both = both = BothClusters(settings, "MirrorCheckpointConnector", "checkpoint")
        self._source = both.open_source()
        both.first(self._create_topic, "creating internal topics")
        both.first(self._refresh, "loading initial consumer groups")
        refresh_s = settings.interval_s("refresh.groups")
        both.schedule.every(self._refresh, "refreshing consumer groups", refresh_s, after_s=refresh_s or 0.0)
        log.info("Started %s with %d consumer groups.", settings.parsed["name"], len(self._known))

    def stop(self) -> None:
        """End."""
        if self._settings.is_enabled:
            self._both.close()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """The tasks' configurations, each with its groups; none where checkpoints are disabled."""
        if not self._settings.is_enabled or self._settings.interval_s("emit.checkpoints") is None:
            return []
        self._given = self._known
        return [
            {**self._settings.originals, TASK_GROUPS: ",".join(groups), TASK_INDEX: str(index)}
            for index, groups in enumerate(groups_in_chunks(self._given, tasks_max))
        ]

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """What is wrong with settings."""
        return validate_checkpoint(configs)

    def alter_offsets(self, _configs: Mapping[str, str], offsets: Offsets) -> bool:
        """Check offsets, which say nothing to tasks.

        Raises:
            ConnectError: one is refused.
        """
        check_offsets(offsets, "group", "topic", has_partition=True, only_zero=True)
        return True

    # -- on the schedule's thread --

    def _create_topic(self) -> None:
        replicas = self._settings.parsed["checkpoints.topic.replication.factor"]
        create_compacted(self._both.target, self._topic, replicas)

    def _refresh(self) -> None:
        known = self._found()
        if known != self._known:
            log.info(
                "Found %d consumer groups on %s, %d before.",
                len(known),
                self._settings.source,
                len(self._known),
            )
            self._known = known
        if self._given is not None and known != self._given:
            self.context.request_task_reconfiguration()

    def _found(self) -> list[str]:
        """The groups that were chosen and have an offset in a chosen topic; in order, as of :meth:`task_configs`."""
        listed = self._source.list_groups()
        for error in listed.errors.values():
            raise error
        groups = [
            each.group_id
            for each in listed.groups
            if each.protocol_type in _CONSUMERS and self._takes_group(each.group_id)
        ]
        offsets = self._source.list_group_offsets(dict.fromkeys(groups)) if groups else {}
        return sorted(
            group
            for group, stored in offsets.items()
            if not isinstance(stored, ApiError)
            and any(self._takes_topic(partition.topic) for partition in stored)
        )
