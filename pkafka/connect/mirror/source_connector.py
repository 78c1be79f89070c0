"""``MirrorSourceConnector``: finds what to copy, creates topics on the target, and copies their settings and ACLs."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pkafka import KAFKA_VERSION
from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ConfigEntry, ConfigResource, ResourceType
from pkafka.clients.admin.topic_results import NewTopic, TopicDescription
from pkafka.clients.errors import UnsupportedApiError
from pkafka.connect.config_def import ConfigValue
from pkafka.connect.connector import SourceConnector
from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.both_clusters import BothClusters
from pkafka.connect.mirror.cycles import CycleGuard
from pkafka.connect.mirror.internal_topics import create_compacted
from pkafka.connect.mirror.offset_checks import Offsets, check_offsets
from pkafka.connect.mirror.policies import keeps_names
from pkafka.connect.mirror.settings import (
    EMITS_SYNCS,
    SOURCE_CONFIG,
    TASK_INDEX,
    TASK_PARTITIONS,
    MirrorSettings,
    reads_committed,
    validate_source,
)
from pkafka.connect.mirror.source_task import MirrorSourceTask
from pkafka.connect.mirror.topic_plan import (
    Flow,
    are_missing,
    config_changes,
    missing,
    new_topic_configs,
    partitions_text,
    shared_out,
    target_acls,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.security.acl import AclFilter, PatternFilter
from pkafka.security.acl import ResourceType as AclResource

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorSourceConnector")

_GUARD_S: Final = 5.0
"""Between two looks whether topics go round in circles."""
_TOPIC_ACLS: Final = AclFilter(PatternFilter(AclResource.TOPIC))


class MirrorSourceConnector(SourceConnector):
    """Copies topics, by tasks that share their partitions."""

    JAVA_NAME = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    VERSION = KAFKA_VERSION
    CONFIG = SOURCE_CONFIG
    task_class = MirrorSourceTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Find topics, create their copies, and begin to look after them.

        A cluster that does not answer is asked again: the connector has no tasks until then.
        """
        self._known: list[TopicPartition] = []
        self._given: list[TopicPartition] | None = None
        self._copies: list[TopicPartition] = []
        self._has_no_acls = False
        self._guard: CycleGuard | None = None
        self._circling: set[str] = set()
        self._settings = settings = MirrorSettings(SOURCE_CONFIG, configs)
        if not settings.is_enabled:
            return
        self._flow = Flow(
            settings.source, settings.target, settings.policy, settings.topic_filter, settings.property_filter
        )
        self._both = both = BothClusters(settings, "MirrorSourceConnector", "replication")
        self._source, self._target, schedule = both.open_source(), both.target, both.schedule
        if settings.parsed[EMITS_SYNCS]:
            both.first(self._create_syncs_topic, "creating offset-syncs topic")
        both.first(self._refresh, "loading topic-partitions and creating downstream ones")
        schedule.every(self._sync_acls, "syncing topic ACLs", settings.interval_s("sync.topic.acls"))
        schedule.every(self._sync_configs, "syncing topic configs", settings.interval_s("sync.topic.configs"))
        if keeps_names(settings.policy):
            self._guard = self._made_guard()
            schedule.every(self._look_for_cycles, "looking for cycles", _GUARD_S)
        refresh_s = settings.interval_s("refresh.topics")
        schedule.every(self._refresh, "refreshing topics", refresh_s, after_s=refresh_s or 0.0)
        log.info("Started %s with %d topic-partitions.", settings.parsed["name"], len(self._known))

    def stop(self) -> None:
        """End."""
        if self._settings.is_enabled:
            self._both.close()
            if self._guard is not None:
                self._guard.close()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """The tasks' configurations, each with its partitions."""
        self._given = self._known
        return [
            {
                **self._settings.originals,
                TASK_PARTITIONS: partitions_text(partitions),
                TASK_INDEX: str(index),
            }
            for index, partitions in enumerate(shared_out(self._given, tasks_max))
        ]

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """What is wrong with settings."""
        return validate_source(configs)

    def supports_exactly_once(self, configs: Mapping[str, str]) -> bool:
        """Whether a record is copied once: where those of aborted transactions are left out (KIP-618)."""
        return reads_committed(configs)

    def alter_offsets(self, _configs: Mapping[str, str], offsets: Offsets) -> bool:
        """Check offsets.

        Raises:
            ConnectError: one is refused.
        """
        check_offsets(offsets, "cluster", "topic", has_partition=True, only_zero=False)
        return True

    # -- topics; on the schedule's thread --

    def _create_syncs_topic(self) -> None:
        settings = self._settings
        with Admin(settings.sync_client("admin")) as admin:
            replicas = settings.parsed["offset-syncs.topic.replication.factor"]
            create_compacted(admin, settings.offset_syncs_topic, replicas)

    def _refresh(self) -> None:
        known, self._copies = self._found(), self._found_copies()
        if known != self._known or are_missing(self._flow, known, self._copies):
            source = self._settings.source
            log.info("Found %d topic-partitions on %s, %d before.", len(known), source, len(self._known))
            self._create_missing(known)
            self._copies = self._found_copies()
            self._known = known
        if self._given is not None and known != self._given:
            self.context.request_task_reconfiguration()

    def _found(self) -> list[TopicPartition]:
        """The partitions to copy, in order: the same tasks have the same configurations."""
        return _partitions(
            self._source, lambda topic: topic not in self._circling and self._flow.takes(topic)
        )

    def _found_copies(self) -> list[TopicPartition]:
        return _partitions(self._target, self._flow.is_copy)

    def _create_missing(self, known: Iterable[TopicPartition]) -> None:
        flow, lacking = self._flow, missing(self._flow, known, self._copies)
        if lacking.topics:
            configs = self._configs(lacking.topics)
            replicas = self._settings.parsed["replication.factor"]
            new = [
                NewTopic(
                    flow.remote(topic),
                    count,
                    replicas,
                    configs=new_topic_configs(flow, configs.get(topic, ())),
                )
                for topic, count in lacking.topics.items()
            ]
            for topic, created in self._target.create_topics(new).items():
                if isinstance(created, ApiError):
                    log.warning("Could not create topic %s: %s", topic, created)
                else:
                    log.info("Created remote topic %s.", topic)
        if lacking.partitions:
            counts = {flow.remote(topic): count for topic, count in lacking.partitions.items()}
            for topic, grown in self._target.create_partitions(counts).items():
                if not isinstance(grown, ApiError):
                    log.info("Increased size of %s to %d partitions.", topic, counts[topic])
                elif grown.code != ErrorCode.INVALID_PARTITIONS:
                    log.warning("Could not create topic-partitions for %s: %s", topic, grown)

    # -- topics that go round in circles --

    def _made_guard(self) -> CycleGuard:
        configs = self._settings.client("target", "consumer", "cycles-target-consumer")
        topic = self._settings.policy.offset_syncs_topic(self._settings.source)

        def exists(name: str) -> bool:
            return not isinstance(self._target.describe_topics([name])[name], ApiError)

        return CycleGuard(configs, topic, exists, self._flow.takes)

    def _look_for_cycles(self) -> None:
        """Copy topics no more that are copied back, and then fail.

        In this order: a connector that has failed is not asked for its tasks any more.
        """
        assert self._guard is not None
        found = self._guard.look()
        if found == self._circling:
            if found:
                self.context.raise_error(ConnectError(self._cycle_text()))
            return
        self._circling = set(found)
        log.error("%s", self._cycle_text())
        self._refresh()

    def _cycle_text(self) -> str:
        topics = ", ".join(sorted(self._circling))
        return (
            f"A flow from {self._flow.target} to {self._flow.source} copies topics back that this one copies: {topics}."
            " Their records would go round for ever, so they are not copied any more. Let the two flows choose"
            " different topics, or name copies by DefaultReplicationPolicy, and restart the connector."
        )

    # -- settings and ACLs --

    def _configs(self, topics: Iterable[str]) -> dict[str, list[ConfigEntry]]:
        """The settings of topics of the source; one that is gone meanwhile is left out."""
        wanted = [ConfigResource(ResourceType.TOPIC, each) for each in topics]
        found = self._source.describe_configs(wanted)
        return {each.name: entries for each, entries in found.items() if not isinstance(entries, ApiError)}

    def _sync_configs(self) -> None:
        flow, copied = self._flow, {each.topic for each in self._copies}
        topics = {each.topic for each in self._known if flow.remote(each.topic) in copied}
        changes = {
            ConfigResource(ResourceType.TOPIC, flow.remote(topic)): config_changes(flow, entries)
            for topic, entries in self._configs(sorted(topics)).items()
        }
        if not changes:
            return
        try:
            outcomes = self._target.alter_configs(changes)
        except UnsupportedApiError as error:
            text = f"the target cluster '{flow.target}' is not compatible with IncrementalAlterConfigs API"
            self.context.raise_error(ConnectError(f"{text}: {error}"))
            return
        for resource, outcome in outcomes.items():
            if isinstance(outcome, ApiError):
                log.warning("Could not alter configuration of topic %s: %s", resource.name, outcome)

    def _sync_acls(self) -> None:
        try:
            acls = self._source.describe_acls(_TOPIC_ACLS)
        except ApiError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            if not self._has_no_acls:
                log.info(
                    "No ACL authorizer is configured on the source Kafka cluster, so no topic ACL syncing will take"
                    " place. Consider disabling topic ACL syncing by setting sync.topic.acls.enabled to 'false'."
                )
            self._has_no_acls = True
            return
        for acl, outcome in self._target.create_acls(target_acls(self._flow, acls)).items():
            if isinstance(outcome, ApiError):
                log.warning("Could not sync ACL of topic %s: %s", acl.pattern.name, outcome)


def _partitions(admin: Admin, takes: Callable[[str], bool]) -> list[TopicPartition]:
    names = [each.name for each in admin.list_topics() if not each.is_internal and takes(each.name)]
    described = admin.describe_topics(names) if names else {}
    return sorted(
        TopicPartition(topic.name, each.partition)
        for topic in described.values()
        if isinstance(topic, TopicDescription)
        for each in topic.partitions
    )
