"""Tasks that go on for as long as their process: a bug in one of them does not end it quietly."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.clock import SystemClock
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from pkafka.server.cluster.metadata import BrokerInfo, Endpoint
from pkafka.server.cluster.sentinel import Sentinel
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.cluster_channels import ClusterChannels
from pkafka.server.controller.controller import Controller
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import Birth
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Peer
from pkafka.server.processes.control import Control, ControlSetup
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas.partition import Partition
from tests.fakes.broker import FakeBroker
from tests.unit.server.workers import Family, lead_replicas, until, with_family

OTHER = 1


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes with which this process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def fail(*_: object) -> Any:
    raise ValueError("a bug")


async def fails(*_: object) -> None:
    raise ValueError("a bug")


def test_an_error_ends_the_process_and_a_cancellation_does_not(exits: list[int]) -> None:
    async def run() -> None:
        failing = lifeline.vital(asyncio.ensure_future(fails()))
        cancelled = lifeline.vital(asyncio.ensure_future(asyncio.sleep(60)))
        cancelled.cancel()
        await asyncio.wait([failing, cancelled])
        await asyncio.sleep(0)

    asyncio.run(run())
    assert exits == [ChildExit.CRASHED]


# -- workers --


def with_partition(
    root: Path, body: Callable[[Worker, Partition, list[BaseException]], Awaitable[None]], **settings: str
) -> None:
    """Broker 0 leads t-0 of replicas 0, 1 and 2, and has 0 and 1 in sync; its worker has opened its logs."""

    async def run(family: Family) -> None:
        [worker] = family.workers
        crashes: list[BaseException] = []
        worker.tasks.crash = crashes.append
        worker.partitions.is_alive = lambda _broker: True
        await worker._open_logs()
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1, 2], [0, 1])
        await body(worker, partition, crashes)

    with_family(
        root, run, workers=1, settings={key.replace("_", "."): each for key, each in settings.items()}
    )


def test_without_proposals_of_isrs_a_worker_is_of_no_use(tmp_path: Path) -> None:
    async def body(worker: Worker, partition: Partition, crashes: list[BaseException]) -> None:
        worker.control_line.ask = fails  # type: ignore[assignment, method-assign]
        worker.progress.follower_fetched(partition, 2, 0, 0)
        await until(lambda: bool(crashes))

    with_partition(tmp_path, body)


def test_without_a_look_at_laggards_a_worker_is_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "isr_without_laggards", fail)

    async def body(_worker: Worker, _partition: Partition, crashes: list[BaseException]) -> None:
        await until(lambda: bool(crashes))

    with_partition(tmp_path, body, replica_lag_time_max_ms="2", replica_fetch_wait_max_ms="1")


def test_a_worker_that_cannot_greet_control_is_of_no_use(tmp_path: Path) -> None:
    """It would have neither settings nor leaders, and whoever asks control would wait for ever."""

    async def body(worker: Worker, _partition: Partition, crashes: list[BaseException]) -> None:
        worker.logs.producer_id_max = fail  # type: ignore[method-assign]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            worker.tasks.spawn_vital(worker._greet_control(Peer("control", ours, {})))
            await until(lambda: bool(crashes))

    with_partition(tmp_path, body)


def test_a_turn_of_the_periodic_work_that_fails_costs_one_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(worker: Worker, _partition: Partition, crashes: list[BaseException]) -> None:
        turns: list[int] = []

        async def work() -> None:
            turns.append(len(turns))
            if len(turns) < 3:
                raise ValueError("a bug")
            assert len(turns) < 5, "an invariant"

        worker.tasks.spawn(worker.logs._every(1, work, first_ms=0))
        await until(lambda: bool(crashes))
        assert turns == [0, 1, 2, 3, 4]

    with_partition(tmp_path, body)
    assert caplog.text.count("ValueError: a bug") == 2


# -- the control process --


def test_a_bug_behind_an_answer_of_another_broker(exits: list[int]) -> None:
    """Without an end of this process that broker would never again be told anything."""

    async def run(port: int) -> None:
        config = BrokerConfig({"broker.id": "0", "listeners": "PLAINTEXT://localhost:0"})
        channels = ClusterChannels(cast("Any", None), 0, lambda: config, lambda _broker: None)
        endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", port)}
        channels.brokers_changed({OTHER: BrokerInfo(OTHER, None, endpoints)})
        channels.send(OTHER, UpdateMetadataRequest(controller_id=0), fail)
        await until(lambda: bool(exits))
        channels.brokers_changed({})
        await asyncio.sleep(0)

    with FakeBroker() as broker:
        broker.handlers[ApiKey.UPDATE_METADATA] = lambda _request, _version: UpdateMetadataResponse()
        asyncio.run(asyncio.wait_for(run(broker.port), 60))
    assert exits == [ChildExit.CRASHED]


def test_a_bug_behind_the_death_of_a_broker(exits: list[int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        dead = Endpoint("PLAINTEXT", "127.0.0.1", gone.getsockname()[1])

    async def run() -> None:
        sentinel = Sentinel([dead], fail)
        await until(lambda: bool(exits))
        sentinel.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert exits == [ChildExit.CRASHED]


def test_a_bug_while_the_control_process_boots(exits: list[int], tmp_path: Path) -> None:
    """Whoever waits for what the task was to do, as the boot itself, would wait for ever."""
    config = BrokerConfig(
        {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://localhost:0", "broker.id": "0"}
    )

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with ours:
            setup = ControlSetup(
                config=config,
                directories=(),
                ports={},
                store_file=tmp_path / "store",
                session_file=tmp_path / "session",
                adopt=False,
            )
            control = Control(setup, Birth(theirs, "control", first=True, session=None))
            control._spawn(fails())
            await until(lambda: bool(exits))
            control._life.line.close()

    asyncio.run(run())
    assert exits == [ChildExit.CRASHED]


def test_a_bug_in_the_thread_of_the_controller(exits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(0, config=fail, channels=cast("Any", None), clock=SystemClock())
    monkeypatch.setattr(controller, "_is_something_due", fail)
    controller.start(cast("Any", None))
    controller.stop()
    assert exits == [ChildExit.CRASHED]


# -- answers to other processes --


def test_an_invariant_that_breaks_before_a_late_answer(exits: list[int]) -> None:
    async def breaks(*_: object) -> None:
        await asyncio.sleep(0)
        raise AssertionError("an invariant")

    async def run() -> None:
        ours, theirs = socket.socketpair()
        asking, answering = Peer("one", ours, {}), Peer("other", theirs, {"break": breaks})
        asking.note("break")
        await until(lambda: bool(exits))
        asking.close()
        answering.close()

    asyncio.run(run())
    assert exits == [1]
