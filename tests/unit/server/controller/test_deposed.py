"""A controller that was replaced and has not heard of it: whoever asks it for something is told, and nothing breaks."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from pkafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pkafka.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from pkafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pkafka.server.control.to_controller import ToController
from pkafka.server.controller import nodes
from pkafka.server.controller.context import Assignment
from pkafka.server.handlers import (
    alter_partition,
    alter_partition_reassignments,
    controlled_shutdown,
    elect_leaders,
)
from pkafka.server.ipc.words import IsrAnswer, ProposedIsr
from pkafka.server.processes.control import Control
from tests.unit.server.controller.in_control import in_control
from tests.unit.server.controller.world import InlineControl, World

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Broker 1 has the role, 2 leads what 1 is to lead, and 3 is there too."""
    world = World(tmp_path)
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.start_controller(1)
    world.create_topic("t", {0: (2, 1, 3)})
    world.crash_controller(1)
    topic_id, _ = nodes.decode_topic(world.store.get(nodes.topic("t"))[0])
    world.store.set(nodes.topic("t"), nodes.encode_topic(topic_id, {0: Assignment((1, 2, 3))}))
    world.start_controller(1)
    yield world
    world.close()


def _alter_partition(world: World) -> Coroutine[Any, Any, Any]:
    context = world.controllers[1].context
    isr = [BrokerState(broker_id=one) for one in (2, 1)]
    partition = AlterPartitionRequestPartitionData(partition_index=0, new_isr_with_epochs=isr)
    topic = AlterPartitionRequestTopicData(topic_id=context.topic_ids["t"], partitions=[partition])
    request = AlterPartitionRequest(broker_id=2, broker_epoch=context.broker_epochs[2], topics=[topic])
    return alter_partition.handle(InlineControl(world, 1), request, 3)


def _alter_reassignments(world: World) -> Coroutine[Any, Any, Any]:
    topic = ReassignableTopic(
        name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2])]
    )
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    return alter_partition_reassignments.handle(InlineControl(world, 1), request, 0)


def _shut_down(world: World) -> Coroutine[Any, Any, Any]:
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=-1)
    return controlled_shutdown.handle(InlineControl(world, 1), request, 3)


def _elect_one(world: World) -> Coroutine[Any, Any, Any]:
    named = [TopicPartitions(topic="t", partitions=[0])]
    return elect_leaders.handle(InlineControl(world, 1), ElectLeadersRequest(topic_partitions=named), 2)


def _elect_all(world: World) -> Coroutine[Any, Any, Any]:
    return elect_leaders.handle(InlineControl(world, 1), ElectLeadersRequest(topic_partitions=None), 2)


@pytest.mark.parametrize("ask", [_alter_partition, _alter_reassignments, _shut_down, _elect_all])
def test_who_asks_is_told_that_it_is_not_the_controller(
    world: World, ask: Callable[[World], Coroutine[Any, Any, Any]]
) -> None:
    before = world.state("t")
    world.usurp()
    assert asyncio.run(ask(world)).error_code == ErrorCode.NOT_CONTROLLER
    assert not world.controllers[1].is_active
    assert world.state("t") == before


def test_who_asks_for_one_leader_is_told_for_that_partition(world: World) -> None:
    world.usurp()
    [topic] = asyncio.run(_elect_one(world)).replica_election_results
    assert [one.error_code for one in topic.partition_result] == [ErrorCode.NOT_CONTROLLER]


async def usurp(control: Control) -> None:
    """As the world's, for a controller that works on its own thread."""
    assert control.broker.controller.is_active
    data, _ = control.broker.store.get(nodes.CONTROLLER_EPOCH)
    control.broker.store.set(nodes.CONTROLLER_EPOCH, str(int(data) + 1).encode())


def test_a_dead_broker_that_it_cannot_bury_does_not_end_its_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)

    async def scene(control: Control) -> None:
        await usurp(control)
        control.deaths.broker_died(3)
        [telling] = control._tasks
        await asyncio.wait([telling])
        await asyncio.sleep(0)

    in_control(world, scene)
    assert exits == []
    assert world.store.exists(nodes.broker(3)) is not None


def test_a_broker_that_is_its_own_former_controller_stops_all_the_same(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(control: Control) -> None:
        await usurp(control)
        # The one that leads something.
        control.broker.broker_id, control.broker.broker_epoch = (
            2,
            control.broker.controller.context.broker_epochs[2],
        )
        to_controller = ToController(control.broker, control.local_channels)
        await to_controller.shut_down()
        to_controller._link.close()

    in_control(world, scene, **{"controlled.shutdown.max.retries": "1"})
    assert "answers that this broker stops with NOT_CONTROLLER" in caplog.text


def test_a_leader_beside_it_asks_again(world: World) -> None:
    async def scene(control: Control) -> None:
        await usurp(control)
        context = control.broker.controller.context
        to_controller = ToController(control.broker, control.local_channels)
        control.broker.broker_id, control.broker.broker_epoch = 2, context.broker_epochs[2]
        proposal = ProposedIsr("t", 0, context.topic_ids["t"], 0, [2, 1], 0)
        assert await to_controller.alter_partition([proposal]) == [IsrAnswer(ErrorCode.NOT_CONTROLLER)]
        to_controller._link.close()

    in_control(world, scene)
