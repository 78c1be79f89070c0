"""What a broker asks of a controller that is elsewhere: how often, how long, and at which listener."""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.alter_partition import AlterPartitionResponse
from pkafka.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from pkafka.protocol.schema import Message
from pkafka.server.control.to_controller import ToController
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.lifeline import Lifeline
from pkafka.server.ipc.words import IsrAnswer, ProposedIsr
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.sockets import full_port
from tests.talk import wait_for
from tests.unit.server.control.test_local_channels import World

CONTROLLER = 1
BACKOFF_MS = 60
PLANES = {
    "listeners": "PLAINTEXT://localhost:0,CONTROL://localhost:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
}
PROPOSED = ProposedIsr("t", 0, b"t" * 16, 3, [0], 7)
STUCK = ControlledShutdownResponse(
    remaining_partitions=[RemainingPartition(topic_name="t", partition_index=0)]
)
"""There is a partition that nobody can take over."""


@pytest.fixture
def controller() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


def with_control(
    body: Callable[[World, ToController], Coroutine[Any, Any, None]],
    ports: Mapping[str, int],
    settings: Mapping[str, str],
) -> None:
    """Run a test's body with a control process that knows a controller at these listeners."""

    async def run() -> None:
        world = World(1, settings)
        control = world.control
        control.broker.controller = cast(
            "Any", SimpleNamespace(is_active=False, active_controller_id=CONTROLLER)
        )
        endpoints = [
            UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener=listener)
            for listener, port in ports.items()
        ]
        brokers = [UpdateMetadataBroker(id=CONTROLLER, endpoints=endpoints)]
        control.broker.metadata.apply(UpdateMetadataRequest(controller_epoch=1, live_brokers=brokers))
        control.to_controller = ToController(control.broker, control.local_channels)
        try:
            await asyncio.wait_for(body(world, control.to_controller), 60)
        finally:
            control.to_controller._link.close()
            for line in world.lines:
                line.close()
            world.supervisor.close()

    asyncio.run(run())


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_the_controller_is_asked_as_often_as_allowed_whether_the_broker_may_stop(
    controller: FakeBroker, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    times: list[float] = []

    def answer(_request: Message, _version: int) -> Message:
        times.append(time.monotonic())
        return STUCK

    controller.handlers[ApiKey.CONTROLLED_SHUTDOWN] = answer

    async def body(_world: World, to_controller: ToController) -> None:
        await to_controller.shut_down()

    settings = {
        "controlled.shutdown.max.retries": str(attempts),
        "controlled.shutdown.retry.backoff.ms": str(BACKOFF_MS),
    }
    with_control(body, {"PLAINTEXT": controller.port}, settings)
    assert len(times) == attempts
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(pause >= BACKOFF_MS / 1000 for pause in pauses)
    assert "other brokers have not taken over" in caplog.text


def test_a_broker_that_is_released_is_not_asked_for_again(controller: FakeBroker) -> None:
    answers = iter([STUCK, ControlledShutdownResponse()])
    controller.handlers[ApiKey.CONTROLLED_SHUTDOWN] = lambda _request, _version: next(answers)

    async def body(_world: World, to_controller: ToController) -> None:
        await to_controller.shut_down()

    with_control(body, {"PLAINTEXT": controller.port}, {"controlled.shutdown.retry.backoff.ms": "0"})
    assert controller.count(ApiKey.CONTROLLED_SHUTDOWN) == 2


def test_the_supervisor_hears_that_a_long_release_goes_on(controller: FakeBroker) -> None:
    """It kills who says nothing for a minute; the settings may well allow more."""
    controller.handlers[ApiKey.CONTROLLED_SHUTDOWN] = lambda _request, _version: STUCK

    async def body(world: World, _to_controller: ToController) -> None:
        world.control.broker.booted.set()
        await world.control._release()
        await asyncio.sleep(0)
        said = [operation for operation, _ in Lifeline(world.supervisor).read()]
        assert said[-1] == lifeline.RELEASED
        assert lifeline.CLOSING in said

    settings = {"controlled.shutdown.max.retries": "2", "controlled.shutdown.retry.backoff.ms": "10"}
    with_control(body, {"PLAINTEXT": controller.port}, settings)


def test_how_long_a_controller_may_take(controller: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    """A proposal of another ISR by controller.socket.timeout.ms, a release by request.timeout.ms."""
    for key in (ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALTER_PARTITION):
        controller.handlers[key] = lambda _request, _version: NO_ANSWER

    async def body(_world: World, to_controller: ToController) -> None:
        await to_controller.shut_down()
        assert await to_controller._propose([PROPOSED]) == [IsrAnswer(ErrorCode.NOT_CONTROLLER)]

    settings = {
        "controlled.shutdown.max.retries": "1",
        "request.timeout.ms": "1100",
        "controller.socket.timeout.ms": "1200",
    }
    with_control(body, {"PLAINTEXT": controller.port}, settings)
    assert "did not answer within 1.1 s" in caplog.text
    # It may read the request only now: nobody waited for an answer any more.
    wait_for(lambda: controller.count(ApiKey.ALTER_PARTITION) > 0)
    assert controller.count(ApiKey.ALTER_PARTITION) == 1


def test_how_long_a_controller_may_take_to_accept_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def body(_world: World, to_controller: ToController) -> None:
        await to_controller.shut_down()

    settings = {"controlled.shutdown.max.retries": "1", "controller.socket.timeout.ms": "130"}
    with full_port() as port:
        with_control(body, {"PLAINTEXT": port}, settings)
    assert "did not take the connection within 0.13 s" in caplog.text


@pytest.mark.parametrize("plane", ["PLAINTEXT", "CONTROL"])
def test_the_listener_at_which_the_controller_is_asked(controller: FakeBroker, plane: str) -> None:
    controller.handlers[ApiKey.ALTER_PARTITION] = lambda _request, _version: AlterPartitionResponse()

    async def body(_world: World, to_controller: ToController) -> None:
        await to_controller._propose([PROPOSED])

    settings = {"control.plane.listener.name": "CONTROL"} if plane == "CONTROL" else {}
    with FakeBroker() as other:
        ports = {"PLAINTEXT": other.port, "CONTROL": other.port, plane: controller.port}
        with_control(body, ports, {**PLANES, **settings})
        assert (controller.connections, other.connections) == (1, 0)
    assert controller.count(ApiKey.ALTER_PARTITION) == 1
