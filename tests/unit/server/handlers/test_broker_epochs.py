"""Requests name the life of a broker that they were meant for, or that they come from (KIP-380)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.coordination.znodes import ProducerIdBlock
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from pkafka.protocol.schema import Message
from pkafka.server.control.apis import ControlRequestContext
from pkafka.server.handlers import allocate_producer_ids, leader_and_isr, stop_replica, update_metadata
from pkafka.server.serving.context import Caller
from tests.unit.server.controller.world import InlineControl, World

CALLER = Caller("me", "10.0.0.1", "PLAINTEXT")
EPOCH = 40
"""Of the broker that is told."""

KINDS: list[tuple[Any, type[Message], type[Message], int]] = [
    (leader_and_isr, LeaderAndIsrRequest, LeaderAndIsrResponse, 7),
    (stop_replica, StopReplicaRequest, StopReplicaResponse, 4),
    (update_metadata, UpdateMetadataRequest, UpdateMetadataResponse, 8),
]


class _Workers:
    """Carry everything out."""

    def __init__(self, response: Message) -> None:
        self.response = response
        self.told: list[Message] = []

    async def carry_out(self, request: Message) -> Message:
        self.told.append(request)
        return self.response


@pytest.mark.parametrize(("handler", "kind", "answer", "version"), KINDS)
@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (0, ErrorCode.STALE_BROKER_EPOCH),
        (EPOCH, ErrorCode.NONE),
        # The controller may know of the next life before the broker does.
        (EPOCH + 1, ErrorCode.NONE),
        # Of controllers that do not say.
        (-1, ErrorCode.NONE),
    ],
)
def test_what_was_meant_for_a_former_life_is_refused(
    handler: Any, kind: Any, answer: type[Message], version: int, epoch: int, code: ErrorCode
) -> None:
    workers = _Workers(answer())
    broker = SimpleNamespace(broker_epoch=EPOCH, authorizer=None)
    context = ControlRequestContext(cast("Any", broker), cast("Any", workers), CALLER)
    request = kind(controller_id=1, controller_epoch=3, broker_epoch=epoch)
    response = asyncio.run(handler.handle(context, request, version))
    assert response.error_code == code
    assert bool(workers.told) is (code is ErrorCode.NONE)


@pytest.mark.parametrize("version", [4, 7])
def test_a_refusal_names_every_partition(version: int) -> None:
    broker = SimpleNamespace(broker_epoch=EPOCH, authorizer=None)
    context = ControlRequestContext(cast("Any", broker), cast("Any", None), CALLER)
    states = [LeaderAndIsrPartitionState(partition_index=number) for number in (0, 1)]
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=b"t" * 16, partition_states=states)
    request = LeaderAndIsrRequest(broker_epoch=EPOCH - 1, topic_states=[topic])
    response = asyncio.run(leader_and_isr.handle(context, request, version))
    rows = response.partition_errors if version == 4 else response.topics[0].partition_errors
    assert [(one.partition_index, one.error_code) for one in rows] == [
        (0, ErrorCode.STALE_BROKER_EPOCH),
        (1, ErrorCode.STALE_BROKER_EPOCH),
    ]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for broker in (1, 2):
        world.start_broker(broker)
    world.start_controller(1)
    yield world
    world.close()


def allocate(world: World, broker: int, epoch: int) -> AllocateProducerIdsResponse:
    request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)
    return asyncio.run(allocate_producer_ids.handle(InlineControl(world, 1), request, 0))


def test_producer_ids_are_for_the_present_life_of_a_broker(world: World) -> None:
    epochs = world.controllers[1].context.broker_epochs
    for broker, epoch, code in (
        (2, epochs[2] - 1, ErrorCode.STALE_BROKER_EPOCH),
        (2, epochs[2] + 1, ErrorCode.STALE_BROKER_EPOCH),
        (2, -1, ErrorCode.STALE_BROKER_EPOCH),
        (9, epochs[2], ErrorCode.BROKER_ID_NOT_REGISTERED),
    ):
        assert allocate(world, broker, epoch).error_code == code
    assert world.store.get(ProducerIdBlock.path())[0] == b""
    found = [allocate(world, broker, epochs[broker]) for broker in (2, 1)]
    assert [(one.error_code, one.producer_id_start, one.producer_id_len) for one in found] == [
        (ErrorCode.NONE, 0, 1000),
        (ErrorCode.NONE, 1000, 1000),
    ]
    assert ProducerIdBlock.decode(world.store.get(ProducerIdBlock.path())[0]).broker_id == 1


def test_who_is_not_the_controller_gives_no_producer_ids(world: World) -> None:
    epoch = world.controllers[1].context.broker_epochs[2]
    world.crash_controller(1)
    world.start_controller(2)
    world.start_controller(1)
    assert allocate(world, 2, epoch).error_code == ErrorCode.NOT_CONTROLLER
