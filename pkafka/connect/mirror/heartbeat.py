"""``MirrorHeartbeatConnector``: writes a record every so often, whose copies tell that a flow is alive."""

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pkafka import KAFKA_VERSION
from pkafka.connect.connector import SourceConnector, SourceTask
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.mirror.both_clusters import BothClusters
from pkafka.connect.mirror.internal_topics import create_compacted
from pkafka.connect.mirror.offset_checks import Offsets, check_offsets
from pkafka.connect.mirror.records import Heartbeat
from pkafka.connect.mirror.settings import HEARTBEAT_CONFIG, MirrorSettings

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_PAUSE_S: Final = 1.0


class MirrorHeartbeatTask(SourceTask):
    """Writes heartbeats to the target."""

    JAVA_NAME: ClassVar[str] = _PACKAGE + "MirrorHeartbeatTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._settings = settings = MirrorSettings(HEARTBEAT_CONFIG, configs)
        self._topic = settings.policy.heartbeats_topic()
        self._interval_s = settings.interval_s("emit.heartbeats")
        self._due_s = time.monotonic() + (self._interval_s or 0.0)

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next heartbeat, when its time has come."""
        if self._interval_s is None:
            self.context.wait(_PAUSE_S)
            return None
        # Not longer than a moment, so that a pause of the connector is noticed.
        wait_s = self._due_s - time.monotonic()
        if self.context.wait(max(0.0, min(_PAUSE_S, wait_s))) or wait_s > _PAUSE_S:
            return None
        self._due_s = time.monotonic() + self._interval_s
        now_ms = int(time.time() * 1000)
        beat = Heartbeat(self._settings.source, self._settings.target, now_ms)
        return [
            SourceRecord(
                self._topic,
                0,
                Schema.BYTES,
                beat.key,
                Schema.BYTES,
                beat.value,
                now_ms,
                source_partition=beat.source_partition,
                source_offset={"offset": 0},
            )
        ]

    def stop(self) -> None:
        """Hold nothing."""


class MirrorHeartbeatConnector(SourceConnector):
    """Emits heartbeats, by one task."""

    JAVA_NAME = _PACKAGE + "MirrorHeartbeatConnector"
    VERSION = KAFKA_VERSION
    CONFIG = HEARTBEAT_CONFIG
    task_class = MirrorHeartbeatTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Create the topic."""
        self._settings = settings = MirrorSettings(HEARTBEAT_CONFIG, configs)
        self._topic = settings.policy.heartbeats_topic()
        self._both = BothClusters(settings, "MirrorHeartbeatConnector", "heartbeats")
        self._both.first(self._create_topic, "creating internal topics")

    def task_configs(self, _tasks_max: int) -> Sequence[Mapping[str, str]]:
        """One task, unless heartbeats are disabled."""
        return [] if self._settings.interval_s("emit.heartbeats") is None else [self._settings.originals]

    def stop(self) -> None:
        """End."""
        self._both.close()

    def alter_offsets(self, _configs: Mapping[str, str], offsets: Offsets) -> bool:
        """Check offsets, which say nothing to tasks.

        Raises:
            ConnectError: one is refused.
        """
        check_offsets(
            offsets, "sourceClusterAlias", "targetClusterAlias", has_partition=False, only_zero=True
        )
        return True

    def _create_topic(self) -> None:
        replicas = self._settings.parsed["heartbeats.topic.replication.factor"]
        create_compacted(self._both.target, self._topic, replicas)
