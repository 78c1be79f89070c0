"""The control process of the controller buries a dead broker, and only in the life in which it died."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.server.controller import nodes
from pkafka.server.processes.control import Control
from tests.unit.server.controller.in_control import in_control
from tests.unit.server.controller.world import World
from tests.unit.server.workers import until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for broker in (1, 2):
        world.start_broker(broker)
    world.start_controller(1)
    yield world
    world.close()


async def everything_told(control: Control) -> None:
    await asyncio.wait(control._tasks)
    await asyncio.sleep(0)


def test_a_dead_broker_is_buried(world: World) -> None:
    async def scene(control: Control) -> None:
        control.deaths.broker_died(2)
        await everything_told(control)
        assert world.store.exists(nodes.broker(2)) is None

    in_control(world, scene)


def test_a_broker_that_came_back_while_the_controller_was_busy_is_left_alone(world: World) -> None:
    async def scene(control: Control) -> None:
        controller = control.broker.controller
        is_free = threading.Event()
        controller.submit(is_free.wait, 10)
        await until(lambda: not controller.has_work)
        data, _ = world.store.get(nodes.broker(2))
        world.store.delete(nodes.broker(2))
        world.store.create(nodes.broker(2), data)
        await until(lambda: controller.has_work)
        control.deaths.broker_died(2)  # of which the controller hears after it has seen the broker again
        is_free.set()
        await everything_told(control)
        assert world.store.exists(nodes.broker(2)) is not None

    in_control(world, scene)


def test_a_broker_that_nobody_knows_is_not_buried(world: World) -> None:
    async def scene(control: Control) -> None:
        control.deaths.broker_died(9)
        assert not control._tasks

    in_control(world, scene)
