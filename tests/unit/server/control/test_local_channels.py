"""How the control process keeps its workers up to date while they come and go."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.server.cluster.control_requests import VERSIONS, ControlResponse
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.to_controller import ToController
from pkafka.server.controller import nodes
from pkafka.server.controller.context import Leadership
from pkafka.server.ipc.child import Birth
from pkafka.server.ipc.peer import Payload, Peer
from pkafka.server.ipc.words import Hello, IsrAnswer, ProposedIsr
from pkafka.server.processes.control import Control, ControlSetup
from tests.unit.server.workers import until


class FakeWorker:
    """The other end of the line to a worker: its cache, and what it is asked."""

    def __init__(self, world: "World", index: int) -> None:
        self.metadata = MetadataCache()
        self.asked: list[str] = []
        self.told: list[LeaderAndIsrPartitionState] = []
        """Of the partitions that it hosts, in the order in which it heard of them."""
        self.proposals: list[list[Any]] = []
        self.told_proposals: list[Any] = []
        """What the process before it proposed, nobody having answered."""
        self.holds: set[str] = set()
        """Operations that it does not answer."""
        self.fails: set[str] = set()
        ours, theirs = socket.socketpair()
        names = (
            "identity",
            "broker_config",
            "every_topic_config",
            "every_credential",
            "client_quotas",
            "leader_and_isr",
            "stop_replica",
            "update_metadata",
            "known_metadata",
            "known_leaders",
            "serve",
        )
        self.peer = Peer("control", theirs, {name: self._serving(name) for name in names})
        self.seen_by_control = Peer(f"worker-{index}", ours, {}, on_gone=world.control.siblings.lost)
        self.seen_by_control.index = index
        world.lines += [self.peer, self.seen_by_control]

    def _serving(self, name: str) -> Callable[..., Any]:
        def serve(_peer: Peer, payload: Payload, blob: memoryview, _fds: list[int]) -> Any:
            self.asked.append(name)
            if name in self.holds:
                return asyncio.get_running_loop().create_future()
            if name in self.fails:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if name == "update_metadata":
                version = VERSIONS[UpdateMetadataRequest]
                self.metadata.apply(decode(UpdateMetadataRequest, version, bytes(blob)))
            if name == "known_metadata":
                return None, encode(self.metadata.snapshot(), VERSIONS[UpdateMetadataRequest]), ()
            if name == "known_leaders":
                request = leads_with([0], partition_epoch=7)
                return self.proposals, encode(request, VERSIONS[LeaderAndIsrRequest]), ()
            if name == "stop_replica":
                return None, encode(StopReplicaResponse(), VERSIONS[StopReplicaRequest]), ()
            if name == "leader_and_isr":
                version = VERSIONS[LeaderAndIsrRequest]
                request = decode(LeaderAndIsrRequest, version, bytes(blob))
                self.told += [state for topic in request.topic_states for state in topic.partition_states]
                self.told_proposals += payload or []
                return None, encode(_done(request), version), ()
            return None

        return serve


def _done(request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(partition_index=state.partition_index)
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
    )


def submitted(function: Callable[..., Any], *args: object) -> "Future[Any]":
    """The controller thread, which has nothing else to do."""
    future: Future[Any] = Future()
    future.set_result(function(*args))
    return future


class World:
    """A control process as far as its workers see it."""

    def __init__(self, workers: int, settings: Mapping[str, str] | None = None) -> None:
        overrides = {"log.dirs": "/nowhere", "listeners": "PLAINTEXT://localhost:0", "broker.id": "0"}
        config = BrokerConfig.load(None, {**overrides, "pkafka.workers": str(workers), **(settings or {})})
        setup = ControlSetup(
            config=config,
            directories=(),
            ports={},
            store_file=Path("/nowhere"),
            session_file=Path("/nowhere"),
            adopt=False,
        )
        self.supervisor, line = socket.socketpair()
        self.control = Control(setup, Birth(line, "control", first=True, session=None))
        self.control.broker.configs = cast(
            "Any",
            SimpleNamespace(
                topics=dict,
                entities=lambda _kind: {},
                layers=SimpleNamespace(current=config, broker={}, cluster={}),
                load_topics=self.load,
            ),
        )
        self.control.broker.controller = cast("Any", SimpleNamespace(submit=submitted))
        self.loaded: list[str] = []
        self.control.broker.identified.set()
        self.channels = self.control.local_channels
        self.answers: list[ControlResponse] = []
        self.lines: list[Peer] = [self.control._life.line]

    def load(self, names: list[str]) -> None:
        self.loaded += names

    def hello(self, worker: FakeWorker) -> "asyncio.Task[Any]":
        said = self.control.greeting.hello(
            worker.seen_by_control,
            Hello(producer_id_max=-1, knows=worker.metadata.controller_epoch > 0),
            memoryview(b""),
            [],
        )
        return asyncio.ensure_future(said)

    def send(self, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> None:
        self.channels.send(0, request, self.answers.append)


def in_world(scene: Callable[[World], Coroutine[Any, Any, None]], *, workers: int = 2) -> None:
    async def run() -> None:
        world = World(workers)
        running = asyncio.ensure_future(world.channels.run())
        try:
            await asyncio.wait_for(scene(world), 60)
        finally:
            assert not running.done()
            running.cancel()
            for line in world.lines:
                line.close()
            world.supervisor.close()

    asyncio.run(run())


def topic_named(name: str) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(partition_index=0, leader=0, isr=[0], replicas=[0])
    topic = UpdateMetadataTopicState(topic_name=name, topic_id=name.encode() * 16, partition_states=[state])
    return UpdateMetadataRequest(controller_id=0, controller_epoch=1, topic_states=[topic])


def lead(topic: str) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(partition_index=0, leader=0, isr=[0], replicas=[0])
    named = LeaderAndIsrTopicState(topic_name=topic, topic_id=b"t" * 16, partition_states=[state])
    return LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[named])


def test_a_worker_that_comes_while_metadata_are_on_their_way_gets_them() -> None:
    async def scene(world: World) -> None:
        slow, dying = FakeWorker(world, 0), FakeWorker(world, 1)
        await asyncio.gather(world.hello(slow), world.hello(dying))
        slow.holds.add("update_metadata")
        world.send(topic_named("t"))
        await until(lambda: "t" in dying.metadata.topics and slow.asked[-1] == "update_metadata")
        dying.peer.close()
        await until(lambda: 1 not in world.control.siblings._workers)
        successor = FakeWorker(world, 1)
        await world.hello(successor)
        # The worker that was slow is replaced too; then everybody knows the topic.
        slow.peer.close()
        other = FakeWorker(world, 0)
        await world.hello(other)
        await until(lambda: bool(world.answers))
        assert "t" in other.metadata.topics
        assert "t" in successor.metadata.topics

    in_world(scene)


def test_an_isr_that_is_proposed_to_a_process_that_has_just_come_waits_until_it_knows_its_broker() -> None:
    async def scene(world: World) -> None:
        async def answer(proposals: list[ProposedIsr]) -> list[IsrAnswer]:
            return [IsrAnswer(0, one.leader_epoch, one.isr, one.partition_epoch) for one in proposals]

        world.control.broker.identified.clear()
        worker = FakeWorker(world, 0)
        asked = asyncio.ensure_future(
            world.control.requests._alter_partition(
                worker.seen_by_control, [["t", 0, TOPIC_ID, 3, [0, 1], 7]], memoryview(b""), []
            )
        )
        await asyncio.sleep(0)
        assert not asked.done()
        world.control.to_controller = cast("Any", SimpleNamespace(alter_partition=answer))
        world.control.broker.identified.set()
        assert await asked == [IsrAnswer(0, 3, [0, 1], 7)]

    in_world(scene)


def test_a_worker_that_cannot_do_as_told_stops_nothing() -> None:
    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        await world.hello(worker)
        worker.fails = {"leader_and_isr", "update_metadata"}
        world.send(lead("a"))
        world.send(topic_named("a"))
        await until(lambda: len(world.answers) == 2)
        assert [answer.error_code for answer in world.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        worker.fails = set()
        world.send(lead("b"))
        await until(lambda: len(world.answers) == 3)
        assert world.answers[2].error_code == 0

    in_world(scene, workers=1)


def test_a_worker_that_died_during_its_greeting_is_not_counted_on() -> None:
    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        async with world.control.siblings._worker_came:
            greeting = world.hello(worker)
            await until(lambda: "every_topic_config" in worker.asked)
            for _ in range(10):
                await asyncio.sleep(0)
            worker.peer.close()
            await until(lambda: worker.seen_by_control.gone)
        await asyncio.wait([greeting])
        assert not world.control.siblings._workers
        assert not world.control.siblings._following

    in_world(scene, workers=1)


def leads(topic: str, epoch: int, *, controller_epoch: int = 1, is_new: bool = False) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=0, leader_epoch=epoch, isr=[0], replicas=[0], is_new=is_new
    )
    named = LeaderAndIsrTopicState(topic_name=topic, topic_id=b"t" * 16, partition_states=[state])
    return LeaderAndIsrRequest(controller_id=0, controller_epoch=controller_epoch, topic_states=[named])


def test_the_settings_of_topics_that_others_made_are_read_first() -> None:
    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        await world.hello(worker)
        for request in (leads("t", 0, is_new=True), leads("t", 1), leads("t", 0, is_new=True)):
            await world.channels.carry_out(request)
        assert world.loaded == ["t", "t"]  # another of its name may have other settings

    in_world(scene, workers=1)


def test_what_an_old_controller_says_is_not_kept() -> None:
    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        await world.hello(worker)
        await world.channels.carry_out(leads("t", 5, controller_epoch=2))
        asked = list(worker.asked)
        answer = await world.channels.carry_out(leads("t", 6, controller_epoch=1))
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert worker.asked == asked
        # What a worker that comes later hears is the newest that was said of each partition.
        await world.channels.carry_out(leads("t", 4, controller_epoch=2))
        assert world.channels._assigned["t", 0][1].leader_epoch == 5

    in_world(scene, workers=1)


# -- ISRs --

TOPIC_ID = b"t" * 16


class Asked:
    """The controller, as far as leaders ask it for other ISRs."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: asyncio.Future[AlterPartitionResponse] = asyncio.get_running_loop().create_future()
        self._to_controller = ToController(world.control.broker, world.control.local_channels)
        monkeypatch.setattr(self._to_controller, "_ask", self._ask)

    async def _ask(
        self, request: AlterPartitionRequest, *_: object, timeout_ms: int
    ) -> AlterPartitionResponse:
        return await self.answer

    async def propose(self, isr: list[int], *, partition_epoch: int) -> IsrAnswer:
        proposal = ProposedIsr("t", 0, TOPIC_ID, 3, isr, partition_epoch)
        [answer] = await self._to_controller.alter_partition([proposal])
        return answer

    def answers(self, isr: list[int], partition_epoch: int, code: ErrorCode = ErrorCode.NONE) -> None:
        one = AlterPartitionResponsePartitionData(
            error_code=code, leader_epoch=3, isr=isr, partition_epoch=partition_epoch
        )
        topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[one])
        self.answer.set_result(AlterPartitionResponse(topics=[topic]))


def leads_with(isr: list[int], *, partition_epoch: int, epoch: int = 3) -> LeaderAndIsrRequest:
    request = leads("t", epoch)
    [state] = request.topic_states[0].partition_states
    state.isr, state.replicas, state.partition_epoch = isr, [0, 1, 2], partition_epoch
    return request


async def successor(world: World, worker: FakeWorker) -> FakeWorker:
    """Another takes the place of this worker, and has been told all that it missed."""
    worker.peer.close()
    await until(lambda: not world.control.siblings._workers)
    another = FakeWorker(world, 0)
    await world.hello(another)
    return another


def told(worker: FakeWorker) -> tuple[list[int], int]:
    """The ISR and partition epoch that a worker was told, once."""
    [state] = worker.told
    return state.isr, state.partition_epoch


def test_the_successor_of_a_leader_knows_the_isr_that_was_agreed_since_its_election(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would acknowledge what it alone has, and those in the ISR could be elected without it."""

    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        await world.hello(worker)
        await world.channels.carry_out(leads_with([0], partition_epoch=7))
        asked = Asked(world, monkeypatch)
        asked.answers([0, 1], 8)
        assert await asked.propose([0, 1], partition_epoch=7) == IsrAnswer(0, 3, [0, 1], 8)
        # What was sent before and comes again says nothing new.
        await world.channels.carry_out(leads_with([0], partition_epoch=7))
        another = await successor(world, worker)
        assert told(another) == ([0, 1], 8)
        assert another.told_proposals == []

    in_world(scene, workers=1)


def test_the_successor_of_a_leader_hears_what_was_proposed_and_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who was to join may have joined; or not, and would be left out for ever if nobody asked again."""

    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        await world.hello(worker)
        await world.channels.carry_out(leads_with([0], partition_epoch=7))
        asked = Asked(world, monkeypatch)
        proposing = asyncio.ensure_future(asked.propose([0, 1], partition_epoch=7))
        await asyncio.sleep(0)
        another = await successor(world, worker)
        assert told(another) == ([0], 7)
        assert another.told_proposals == [("t", 0, TOPIC_ID, 3, (0, 1), 7)]
        # What is of an older state cannot be carried out any more.
        await world.channels.carry_out(leads_with([0], partition_epoch=8))
        third = await successor(world, another)
        assert told(third) == ([0], 8)
        assert third.told_proposals == []
        asked.answers([], 7, ErrorCode.INELIGIBLE_REPLICA)
        assert await proposing == IsrAnswer(ErrorCode.INELIGIBLE_REPLICA)
        assert not world.channels._proposals

    in_world(scene, workers=1)


def test_who_comes_after_a_control_process_learns_from_workers_what_it_said() -> None:
    """Controllers do not say it again to a broker whose session goes on."""

    async def scene(world: World) -> None:
        worker = FakeWorker(world, 0)
        worker.metadata.apply(topic_named("t"))
        worker.proposals = [["t", 0, TOPIC_ID, 3, [0, 1], 7]]
        await world.hello(worker)
        assert "t" in world.control.broker.metadata.topics
        # It is asked last, and told nothing that is older than what it knows.
        assert worker.asked[-2:] == ["known_metadata", "known_leaders"]
        assert world.control.greeting.informed == {0}
        after = await successor(world, worker)
        assert told(after) == ([0], 7)
        assert after.told_proposals == [("t", 0, TOPIC_ID, 3, (0, 1), 7)]
        # What its controller has said since is newer than what a worker knew.
        await world.channels.carry_out(leads_with([0, 2], partition_epoch=8))
        another = FakeWorker(world, 0)
        another.metadata.apply(topic_named("t"))
        await world.hello(another)
        assert world.channels._assigned["t", 0][1].isr == [0, 2]
        old = await world.channels.carry_out(leads("t", 9, controller_epoch=0))
        assert old.error_code == ErrorCode.STALE_CONTROLLER_EPOCH

    in_world(scene, workers=1)


@pytest.mark.parametrize(
    ("now", "answer"),
    [
        (Leadership(0, 3, (0, 1), 1, 8), IsrAnswer(0, 3, (0, 1), 8)),
        (Leadership(1, 4, (1,), 1, 9), IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION)),
        (Leadership(0, 3, (0,), 1, 7), IsrAnswer(ErrorCode.NOT_CONTROLLER)),
        (None, IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION)),
    ],
)
def test_a_leader_that_is_behind_is_told_how_its_partition_is(
    monkeypatch: pytest.MonkeyPatch, now: Leadership | None, answer: IsrAnswer
) -> None:
    """Without it, its ISR would stay as it is until the next election."""

    async def scene(world: World) -> None:
        node = None
        if now is not None:
            node = (nodes.encode_leadership(now), SimpleNamespace(version=now.partition_epoch))
        world.control.broker.store = cast(
            "Any", SimpleNamespace(get_many=lambda paths: [node for _ in paths])
        )
        asked = Asked(world, monkeypatch)
        asked.answers([], 7, ErrorCode.INVALID_UPDATE_VERSION)
        assert await asked.propose([0, 2], partition_epoch=7) == answer

    in_world(scene)


@pytest.mark.parametrize(("leader_epoch", "is_known"), [(2, True), (3, False), (-2, False)])
def test_a_stop_that_came_late_takes_nothing_from_workers_to_come(leader_epoch: int, is_known: bool) -> None:
    async def scene(world: World) -> None:
        await world.hello(FakeWorker(world, 0))
        await world.channels.carry_out(leads_with([0], partition_epoch=7))
        stopped = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch)
        topic = StopReplicaTopicState(topic_name="t", partition_states=[stopped])
        await world.channels.carry_out(StopReplicaRequest(controller_epoch=1, topic_states=[topic]))
        assert (("t", 0) in world.channels._assigned) is is_known

    in_world(scene, workers=1)
