"""What a back-fill has to do: which partitions it copies, from where on, and which it refuses. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from pkafka.clients.admin.results import ConfigEntry
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.connect.mirror.records import OffsetSync
from pkafka.connect.mirror.topic_plan import Flow, Missing, new_topic_configs
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.layout import Pair

_NOTHING = (0, 0)


class Step(Enum):
    """What is done about a partition."""

    COPY = "copy"
    RESUME = "resume"
    """An earlier run has begun it."""
    REFUSE = "refuse"
    """Its copy has records, and it is not to be gone on with, or cannot be."""
    MISS = "miss"
    """The source should have it, and has not: no directory of a dead cluster holds it."""


class Item(NamedTuple):
    """A partition to copy.

    Args:
        pair: the partition and its copy.
        step: what is done about it.
        start, end: offsets of the source.
        target_end: where the copy ends.
        last_sync: the last one of an earlier run, where that is gone on with.
        reason: why it is refused or missed.
    """

    pair: Pair
    step: Step
    start: int = 0
    end: int = 0
    target_end: int = 0
    last_sync: OffsetSync | None = None
    reason: str | None = None

    @property
    def first(self) -> int:
        """From which offset on the source is read, about."""
        return self.start if self.last_sync is None else max(self.start, self.last_sync.upstream)

    @property
    def has_work(self) -> bool:
        """Whether there may be records to copy."""
        return self.step in (Step.COPY, Step.RESUME) and self.first < self.end


class Plan(NamedTuple):
    """All there is to do.

    Args:
        new_topics: to be created on the target.
        grown: topics of the target, with the number of partitions that they have to have.
        items: the partitions, in the order of their names.
        notes: what an operator should know.
    """

    new_topics: tuple[NewTopic, ...]
    grown: Mapping[str, int]
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many offsets of the source there are to read."""
        return sum(each.end - each.first for each in self.items if each.has_work)

    @property
    def refused(self) -> list[Item]:
        """What keeps the plan from being carried out."""
        return [each for each in self.items if each.step is Step.REFUSE]


def chosen(flow: Flow, topics: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """The topics of a source that are copied, with the numbers of their partitions.

    Heartbeats are not: those that were are of no use, and a source connector copies them by itself.
    """
    policy = flow.policy
    return {
        topic: topics[topic]
        for topic in sorted(topics)
        if flow.takes(topic) and not policy.is_heartbeats_topic(topic)
    }


def pairs_of(flow: Flow, topics: Mapping[str, Sequence[int]]) -> tuple[list[Pair], list[Pair]]:
    """The partitions to copy, and those between them that the source does not have."""
    found: list[Pair] = []
    gone: list[Pair] = []
    for topic, numbers in topics.items():
        there, copy = set(numbers), flow.remote(topic)
        for number in range(max(numbers, default=-1) + 1):
            pair = Pair(TopicPartition(topic, number), TopicPartition(copy, number))
            (found if number in there else gone).append(pair)
    return found, gone


def new_topics(
    flow: Flow, lacking: Missing, configs: Mapping[str, Iterable[ConfigEntry]], replicas: int
) -> tuple[NewTopic, ...]:
    """The copies that have to be created: with the partitions and the settings that MirrorMaker 2 would give them.

    Args:
        configs: of the source's topics.
        replicas: of each; -1: as many as the target's brokers give.
    """
    return tuple(
        NewTopic(flow.remote(topic), count, replicas, configs=new_topic_configs(flow, configs.get(topic, ())))
        for topic, count in lacking.topics.items()
    )


def items_of(
    pairs: Iterable[Pair],
    sources: Mapping[TopicPartition, tuple[int, int]],
    targets: Mapping[TopicPartition, tuple[int, int]],
    syncs: Mapping[TopicPartition, OffsetSync],
    *,
    resumes: bool,
) -> list[Item]:
    """What to do about each partition.

    Args:
        sources: first offset and end of what there is to copy.
        targets: first offset and end of the copies that exist.
        syncs: the last one of each partition of the source.
        resumes: whether an earlier run is gone on with.
    """
    return [
        _item(each, sources[each.source], targets.get(each.target), syncs.get(each.source), resumes=resumes)
        for each in pairs
    ]


def _item(
    pair: Pair,
    source: tuple[int, int],
    target: tuple[int, int] | None,
    sync: OffsetSync | None,
    *,
    resumes: bool,
) -> Item:
    start, end = source
    target_start, target_end = target or _NOTHING
    has_records, has_had_any = target_end > target_start, target_end > 0
    if not (has_records or (resumes and has_had_any)):
        return Item(pair, Step.COPY, start, end, target_end)
    if not resumes:
        reason = f"{pair.target} of the target has records already"
    elif sync is None:
        if not has_records:
            return Item(pair, Step.COPY, start, end, target_end)
        reason = f"{pair.target} of the target has records, and no offset sync says where they are from"
    elif sync.downstream > target_end:
        reason = f"the offset syncs of {pair.source} are about an earlier copy, which was longer than {pair.target} is"
    else:
        return Item(pair, Step.RESUME, start, end, target_end, sync)
    return Item(pair, Step.REFUSE, start, end, target_end, reason=reason)


def last_syncs(syncs: Iterable[OffsetSync]) -> dict[TopicPartition, OffsetSync]:
    """The last sync of each partition, of all in the order of their topic."""
    return {each.partition: each for each in syncs}


def source_offsets(items: Iterable[Item], whole: Collection[Pair]) -> dict[TopicPartition, int]:
    """The offsets that a source connector stores when it has copied what was copied: it goes on behind them.

    Args:
        items: of the plan.
        whole: the partitions that were copied without an error.
    """
    return {each.pair.source: each.end - 1 for each in items if each.pair in whole and each.end > 0}
