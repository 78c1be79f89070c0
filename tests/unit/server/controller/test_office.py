"""What the active controller does for those who ask: ISRs, controlled shutdown, elections, balance."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pkafka.coordination.store import ConnectionLossError
from pkafka.coordination.znodes import PREFERRED_REPLICA_ELECTION, PreferredReplicaElection
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from pkafka.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from pkafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pkafka.server.controller.brokers import BrokerChanges
from pkafka.server.controller.context import Leadership
from pkafka.server.controller.controller import FIRST_BALANCE_MS, RELOAD_BACKOFF_MS, Controller
from pkafka.server.controller.events import Reload
from pkafka.server.controller.isr_requests import WantedIsr, is_so_already, refusal
from pkafka.server.controller.state_store import Outcome, StateStore
from pkafka.server.handlers import alter_partition, controlled_shutdown, elect_leaders
from tests.unit.server.controller.world import InlineControl, World

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.start_controller(1)
    world.create_topic("t", {0: (1, 2, 3), 1: (2, 3, 1)})
    world.take_lines()
    yield world
    world.close()


def controller(world: World) -> Controller:
    return world.controllers[1]


def epoch_of(world: World, broker: int) -> int:
    return controller(world).context.broker_epochs[broker]


def alter(world: World, broker: int, wanted: WantedIsr, *, broker_epoch: int | None = None) -> object:
    """One partition's answer: the ISR and partition epoch that it has now, or an error."""
    ids = controller(world).context.topic_ids
    request = AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=epoch_of(world, broker) if broker_epoch is None else broker_epoch,
        topics=[
            AlterPartitionRequestTopicData(
                topic_id=ids["t"],
                partitions=[
                    AlterPartitionRequestPartitionData(
                        partition_index=0,
                        leader_epoch=wanted.leader_epoch,
                        new_isr_with_epochs=[BrokerState(broker_id=one) for one in wanted.isr],
                        partition_epoch=wanted.partition_epoch,
                    )
                ],
            )
        ],
    )
    response = asyncio.run(alter_partition.handle(InlineControl(world, 1), request, 3))
    if response.error_code:
        return ErrorCode(response.error_code)
    [topic] = response.topics
    [one] = topic.partitions
    return ErrorCode(one.error_code) if one.error_code else (one.isr, one.partition_epoch)


def test_an_isr_shrinks_and_grows_and_everybody_hears_of_it(world: World) -> None:
    assert alter(world, 1, WantedIsr((1, 2), 0, 0)) == ([1, 2], 1)
    assert world.state("t") == "t-0 leader=1 epoch=0 isr=[1 2] by=1 version=1"
    assert [line for line in world.take_lines() if "UpdateMetadata" in line] == [
        f"  to {broker} UpdateMetadata epoch=1: live=[1 2 3], t-0 leader=1 epoch=0 isr=[1 2]"
        for broker in (1, 2, 3)
    ]
    assert alter(world, 1, WantedIsr((1, 2, 3), 0, 1)) == ([1, 2, 3], 2)


def test_a_request_whose_answer_was_lost_is_answered_again(world: World) -> None:
    for _ in range(2):
        assert alter(world, 1, WantedIsr((1, 2), 0, 0)) == ([1, 2], 1)
    assert world.state("t").endswith("version=1")


def test_leaders_that_are_behind_are_told(world: World) -> None:
    assert alter(world, 1, WantedIsr((1, 2), 7, 0)) is ErrorCode.FENCED_LEADER_EPOCH
    assert alter(world, 1, WantedIsr((1, 2), 0, 5)) is ErrorCode.INVALID_UPDATE_VERSION
    assert alter(world, 1, WantedIsr((1, 2), 0, 0), broker_epoch=1) is ErrorCode.STALE_BROKER_EPOCH
    assert alter(world, 1, WantedIsr((1, 9), 0, 0)) is ErrorCode.INELIGIBLE_REPLICA
    world.crash_controller(1)
    world.start_controller(2)
    world.start_controller(1)
    assert alter_without_office(world) is ErrorCode.NOT_CONTROLLER


def alter_without_office(world: World) -> ErrorCode:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=1)
    response = asyncio.run(alter_partition.handle(InlineControl(world, 1), request, 3))
    return ErrorCode(response.error_code)


def test_rules_of_recovery() -> None:
    now = Leadership(1, 4, (1,), 1, 9, recovering=True)
    assert is_so_already(WantedIsr((1,), 4, 0, recovering=True), 1, now)
    assert (
        refusal(WantedIsr((1, 2), 4, 9, recovering=True), now, {1, 2}, version=3) is ErrorCode.INVALID_REQUEST
    )
    assert refusal(WantedIsr((1, 2), 4, 9), now, {1, 2}, version=3) is ErrorCode.NONE
    recovered = now._replace(recovering=False)
    assert (
        refusal(WantedIsr((1,), 4, 9, recovering=True), recovered, {1}, version=3)
        is ErrorCode.INVALID_REQUEST
    )
    assert refusal(WantedIsr((1, 2), 4, 9), now, {1}, version=1) is ErrorCode.OPERATION_NOT_ATTEMPTED


def shut_down(world: World, broker: int) -> object:
    request = ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch_of(world, broker))
    response = asyncio.run(controlled_shutdown.handle(InlineControl(world, 1), request, 3))
    assert response.error_code == 0
    return [(one.topic_name, one.partition_index) for one in response.remaining_partitions]


def test_a_broker_that_stops_leads_nothing_and_is_in_no_isr(world: World) -> None:
    assert shut_down(world, 2) == []
    assert world.state("t", 0) == "t-0 leader=1 epoch=1 isr=[1 3] by=1 version=1"
    assert world.state("t", 1) == "t-1 leader=3 epoch=1 isr=[3 1] by=1 version=1"
    [stop] = [line for line in world.take_lines() if "StopReplica" in line]
    assert stop.startswith("  to 2 StopReplica epoch=1: t-0 ")
    # It may not come back before it has been away.
    assert alter(world, 1, WantedIsr((1, 2, 3), 1, 1)) is ErrorCode.INELIGIBLE_REPLICA


def test_the_last_in_sync_is_not_released(world: World) -> None:
    alter(world, 1, WantedIsr((1,), 0, 0))
    assert shut_down(world, 1) == [("t", 0)]
    assert world.state("t").startswith("t-0 leader=1 ")


def elect(
    world: World, partitions: list[TopicPartition] | None, *, unclean: bool = False
) -> dict[tuple[str, int], tuple[ErrorCode, str | None]]:
    named = (
        None
        if partitions is None
        else [TopicPartitions(topic=one.topic, partitions=[one.partition]) for one in partitions]
    )
    request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=named, timeout_ms=5_000)
    response = asyncio.run(elect_leaders.handle(InlineControl(world, 1), request, 2))
    return {
        (topic.topic, one.partition_id): (ErrorCode(one.error_code), one.error_message)
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


def test_the_preferred_leader_comes_back(world: World) -> None:
    world.stop_broker(1)
    assert world.state("t").startswith("t-0 leader=2 epoch=1 isr=[2 3]")
    assert elect(world, [T0])["t", 0] == (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "Failed to elect leader for partition t-0 under strategy"
        " PreferredReplicaPartitionLeaderElectionStrategy",
    )
    world.start_broker(1)
    alter(world, 2, WantedIsr((2, 3, 1), 1, 1))
    outcome = elect(world, None)
    assert outcome == {("t", 0): (ErrorCode.NONE, None)}  # of all, only what changed
    assert world.state("t").startswith("t-0 leader=1 epoch=2 isr=[2 3 1]")
    assert elect(world, [T0])["t", 0][0] is ErrorCode.ELECTION_NOT_NEEDED
    assert elect(world, [TopicPartition("no", 0)])["no", 0] == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The partition does not exist.",
    )


def test_an_unclean_leader_on_demand(world: World) -> None:
    alter(world, 1, WantedIsr((1,), 0, 0))
    world.stop_broker(1)
    assert world.state("t").startswith("t-0 leader=-1 epoch=1 isr=[1]")
    # The controller is of broker 1 here, whose metadata went with it.
    outcome = elect(world, [T0, TopicPartition("t", 1)], unclean=True)
    assert outcome["t", 0][0] in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
    assert outcome["t", 1][0] is ErrorCode.ELECTION_NOT_NEEDED
    assert world.state("t").startswith("t-0 leader=2 epoch=2 isr=[2]")


@contextmanager
def drifted(directory: Path, settings: Mapping[str, str], partitions: int = 1) -> Iterator[World]:
    """Broker 2 leads all that 1 is to lead, and 1 has caught up."""
    world = World(directory, **settings)
    try:
        for broker in (1, 2):
            world.start_broker(broker)
        world.start_controller(1)
        world.create_topic("t", dict.fromkeys(range(partitions), (1, 2)))
        world.stop_broker(1)
        world.start_broker(1)
        wanted = {TopicPartition("t", number): WantedIsr((2, 1), 1, 1) for number in range(partitions)}
        controller(world).office().alter_isrs(2, epoch_of(world, 2), wanted, version=3)
        assert leaders(world) == [2] * partitions
        yield world
    finally:
        world.close()


def leaders(world: World) -> list[int]:
    known = controller(world).context
    return [known.leadership[one].leader for one in known.partitions()]


def wait(world: World, ms: int) -> None:
    world.clock.advance(ms=ms)
    controller(world).drain()
    world.settle()


def test_leaders_drift_back_by_themselves(tmp_path: Path) -> None:
    with drifted(tmp_path, {}) as world:
        wait(world, FIRST_BALANCE_MS - 1)
        assert leaders(world) == [2]
        wait(world, 1)
        assert world.state("t").startswith("t-0 leader=1 epoch=2")


def test_leaders_stay_where_they_are_when_nobody_wants_them_back(tmp_path: Path) -> None:
    with drifted(tmp_path, {"auto.leader.rebalance.enable": "false"}) as world:
        wait(world, FIRST_BALANCE_MS)
        wait(world, 600_000)
        assert leaders(world) == [2]


@pytest.mark.parametrize(("allowed", "after"), [(50, [1, 2]), (49, [1, 1])])
def test_nobody_is_elected_while_few_are_away(tmp_path: Path, allowed: int, after: list[int]) -> None:
    with drifted(tmp_path, {"leader.imbalance.per.broker.percentage": str(allowed)}, 2) as world:
        elect(world, [T0])
        assert leaders(world) == [1, 2]
        wait(world, FIRST_BALANCE_MS)
        assert leaders(world) == after


def test_how_often_it_is_looked_where_leaders_are(tmp_path: Path) -> None:
    with drifted(tmp_path, {"leader.imbalance.check.interval.seconds": "70"}) as world:
        wait(world, FIRST_BALANCE_MS)
        assert leaders(world) == [1]
        shut_down(world, 1)
        world.stop_broker(1)
        world.start_broker(1)
        now = controller(world).context.leadership[T0]
        alter(world, 2, WantedIsr((2, 1), now.leader_epoch, now.partition_epoch))
        wait(world, 69_999)
        assert leaders(world) == [2]
        wait(world, 1)
        assert leaders(world) == [1]


def test_leaders_stay_while_anything_moves(tmp_path: Path) -> None:
    with drifted(tmp_path, {}) as world:
        world.start_broker(3)
        world.create_topic("u", {0: (2,)})
        assert controller(world).office().reassignments.begin(TopicPartition("u", 0), (3,)) is None
        wait(world, FIRST_BALANCE_MS)
        assert leaders(world) == [2, 2]
        assert controller(world).office().reassignments.begin(TopicPartition("u", 0), None) is None
        wait(world, 300_000)
        assert leaders(world) == [1, 2]


def test_a_broker_that_is_not_there_cannot_be_released(world: World) -> None:
    with pytest.raises(ApiError) as refused:
        controller(world).office().release_broker(9, -1)
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    with pytest.raises(ApiError) as stale:
        controller(world).office().release_broker(2, 0)
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_isr_that_was_written_while_the_connection_broke_is_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = StateStore.update_leadership

    def lose_answer(states: StateStore, wanted: Mapping[TopicPartition, Leadership]) -> Outcome:
        monkeypatch.setattr(StateStore, "update_leadership", update)
        update(states, wanted)
        raise ConnectionLossError

    monkeypatch.setattr(StateStore, "update_leadership", lose_answer)
    assert alter(world, 1, WantedIsr((1, 2), 0, 0)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert alter(world, 1, WantedIsr((1, 2), 0, 0)) == ([1, 2], 1)
    assert alter(world, 1, WantedIsr((1, 2, 3), 0, 1)) == ([1, 2, 3], 2)


def test_an_election_that_was_written_while_the_connection_broke_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the leader of before would go on, with an ISR that it can change no more."""
    lead_elsewhere(world)
    update = StateStore.update_leadership

    def lose_answer(states: StateStore, wanted: Mapping[TopicPartition, Leadership]) -> Outcome:
        monkeypatch.setattr(StateStore, "update_leadership", update)
        update(states, wanted)
        raise ConnectionLossError

    monkeypatch.setattr(StateStore, "update_leadership", lose_answer)
    served = controller(world).submit(lambda: controller(world).office().elect_leaders([T0], unclean=False))
    world.take_lines()
    world.settle()
    assert isinstance(served.exception(), ConnectionLossError)
    assert world.state("t").startswith("t-0 leader=1 ")
    assert not any("LeaderAndIsr" in line for line in world.take_lines())
    world.clock.advance(ms=RELOAD_BACKOFF_MS)
    world.settle()
    controller(world).drain()
    assert {
        line.split()[1] for line in world.take_lines() if "LeaderAndIsr" in line and "t-0 leader=1 " in line
    } == {"1", "2", "3"}


def write_elections(world: World, data: bytes) -> None:
    """As a tool from before Kafka 2.2."""
    world.store.create(PREFERRED_REPLICA_ELECTION, data)
    world.settle()


def lead_elsewhere(world: World) -> None:
    """The first replica of t-0 is in sync and does not lead."""
    world.stop_broker(1)
    world.start_broker(1)
    now = controller(world).context.leadership[T0]
    alter(world, 2, WantedIsr((2, 3, 1), now.leader_epoch, now.partition_epoch))
    assert world.state("t").startswith("t-0 leader=2 ")


def test_elections_that_are_written_down(world: World) -> None:
    wanted = [T0, TopicPartition("t", 1), TopicPartition("t", 9), TopicPartition("no", 0)]
    for _ in range(2):  # the second is noticed too
        lead_elsewhere(world)
        write_elections(world, PreferredReplicaElection(tuple(wanted)).encode())
        assert world.state("t").startswith("t-0 leader=1 ")
        assert world.store.exists(PREFERRED_REPLICA_ELECTION) is None


def test_the_next_controller_elects_what_was_written_meanwhile(world: World) -> None:
    lead_elsewhere(world)
    world.crash_controller(1)
    write_elections(world, PreferredReplicaElection((T0,)).encode())
    assert world.store.exists(PREFERRED_REPLICA_ELECTION) is not None
    world.start_controller(2)
    assert world.state("t").startswith("t-0 leader=1 ")
    assert world.store.exists(PREFERRED_REPLICA_ELECTION) is None


def test_a_leader_that_is_not_there_is_not_elected_by_a_node_either(world: World) -> None:
    world.stop_broker(1)
    before = world.state("t")
    write_elections(world, PreferredReplicaElection((T0,)).encode())
    assert world.state("t") == before
    assert world.store.exists(PREFERRED_REPLICA_ELECTION) is None


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b"{}", b'{"partitions":[{"topic":"t"}]}'])
def test_written_elections_that_cannot_be_read_are_removed(world: World, data: bytes) -> None:
    write_elections(world, data)
    assert world.store.exists(PREFERRED_REPLICA_ELECTION) is None
    world.crash_controller(1)
    write_elections(world, data)
    world.start_controller(2)
    assert world.controllers[2].is_active
    assert world.store.exists(PREFERRED_REPLICA_ELECTION) is None


def read_anew(world: World) -> None:
    """As after a write without an answer."""
    controller(world)._queue.put(Reload())
    world.settle()


def test_a_broker_that_stops_is_remembered_when_everything_is_read_anew(world: World) -> None:
    shut_down(world, 2)
    read_anew(world)
    assert controller(world).context.shutting_down == {2}
    # Nobody gives a leader back to it.
    assert elect(world, [TopicPartition("t", 1)])["t", 1][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_broker_that_came_back_meanwhile_does_not_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut_down(world, 2)
    with monkeypatch.context() as patch:
        patch.setattr(BrokerChanges, "on_broker_change", lambda _changes: None)
        world.stop_broker(2)
        world.start_broker(2)
    assert controller(world).context.shutting_down == {2}
    read_anew(world)
    assert controller(world).context.shutting_down == set()


def test_a_broker_that_stops_is_remembered_when_reading_anew_fails_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut_down(world, 2)

    def lose_connection(_states: StateStore) -> None:
        raise ConnectionLossError

    with monkeypatch.context() as patch:
        patch.setattr(StateStore, "read_brokers", lose_connection)
        read_anew(world)
    assert controller(world)._reload_due_ms is not None
    read_anew(world)
    assert controller(world).context.shutting_down == {2}
