"""What a source connector makes of topics: which are copied, what is created, settings, ACLs, tasks."""

from typing import Any

import pytest

from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigEntry, ConfigSource
from pkafka.connect.mirror.filters import DefaultConfigPropertyFilter, DefaultTopicFilter
from pkafka.connect.mirror.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from pkafka.connect.mirror.topic_plan import (
    Flow,
    are_missing,
    config_changes,
    groups_in_chunks,
    missing,
    new_topic_configs,
    partitions_of,
    partitions_text,
    shared_out,
    target_acls,
)
from pkafka.model import TopicPartition
from pkafka.security.acl import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType


def flow(policy: type[ReplicationPolicy] = DefaultReplicationPolicy, **configs: str) -> Flow:
    given: dict[str, Any] = {
        "source.cluster.alias": "A",
        **{k.replace("_", "."): v for k, v in configs.items()},
    }
    made, topics, properties = policy(), DefaultTopicFilter(), DefaultConfigPropertyFilter()
    for each in (made, topics, properties):
        each.configure(given)
    return Flow("A", "B", made, topics, properties)


def parts(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


@pytest.mark.parametrize(
    ("topic", "is_copied"),
    [
        *[
            ("t", True),
            ("C.t", True),
            ("B.t", False),
            ("C.B.t", False),
            ("heartbeats", True),
            ("C.heartbeats", True),
        ],
        *[
            ("B.heartbeats", False),
            ("x.internal", False),
            ("__consumer_offsets", False),
            ("mm2-offset-syncs.B.internal", False),
        ],
    ],
)
def test_topics_that_come_from_the_target_are_not_copied(topic: str, is_copied: bool) -> None:
    assert flow().takes(topic) is is_copied


def test_heartbeats_are_copied_whatever_is_chosen() -> None:
    assert flow(topics="orders").takes("heartbeats")
    assert not flow(topics="orders").takes("t")


def test_a_policy_that_keeps_names_sees_no_cycles() -> None:
    assert flow(IdentityReplicationPolicy).takes("t")
    assert not flow(IdentityReplicationPolicy).takes("B.heartbeats")


def test_what_the_target_lacks_is_found() -> None:
    known = [*parts("new", 2), *parts("more", 3), *parts("same", 1)]
    copies = [*parts("A.more", 1), *parts("A.same", 2)]
    assert missing(flow(), known, copies) == ({"new": 2}, {"more": 3})
    assert are_missing(flow(), known, copies)
    assert not are_missing(flow(), parts("same", 1), copies)


def test_partitions_are_shared_out_in_turn() -> None:
    assert shared_out(parts("t", 5), 2) == [[*parts("t", 5)[::2]], [*parts("t", 5)[1::2]]]
    assert shared_out(parts("t", 1), 9) == [parts("t", 1)]
    assert shared_out([], 9) == []
    assert partitions_of(partitions_text(parts("a-b.c", 2))) == parts("a-b.c", 2)


def test_groups_are_shared_out_in_chunks() -> None:
    assert groups_in_chunks(["a", "b", "c", "d", "e"], 2) == [["a", "b", "c"], ["d", "e"]]
    assert groups_in_chunks(["a"], 3) == [["a"]]
    assert groups_in_chunks([], 3) == []


def entry(
    name: str, source: ConfigSource, *, sensitive: bool = False, read_only: bool = False
) -> ConfigEntry:
    return ConfigEntry(name, "v", source, sensitive, read_only)


ENTRIES = [
    entry("set", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    entry("default", ConfigSource.DEFAULT_CONFIG),
    entry("of.file", ConfigSource.STATIC_BROKER_CONFIG),
    entry("of.broker", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    entry("secret", ConfigSource.DYNAMIC_TOPIC_CONFIG, sensitive=True),
    entry("fixed", ConfigSource.DYNAMIC_TOPIC_CONFIG, read_only=True),
    entry("min.insync.replicas", ConfigSource.DYNAMIC_TOPIC_CONFIG),
]


def test_settings_are_copied_and_defaults_unset() -> None:
    assert new_topic_configs(flow(), ENTRIES) == {"set": "v", "of.broker": "v"}
    assert config_changes(flow(), ENTRIES) == [
        ConfigChange("set", AlterOp.SET, "v"),
        ConfigChange("default", AlterOp.DELETE),
        ConfigChange("of.broker", AlterOp.SET, "v"),
    ]


def test_defaults_of_the_source_are_copied_where_that_is_wanted() -> None:
    made = flow(use_defaults_from="source")
    assert new_topic_configs(made, ENTRIES) == {"set": "v", "default": "v", "of.broker": "v"}
    assert ConfigChange("default", AlterOp.SET, "v") in config_changes(made, ENTRIES)


def acl(
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    name: str = "t",
    kind: PatternType = PatternType.LITERAL,
    type_: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(Pattern(type_, name, kind), Entry("User:u", "*", operation, permission))


def test_who_may_read_a_topic_may_read_its_copy_and_nobody_may_write() -> None:
    given = [
        acl(Operation.READ),
        acl(Operation.WRITE),
        acl(Operation.ALL),
        acl(Operation.WRITE, Permission.DENY),
        acl(Operation.ALL, Permission.DENY),
        acl(Operation.READ, kind=PatternType.PREFIXED),
        acl(Operation.READ, name="B.t"),
        acl(Operation.READ, type_=ResourceType.GROUP),
    ]
    assert target_acls(flow(), given) == [
        acl(Operation.READ, name="A.t"),
        acl(Operation.READ, name="A.t"),
        acl(Operation.WRITE, Permission.DENY, "A.t"),
        acl(Operation.ALL, Permission.DENY, "A.t"),
    ]
