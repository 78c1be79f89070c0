"""Asks both sides what a back-fill has to do, and creates what the target lacks."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ConfigResource, ResourceType
from pkafka.connect.mirror.filters import TOPICS_EXCLUDE, DefaultConfigPropertyFilter, TopicFilter
from pkafka.connect.mirror.internal_topics import create_compacted
from pkafka.connect.mirror.topic_plan import Flow, missing
from pkafka.errors import ApiError
from pkafka.java.pattern import compile_pattern
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.back_fill.copying import Job
from pkafka.tools.mirroring.back_fill.plan import (
    Item,
    Plan,
    Step,
    chosen,
    items_of,
    last_syncs,
    new_topics,
    pairs_of,
)
from pkafka.tools.mirroring.back_fill.source import Source
from pkafka.tools.mirroring.back_fill.sync_writing import SyncPlace
from pkafka.tools.mirroring.back_fill.writing import BYTES_MAX
from pkafka.tools.mirroring.flow import Names, bounds, read_syncs
from pkafka.tools.mirroring.layout import Pair

_TIME_TYPE: Final = "message.timestamp.type"
_APPEND_TIME: Final = "LogAppendTime"
_BYTES_MAX: Final = "max.message.bytes"


class Side(NamedTuple):
    """A cluster that is written to.

    Args:
        admin: of it.
        settings: of its clients.
    """

    admin: Admin
    settings: Mapping[str, object]


class Wishes(NamedTuple):
    """What the operator wants.

    Args:
        names: of the mirror; both aliases are there.
        replicas: of topics that are created; -1: as many as the brokers give.
        lag_max: ``offset.lag.max`` of the connector.
        resumes: whether an earlier run is gone on with.
        timeout_ms: how long to wait for answers.
    """

    names: Names
    replicas: int
    lag_max: int
    resumes: bool
    timeout_ms: int


class BackFill:
    """A back-fill before it runs.

    Args:
        source: what is copied.
        target: where to.
        syncs: the cluster that has the topic of offset syncs.
        syncs_are_on_source: whether that is the source.
        wishes: of the operator.

    Raises:
        ConfigError: there is no such policy.
    """

    def __init__(
        self, source: Source, target: Side, syncs: Side, wishes: Wishes, *, syncs_are_on_source: bool
    ) -> None:
        names = wishes.names
        policy = names.made_policy()
        properties = DefaultConfigPropertyFilter()
        properties.configure({})
        self._source = source
        self._target = target
        self._syncs = syncs
        self._wishes = wishes
        self._flow = Flow(names.source, names.target, policy, _Chosen(names.include), properties)
        self.syncs_topic = policy.offset_syncs_topic(names.target if syncs_are_on_source else names.source)

    def plan(self) -> Plan:
        """Look at what is there on both sides now.

        Raises:
            PkafkaError, OSError: a side does not say.
        """
        flow, wishes = self._flow, self._wishes
        topics = chosen(flow, self._source.partitions())
        pairs, gone = pairs_of(flow, topics)
        targets = self._target_bounds(pairs)
        syncs = last_syncs(read_syncs(self._syncs.admin, self._syncs.settings, self.syncs_topic))
        sources = self._source.bounds([each.source for each in pairs])
        lacking = missing(flow, [each.source for each in (*pairs, *gone)], targets)
        items = items_of(pairs, sources, targets, syncs, resumes=wishes.resumes)
        items += [
            Item(each, Step.MISS, reason=f"{each.source} is in none of the directories") for each in gone
        ]
        return Plan(
            new_topics(flow, lacking, self._source.configs(sorted(lacking.topics)), wishes.replicas),
            {flow.remote(topic): count for topic, count in lacking.partitions.items()},
            tuple(sorted(items)),
            tuple(self._source.notes()),
        )

    def _target_bounds(self, pairs: Sequence[Pair]) -> dict[TopicPartition, tuple[int, int]]:
        """Of the copies that exist."""
        admin = self._target.admin
        wanted = {each.target.topic for each in pairs}
        names = [each.name for each in admin.list_topics() if each.name in wanted]
        described = admin.describe_topics(names) if names else {}
        there = []
        for name, outcome in described.items():
            if isinstance(outcome, ApiError):
                raise outcome
            there += [TopicPartition(name, each.partition) for each in outcome.partitions]
        return bounds(admin, there)

    def create(self, plan: Plan) -> None:
        """Create and grow the topics that a plan names, and that of offset syncs.

        Raises:
            ApiError, ClientError, ConnectError: one cannot be created.
        """
        admin = self._target.admin
        outcomes: dict[str, object] = {}
        if plan.new_topics:
            outcomes |= admin.create_topics(plan.new_topics)
        if plan.grown:
            outcomes |= admin.create_partitions(plan.grown)
        for topic, outcome in outcomes.items():
            if isinstance(outcome, ApiError):
                raise ApiError(outcome.code, f"{topic} cannot be created on the target: {outcome.message}")
        create_compacted(self._syncs.admin, self.syncs_topic, self._wishes.replicas)

    def jobs(self, plan: Plan) -> list[Job]:
        """What there is to copy by a plan that is not refused; to be asked for when the topics are created.

        Raises:
            ClientError: the target does not answer.
        """
        wishes = self._wishes
        place = SyncPlace(dict(self._syncs.settings), self.syncs_topic, wishes.lag_max)
        target = dict(self._target.settings)
        items = [each for each in plan.items if each.has_work]
        configs = self._copies_configs(sorted({each.pair.target.topic for each in items}))
        jobs = []
        for each in items:
            of_copy = configs.get(each.pair.target.topic, {})
            jobs.append(
                Job(
                    each.pair,
                    self._source.log(each.pair.source),
                    each.start,
                    each.end,
                    target,
                    each.target_end,
                    wishes.timeout_ms,
                    place,
                    each.last_sync,
                    of_copy.get(_TIME_TYPE) == _APPEND_TIME,
                    int(of_copy.get(_BYTES_MAX) or BYTES_MAX),
                )
            )
        return jobs

    def _copies_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Settings of copies, as far as they are told: of a topic that was just created not every broker knows."""
        wanted = [ConfigResource(ResourceType.TOPIC, each) for each in topics]
        found = self._target.admin.describe_configs(wanted) if wanted else {}
        return {
            resource.name: {each.name: each.value for each in entries}
            for resource, entries in found.items()
            if not isinstance(entries, ApiError)
        }


class _Chosen(TopicFilter):
    """Takes what was asked for, but for what a source connector leaves out by default."""

    def __init__(self, include: re.Pattern[str]) -> None:
        self._include = include
        self._exclude = compile_pattern(TOPICS_EXCLUDE.replace(",", "|"))

    def takes_topic(self, topic: str) -> bool:
        """Whether a topic is copied."""
        return self._include.fullmatch(topic) is not None and self._exclude.fullmatch(topic) is None
