"""Moving partitions (KIP-455) as traces: who is told what, what stands in the nodes, and what may interrupt it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pkafka.coordination.store import ConnectionLossError, CreateOp, NoNodeError, StoreError
from pkafka.coordination.znodes import (
    REASSIGN_PARTITIONS,
    PartitionAssignment,
    Reassignments,
    TopicAssignment,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from pkafka.server.controller import nodes
from pkafka.server.controller.context import Assignment
from pkafka.server.controller.isr_requests import WantedIsr
from pkafka.server.controller.reassignment import on_the_way, origin, target
from pkafka.server.controller.state_store import StateStore, Topic
from pkafka.server.handlers import alter_partition_reassignments
from tests.unit.server.controller.world import InlineControl, World

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for broker in (1, 2, 3, 4):
        world.start_broker(broker)
    world.start_controller(1)
    world.create_topic("t", {0: (1, 2)})
    world.take_lines()
    yield world
    world.close()


def move(world: World, wanted: Sequence[int] | None) -> ApiError | None:
    error = next(iter(world.controllers.values())).office().reassignments.begin(T0, wanted)
    world.settle()
    return error


def catch_up(world: World, *isr: int, partition: int = 0) -> None:
    """The leader asks for this ISR, and is answered."""
    propose(world, *isr, partition=partition)
    world.settle()


def propose(world: World, *isr: int, partition: int = 0) -> None:
    which = TopicPartition("t", partition)
    controller = next(iter(world.controllers.values()))
    now = controller.context.leadership[which]
    wanted = WantedIsr(isr, now.leader_epoch, now.partition_epoch)
    epoch = controller.context.broker_epochs[now.leader]
    controller.office().alter_isrs(now.leader, epoch, {which: wanted}, version=3)


def assignment(world: World) -> Assignment:
    """As the topic's node has it."""
    return nodes.decode_topic(world.store.get(nodes.topic("t"))[0])[1][0]


def told(world: World, kind: str) -> list[str]:
    return [line.strip() for line in world.take_lines() if f" {kind} " in line]


def test_assignments_on_their_way() -> None:
    moving = on_the_way(Assignment((1, 2)), (3, 2))
    assert moving == Assignment((3, 2, 1), adding=(3,), removing=(1,))
    assert (origin(moving), target(moving)) == ((2, 1), (3, 2))
    assert on_the_way(moving, (4,)) == Assignment((4, 2, 1), adding=(4,), removing=(2, 1))
    assert on_the_way(Assignment((1, 2)), (2, 1)) == Assignment((2, 1))


def test_a_partition_moves(world: World) -> None:
    assert move(world, (3, 4)) is None
    assert assignment(world) == Assignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    assert world.state("t").startswith("t-0 leader=1 epoch=1 isr=[1 2]")
    lines = told(world, "LeaderAndIsr")
    assert lines == [
        "to 1 LeaderAndIsr epoch=1: t-0 leader=1 epoch=1 isr=[1 2]",
        "to 2 LeaderAndIsr epoch=1: t-0 leader=1 epoch=1 isr=[1 2]",
        "to 3 LeaderAndIsr epoch=1: t-0 leader=1 epoch=1 isr=[1 2] new",
        "to 4 LeaderAndIsr epoch=1: t-0 leader=1 epoch=1 isr=[1 2] new",
    ]
    catch_up(world, 1, 2, 3)
    assert assignment(world).adding == (3, 4)  # one is missing still
    world.take_lines()
    catch_up(world, 1, 2, 3, 4)
    assert assignment(world) == Assignment((3, 4))
    assert world.state("t").startswith("t-0 leader=3 ")
    assert world.state("t").split("isr=")[1].startswith("[3 4]")
    stops = [line for line in world.take_lines() if "StopReplica" in line and "delete" in line]
    assert [line.split()[1] for line in stops] == ["1", "2"]
    assert world.controllers[1].office().reassignments.ongoing() == {}


def test_the_leader_is_answered_before_the_move_that_its_proposal_ends(world: World) -> None:
    """Told first what the move ends with, it would give its proposal up, and not count that its ISR grew."""
    move(world, (1, 2, 3))
    world.take_lines()
    propose(world, 1, 2, 3)
    assert world.state("t").split("isr=")[1].startswith("[1 2 3]")
    assert assignment(world).adding == (3,)
    assert told(world, "LeaderAndIsr") == []
    world.settle()
    assert assignment(world) == Assignment((1, 2, 3))
    assert [line.split()[1] for line in told(world, "LeaderAndIsr")] == ["1", "2", "3"]


def test_a_leader_that_stays_goes_on_leading(world: World) -> None:
    move(world, (1, 3))
    catch_up(world, 1, 2, 3)
    assert assignment(world) == Assignment((1, 3))
    assert world.state("t").startswith("t-0 leader=1 ")


def test_a_move_is_given_up(world: World) -> None:
    move(world, (3, 4))
    catch_up(world, 1, 2, 3)
    world.take_lines()
    assert move(world, None) is None
    assert assignment(world) == Assignment((1, 2))
    assert world.state("t").split("isr=")[1].startswith("[1 2]")
    stops = [line.split()[1] for line in world.take_lines() if "StopReplica" in line and "delete" in line]
    assert stops == ["3", "4"]
    error = move(world, None)
    assert error is not None
    assert error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_goal_on_the_way(world: World) -> None:
    move(world, (3, 2))
    move(world, (4, 2))
    assert assignment(world) == Assignment((4, 2, 1), adding=(4,), removing=(1,))
    catch_up(world, 1, 2, 4)
    assert assignment(world) == Assignment((4, 2))


def write_moves(world: World, data: bytes | Mapping[int, tuple[int, ...]]) -> None:
    """As a tool from before Kafka 2.4; a mapping is of partitions of the topic."""
    if not isinstance(data, bytes):
        data = Reassignments({TopicPartition("t", number): one for number, one in data.items()}).encode()
    world.store.create(REASSIGN_PARTITIONS, data)
    world.settle()


def written(world: World) -> Mapping[TopicPartition, tuple[int, ...]] | None:
    """What the node asks for; None without it."""
    if world.store.exists(REASSIGN_PARTITIONS) is None:
        return None
    return Reassignments.decode(world.store.get(REASSIGN_PARTITIONS)[0]).targets


def test_moves_that_are_written_down(world: World) -> None:
    world.create_topic("t", {0: (1, 2), 1: (2, 1)})
    write_moves(world, {0: (3, 2), 1: (2, 3)})
    assert assignment(world) == Assignment((3, 2, 1), adding=(3,), removing=(1,))
    assert written(world) == {T0: (3, 2), T1: (2, 3)}
    epochs = [world.state("t", number).split()[2] for number in (0, 1)]
    catch_up(world, 1, 2, 3)
    assert assignment(world) == Assignment((3, 2))
    assert written(world) == {T1: (2, 3)}
    # What the controller writes into the node itself does not make anybody move again.
    assert [world.state("t", 1).split()[2]] == epochs[1:]
    catch_up(world, 2, 1, 3, partition=1)
    assert written(world) is None
    # And the next one is noticed.
    write_moves(world, {0: (1, 2)})
    catch_up(world, 3, 2, 1)
    assert assignment(world) == Assignment((1, 2))
    assert written(world) is None


def test_what_is_asked_for_last_counts(world: World) -> None:
    write_moves(world, {0: (3, 2)})
    assert move(world, (4, 2)) is None
    assert written(world) is None
    assert assignment(world) == Assignment((4, 2, 1), adding=(4,), removing=(1,))
    write_moves(world, {0: (3, 2)})
    assert assignment(world) == Assignment((3, 2, 1), adding=(3,), removing=(1,))
    assert move(world, None) is None
    assert written(world) is None
    assert assignment(world) == Assignment((2, 1))


def test_another_goal_that_is_written_over_the_first(world: World) -> None:
    write_moves(world, {0: (3, 2)})
    world.store.set(REASSIGN_PARTITIONS, Reassignments({T0: (4, 2)}).encode())
    world.settle()
    assert assignment(world) == Assignment((4, 2, 1), adding=(4,), removing=(1,))


def test_a_written_move_waits_for_a_broker_that_is_not_there(world: World) -> None:
    write_moves(world, {0: (9, 2)})
    assert assignment(world) == Assignment((9, 2, 1), adding=(9,), removing=(1,))
    world.start_broker(9)
    catch_up(world, 1, 2, 9)
    assert assignment(world) == Assignment((9, 2))
    assert written(world) is None


def test_the_next_controller_begins_what_was_written_meanwhile(world: World) -> None:
    move(world, (4, 2))
    world.crash_controller(1)
    write_moves(world, {0: (3, 2)})
    world.take_lines()
    world.start_controller(2)
    assert assignment(world) == Assignment((3, 2, 1), adding=(3,), removing=(1,))
    # Who is to go nowhere is not told to become a replica first.
    assert not any(" 4 LeaderAndIsr" in line and "new" in line for line in world.take_lines())
    catch_up(world, 1, 2, 3)
    assert written(world) is None


@pytest.mark.parametrize("wanted", [(), (3, 3), (-1, 2)])
def test_written_moves_that_cannot_be_are_taken_out(world: World, wanted: tuple[int, ...]) -> None:
    world.create_topic("t", {0: (1, 2), 1: (2, 1)})
    write_moves(world, {0: wanted, 1: (2, 3), 7: (1, 2)})
    assert assignment(world) == Assignment((1, 2))
    assert written(world) == {T1: (2, 3)}


def test_a_move_to_nowhere_stays_where_it_is(world: World) -> None:
    # As the controller of Kafka 3.9 leaves a partition when it is asked to keep no replica.
    nowhere = PartitionAssignment((1, 2), removing=(1, 2))
    world.crash_controller(1)
    world.store.set(nodes.topic("t"), TopicAssignment({0: nowhere}, b"t" * 16).encode())
    world.start_controller(2)
    assert assignment(world) == Assignment((1, 2), removing=(1, 2))
    assert not any("StopReplica" in line for line in world.take_lines())
    catch_up(world, 1)
    catch_up(world, 1, 2)
    assert assignment(world) == Assignment((1, 2), removing=(1, 2))
    move(world, (1, 2))
    assert assignment(world) == Assignment((1, 2))


def test_a_topic_and_a_move_written_at_once(world: World) -> None:
    path = nodes.topic("u")
    world.store.multi(
        [
            CreateOp(REASSIGN_PARTITIONS, Reassignments({TopicPartition("u", 0): (3,)}).encode()),
            CreateOp(path, TopicAssignment({0: PartitionAssignment((1,))}, b"u" * 16).encode()),
        ]
    )
    world.settle()
    assert nodes.decode_topic(world.store.get(path)[0])[1][0] == Assignment(
        (3, 1), adding=(3,), removing=(1,)
    )


@pytest.mark.parametrize(
    "data", [b"", b"no json", b"[]", b"{}", b'{"version":1,"partitions":[{"topic":"t","partition":0}]}']
)
def test_a_node_that_cannot_be_read_stays_until_something_moves(world: World, data: bytes) -> None:
    write_moves(world, data)
    assert world.store.get(REASSIGN_PARTITIONS)[0] == data
    world.crash_controller(1)
    world.start_controller(2)
    assert world.store.get(REASSIGN_PARTITIONS)[0] == data
    move(world, (3, 2))
    assert written(world) is None


def test_another_order_needs_no_move(world: World) -> None:
    assert move(world, (2, 1)) is None
    assert assignment(world) == Assignment((2, 1))
    assert world.state("t").startswith("t-0 leader=1 ")  # the preferred one leads when it is elected


def test_the_next_controller_goes_on(world: World) -> None:
    move(world, (3, 4))
    world.crash_controller(1)
    world.start_controller(2)
    assert world.controllers[2].office().reassignments.ongoing() == {
        T0: Assignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    }
    catch_up(world, 1, 2, 3, 4)
    assert assignment(world) == Assignment((3, 4))


def test_a_topic_that_moves_is_deleted_afterwards(world: World) -> None:
    move(world, (3, 4))
    world.delete_topic("t")
    assert world.store.exists(nodes.topic("t")) is not None
    catch_up(world, 1, 2, 3, 4)
    assert world.store.exists(nodes.topic("t")) is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ((), "Empty replica list specified in partition reassignment."),
        ((3, 3), "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(3, 3)"),
        ((-1, 2), "Invalid broker id in replica list: ArrayBuffer(-1, 2)"),
        ((1, 9), "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(9), live"),
    ],
)
def test_what_cannot_be_is_refused(world: World, wanted: tuple[int, ...], words: str) -> None:
    error = move(world, wanted)
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert error.message.startswith(words)
    assert assignment(world) == Assignment((1, 2))


def in_the_isr_unnoticed(world: World, *isr: int) -> None:
    """The leader writes the ISR that a move waits for itself, and no controller is there to be told."""
    path = nodes.partition_state(T0)
    data, stat = world.store.get(path)
    now = nodes.decode_leadership(data, stat.version)
    world.store.set(path, nodes.encode_leadership(now._replace(isr=isr)))


def test_the_next_controller_finishes_a_move_of_a_topic_that_is_to_be_deleted(world: World) -> None:
    """The deletion waits for the move, which would wait for the deletion."""
    move(world, (3, 2))
    world.delete_topic("t")
    world.crash_controller(1)
    in_the_isr_unnoticed(world, 1, 2, 3)
    world.start_controller(2)
    assert world.store.exists(nodes.topic("t")) is None
    assert world.store.exists(f"{nodes.DELETE_TOPICS}/t") is None


def test_a_broker_that_comes_hears_of_the_partitions_that_move_to_it(world: World) -> None:
    """It was away when the others were told."""
    write_moves(world, {0: (9, 2)})
    world.take_lines()
    world.start_broker(9)
    leader_epoch = world.state("t").split()[2]
    assert f"to 9 LeaderAndIsr epoch=1: t-0 leader=1 {leader_epoch} isr=[1 2]" in told(world, "LeaderAndIsr")


def test_a_topic_that_waits_for_its_move_is_deleted_when_a_broker_comes(world: World) -> None:
    write_moves(world, {0: (9, 2)})
    world.delete_topic("t")
    assert world.store.exists(nodes.topic("t")) is not None
    world.take_lines()
    world.start_broker(9)
    assert world.store.exists(nodes.topic("t")) is None
    # It need not become a replica first.
    assert told(world, "LeaderAndIsr") == []


def ask_for(
    world: World, moves: Mapping[str, Mapping[int, list[int]]]
) -> AlterPartitionReassignmentsResponse:
    """As the API does."""
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=number, replicas=replicas)
                for number, replicas in partitions.items()
            ],
        )
        for name, partitions in moves.items()
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    return asyncio.run(alter_partition_reassignments.handle(InlineControl(world, 1), request, 0))


@pytest.mark.parametrize("lost", [ConnectionLossError, NoNodeError])
def test_each_partition_has_its_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, lost: type[StoreError]
) -> None:
    world.create_topic("u", {0: (1, 2)})
    write_topic = StateStore.write_topic

    def fail_once(states: StateStore, name: str, topic: Topic) -> None:
        if name == "t":
            raise lost
        write_topic(states, name, topic)

    monkeypatch.setattr(StateStore, "write_topic", fail_once)
    response = ask_for(world, {"no": {0: [1]}, "t": {0: [3, 2]}, "u": {0: [3, 2], 7: [1]}})
    assert response.error_code == ErrorCode.NONE
    assert {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in response.responses
        for one in topic.partitions
    } == {
        ("no", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): ErrorCode.UNKNOWN_SERVER_ERROR,
        ("u", 0): ErrorCode.NONE,
        ("u", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    # What was to be written may be written.
    assert (world.controllers[1]._reload_due_ms is not None) is (lost is ConnectionLossError)


@pytest.mark.parametrize("moves", [{}, {"t": {0: [3, 2]}}])
def test_who_is_not_the_controller_says_so(
    world: World, moves: Mapping[str, Mapping[int, list[int]]]
) -> None:
    world.crash_controller(1)
    world.start_controller(2)
    world.start_controller(1)
    assert ask_for(world, moves).error_code == ErrorCode.NOT_CONTROLLER
