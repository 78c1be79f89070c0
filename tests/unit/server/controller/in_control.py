"""The control process around a controller, as far as it asks that controller for something."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pkafka.server.processes.control import Control
from tests.unit.server.control.test_local_channels import World as ControlWorld
from tests.unit.server.controller.world import World


def in_control(world: World, scene: Callable[[Control], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Run a scene in the control process of broker 1, whose controller works on its own thread."""

    async def run() -> None:
        around = ControlWorld(1, {"broker.id": "1", **settings})
        control = around.control
        broker = around.control.broker
        broker.controller = controller = world.controllers.pop(1)
        broker.broker_id, broker.store = 1, world.store
        controller.start(world.store)
        try:
            await broker.run_on_store(int)
            await asyncio.wait_for(scene(control), 60)
        finally:
            controller.stop()
            for line in around.lines:
                line.close()
            around.supervisor.close()

    asyncio.run(run())
