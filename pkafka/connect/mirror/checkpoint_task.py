"""``MirrorCheckpointTask``: translates positions of groups, and writes them as checkpoints."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import ClassVar, Final

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import GroupState
from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.producer import RecordMetadata
from pkafka.connect.connector import SourceTask, TaskMetric
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.checkpoints import Checkpoints, offsets_to_commit
from pkafka.connect.mirror.offset_syncs import OffsetSyncStore
from pkafka.connect.mirror.records import Checkpoint, OffsetSync, RecordFormatError
from pkafka.connect.mirror.settings import CHECKPOINT_CONFIG, TASK_GROUPS, MirrorSettings
from pkafka.connect.mirror.task_metrics import CheckpointMetrics
from pkafka.connect.mirror.topic_reading import TopicReader
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorCheckpointTask")

_PAUSE_S: Final = 1.0
_READ_MS: Final = 30_000
_FORBIDDEN: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_IDLE: Final = frozenset({GroupState.EMPTY, GroupState.DEAD})
"""The states of groups without members; those that do not exist are DEAD."""


class MirrorCheckpointTask(SourceTask):
    """Looks after the positions of some groups.

    Everything happens in :meth:`poll`: first it reads the checkpoints and offset syncs that are there; then, each time
    when something is due, it reads the syncs that are new, and translates.
    """

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.connect.mirror.MirrorCheckpointTask"

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings.

        Raises:
            ConfigError: one is refused.
        """
        self._settings = settings = MirrorSettings(CHECKPOINT_CONFIG, configs)
        self._groups = [each for each in configs[TASK_GROUPS].split(",") if each]
        self._topic = settings.checkpoints_topic
        self._store = OffsetSyncStore()
        self._checkpoints = Checkpoints(
            settings.source,
            settings.target,
            settings.policy,
            self._store.translate,
            settings.topic_filter.takes_topic,
        )
        self._metrics = CheckpointMetrics(settings.source, settings.target)
        self._syncs: TopicReader | None = None
        self._is_loaded = False
        with ExitStack() as opened:
            self._source = opened.enter_context(
                Admin(settings.client("source", "admin", "checkpoint-source-admin"))
            )
            self._target = opened.enter_context(
                Admin(settings.client("target", "admin", "checkpoint-target-admin"))
            )
            self._opened = opened.pop_all()
        self._emit_s = settings.interval_s("emit.checkpoints")
        self._commit_s = settings.interval_s("sync.group.offsets")
        self._emit_due_s = 0.0
        self._commit_due_s = 0.0
        log.info(
            "Checkpointing %d consumer groups %s->%s", len(self._groups), settings.source, settings.target
        )

    def stop(self) -> None:
        """Close the clients."""
        if self._syncs is not None:
            self._syncs.close()
        self._opened.close()

    def metrics(self) -> Iterable[TaskMetric]:
        """How long checkpoints took, by groups and partitions."""
        return self._metrics.rows()

    def poll(self) -> Sequence[SourceRecord] | None:
        """The checkpoints that are news, when their time has come."""
        try:
            if not self._is_loaded and not self._load():
                return None
            return self._due()
        except PkafkaError as error:
            # Clusters may be away for a while; what was not done is done the next time.
            log.warning("Failure polling consumer state for checkpoints: %s", error)
            self.context.wait(_PAUSE_S)
            return None

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Note how long a checkpoint took."""
        place = record.source_partition
        if place is not None and record.timestamp is not None:
            copy = TopicPartition(place["topic"], place["partition"])
            self._metrics.written(str(place["group"]), copy, time.time() * 1000 - record.timestamp)

    # -- what is there at the start --

    def _load(self) -> bool:
        """Read what is there; whether that is done."""
        if self._syncs is None:
            self._store.needs_end = not self._read_checkpoints()
            # Only what has to be there exists: a topic of syncs is the source connector's to create.
            topic = self._settings.offset_syncs_topic
            with Admin(self._settings.sync_client("admin")) as admin:
                if isinstance(admin.describe_topics([topic])[topic], ApiError):
                    raise ConnectError(f"The topic of offset syncs {topic} does not exist yet")
            self._syncs = TopicReader(self._settings.sync_client("consumer"), topic, self._take_sync)
        self._syncs.read_to_end(is_wanted=self._goes_on)
        if not self._goes_on():
            return False
        self._store.is_at_end = self._is_loaded = True
        # A task that has loaded writes what it knows; Java's waits for an interval first.
        self._emit_due_s = time.monotonic()
        self._commit_due_s = time.monotonic() + (self._commit_s or 0.0)
        return True

    def _read_checkpoints(self) -> bool:
        """Read the last checkpoints of these groups; whether that was possible.

        Where it is forbidden, offsets may be translated by new syncs only, so that no translation goes back.
        """
        found = self._target.describe_topics([self._topic])[self._topic]
        if isinstance(found, ApiError) and found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return True
        groups = set(self._groups)

        def take(record: ConsumerRecord) -> None:
            try:
                checkpoint = Checkpoint.of(record.key, record.value)
            except RecordFormatError as error:
                log.warning("Ignored invalid checkpoint record at offset %d: %s", record.offset, error)
                return
            if checkpoint.group in groups:
                self._checkpoints.note(checkpoint)

        configs = self._settings.client("target", "consumer", "checkpoints-target-consumer")
        try:
            with TopicReader(configs, self._topic, take) as reader:
                reader.read_to_end(is_wanted=self._goes_on)
        except ApiError as error:
            if error.code not in _FORBIDDEN:
                raise
            log.warning(
                "Not authorized to access checkpoints topic %s - this may degrade offset translation as only"
                " checkpoints for offsets which were mirrored after the task started will be emitted",
                self._topic,
            )
            return False
        return True

    def _take_sync(self, record: ConsumerRecord) -> None:
        try:
            self._store.add(OffsetSync.of(record.key, record.value))
        except RecordFormatError as error:
            log.warning("Ignored invalid offset sync at offset %d: %s", record.offset, error)

    def _goes_on(self) -> bool:
        return not self.context.wait(0)

    # -- from then on --

    def _due(self) -> list[SourceRecord] | None:
        """Wait until something is due, no longer than a moment, and do it."""
        dues = [
            due
            for interval_s, due in ((self._emit_s, self._emit_due_s), (self._commit_s, self._commit_due_s))
            if interval_s is not None
        ]
        wait_s = min(dues, default=float("inf")) - time.monotonic()
        if self.context.wait(max(0.0, min(wait_s, _PAUSE_S))) or wait_s > _PAUSE_S:
            return None
        assert self._syncs is not None
        self._syncs.read_to_end(_READ_MS, is_wanted=self._goes_on)
        now_s = time.monotonic()
        records = None
        if self._emit_s is not None and now_s >= self._emit_due_s:
            records = self._news()
            self._emit_due_s = now_s + self._emit_s
        if self._commit_s is not None and now_s >= self._commit_due_s:
            self._commit_idle()
            self._commit_due_s = now_s + self._commit_s
        return records or None

    def _news(self) -> list[SourceRecord]:
        now_ms = int(time.time() * 1000)
        found: list[Checkpoint] = []
        offsets = self._source.list_group_offsets(dict.fromkeys(self._groups))
        for group, outcome in offsets.items():
            if isinstance(outcome, ApiError):
                source = self._settings.source
                log.error(
                    "Error querying offsets for consumer group %s on cluster %s: %s", group, source, outcome
                )
            else:
                found += self._checkpoints.news(group, _stored(outcome))
        return [self._record(each, now_ms) for each in found]

    def _record(self, checkpoint: Checkpoint, now_ms: int) -> SourceRecord:
        return SourceRecord(
            self._topic,
            0,
            Schema.BYTES,
            checkpoint.key,
            Schema.BYTES,
            checkpoint.value,
            now_ms,
            source_partition=checkpoint.source_partition,
            source_offset={"offset": 0},
        )

    def _commit_idle(self) -> None:
        """Commit translated offsets for groups that have no members on the target."""
        groups = self._checkpoints.groups()
        states = self._target.describe_groups(groups) if groups else {}
        idle = []
        for group, described in states.items():
            if isinstance(described, ApiError):
                target = self._settings.target
                log.error("Error querying for consumer group %s on cluster %s: %s", group, target, described)
            elif described.state in _IDLE:
                idle.append(group)
        committed = self._target.list_group_offsets(dict.fromkeys(idle)) if idle else {}
        for group, outcome in committed.items():
            if isinstance(outcome, ApiError):
                target = self._settings.target
                log.error("Error querying for consumer group %s on cluster %s: %s", group, target, outcome)
                continue
            wanted = offsets_to_commit(self._checkpoints.positions(group), _stored(outcome))
            if wanted:
                self._commit(group, wanted)

    def _commit(self, group: str, wanted: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, outcome in self._target.alter_group_offsets(group, wanted).items():
            if isinstance(outcome, ApiError) and outcome.code == ErrorCode.UNKNOWN_MEMBER_ID:
                log.warning(
                    "Unable to sync offsets for consumer group %s. This is likely caused by consumers currently using"
                    " this group in the target cluster.",
                    group,
                )
                return
            if isinstance(outcome, ApiError):
                log.error("Unable to sync offsets of %s for consumer group %s: %s", partition, group, outcome)


def _stored(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | ApiError | None],
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Offsets without those that could not be read."""
    return {partition: each for partition, each in offsets.items() if not isinstance(each, ApiError)}
