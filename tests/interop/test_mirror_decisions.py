"""What MirrorMaker 2 decides is what Java's decides: checkpoints, offsets to commit, topics to copy, ACLs."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pkafka.clients.consumer import Chunk
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.mirror.checkpoints import Checkpoints, offsets_to_commit
from pkafka.connect.mirror.filters import DefaultConfigPropertyFilter, DefaultTopicFilter
from pkafka.connect.mirror.offset_syncs import OffsetSyncStore
from pkafka.connect.mirror.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from pkafka.connect.mirror.records import OffsetSync
from pkafka.connect.mirror.task_metrics import SourceMetrics
from pkafka.connect.mirror.topic_plan import Flow, target_acls
from pkafka.model import TopicPartition
from pkafka.records.columns import RecordColumns
from pkafka.security.acl import Acl, Entry, Operation, Pattern, Permission, ResourceType
from tests.interop.mirror_oracle import MirrorOracle, mirror_oracle

MUCH = settings(
    max_examples=300,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PACKAGE: Final = "org.apache.kafka.connect.mirror."


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[MirrorOracle]:
    with mirror_oracle(kafka_classpath) as started:
        yield started


OFFSET = st.integers(0, 60)
STEP = st.one_of(
    st.tuples(st.just("sync"), st.sampled_from(["t", "B.u"]), st.tuples(OFFSET, OFFSET)),
    st.tuples(st.just("offset"), st.sampled_from(["t", "B.u"]), st.one_of(st.none(), OFFSET)),
    st.tuples(st.just("target"), st.sampled_from(["A.t", "u"]), st.one_of(st.none(), OFFSET)),
)


class _Task:
    """What our task does with one group."""

    def __init__(self) -> None:
        self._store = OffsetSyncStore(needs_end=False)
        self._store.is_at_end = True
        policy = DefaultReplicationPolicy()
        self._checkpoints = Checkpoints("A", "B", policy, self._store.translate, lambda _topic: True)

    def step(self, kind: str, topic: str, value: Any) -> list[str]:
        partition = TopicPartition(topic, 0)
        if kind == "sync":
            self._store.add(OffsetSync(partition, *value))
            return []
        if kind == "offset":
            position = None if value is None else OffsetAndMetadata(value, "m")
            found = self._checkpoints.news("g", {partition: position})
            return [str(each) for each in found]
        there = {} if value is None else {partition: OffsetAndMetadata(value)}
        wanted = offsets_to_commit(self._checkpoints.positions("g"), there)
        return [f"{each.topic}-0={at.offset}" for each, at in wanted.items()]


@MUCH
@given(steps=st.lists(STEP, max_size=40))
def test_the_same_checkpoints_are_written_and_offsets_committed(
    java: MirrorOracle, steps: list[tuple[str, str, Any]]
) -> None:
    task = _Task()
    found = [sorted(task.step(*step)) for step in steps]
    case = [{"kind": kind, "topic": topic, "value": value} for kind, topic, value in steps]
    assert found == [sorted(each) for each in java.ask("checkpoints", steps=case)]


TOPICS: Final = [
    *(
        "t",
        "A.t",
        "B.t",
        "C.t",
        "C.B.t",
        "B.C.t",
        "heartbeats",
        "A.heartbeats",
        "B.heartbeats",
        "C.B.heartbeats",
    ),
    *(
        "x-internal",
        "x.internal",
        "A.checkpoints.internal",
        "__consumer_offsets",
        ".x",
        "mm2-configs.A.internal",
        "*",
    ),
]
ACLS: Final = [
    (topic, operation, permission)
    for topic in ("t", "A.t")
    for operation in (Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE)
    for permission in (Permission.ALLOW, Permission.DENY)
]


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy, IdentityReplicationPolicy])
@pytest.mark.parametrize("topics", [".*", "t,C.*", ""])
@pytest.mark.parametrize("separator", [".", "_"])
def test_the_same_topics_and_rules_are_copied(
    java: MirrorOracle, policy: type[DefaultReplicationPolicy], topics: str, separator: str
) -> None:
    configs = {"topics": topics, "source.cluster.alias": "A", "replication.policy.separator": separator}
    made = Flow("A", "B", policy(), DefaultTopicFilter(), DefaultConfigPropertyFilter())
    for each in (made.policy, made.topics, made.properties):
        each.configure(configs)
    case = [(topic, int(operation), int(permission)) for topic, operation, permission in ACLS]
    theirs = java.ask("flow", policy=policy.__name__, configs=configs, topics=TOPICS, acls=case)
    assert [made.takes(each) for each in TOPICS] == theirs["taken"]
    assert [made.is_cycle(each) for each in TOPICS] == theirs["cycles"]
    for (topic, operation, permission), target in zip(ACLS, theirs["acls"], strict=True):
        acl = Acl(Pattern(ResourceType.TOPIC, topic), Entry("User:u", "*", operation, permission))
        found = [
            [each.pattern.name, int(each.entry.operation), int(each.entry.permission)]
            for each in target_acls(made, [acl])
        ]
        assert found == ([target] if target is not None and made.takes(topic) else [])


@pytest.mark.parametrize("has_source", ["false", "true"])
def test_metrics_have_the_same_names_and_tags(java: MirrorOracle, has_source: str) -> None:
    configs = {
        "name": "n",
        "connector.class": f"{PACKAGE}MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "task.assigned.partitions": "t-0",
        "add.source.alias.to.metrics": has_source,
    }
    theirs = java.ask("metrics", configs=configs)
    metrics = SourceMetrics({"source": "A", "target": "B"} if has_source == "true" else {"target": "B"})
    copy = TopicPartition("A.t", 0)
    columns = RecordColumns([0], [1], [None], [b"v"], [()])
    metrics.polled(copy, Chunk(copy, columns, 0, 0), 5.0)
    metrics.copied(copy, 1, 9.0)
    found = {each.name: dict(each.tags) for each in metrics.rows()}
    # Rates are left to the program that reads the counts.
    assert found == {
        f"mirror_{name.lower().replace(' ', '_').replace('-', '_')}": tags
        for name, tags in theirs.items()
        if not name.endswith("-rate")
    }
