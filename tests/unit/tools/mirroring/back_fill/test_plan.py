"""What a back-fill does about each partition, and what it refuses."""

import re

import pytest

from pkafka.clients.admin.results import ConfigEntry, ConfigSource
from pkafka.connect.mirror.filters import DefaultConfigPropertyFilter, DefaultTopicFilter
from pkafka.connect.mirror.policies import DefaultReplicationPolicy
from pkafka.connect.mirror.records import OffsetSync
from pkafka.connect.mirror.topic_plan import Flow, Missing
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.back_fill.plan import (
    Item,
    Plan,
    Step,
    chosen,
    items_of,
    last_syncs,
    new_topics,
    pairs_of,
    source_offsets,
)
from pkafka.tools.mirroring.layout import Pair

T0, C0 = TopicPartition("t", 0), TopicPartition("A.t", 0)
PAIR = Pair(T0, C0)


@pytest.fixture
def flow() -> Flow:
    topics, properties = DefaultTopicFilter(), DefaultConfigPropertyFilter()
    topics.configure({})
    properties.configure({})
    return Flow("A", "B", DefaultReplicationPolicy(), topics, properties)


def item(target: tuple[int, int] | None, sync: OffsetSync | None = None, *, resumes: bool = False) -> Item:
    targets = {} if target is None else {C0: target}
    syncs = {} if sync is None else {T0: sync}
    (found,) = items_of([PAIR], {T0: (10, 100)}, targets, syncs, resumes=resumes)
    return found


@pytest.mark.parametrize("target", [None, (0, 0), (7, 7)])
def test_a_copy_without_records_is_filled_from_the_beginning(target: tuple[int, int] | None) -> None:
    found = item(target, OffsetSync(T0, 50, 3))
    assert (found.step, found.first, found.last_sync, found.has_work) == (Step.COPY, 10, None, True)
    assert found.target_end == (target or (0, 0))[1]


def test_a_copy_with_records_is_only_gone_on_with_when_that_is_asked_for() -> None:
    found = item((0, 5), OffsetSync(T0, 12, 2))
    assert (found.step, found.has_work) == (Step.REFUSE, False)
    assert found.reason == "A.t-0 of the target has records already"
    found = item((0, 5), OffsetSync(T0, 12, 2), resumes=True)
    assert (found.step, found.first, found.last_sync) == (Step.RESUME, 12, OffsetSync(T0, 12, 2))


def test_a_copy_whose_records_are_gone_is_gone_on_with_as_well() -> None:
    assert item((5, 5), OffsetSync(T0, 12, 2), resumes=True).step is Step.RESUME
    assert item((5, 5), resumes=True).step is Step.COPY


@pytest.mark.parametrize(
    ("sync", "text"), [(None, "no offset sync says where"), (OffsetSync(T0, 12, 6), "about an earlier copy")]
)
def test_a_copy_is_not_gone_on_with_by_a_guess(sync: OffsetSync | None, text: str) -> None:
    found = item((0, 5), sync, resumes=True)
    assert found.step is Step.REFUSE
    assert found.reason is not None
    assert re.search(text, found.reason)
    assert Plan((), {}, (found,)).refused == [found]


def test_the_last_sync_of_a_partition_counts() -> None:
    syncs = [OffsetSync(T0, 90, 80), OffsetSync(C0, 1, 1), OffsetSync(T0, 3, 0)]
    assert last_syncs(syncs) == {T0: OffsetSync(T0, 3, 0), C0: OffsetSync(C0, 1, 1)}


def test_what_is_copied_already_is_no_work() -> None:
    (found,) = items_of([PAIR], {T0: (0, 9)}, {C0: (0, 9)}, {T0: OffsetSync(T0, 9, 8)}, resumes=True)
    assert not found.has_work
    assert Plan((), {}, (found,)).total == 0


def test_topics_are_chosen_as_a_source_connector_does_but_heartbeats(flow: Flow) -> None:
    names = ["t", "__consumer_offsets", "mm2-configs.B.internal", "heartbeats", "B.u", "C.u", "t.replica"]
    assert list(chosen(flow, dict.fromkeys(names, (0,)))) == ["C.u", "t"]


def test_partitions_between_others_that_are_nowhere_are_told(flow: Flow) -> None:
    found, gone = pairs_of(flow, {"t": (0, 3)})
    assert [each.source.partition for each in found] == [0, 3]
    assert [each.target for each in gone] == [TopicPartition("A.t", 1), TopicPartition("A.t", 2)]


def test_new_topics_have_the_settings_that_the_source_has(flow: Flow) -> None:
    def entry(name: str, value: str, source: ConfigSource) -> ConfigEntry:
        return ConfigEntry(name, value, source, False, False)

    configs = {
        "t": [
            entry("cleanup.policy", "compact", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            entry("min.insync.replicas", "2", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            entry("retention.ms", "5", ConfigSource.DEFAULT_CONFIG),
        ]
    }
    (made,) = new_topics(flow, Missing({"t": 3}, {}), configs, -1)
    assert (made.name, made.partitions, made.replication_factor) == ("A.t", 3, -1)
    assert made.configs == {"cleanup.policy": "compact"}


def test_a_source_connector_goes_on_behind_what_was_copied() -> None:
    other = Pair(TopicPartition("u", 0), TopicPartition("A.u", 0))
    empty = Pair(TopicPartition("v", 0), TopicPartition("A.v", 0))
    items = [Item(PAIR, Step.COPY, 0, 7), Item(other, Step.COPY, 0, 8), Item(empty, Step.COPY, 0, 0)]
    assert source_offsets(items, {PAIR, empty}) == {T0: 6}
