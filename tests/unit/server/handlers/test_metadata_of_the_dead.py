"""What clients hear when a leader has died: that there is none, or who leads now, and in which order."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.protocol.codec import decode, encode
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.protocol.schema import Message
from pkafka.server.cluster import pulses
from pkafka.server.handlers import metadata
from pkafka.server.processes.worker import Worker
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import RequestContext
from tests.unit.server.workers import Family, with_family

VERSION = 9
RDKAFKA = ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
JAVA = ("apache-kafka-java", "3.9.1")


def nobody_listens() -> int:
    """A port that refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Client:
    """A connection of one client to a worker of broker 0."""

    def __init__(self, worker: Worker, software: tuple[str, str]) -> None:
        state = ConnectionState(software=software)
        connection = cast("Any", SimpleNamespace(state=state, listener="PLAINTEXT", closed=False))
        self._context = RequestContext(worker, connection, RequestHeader(3, VERSION, 1, None))

    async def ask(self) -> tuple[int, list[int]]:
        """Who leads partition 0 of topic t, and which brokers there are."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        outcome = metadata.handle(self._context, request, VERSION)
        answer = outcome if isinstance(outcome, (bytes, Message)) else await outcome
        if not isinstance(answer, bytes):
            answer = encode(answer, VERSION)
        response = decode(MetadataResponse, VERSION, answer)
        return response.topics[0].partitions[0].leader_id, [one.node_id for one in response.brokers]


def say(worker: Worker, *, leader: int, brokers: dict[int, int]) -> None:
    """The controller says who leads partition 0 of topic t, and who lives on which port."""
    state = UpdateMetadataPartitionState(
        partition_index=0, leader=leader, leader_epoch=5, isr=[0, 1, 2], replicas=[0, 1, 2]
    )
    update = UpdateMetadataRequest(
        controller_id=0,
        controller_epoch=1,
        topic_states=[UpdateMetadataTopicState(topic_name="t", topic_id=b"t" * 16, partition_states=[state])],
        live_brokers=[
            UpdateMetadataBroker(
                id=broker,
                endpoints=[UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener="PLAINTEXT")],
            )
            for broker, port in brokers.items()
        ],
    )
    worker._operations["update_metadata"](cast("Any", None), None, memoryview(encode(update, 8)), [])


def scene(tmp_path: Path, act: Callable[[Worker], Awaitable[None]]) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        port = nobody_listens()
        say(worker, leader=1, brokers={0: 1, 1: port, 2: port})
        try:
            await act(worker)
        finally:
            worker.pulses.close()

    with_family(tmp_path, body, workers=1)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine what comes at once comes late, and what counts for a while only counts long enough."""
    for limit in ("_PATIENCE_S", "_ANSWER_MAX_S", "_REFUSES_MAX_S"):
        monkeypatch.setattr(pulses, limit, 60.0)
    monkeypatch.setattr(pulses, "_CONNECT_MAX_MS", 60_000)
    monkeypatch.setattr(metadata, "_TOLD_S", 60.0)


@pytest.mark.parametrize("software", [RDKAFKA, JAVA])
def test_a_client_waits_for_the_controller_and_one_of_librdkafka_hears_first_that_nobody_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, software: tuple[str, str]
) -> None:
    monkeypatch.setattr(metadata, "_DECIDED_S", 60.0)

    async def act(worker: Worker) -> None:
        client = Client(worker, software)
        if software is RDKAFKA:
            assert await client.ask() == (-1, [0, 1, 2])
        asking = asyncio.ensure_future(client.ask())
        await asyncio.sleep(0.3)
        assert not asking.done()
        say(worker, leader=0, brokers={0: 1, 2: 1})
        assert await asking == (0, [0, 2])
        assert await client.ask() == (0, [0, 2])

    scene(tmp_path, act)


def test_a_controller_that_is_slow_is_not_waited_for_long(tmp_path: Path) -> None:
    async def act(worker: Worker) -> None:
        assert await Client(worker, JAVA).ask() == (-1, [0, 1, 2])

    scene(tmp_path, act)


@pytest.mark.parametrize("software", [RDKAFKA, JAVA])
def test_a_client_of_librdkafka_that_comes_after_the_controller_hears_first_that_nobody_leads(
    tmp_path: Path, software: tuple[str, str]
) -> None:
    async def act(worker: Worker) -> None:
        say(worker, leader=0, brokers={0: 1, 2: 1})
        client = Client(worker, software)
        if software is RDKAFKA:
            assert await client.ask() == (-1, [0, 1, 2])
        assert await client.ask() == (0, [0, 2])
        # A moment later it is too late for that: who asks then has not lost that leader just now.
        worker.metadata.forget_departures(worker.metadata.departed)
        assert await Client(worker, software).ask() == (0, [0, 2])

    scene(tmp_path, act)
