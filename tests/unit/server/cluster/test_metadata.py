"""The metadata cache and the Metadata handler over it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.describe_cluster import DescribeClusterRequest
from pkafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.server.cluster.metadata import FULL_UPDATE, LEADER_DURING_DELETE, MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.handlers import describe_cluster, metadata_answer
from pkafka.server.security.rights import UNLIMITED, Rights

FOO, BAR = b"f" * 16, b"b" * 16


def _broker(broker_id: int, *listeners: str) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker_id,
        endpoints=[
            UpdateMetadataEndpoint(host=f"h{broker_id}", port=9000 + number, listener=name)
            for number, name in enumerate(listeners or ("PLAINTEXT",))
        ],
    )


def _partition(number: int, leader: int = 1, **values: Any) -> UpdateMetadataPartitionState:
    facts: dict[str, Any] = {"leader_epoch": 5, "isr": [1, 2], "replicas": [1, 2], "controller_epoch": 1}
    return UpdateMetadataPartitionState(partition_index=number, leader=leader, **(facts | values))


def _topic(name: str, topic_id: bytes, *states: UpdateMetadataPartitionState) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=list(states))


def _update(
    *topics: UpdateMetadataTopicState, epoch: int = 1, brokers: Sequence[Any] | None = None, **values: Any
) -> UpdateMetadataRequest:
    live = [_broker(2), _broker(1)] if brokers is None else list(brokers)
    return UpdateMetadataRequest(
        controller_id=1, controller_epoch=epoch, topic_states=list(topics), live_brokers=live, **values
    )


@pytest.fixture
def cache() -> MetadataCache:
    cache = MetadataCache("cluster")
    cache.apply(
        _update(_topic("foo", FOO, _partition(1), _partition(0)), _topic("bar", BAR, _partition(0, 2)))
    )
    return cache


def test_changes_add_up(cache: MetadataCache) -> None:
    assert cache.topic_name(FOO) == "foo"
    assert (cache.leader_of("bar", 0), cache.topics["foo"].partitions[1].leader_epoch) == (2, 5)
    assert list(cache.topics["foo"].partitions) == [0, 1]
    assert list(cache.brokers) == [1, 2]
    change = cache.apply(_update(_topic("foo", FOO, _partition(2))))
    assert change.changed == {"foo"}
    assert list(cache.topics["foo"].partitions) == [0, 1, 2]
    assert cache.apply(_update(_topic("foo", FOO, _partition(2)))).changed == frozenset()


def test_a_topic_goes_with_its_last_partition(cache: MetadataCache) -> None:
    change = cache.apply(_update(_topic("foo", FOO, _partition(1, LEADER_DURING_DELETE))))
    assert change.deleted == (TopicPartition("foo", 1),)
    assert cache.partition_count("foo") == 1
    cache.remove([TopicPartition("foo", 0), TopicPartition("foo", 9), TopicPartition("nope", 0)])
    assert cache.topic("foo") is None
    assert cache.topic_name(FOO) is None
    assert cache.leader_of("foo", 0) == -1


def test_another_topic_of_the_same_name_replaces_the_first(cache: MetadataCache) -> None:
    cache.apply(_update(_topic("foo", b"n" * 16, _partition(0))))
    assert list(cache.topics["foo"].partitions) == [0]
    assert (cache.topic_name(FOO), cache.topic_name(b"n" * 16)) == (None, "foo")


def test_an_older_controller_is_refused(cache: MetadataCache) -> None:
    cache.apply(_update(epoch=4))
    with pytest.raises(ApiError) as refusal:
        cache.apply(_update(epoch=3))
    assert refusal.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert cache.controller_epoch == 4


def test_a_snapshot_replaces_everything(cache: MetadataCache) -> None:
    other = MetadataCache("cluster")
    other.apply(_update(_topic("old", b"o" * 16, _partition(0)), _topic("foo", FOO, _partition(7))))
    snapshot = decode(UpdateMetadataRequest, 8, encode(cache.snapshot(), 8))
    assert snapshot.type == FULL_UPDATE
    change = other.apply(snapshot)
    assert change.deleted == (TopicPartition("old", 0), TopicPartition("foo", 7))
    assert other.brokers == cache.brokers
    assert {name: one.partitions for name, one in other.topics.items()} == {
        name: one.partitions for name, one in cache.topics.items()
    }


@pytest.mark.parametrize("version", range(9))
def test_every_version_of_the_update_is_understood(version: int) -> None:
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=2)
    states = [_partition(0, topic_name="foo"), _partition(1, topic_name="foo")]
    if version >= 5:
        request.topic_states = [_topic("foo", FOO, *states)]
    else:
        request.ungrouped_partition_states = states
    request.live_brokers = [_broker(1)]
    if version == 0:
        request.live_brokers = [UpdateMetadataBroker(id=1, v0_host="h1", v0_port=9000)]
    cache = MetadataCache()
    cache.apply(decode(UpdateMetadataRequest, version, encode(request, version)))
    assert cache.partition_count("foo") == 2
    endpoint = cache.endpoint(1, "PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("h1", 9000)
    assert cache.topic_id("foo") == (FOO if version >= 7 else bytes(16))


def test_waiting(cache: MetadataCache) -> None:
    async def wait() -> tuple[bool, bool, bool]:
        waiting = asyncio.ensure_future(cache.wait_until(lambda: cache.has_leader("new", 0), timeout_s=60))
        await asyncio.sleep(0)
        cache.apply(_update(_topic("new", b"w" * 16, _partition(0, -1))))
        await asyncio.sleep(0)
        early = waiting.done()
        cache.apply(_update(_topic("new", b"w" * 16, _partition(0, 1))))
        return early, await waiting, await cache.wait_until(lambda: False, timeout_s=0.01)

    assert asyncio.run(wait()) == (False, True, False)


class _Context:
    def __init__(self, cache: MetadataCache, listener: str = "PLAINTEXT", **settings: str) -> None:
        self.metadata = cache
        self.listener_name = listener
        self.dead: frozenset[int] = frozenset()
        self.rights: Rights = UNLIMITED
        self.config = BrokerConfig({"broker.id": "1", **settings})
        self.asked: list[str] = []

    async def auto_create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        self.asked += names
        return dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)


def _ask(context: _Context, version: int, *names: str | bytes | None, **values: Any) -> MetadataResponse:
    topics = [
        MetadataRequestTopic(topic_id=one, name=None)
        if isinstance(one, bytes)
        else MetadataRequestTopic(name=one)
        for one in names
    ]
    request = MetadataRequest(topics=topics, **values)
    response = asyncio.run(metadata_answer.handle(context, request, version))
    encoded = metadata_answer.handle_encoded(context, request, version)
    if encoded is not None:
        assert encoded == encode(response, version)
        assert metadata_answer.handle_encoded(context, request, version) == encoded
    return decode(MetadataResponse, version, encode(response, version))


def test_what_the_dead_lead_nobody_leads(cache: MetadataCache) -> None:
    """They are told of still: only the controller says who is gone."""
    alive, mourning = _Context(cache), _Context(cache)
    mourning.dead = frozenset({1})
    for context, led in ((alive, (1, 0)), (mourning, (-1, 5)), (alive, (1, 0))):
        response = _ask(context, 9, "foo", "bar")
        assert [broker.node_id for broker in response.brokers] == [1, 2]
        foo, bar = response.topics
        assert [(one.leader_id, one.error_code) for one in foo.partitions] == [led, led]
        assert [(one.leader_id, one.error_code) for one in bar.partitions] == [(2, 0)]


def test_what_a_broker_led_to_the_last_is_known_until_it_is_back_or_forgotten(cache: MetadataCache) -> None:
    elected = _topic("foo", FOO, _partition(0, 2, leader_epoch=6))
    cache.apply(_update(elected, brokers=[_broker(2)]))
    assert {broker: one.led for broker, one in cache.departed.items()} == {1: {("foo", 0), ("foo", 1)}}
    context = _Context(cache)
    context.dead = frozenset({1})
    told = _ask(context, 9, "foo")
    assert [broker.node_id for broker in told.brokers] == [1, 2]
    assert [one.leader_id for one in told.topics[0].partitions] == [-1, -1]
    context.dead = frozenset()
    told = _ask(context, 9, "foo")
    assert [broker.node_id for broker in told.brokers] == [2]
    assert [one.leader_id for one in told.topics[0].partitions] == [2, -1]
    departed = cache.departed
    cache.apply(_update())
    assert not cache.departed, "it is back"
    cache.apply(_update(brokers=[_broker(2)]))
    cache.forget_departures(departed)
    assert cache.departed, "it departed again"
    cache.forget_departures(cache.departed)
    assert not cache.departed


def test_leaders_named(cache: MetadataCache) -> None:
    def named(*topics: MetadataRequestTopic) -> set[int]:
        return set(metadata_answer.leaders_named(cache, MetadataRequest(topics=list(topics)), 12))

    assert named(MetadataRequestTopic(name="foo"), MetadataRequestTopic(name="nope")) == {1}
    assert named(MetadataRequestTopic(topic_id=BAR, name=None)) == {2}
    assert named() == set()
    assert set(metadata_answer.leaders_named(cache, MetadataRequest(topics=None), 12)) == {1, 2}
    cache.apply(_update(_topic("foo", FOO, _partition(0, -1))))
    assert named(MetadataRequestTopic(name="foo")) == {1}, "of its other partition"


def _codes(topics: list[MetadataResponseTopic]) -> list[tuple[str | None, int]]:
    return [(one.name, one.error_code) for one in topics]


@pytest.mark.parametrize("version", range(13))
def test_every_version_answers(cache: MetadataCache, version: int) -> None:
    response = _ask(_Context(cache), version, "foo")
    (topic,) = response.topics
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [
        (1, "h1", 9000),
        (2, "h2", 9000),
    ]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("cluster" if version >= 2 else None)
    assert topic.topic_id == (FOO if version >= 10 else bytes(16))
    assert [(one.partition_index, one.leader_id, one.leader_epoch) for one in topic.partitions] == [
        (number, 1, 5 if version >= 7 else -1) for number in (0, 1)
    ]


def test_none_and_all(cache: MetadataCache) -> None:
    context = _Context(cache)
    assert _codes(_ask(context, 0).topics) == [("bar", 0), ("foo", 0)]
    assert _ask(context, 1).topics == []
    everything = asyncio.run(metadata_answer.handle(context, MetadataRequest(topics=None), 12))
    assert _codes(everything.topics) == [("bar", 0), ("foo", 0)]


def test_unknown_topics(cache: MetadataCache) -> None:
    context = _Context(cache)
    declined = _ask(context, 12, "nope", "bad/name", "foo", "nope", allow_auto_topic_creation=False)
    assert _codes(declined.topics) == [("foo", 0), ("nope", 3), ("bad/name", 17)]
    assert context.asked == []
    # The same topics, and this time they are to be created: the answer before must not be in the way.
    created = _ask(context, 12, "nope", "bad/name", "foo", "nope")
    assert _codes(created.topics) == [("foo", 0), ("nope", 5), ("bad/name", 17)]
    assert context.asked == ["nope"]
    switched_off = _Context(cache, **{"auto.create.topics.enable": "false"})
    assert _codes(_ask(switched_off, 12, "nope").topics) == [("nope", 3)]


class _QuickController(_Context):
    """Topics are known before the worker hears that they were created."""

    async def auto_create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        self.metadata.apply(_update(*(_topic(name, b"q" * 16, _partition(0, 1)) for name in names)))
        return await super().auto_create(names)


def test_a_topic_that_a_request_creates_is_there_for_the_next_one(cache: MetadataCache) -> None:
    """Its client gets the same answer, however quick the controller is; so do clients of Apache Kafka."""
    context = _QuickController(cache)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new"), MetadataRequestTopic(name="foo")])
    created = asyncio.run(metadata_answer.handle(context, request, 12)).topics
    assert [(one.name, one.error_code, len(one.partitions)) for one in created] == [
        ("foo", 0, 2),
        ("new", 5, 0),
    ]
    assert _codes(_ask(context, 12, "new", "foo").topics) == [("new", 0), ("foo", 0)]
    assert context.asked == ["new"]


def test_topic_ids(cache: MetadataCache) -> None:
    context = _Context(cache)
    assert _codes(_ask(context, 12, FOO, b"x" * 16).topics) == [(None, 100), ("foo", 0)]
    for version in (10, 11):
        refused = _ask(context, version, FOO)
        assert (_codes(refused.topics), refused.brokers) == ([("", 42)], [])
        assert _codes(_ask(context, version, None).topics) == [("", 42)]


def test_authorized_operations(cache: MetadataCache) -> None:
    wanted = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    response = _ask(_Context(cache), 10, "foo", **wanted)
    assert (response.topics[0].topic_authorized_operations, response.cluster_authorized_operations) == (
        3576,
        8096,
    )
    assert _ask(_Context(cache), 10, "foo").topics[0].topic_authorized_operations == -(2**31)


def test_brokers_that_are_away_and_listeners_that_are_missing() -> None:
    cache = MetadataCache()
    cache.apply(
        _update(
            _topic("led", FOO, _partition(0, 1, replicas=[1, 2, 3], offline_replicas=[3])),
            _topic("away", BAR, _partition(0, 3)),
            _topic("none", b"n" * 16, _partition(0, -1)),
            brokers=[_broker(1, "PLAINTEXT", "INSIDE"), _broker(2)],
        )
    )

    def look(listener: str, version: int) -> dict[str | None, tuple[int, int, list[int]]]:
        response = _ask(_Context(cache, listener), version, "led", "away", "none")
        found = {one.name: one.partitions[0] for one in response.topics}
        return {name: (one.error_code, one.leader_id, one.replica_nodes) for name, one in found.items()}

    leaderless = {"away": (5, -1, [1, 2]), "none": (5, -1, [1, 2])}
    assert look("PLAINTEXT", 12) == {"led": (0, 1, [1, 2, 3]), **leaderless}
    # Version 0 leaves out what is not alive and says so.
    assert look("PLAINTEXT", 0) == {"led": (9, 1, [1, 2]), **leaderless}
    cache.apply(_update(brokers=[_broker(1), _broker(2, "PLAINTEXT", "INSIDE")]))
    assert look("INSIDE", 5)["led"][:2] == (5, -1)
    assert look("INSIDE", 6)["led"][:2] == (72, -1)
    assert [one.node_id for one in _ask(_Context(cache, "INSIDE"), 6, "led").brokers] == [2]


def test_an_update_makes_kept_answers_obsolete(cache: MetadataCache) -> None:
    context = _Context(cache)
    assert len(_ask(context, 12, "foo").topics[0].partitions) == 2
    cache.apply(_update(_topic("foo", FOO, _partition(2))))
    assert len(_ask(context, 12, "foo").topics[0].partitions) == 3


def test_describe_cluster(cache: MetadataCache) -> None:
    def ask(**values: Any) -> Any:
        return asyncio.run(describe_cluster.handle(_Context(cache), DescribeClusterRequest(**values), 1))

    response = ask(include_cluster_authorized_operations=True)
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert [one.broker_id for one in response.brokers] == [1, 2]
    assert response.cluster_authorized_operations == 8096
    refused = ask(endpoint_type=2)
    assert (refused.error_code, refused.error_message) == (
        114,
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
    )
    assert (ask(endpoint_type=3).error_code, ask(endpoint_type=3).cluster_id) == (115, "")
