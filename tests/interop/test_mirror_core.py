"""MirrorMaker 2's names, records, translations and filters are those of Java's."""

import base64
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pkafka.connect.mirror import filters
from pkafka.connect.mirror.offset_syncs import OffsetSyncStore
from pkafka.connect.mirror.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from pkafka.connect.mirror.records import Checkpoint, Heartbeat, OffsetSync
from pkafka.connect.mirror.sync_queue import PartitionState
from pkafka.model import TopicPartition
from pkafka.tools.console.mirror_formatters import PACKAGE, formatter
from tests.interop.mirror_oracle import MirrorOracle, mirror_oracle

MUCH = settings(
    max_examples=300,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
POLICIES: Final = {
    "DefaultReplicationPolicy": DefaultReplicationPolicy,
    "IdentityReplicationPolicy": IdentityReplicationPolicy,
}
ALIASES = st.sampled_from(["A", "B", "us-west", "a.b", "heartbeats", "mm2"])
PARTS = st.sampled_from(
    [
        ".",
        "__",
        "-",
        "A",
        "B",
        "t",
        "us-west",
        "heartbeats",
        "checkpoints",
        "internal",
        "mm2",
        "x.replica",
        "é",
    ]
)
TOPICS = st.lists(PARTS, min_size=1, max_size=6).map("".join)
OFFSETS = st.integers(0, 2**63 - 1)
T0: Final = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[MirrorOracle]:
    with mirror_oracle(kafka_classpath) as started:
        yield started


@MUCH
@given(
    name=st.sampled_from(sorted(POLICIES)),
    configs=st.fixed_dictionaries(
        {},
        optional={
            "replication.policy.separator": st.sampled_from([".", "_", "__", "-", "|", "heartbeats"]),
            "replication.policy.internal.topic.separator.enabled": st.sampled_from(
                ["true", "false", "FALSE", "no"]
            ),
            "source.cluster.alias": ALIASES,
        },
    ),
    alias=ALIASES,
    topic=TOPICS,
)
def test_policies_name_topics_the_same(
    java: MirrorOracle, name: str, configs: dict[str, str], alias: str, topic: str
) -> None:
    theirs = java.ask("policy", name, configs=configs, alias=alias, topic=topic)
    policy = POLICIES[name]()
    policy.configure(configs)
    assert theirs == {
        "remote": policy.format_remote_topic(alias, topic),
        "source": policy.topic_source(topic),
        "upstream": policy.upstream_topic(topic),
        "original": policy.original_topic(topic),
        "heartbeats": policy.heartbeats_topic(),
        "syncs": policy.offset_syncs_topic(alias),
        "checkpoints": policy.checkpoints_topic(alias),
        "isHeartbeats": policy.is_heartbeats_topic(topic),
        "isCheckpoints": policy.is_checkpoints_topic(topic),
        "isOurs": policy.is_mm2_internal_topic(topic),
        "isInternal": policy.is_internal_topic(topic),
    }


@MUCH
@given(
    made=st.one_of(
        st.builds(OffsetSync, st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1)), OFFSETS, OFFSETS),
        st.builds(
            Checkpoint,
            TOPICS,
            st.builds(TopicPartition, TOPICS, st.integers(0, 9)),
            OFFSETS,
            OFFSETS,
            st.text(max_size=9),
        ),
        st.builds(Heartbeat, ALIASES, ALIASES, OFFSETS),
    )
)
def test_records_have_the_same_bytes(java: MirrorOracle, made: OffsetSync | Checkpoint | Heartbeat) -> None:
    case: dict[str, Any]
    if isinstance(made, Heartbeat):
        case = {
            "record": "heartbeat",
            "source": made.source,
            "target": made.target,
            "timestamp": made.timestamp_ms,
        }
    else:
        case = {"topic": made.partition.topic, "partition": made.partition.partition}
        case |= {"upstream": made.upstream, "downstream": made.downstream}
        if isinstance(made, Checkpoint):
            case |= {"record": "checkpoint", "group": made.group, "metadata": made.metadata}
        else:
            case["record"] = "sync"
    theirs = java.ask("record", **case)
    assert (made.key, made.value) == (base64.b64decode(theirs["key"]), base64.b64decode(theirs["value"]))
    assert type(made).of(made.key, made.value) == made
    shown = formatter(f"{PACKAGE}{type(made).__name__}Formatter")
    assert shown is not None
    assert shown(made.key, made.value).decode() == f"{theirs['text']}\n"


def _history(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of offsets, of steps upstream and downstream; a step back is a source or a target that was made anew."""
    upstream = downstream = 0
    found = []
    for up, down in steps:
        upstream = max(0, upstream + up)
        downstream = max(0, downstream + down)
        found.append((upstream, downstream))
    return found


STEP = st.one_of(
    st.integers(0, 3),
    st.integers(0, 200),
    st.integers(0, 2**20),
    st.integers(0, 2**45),
    st.integers(-(2**10), 0),
)
HISTORIES = st.lists(st.tuples(STEP, STEP), max_size=60).map(_history)


@MUCH
@given(
    before=HISTORIES,
    after=HISTORIES,
    needs_end=st.booleans(),
    at_end=st.booleans(),
    asked=st.lists(STEP, max_size=8),
)
def test_offsets_are_translated_the_same(
    java: MirrorOracle,
    before: list[tuple[int, int]],
    after: list[tuple[int, int]],
    needs_end: bool,
    at_end: bool,
    asked: list[int],
) -> None:
    known = [upstream for upstream, _ in before + after]
    asked = [*map(abs, asked), *known, *(each + 1 for each in known), *(max(0, each - 1) for each in known)]
    theirs = java.ask("store", needsEnd=needs_end, atEnd=at_end, before=before, after=after, ask=asked)
    store = OffsetSyncStore(needs_end=needs_end)
    for pairs, is_at_end in ((before, at_end), (after, at_end)):
        for upstream, downstream in pairs:
            store.add(OffsetSync(T0, upstream, downstream))
        store.is_at_end = is_at_end
    assert [[each.upstream, each.downstream] for each in store.syncs(T0)] == theirs["syncs"]
    assert [store.translate(T0, each) for each in asked] == theirs["translated"]


@MUCH
@given(
    lag=st.integers(0, 12),
    steps=st.lists(st.tuples(st.integers(-2, 3), st.integers(-3, 4)), max_size=60).map(_history),
)
def test_syncs_are_due_at_the_same_records(
    java: MirrorOracle, lag: int, steps: list[tuple[int, int]]
) -> None:
    state = PartitionState(lag)
    assert [state.is_due(*each) for each in steps] == java.ask("due", lag=lag, steps=steps)


PATTERNS = st.lists(
    st.sampled_from(["a", "a.*", ".*", "mm2.*", "[ab]c?", r"x\.replica", "", "a|b"]), max_size=3
).map(",".join)
NAMES: Final = [
    *(
        "a",
        "ab",
        "ac",
        "b",
        "bc",
        "x.replica",
        "mm2-offset-syncs.B.internal",
        "__consumer_offsets",
        "c-internal",
    ),
    *(
        "console-consumer-1",
        "connect-a",
        "min.insync.replicas",
        "segment.bytes",
        "A.heartbeats",
        "heartbeats",
        "__x",
    ),
]


@MUCH
@given(
    made=st.sampled_from(
        [
            ("DefaultTopicFilter", "topics"),
            ("DefaultGroupFilter", "groups"),
            ("DefaultConfigPropertyFilter", "config.properties"),
        ]
    ),
    settings_=st.fixed_dictionaries(
        {}, optional={"": PATTERNS, ".exclude": PATTERNS, ".blacklist": PATTERNS}
    ),
    defaults=st.one_of(st.none(), st.sampled_from(["source", "target"])),
)
def test_filters_choose_the_same(
    java: MirrorOracle, made: tuple[str, str], settings_: dict[str, str], defaults: str | None
) -> None:
    name, prefix = made
    configs = {f"{prefix}{end}": value for end, value in settings_.items()}
    if defaults is not None:
        configs["use.defaults.from"] = defaults
    theirs = java.ask("filter", name, configs=configs, names=NAMES)
    chosen: Any = getattr(filters, name)()
    chosen.configure(configs)
    if name == "DefaultTopicFilter":
        assert [chosen.takes_topic(each) for each in NAMES] == theirs
    elif name == "DefaultGroupFilter":
        assert [chosen.takes_group(each) for each in NAMES] == theirs
    else:
        found = [
            answer for each in NAMES for answer in (chosen.takes_property(each), chosen.takes_default(each))
        ]
        assert found == theirs
