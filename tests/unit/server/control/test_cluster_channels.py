"""The controller's way to another broker: at which listener, and how long it waits there."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from pkafka.protocol.schema import Message
from pkafka.server.cluster.control_requests import ControlResponse
from pkafka.server.cluster.metadata import BrokerInfo, Endpoint
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.cluster_channels import ClusterChannels
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.sockets import full_port
from tests.talk import wait_for
from tests.unit.server.control.test_to_controller import PLANES
from tests.unit.server.workers import until

OTHER = 1


def tell(
    ports: Mapping[str, int], settings: Mapping[str, str], *, until_true: Callable[[], bool] | None = None
) -> list[ControlResponse]:
    """Tell a broker at these listeners something, and wait for its answer, or for something else.

    Returns:
        Its answers.
    """
    endpoints = {name: Endpoint(name, "127.0.0.1", port) for name, port in ports.items()}
    config = BrokerConfig({"broker.id": "0", **settings})
    answers: list[ControlResponse] = []

    async def run() -> None:
        channels = ClusterChannels(cast("Any", None), 0, lambda: config, lambda _broker: None)
        channels.brokers_changed({OTHER: BrokerInfo(OTHER, None, endpoints)})
        channels.send(OTHER, UpdateMetadataRequest(controller_id=0), answers.append)
        try:
            await until(until_true or (lambda: bool(answers)))
        finally:
            channels.brokers_changed({})
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 60))
    return answers


def understood(_request: Message, _version: int) -> Message:
    return UpdateMetadataResponse()


@pytest.mark.parametrize("plane", ["PLAINTEXT", "CONTROL"])
def test_the_listener_at_which_a_broker_is_told(plane: str) -> None:
    settings = {"control.plane.listener.name": "CONTROL"} if plane == "CONTROL" else {}
    with FakeBroker() as told, FakeBroker() as other:
        told.handlers[ApiKey.UPDATE_METADATA] = understood
        ports = {"PLAINTEXT": other.port, "CONTROL": other.port, plane: told.port}
        assert tell(ports, {**PLANES, **settings}) == [UpdateMetadataResponse()]
        assert (told.connections, other.connections) == (1, 0)


def test_a_broker_that_does_not_answer_in_time_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Message] = [NO_ANSWER]

    def answer(_request: Message, _version: int) -> Message:
        return answers.pop() if answers else UpdateMetadataResponse()

    with FakeBroker() as broker:
        broker.handlers[ApiKey.UPDATE_METADATA] = answer
        settings = {"request.timeout.ms": "1500", "controller.socket.timeout.ms": "20000"}
        assert tell({"PLAINTEXT": broker.port}, settings) == [UpdateMetadataResponse()]
        # Once more for each answer that is late because the machine is busy.
        assert broker.connections >= 2
        wait_for(lambda: broker.count(ApiKey.UPDATE_METADATA) == broker.connections)
    assert "did not answer within 1.5 s" in caplog.text


def test_how_long_a_broker_may_take_to_accept_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    with full_port() as port:
        settings = {"controller.socket.timeout.ms": "160"}
        tell({"PLAINTEXT": port}, settings, until_true=lambda: "within 0.16 s" in caplog.text)
    assert "did not take the connection within 0.16 s" in caplog.text
