"""ElectLeaders waits until this broker's metadata say what was decided, as long as was asked for."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.controller import nodes
from pkafka.server.controller.context import Assignment
from pkafka.server.handlers import elect_leaders
from tests.unit.server.controller.world import InlineControl, World


@pytest.fixture
def control(tmp_path: Path) -> Iterator[InlineControl]:
    """Broker 1 has the role; 2 leads t and u, and 1 is to."""
    world = World(tmp_path)
    for broker in (1, 2):
        world.start_broker(broker)
    world.start_controller(1)
    for name in ("t", "u"):
        world.create_topic(name, {0: (2, 1)})
    world.crash_controller(1)
    for name in ("t", "u"):
        topic_id, _ = nodes.decode_topic(world.store.get(nodes.topic(name))[0])
        world.store.set(nodes.topic(name), nodes.encode_topic(topic_id, {0: Assignment((1, 2))}))
    world.start_controller(1)
    yield InlineControl(world, 1)
    world.close()


def elect(control: InlineControl, timeout_ms: int, *topics: str) -> dict[str, ErrorCode]:
    """What each topic's partition is answered."""
    named = [TopicPartitions(topic=name, partitions=[0]) for name in topics] or None
    request = ElectLeadersRequest(topic_partitions=named, timeout_ms=timeout_ms)
    answer = asyncio.run(elect_leaders.handle(control, request, 2))
    assert answer.error_code == ErrorCode.NONE
    return {
        topic.topic: ErrorCode(partition.error_code)
        for topic in answer.replica_election_results
        for partition in topic.partition_result
    }


@pytest.mark.parametrize("timeout_ms", [0, 5])
def test_only_what_this_broker_has_not_heard_in_time_is_late(
    control: InlineControl, monkeypatch: pytest.MonkeyPatch, timeout_ms: int
) -> None:
    heard = MetadataCache.leader_of
    monkeypatch.setattr(
        MetadataCache,
        "leader_of",
        lambda cache, topic, index: 2 if topic == "u" else heard(cache, topic, index),
    )
    assert elect(control, timeout_ms, "t", "u") == {
        "t": ErrorCode.NONE,
        "u": ErrorCode.REQUEST_TIMED_OUT,
    }
    # It was done all the same.
    assert elect(control, timeout_ms, "u") == {"u": ErrorCode.ELECTION_NOT_NEEDED}


def test_what_is_heard_is_answered_at_once(control: InlineControl) -> None:
    assert elect(control, 60_000) == {"t": ErrorCode.NONE, "u": ErrorCode.NONE}
    assert elect(control, 60_000) == {}
