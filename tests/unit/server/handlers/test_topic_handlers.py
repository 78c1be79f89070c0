"""CreateTopics, DeleteTopics, CreatePartitions and automatic creation, each answer as Apache Kafka 3.9.1 gave it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.store import Stat, Store
from pkafka.coordination.znodes import EntityConfig, TopicAssignment
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pkafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from pkafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pkafka.server.cluster import topics
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.controller import nodes
from pkafka.server.handlers import create_partitions, create_topics, delete_topics
from pkafka.server.limits.mutation_quotas import MutationQuotas
from pkafka.server.policies import CreateTopicPolicy, NewTopicFacts, Policies, PolicyViolation
from tests.unit.server.controller.world import InlineControl, World

Row = tuple[str | None, int, str | None]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.start_broker(0)
    world.start_controller(0)
    yield world
    world.close()


@pytest.fixture
def control(world: World) -> Any:
    return _control(world)


def _control(world: World) -> Any:
    config = BrokerConfig({"broker.id": "0", **world.settings})
    configs = ConfigRepository(
        config, 0, clock=world.clock, on_change=lambda *_: None, post=lambda work: None
    )
    configs.start(world.store)
    return InlineControl(world, 0, configs=configs)


def _topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assigned: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assigned else partitions,
        replication_factor=-1 if assigned else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()],
    )


def _create(
    control: Any, *topics: CreatableTopic, timeout_ms: int = 1000, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    return asyncio.run(create_topics.handle(control, request, 7)).topics


def _rows(results: list[CreatableTopicResult]) -> list[Row]:
    return [(one.name, one.error_code, one.error_message) for one in results]


def _delete(control: Any, *topics: str | bytes, version: int = 6, timeout_ms: int = 1000) -> list[Row]:
    request = DeleteTopicsRequest(timeout_ms=timeout_ms)
    if version >= 6:
        request.topics = [
            DeleteTopicState(topic_id=one) if isinstance(one, bytes) else DeleteTopicState(name=one)
            for one in topics
        ]
    else:
        request.topic_names = [str(one) for one in topics]
    response = asyncio.run(delete_topics.handle(control, request, version))
    return [(one.name, one.error_code, one.error_message) for one in response.responses]


def _grow(
    control: Any,
    *topics: tuple[str, int, list[list[int]] | None],
    validate_only: bool = False,
    timeout_ms: int = 1000,
) -> list[Row]:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if given is None
                else [CreatePartitionsAssignment(broker_ids=one) for one in given],
            )
            for name, count, given in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    response = asyncio.run(create_partitions.handle(control, request, 3))
    return [(one.name, one.error_code, one.error_message) for one in response.results]


def test_a_created_topic_is_led_when_the_answer_comes(control: Any, world: World) -> None:
    (result,) = _create(control, _topic("foo", 2, configs={"retention.ms": "5000"}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert control.metadata.has_leader("foo", 0)
    assert control.metadata.has_leader("foo", 1)
    assert control.metadata.topic_id("foo") == result.topic_id != bytes(16)
    assert {one.name: (one.value, one.config_source) for one in result.configs or ()}["retention.ms"] == (
        "5000",
        1,
    )
    stored = TopicAssignment.decode(world.store.get(nodes.topic("foo"))[0])
    assert stored.topic_id == result.topic_id
    config = EntityConfig.decode(world.store.get(nodes.topic_config("foo"))[0])
    assert dict(config.config) == {"retention.ms": "5000"}


class _AnotherBroker:
    """The store, seen by a broker that is a moment behind another one, which creates a topic after the first look."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(self._store, method)

    def exists(self, path: str) -> Stat | None:
        found = self._store.exists(path)
        if path == nodes.topic(self._name) and found is None:
            topics.create_topic(self._store, self._name, {0: (0,)}, {})
        return found


@pytest.mark.parametrize("name", ["plain", "with.dot", "with_line"])
def test_a_topic_that_another_broker_creates_at_once_exists_and_collides_with_nothing(
    control: Any, world: World, name: str
) -> None:
    control.store = _AnotherBroker(world.store, name)
    assert _rows(_create(control, _topic(name))) == [(name, 36, f"Topic '{name}' already exists.")]
    other = f"{name}.other"
    control.store = _AnotherBroker(world.store, other)
    assert asyncio.run(create_topics.auto_create(control, [other])) == {other: ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (_topic("foo"), 36, "Topic 'foo' already exists."),
        (_topic("x", 0), 37, "Number of partitions must be larger than 0."),
        (_topic("x", -2), 37, "Number of partitions must be larger than 0."),
        (_topic("x", 1, 0), 38, "Replication factor must be larger than 0."),
        (_topic("x", 1, 3), 38, "Replication factor: 3 larger than available brokers: 1."),
        (_topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (_topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            _topic("a/b"),
            17,
            "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'",
        ),
        (_topic("fo_o"), 17, "Topic 'fo_o' collides with existing topics: fo.o"),
        (
            _topic("x", assigned={0: [0], 2: [0]}),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            _topic("x", assigned={0: [0, 0]}),
            39,
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(0, 0))",
        ),
        (
            _topic("x", assigned={0: [0], 1: [0, 1]}),
            39,
            "All partitions should have the same number of replicas",
        ),
        (
            _topic("x", assigned={0: []}),
            39,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            _topic("x", configs={"retention.ms": None}),
            40,
            "Null value not supported for topic configs: retention.ms",
        ),
        (_topic("x", configs={"nope": "1"}), 40, "Unknown topic config name: nope"),
        (
            _topic("__cluster_metadata"),
            42,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ],
)
def test_refusals(control: Any, world: World, topic: CreatableTopic, code: int, message: str) -> None:
    _create(control, _topic("foo"), _topic("fo.o"))
    for validate_only in (True, False):
        (result,) = _create(control, topic, validate_only=validate_only)
        assert (result.error_code, result.error_message) == (code, message)
        assert (result.num_partitions, result.configs) == (-1, [])
    assert sorted(world.store.children(nodes.TOPICS)) == ["fo.o", "foo"]


def test_both_counts_and_assignments_contradict_each_other(control: Any) -> None:
    topic = _topic("x", assigned={0: [0]})
    topic.num_partitions = 1
    assert _create(control, topic)[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_name_twice_is_refused_and_its_neighbour_is_not(control: Any) -> None:
    text = "Found multiple entries for this topic."
    assert _rows(_create(control, _topic("d"), _topic("e"), _topic("d"))) == [
        ("d", 42, text),
        ("e", 0, None),
        ("d", 42, text),
    ]


def test_validation_writes_nothing(control: Any, world: World) -> None:
    (result,) = _create(control, _topic("val", 3), validate_only=True)
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 3, bytes(16))
    assert world.store.children(nodes.TOPICS) == []


def test_the_broker_fills_in_what_is_left_open(tmp_path: Path) -> None:
    world = World(tmp_path, **{"num.partitions": "4"})
    world.start_broker(0)
    world.start_controller(0)
    (result,) = _create(_control(world), _topic("dflt", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)
    world.close()


def test_no_time_to_wait_and_no_leader_are_a_time_out(control: Any, world: World) -> None:
    # Kafka takes brokers in an assignment that do not exist; the topic is made and waits for them.
    assert _rows(_create(control, _topic("tz"), timeout_ms=0)) == [("tz", 7, None)]
    assert _rows(_create(control, _topic("unk", assigned={0: [7]}), timeout_ms=20)) == [("unk", 7, None)]
    world.start_broker(7)
    assert control.metadata.leader_of("unk", 0) == 7


def test_a_broker_that_is_not_the_controller_says_so(control: Any, world: World) -> None:
    world.controllers[0]._term = None
    assert _rows(_create(control, _topic("foo"))) == [("foo", ErrorCode.NOT_CONTROLLER, None)]
    assert _delete(control, "foo") == [("foo", ErrorCode.NOT_CONTROLLER, None)]
    assert _grow(control, ("foo", 3, None)) == [("foo", ErrorCode.NOT_CONTROLLER, None)]


def test_deletion_by_name_and_by_id(control: Any, world: World) -> None:
    first, second = _create(control, _topic("foo", 2), _topic("bar"))
    assert _delete(control, "foo", second.topic_id) == [("foo", 0, None), ("bar", 0, None)]
    assert control.metadata.topics == {}
    assert world.store.children(nodes.TOPICS) == []
    assert world.store.children(nodes.DELETE_TOPICS) == []
    assert world.store.exists(nodes.topic_config("foo")) is None
    assert _rows(_create(control, _topic("foo"))) == [("foo", 0, None)]
    assert control.metadata.topic_id("foo") != first.topic_id


def test_deletion_of_what_is_not_there(control: Any) -> None:
    assert _delete(control, "nope", b"\1" * 16) == [("nope", 3, None), (None, 100, None)]
    assert _delete(control, "nope", version=1) == [("nope", 3, None)]


def test_a_deletion_that_takes_longer_is_a_time_out_and_goes_on(control: Any, world: World) -> None:
    _create(control, _topic("foo"))
    assert _delete(control, "foo", timeout_ms=0) == [("foo", 7, None)]
    assert world.store.children(nodes.TOPICS) == []


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path, **{"delete.topic.enable": "false"})
    world.start_broker(0)
    world.start_controller(0)
    control = _control(world)
    _create(control, _topic("foo"))
    assert _delete(control, "foo") == [("foo", ErrorCode.TOPIC_DELETION_DISABLED, None)]
    assert _delete(control, "foo", version=2) == [("foo", ErrorCode.INVALID_REQUEST, None)]
    # A wish that somebody wrote into the store is taken out again.
    world.delete_topic("foo")
    assert world.store.children(nodes.DELETE_TOPICS) == []
    assert control.metadata.has_leader("foo", 0)
    world.close()


def test_partitions_are_added_and_led(control: Any, world: World) -> None:
    _create(control, _topic("foo", 2))
    assert _grow(control, ("foo", 4, None)) == [("foo", 0, None)]
    assert all(control.metadata.has_leader("foo", number) for number in range(4))
    assert _grow(control, ("foo", 5, [[0]])) == [("foo", 0, None)]
    assert world.store.exists(nodes.partition_state(TopicPartition("foo", 4))) is not None


@pytest.mark.parametrize(
    ("count", "given", "code", "message"),
    [
        (2, None, 37, "Topic already has 2 partitions."),
        (1, None, 37, "Topic currently has 2 partitions, which is higher than the requested 1."),
        (-1, None, 37, "Topic currently has 2 partitions, which is higher than the requested -1."),
        (3, [[7]], 39, "Unknown broker(s) in replica assignment: 7."),
        (3, [[0], [0]], 39, "Increasing the number of partitions by 1 but 2 assignments provided."),
        (3, [[0, 0]], 39, "Duplicate brokers not allowed in replica assignment: 0, 0 for partition id 2."),
        (3, [[]], 39, "Cannot have replication factor of 0 for partition id 2."),
    ],
)
def test_growth_that_is_refused(
    control: Any, count: int, given: list[list[int]] | None, code: int, message: str
) -> None:
    _create(control, _topic("foo", 2))
    assert _grow(control, ("foo", count, given)) == [("foo", code, message)]
    assert control.metadata.partition_count("foo") == 2


def test_growth_of_what_is_not_there_twice_or_only_in_thought(control: Any) -> None:
    _create(control, _topic("foo", 2))
    assert _grow(control, ("nope", 2, None)) == [("nope", 3, "The topic 'nope' does not exist.")]
    assert _grow(control, ("foo", 5, None), ("foo", 6, None)) == [("foo", 42, "Duplicate topic in request.")]
    assert _grow(control, ("foo", 9, None), validate_only=True) == [("foo", 0, None)]
    assert control.metadata.partition_count("foo") == 2


def test_automatic_creation(control: Any) -> None:
    outcome = asyncio.run(create_topics.auto_create(control, ["a_1", "a.1", "a_1"]))
    assert outcome == {
        "a_1": ErrorCode.LEADER_NOT_AVAILABLE,
        "a.1": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert control.metadata.has_leader("a_1", 0)
    assert asyncio.run(create_topics.auto_create(control, ["a_1"])) == {"a_1": ErrorCode.LEADER_NOT_AVAILABLE}


def test_automatic_creation_is_counted_and_not_refused(control: Any) -> None:
    quotas = MutationQuotas(samples=11, window_s=1, clock=ManualClock())
    quotas.change("users", "alice", {"controller_mutation_rate": "0.1"})
    for name in ("one", "two", "three"):
        mutations = quotas.of("alice", "", is_strict=False)
        outcome = asyncio.run(create_topics.auto_create(control, [name], mutations))
        assert outcome == {name: ErrorCode.LEADER_NOT_AVAILABLE}
        assert control.metadata.has_leader(name, 0)
    with pytest.raises(ApiError) as refused:
        quotas.of("alice", "", is_strict=True).accept(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_internal_topics_are_created_in_their_own_shape(tmp_path: Path) -> None:
    world = World(tmp_path, **{"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "1"})
    world.start_broker(0)
    world.start_controller(0)
    control = _control(world)
    asyncio.run(create_topics.auto_create(control, ["__consumer_offsets"]))
    assert control.metadata.partition_count("__consumer_offsets") == 7
    world.close()


def test_a_metadata_cache_that_starts_later_gets_the_same_picture(control: Any) -> None:
    _create(control, _topic("foo", 3), _topic("bar"))
    late = MetadataCache("cluster")
    late.apply(control.metadata.snapshot())
    assert {name: topic.partitions for name, topic in late.topics.items()} == {
        name: topic.partitions for name, topic in control.metadata.topics.items()
    }
    assert late.brokers == control.metadata.brokers


class _Asked(CreateTopicPolicy):
    def __init__(self) -> None:
        self.seen: list[NewTopicFacts] = []

    def validate(self, request: NewTopicFacts) -> None:
        self.seen.append(request)
        if "x" in request.topic:
            raise PolicyViolation("no x, please")


def test_a_policy_decides_about_new_topics(world: World) -> None:
    control, policy = _control(world), _Asked()
    control.policies = Policies(policy)
    results = _create(
        control,
        _topic("a", 2, configs={"retention.ms": "5"}),
        _topic("b", assigned={0: [0]}),
        _topic("x"),
        _topic("bad", configs={"retention.ms": "five"}),
    )
    assert [one.error_code for one in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_CONFIG,
    ]
    assert results[2].error_message == "no x, please"
    assert policy.seen == [
        NewTopicFacts("a", 2, 1, None, {"retention.ms": "5"}),
        NewTopicFacts("b", None, None, {0: (0,)}, {}),
        NewTopicFacts("x", 1, 1, None, {}),
    ]
    assert _create(control, _topic("xx"), validate_only=True)[0].error_code == ErrorCode.POLICY_VIOLATION
    outcome = asyncio.run(create_topics.auto_create(control, ["auto", "autox"]))
    assert outcome == {"auto": ErrorCode.LEADER_NOT_AVAILABLE, "autox": ErrorCode.POLICY_VIOLATION}
    assert world.controllers[0].context.assignments.keys() == {"a", "b", "auto"}


def test_partitions_that_exist_are_told_from_those_that_are_or_will_be_deleted(world: World) -> None:
    for name in ("stays", "goes"):
        topics.create_topic(world.store, name, {0: (0,), 1: (0,)}, {})
    topics.mark_for_deletion(world.store, "goes")
    asked = [("stays", 0), ("goes", 0), ("gone", 0), ("stays", 1), ("stays", 2)]
    assert topics.existing(world.store, asked) == [("stays", 0), ("stays", 1)]
