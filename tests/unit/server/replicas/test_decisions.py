"""What the controller decides, carried out by a worker: in turns, in order, and never by an old decision."""

import asyncio
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import NO_TOPIC_ID, TopicId, TopicPartition
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pkafka.server.cluster.metadata import PartitionInfo, TopicInfo
from pkafka.server.cluster.state_change import STATE_CHANGE_LOGGER
from pkafka.server.ipc import turns
from pkafka.server.ipc.words import ProposedIsr
from pkafka.server.replicas.decisions import Decisions
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.moving import Moving
from pkafka.server.replicas.partition import PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log
from pkafka.storage.recovery import LogEnvironment, create_log

TOPIC_ID = b"t" * 16


class OpenedLogs:
    """Makes logs in one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = LogEnvironment()
        self.deleted: list[PartitionKey] = []

    def create(self, key: TopicPartition, topic_id: TopicId, *, is_new: bool) -> Log:
        directory = self.root / f"{key.topic}-{key.partition}"
        return create_log(directory, key, LogConfig(), self.environment, topic_id=topic_id)

    def config_of(self, topic: str) -> LogConfig:
        return LogConfig()

    def give_topic_id(self, partition_log: Log, topic_id: TopicId) -> None:
        raise AssertionError(topic_id)

    def set_aside_stray(self, partition_log: Log) -> None:
        raise AssertionError(partition_log)

    def delete(self, partition_log: Log) -> None:
        topic, index = partition_log.topic_partition
        self.deleted.append((topic, index))
        partition_log.close()


def make_decisions(logs: OpenedLogs) -> tuple[Partitions, Decisions]:
    partitions = Partitions(
        broker_id=0,
        index=0,
        workers=1,
        changed=lambda _key: None,
        now_ms=lambda: 0,
        lag_max_ms=lambda: 30_000,
        is_alive=lambda _broker: True,
    )

    def fail(failure: object) -> None:
        raise AssertionError(failure)

    disks = Disks([], [], partitions, Moving(), tell=fail, give_up=fail)
    return partitions, Decisions(partitions, logs, disks)


def lead(count: int, *, epoch: int = 0, controller_epoch: int = 1) -> LeaderAndIsrRequest:
    states = [
        LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=controller_epoch,
            leader=0,
            leader_epoch=epoch,
            isr=[0],
            replicas=[0],
            is_new=True,
        )
        for index in range(count)
    ]
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    return LeaderAndIsrRequest(controller_id=0, controller_epoch=controller_epoch, topic_states=[topic])


def delete(count: int, *, controller_epoch: int = 1) -> StopReplicaRequest:
    states = [
        StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        for index in range(count)
    ]
    topic = StopReplicaTopicState(topic_name="t", partition_states=states)
    return StopReplicaRequest(controller_id=0, controller_epoch=controller_epoch, topic_states=[topic])


def test_leading_many_partitions_lets_others_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def run() -> int:
        partitions, decisions = make_decisions(OpenedLogs(tmp_path))
        work = asyncio.ensure_future(decisions.leader_and_isr(lead(20)))
        others = 0
        while not work.done():
            await asyncio.sleep(0)
            others += 1
        assert len(partitions.led) == 20
        return others

    assert asyncio.run(run()) >= 20


def test_a_decision_waits_for_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        created = asyncio.ensure_future(decisions.leader_and_isr(lead(10)))
        deleted = asyncio.ensure_future(decisions.stop_replica(delete(10)))
        await asyncio.gather(created, deleted)
        assert len(logs.deleted) == 10, "every partition existed before it was deleted"
        assert not partitions.hosted
        assert not partitions.led

    asyncio.run(run())


def test_producers_that_wait_hear_that_a_deleted_partition_is_not_led_here(tmp_path: Path) -> None:
    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        await decisions.leader_and_isr(lead(1))
        partition = partitions.led["t", 0]
        leadership = partition.leadership
        assert partition.acknowledges(1, leadership) is None
        await decisions.stop_replica(delete(1))
        assert partition.acknowledges(1, leadership) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(run())


def test_old_controllers_and_old_epochs_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        await decisions.leader_and_isr(lead(1, epoch=5, controller_epoch=3))
        answer = await decisions.leader_and_isr(lead(1, epoch=9, controller_epoch=2))
        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        answer = await decisions.leader_and_isr(lead(1, epoch=4, controller_epoch=3))
        assert answer.topics[0].partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert partitions.led["t", 0].leader_epoch == 5
        refused = await decisions.stop_replica(delete(1, controller_epoch=2))
        assert refused.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert not logs.deleted

    asyncio.run(run())
    said = [record.getMessage() for record in caplog.records if record.name == STATE_CHANGE_LOGGER]
    newest = "is old. Latest known controller epoch is 3"
    assert said == [
        f"[Broker id=0] Ignoring LeaderAndIsr request from controller 0 since its controller epoch 2 {newest}",
        "[Broker id=0] Ignoring LeaderAndIsr request for partition t-0 since its associated leader epoch 4 is"
        " smaller than the current leader epoch 5",
        f"[Broker id=0] Ignoring StopReplica request from controller 0 since its controller epoch 2 {newest}",
    ]


def test_a_replica_on_a_failed_disk_cannot_be_deleted(tmp_path: Path) -> None:
    """Told that it is gone, the controller would let the topic be made again, in whose way the old one would be."""

    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        await decisions.leader_and_isr(lead(1))
        kept = partitions.hosted["t", 0].log
        partitions.set_aside(tmp_path)
        answer = await decisions.stop_replica(delete(1))
        assert answer.partition_errors[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        kept.close()

    asyncio.run(run())


def leads_with(isr: list[int], *, leader_epoch: int, partition_epoch: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        leader=0, leader_epoch=leader_epoch, isr=isr, partition_epoch=partition_epoch, replicas=[0, 1, 2]
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    return LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[topic])


def test_a_leader_and_isr_that_an_answer_of_the_controller_has_overtaken_changes_nothing(
    tmp_path: Path,
) -> None:
    """Else the leader would commit without those who joined the ISR, who may be elected as if they had everything."""

    async def run() -> None:
        partitions, decisions = make_decisions(OpenedLogs(tmp_path))
        await decisions.leader_and_isr(leads_with([0], leader_epoch=3, partition_epoch=7))
        partition = partitions.led["t", 0]
        partition.isr_decided([0, 1, 2], 3, 8)
        answer = await decisions.leader_and_isr(leads_with([0], leader_epoch=3, partition_epoch=7))
        assert answer.topics[0].partition_errors[0].error_code == ErrorCode.NONE
        assert partition.leadership is not None
        assert (partition.leadership.isr, partition.partition_epoch) == ((0, 1, 2), 8)
        await decisions.leader_and_isr(leads_with([0, 1], leader_epoch=4, partition_epoch=9))
        assert (partition.leadership.isr, partition.partition_epoch) == ((0, 1), 9)
        partition.log.close()

    asyncio.run(run())


def test_what_was_decided_and_what_is_proposed_can_be_said_again(tmp_path: Path) -> None:
    async def run() -> None:
        partitions, decisions = make_decisions(OpenedLogs(tmp_path))
        await decisions.leader_and_isr(leads_with([0], leader_epoch=3, partition_epoch=7))
        partition = partitions.led["t", 0]
        partition.isr_decided([0, 2], 3, 8)
        assert partition.follower_fetched(1, 0, 0) is not None
        request, proposals = decisions.as_decided()
        [topic] = request.topic_states
        [state] = topic.partition_states
        assert (request.controller_epoch, topic.topic_name, topic.topic_id) == (1, "t", TOPIC_ID)
        assert (state.leader, state.leader_epoch, state.isr, state.partition_epoch) == (0, 3, [0, 2], 8)
        assert proposals == [ProposedIsr("t", 0, TOPIC_ID, 3, (0, 2, 1), 8)]
        stop = delete(1)
        stop.topic_states[0].partition_states[0].delete_partition = False
        await decisions.stop_replica(stop)
        request, proposals = decisions.as_decided()
        assert (request.topic_states, proposals) == ([], [])
        partition.log.close()

    asyncio.run(run())


@pytest.mark.parametrize(("leader_epoch", "is_stopped"), [(4, False), (5, True), (-1, True), (-2, True)])
def test_a_stop_that_came_late_stops_and_deletes_nothing(
    tmp_path: Path, leader_epoch: int, is_stopped: bool
) -> None:
    """The replica is wanted again: with its files, the only copy of a record may go."""

    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        await decisions.leader_and_isr(leads_with([0], leader_epoch=5, partition_epoch=0))
        request = delete(1)
        request.topic_states[0].partition_states[0].leader_epoch = leader_epoch
        answer = await decisions.stop_replica(request)
        expected = ErrorCode.NONE if is_stopped else ErrorCode.FENCED_LEADER_EPOCH
        assert answer.partition_errors[0].error_code == expected
        assert logs.deleted == ([("t", 0)] if is_stopped else [])
        assert (("t", 0) in partitions.led) is not is_stopped
        for partition in partitions:
            partition.log.close()

    asyncio.run(run())


# -- replicas that moved away while nobody could tell this broker --


def led_elsewhere(
    *, leader: int = 1, epoch: int = 5, replicas: tuple[int, ...] = (1, 2), topic_id: TopicId = TOPIC_ID
) -> TopicInfo:
    """The metadata of t-0."""
    topic = TopicInfo("t", topic_id)
    topic.partitions[0] = PartitionInfo(leader, epoch, replicas, replicas, (), 0, 1)
    return topic


MOVED = [(TopicPartition("t", 0), 5)]


@pytest.mark.parametrize(
    ("topic", "moved"),
    [
        (led_elsewhere(), MOVED),
        (led_elsewhere(replicas=(1, 0)), []),
        (led_elsewhere(leader=-1), []),
        (led_elsewhere(topic_id=b"u" * 16), []),
        (led_elsewhere(topic_id=NO_TOPIC_ID), []),
        (led_elsewhere(epoch=4), []),
        (led_elsewhere(epoch=3), []),
    ],
    ids=["moved", "here too", "led by nobody", "another topic", "an unknown topic", "same epoch", "earlier"],
)
def test_a_replica_moved_away_only_when_another_broker_leads_it_in_a_later_epoch(
    tmp_path: Path, topic: TopicInfo, moved: object
) -> None:
    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        assert decisions.moved_away([topic]) == [], "nothing is here"
        await decisions.leader_and_isr(lead(1, epoch=4))
        assert decisions.moved_away([topic]) == moved

        # The same of a log that was found at start, of which no controller has said anything.
        found = partitions.led["t", 0].log
        found.leader_epochs.assign(4, 0)
        started, begun = make_decisions(logs)
        started.found_on_disk({TopicPartition("t", 0): found})
        assert begun.moved_away([topic]) == moved

    asyncio.run(run())


def test_what_moved_away_is_deleted_unless_the_controller_gave_it_back(tmp_path: Path) -> None:
    async def run() -> None:
        logs = OpenedLogs(tmp_path)
        partitions, decisions = make_decisions(logs)
        await decisions.leader_and_isr(lead(1, epoch=4))
        again = asyncio.ensure_future(decisions.leader_and_isr(lead(1, epoch=6)))
        dropped = asyncio.ensure_future(decisions.drop_moved(decisions.moved_away([led_elsewhere()])))
        await asyncio.gather(again, dropped)
        assert (logs.deleted, [*partitions.led]) == ([], [("t", 0)])

        moved = decisions.moved_away([led_elsewhere(epoch=7)])
        await decisions.drop_moved(moved)
        assert (logs.deleted, [*partitions.hosted]) == ([("t", 0)], [])
        await decisions.drop_moved(moved)
        assert logs.deleted == [("t", 0)], "the controller may have said so meanwhile"

    asyncio.run(run())
