"""Nodes that cannot be read: each takes down what it tells about, and nothing else."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.server.control.to_controller import ToController
from pkafka.server.controller import nodes
from pkafka.server.controller.controller import Controller
from pkafka.server.controller.state_store import remove_dead_controller
from pkafka.server.ipc.words import IsrAnswer, ProposedIsr
from pkafka.server.processes.control import Control
from tests.unit.server.controller.in_control import in_control
from tests.unit.server.controller.world import World

T0 = TopicPartition("t", 0)
DAMAGED = [b"", b"{no json", b"[]", b'{"leader":1}']
NO_REGISTRATIONS = [
    *DAMAGED,
    b'{"version":5,"endpoints":["PLAINTEXT//h:1"],"timestamp":"1"}',
    b'{"version":5,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"NO"},"timestamp":"1"}',
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Broker 1 has the role, 2 leads both partitions."""
    world = World(tmp_path)
    for broker in (1, 2):
        world.start_broker(broker)
    world.start_controller(1)
    world.create_topic("t", {0: (2, 1), 1: (2, 1)})
    yield world
    world.close()


def has_failed(controller: Controller) -> bool:
    """Whether it gave up half way, and is to read everything anew."""
    return controller._reload_due_ms is not None


@pytest.mark.parametrize("data", DAMAGED)
def test_a_state_that_the_next_controller_cannot_read(world: World, data: bytes) -> None:
    world.crash_controller(1)
    world.store.set(nodes.partition_state(T0), data)
    world.stop_broker(2)
    controller = world.start_controller(1)
    assert world.state("t", 1).startswith("t-1 leader=1 ")
    assert world.brokers.caches[1].leader_of("t", 1) == 1
    # Who leads it, nobody knows; whoever mends it by hand wants to see what stands there.
    assert world.store.get(nodes.partition_state(T0))[0] == data
    assert not has_failed(controller)


@pytest.mark.parametrize("data", DAMAGED)
def test_a_state_that_cannot_be_read_any_more(world: World, data: bytes) -> None:
    world.store.set(nodes.partition_state(T0), data)
    world.stop_broker(2)
    assert world.state("t", 1).startswith("t-1 leader=1 ")
    assert not has_failed(world.controllers[1])


@pytest.mark.parametrize("data", DAMAGED)
def test_settings_of_a_topic_say_nothing_then(world: World, data: bytes) -> None:
    world.store.create(nodes.topic_config("t"), data, make_parents=True)
    world.store.set(
        nodes.partition_state(T0),
        nodes.encode_leadership(
            nodes.decode_leadership(*node(world, nodes.partition_state(T0)))._replace(isr=(2,))
        ),
    )
    world.stop_broker(2)
    assert world.state("t", 0).startswith("t-0 leader=-1 ")
    assert world.state("t", 1).startswith("t-1 leader=1 ")
    assert not has_failed(world.controllers[1])


def node(world: World, path: str) -> tuple[bytes, int]:
    data, stat = world.store.get(path)
    return data, stat.version


@pytest.mark.parametrize("data", NO_REGISTRATIONS)
def test_a_registration_counts_when_it_can_be_read(world: World, data: bytes) -> None:
    world.crash_controller(1)
    world.store.set(nodes.broker(2), data)
    controller = world.start_controller(1)
    assert controller.context.live_brokers.keys() == {1}
    assert world.state("t", 1).startswith("t-1 leader=1 ")
    for _ in range(2):
        world.start_broker(2)
        assert controller.context.live_brokers.keys() == {1, 2}
        world.store.set(nodes.broker(2), data)
        world.settle()
        assert controller.context.live_brokers.keys() == {1}
    assert not has_failed(controller)


@pytest.mark.parametrize("parent", [nodes.ISR_NOTIFICATIONS, nodes.LOG_DIR_NOTIFICATIONS])
@pytest.mark.parametrize("data", DAMAGED)
def test_a_notification_is_removed(world: World, parent: str, data: bytes) -> None:
    world.store.create(f"{parent}/x_", data, sequential=True)
    world.settle()
    assert world.store.children(parent) == []
    world.crash_controller(1)
    world.store.create(f"{parent}/x_", data, sequential=True)
    controller = world.start_controller(1)
    assert world.store.children(parent) == []
    assert controller.is_active
    assert not has_failed(controller)


def test_the_leader_of_a_partition_whose_state_cannot_be_read_asks_again(world: World) -> None:
    async def scene(control: Control) -> None:
        world.store.set(nodes.partition_state(T0), b"{no json")
        context = control.broker.controller.context
        control.broker.broker_id, control.broker.broker_epoch = 2, context.broker_epochs[2]
        to_controller = ToController(control.broker, control.local_channels)
        proposal = ProposedIsr("t", 0, context.topic_ids["t"], 0, [2], 0)
        assert await to_controller.alter_partition([proposal]) == [
            IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION)
        ]
        to_controller._link.close()

    in_control(world, scene)


def _look_for_it(control: Control) -> None:
    control.broker.store.set(nodes.broker(2), b"{no json")
    control.broker.store.set(nodes.CONTROLLER, nodes.encode_controller(2, 0))
    control.deaths.watch_controller(2)


def _look_for_none(control: Control) -> None:
    control.broker.store.set(nodes.CONTROLLER, b"{no json")
    control.deaths.watch_controller(2)


def _replace_it(control: Control) -> None:
    control.broker.store.set(nodes.CONTROLLER, b"{no json")
    control._spawn(control.deaths.tell_store(lambda: remove_dead_controller(control.broker.store, 2, 7)))


@pytest.mark.parametrize("look", [_look_for_it, _look_for_none, _replace_it])
def test_a_process_goes_on_that_cannot_read_who_is_the_controller(
    world: World, look: Callable[[Control], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)

    async def scene(control: Control) -> None:
        look(control)
        await asyncio.wait(control._tasks)
        await asyncio.sleep(0)

    in_control(world, scene)
    assert exits == []
