"""Plans of reassignments: files, proposals, states, throttles."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.admin.results import Reassignment
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.tools.json_input import JsonInputError
from pkafka.tools.reassignment import plan
from pkafka.tools.reassignment.plan import LogDirState, Move, ReassignmentError, State

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def file(*rows: object, **more: object) -> bytes:
    return json.dumps({"version": 1, "partitions": rows, **more}).encode()


def row(*brokers: object, topic: object = "a", partition: object = 0, **more: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, "replicas": brokers, **more}


# -- files ------------------------------------------------------------------------------------------------


def test_a_file_names_brokers_and_directories() -> None:
    wanted = plan.parse_wanted(file(row(1, 2), row(3, 1, topic="b", log_dirs=["any", "/d"])))
    assert wanted.partitions == ((A0, (1, 2)), (B0, (3, 1)))
    assert wanted.log_dirs == {TopicPartitionReplica("b", 0, 1): "/d"}
    assert plan.checked(wanted) == {A0: (1, 2), B0: (3, 1)}


def test_what_is_written_is_what_is_read() -> None:
    text = plan.to_json({B0: (2, 1), A1: (1,), A0: (0, 2)})
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[0,2],"log_dirs":["any","any"]},'
        '{"topic":"a","partition":1,"replicas":[1],"log_dirs":["any"]},'
        '{"topic":"b","partition":0,"replicas":[2,1],"log_dirs":["any","any"]}]}'
    )
    assert plan.parse_wanted(text.encode()) == ((((A0, (0, 2)), (A1, (1,)), (B0, (2, 1)))), {})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "The input string is not a valid JSON"),
        (b"{", "The input string is not a valid JSON: Expecting"),
        (b"\xff", "The input string is not a valid JSON: "),
        (b"[1]", r"Expected JSON object, received \[1\]"),
        (file(version=2), "Not supported version field value 2"),
        (file(version="1"), 'Expected `Integer` value, received "1"'),
        (file(1), "Expected JSON object, received 1"),
        (b'{"partitions":{}}', "Expected JSON array, received {}"),
        (file({"topic": "a", "replicas": []}), "No such field exists: `partition`"),
        (file(row(True)), "Expected `Integer` value, received true"),
        (file(row(1, topic=5)), "Expected `String` value, received 5"),
        (file(row(1, log_dirs=None)), "Expected JSON array, received null"),
    ],
)
def test_a_file_that_is_none_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(JsonInputError, match=problem):
        plan.parse_wanted(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (file(), "Partition reassignment list cannot be empty"),
        (file(row(1), row()), "Partition replica list cannot be empty"),
        (
            file(row(1), row(2, partition=1), row(2)),
            "Partition reassignment contains duplicate topic partitions: a-0",
        ),
        (
            file(row(1, 2, 2, 1), row(3, 3, topic="b")),
            "Partition replica lists may not contain duplicate entries: "
            "a-0 contains multiple entries for 1,2. b-0 contains multiple entries for 3",
        ),
        (
            file(row(1, 2, log_dirs=["any"])),
            r"Size of replicas list \[1, 2\] is different from size of log dirs list \[any\] for partition a-0",
        ),
    ],
)
def test_a_reassignment_that_cannot_be_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ReassignmentError, match=problem):
        plan.checked(plan.parse_wanted(data))


def test_topics_and_brokers_are_there_once() -> None:
    assert plan.parse_topics(b'{"topics":[{"topic":"b"},{"topic":"a"}]}') == ["b", "a"]
    assert plan.parse_topics(b"{}") == []
    assert plan.parse_brokers("2,0,1,,") == [2, 0, 1]
    with pytest.raises(
        ReassignmentError, match=r"List of topics to reassign contains duplicate entries: \[a\]"
    ):
        plan.parse_topics(b'{"topics":[{"topic":"a"},{"topic":"b"},{"topic":"a"}]}')
    with pytest.raises(ReassignmentError, match=r"Broker list contains duplicate entries: \[1\]"):
        plan.parse_brokers("1,2,1")
    for text, part in (("", ""), ("1,,2", ""), ("1, 2x", " 2x")):
        with pytest.raises(ReassignmentError, match=f'For input string: "{part}"'):
            plan.parse_brokers(text)


# -- proposals --------------------------------------------------------------------------------------------


def test_a_proposal_is_the_same_each_time_and_topics_begin_elsewhere() -> None:
    brokers = dict.fromkeys(range(5))
    current = {TopicPartition(f"t{number}", 0): (0,) for number in range(40)}
    proposed = plan.propose(current, brokers)
    assert plan.propose(dict(reversed(current.items())), dict(reversed(brokers.items()))) == proposed
    assert {each for (each,) in proposed.values()} == set(brokers)


@given(
    partitions=st.integers(1, 40),
    brokers=st.sets(st.integers(0, 30), min_size=1, max_size=8),
    factor=st.integers(1, 8),
    topic=st.text("abc", min_size=1),
)
def test_a_proposal_spreads_leaders_and_replicas(
    partitions: int, brokers: set[int], factor: int, topic: str
) -> None:
    factor = min(factor, len(brokers))
    current = {TopicPartition(topic, number): tuple(range(factor)) for number in range(partitions)}
    proposed = plan.propose(current, dict.fromkeys(brokers))
    assert proposed.keys() == current.keys()
    assert all(len(set(each)) == factor and brokers.issuperset(each) for each in proposed.values())
    led = [sum(each[0] == broker for each in proposed.values()) for broker in brokers]
    assert max(led) - min(led) <= 1


def test_a_proposal_minds_racks_where_all_have_one() -> None:
    current = {A0: (0, 1), A1: (0, 1)}
    racks = {0: "x", 1: "x", 2: "y", 3: "y"}
    for first, second in plan.propose(current, racks).values():
        assert racks[first] != racks[second]
    with pytest.raises(
        ReassignmentError, match=r"Not all brokers have rack information. Add --disable-rack-aware"
    ):
        plan.propose(current, {0: "x", 1: None})
    with pytest.raises(ReassignmentError, match=r"Replication factor: 2 larger than available brokers: 1."):
        plan.propose(current, {0: "x"})


# -- states -----------------------------------------------------------------------------------------------


def test_how_far_a_partition_is() -> None:
    moving = {A0: Reassignment((1, 2, 3), (3,), (1,))}
    assert plan.state_of(A0, (2, 3), (), moving) == (A0, (1, 2, 3), (2, 3), State.IN_PROGRESS)
    assert plan.state_of(A1, (2, 3), (2, 3), moving).state is State.COMPLETED
    # Another order is another assignment: another leader is preferred.
    assert plan.state_of(A1, (2, 3), (3, 2), moving).state is State.OTHER_REPLICAS
    assert plan.state_of(B0, (2, 3), (), moving).state is State.OTHER_REPLICAS


@pytest.mark.parametrize(
    ("current", "future", "state"),
    [
        ("/to", None, LogDirState.COMPLETED),
        ("/from", None, LogDirState.NOT_MOVING),
        ("/from", "/to", LogDirState.IN_PROGRESS),
        ("/from", "/else", LogDirState.OTHER_TARGET),
        ("/to", "/else", LogDirState.OTHER_TARGET),
        (None, None, LogDirState.MISSING_LOG_DIR),
        (None, "/to", LogDirState.MISSING_LOG_DIR),
    ],
)
def test_how_far_a_replica_is(current: str | None, future: str | None, state: LogDirState) -> None:
    replica = TopicPartitionReplica("a", 0, 1)
    found = plan.replica_state(replica, "/to", current, future)
    assert found == plan.ReplicaState(replica, current, future, "/to", state)


# -- throttles --------------------------------------------------------------------------------------------


def test_throttles_are_of_sources_and_destinations() -> None:
    moving = {B0: Reassignment((5, 6, 7), (7,), (5,)), A1: Reassignment((0, 1, 9), (9,), (0,))}
    moved = plan.moves(moving, {A0: (2, 1), A1: (3, 10)}, {A0: (0, 1), A1: (0, 1, 9)})
    assert moved == {
        # What moves already comes from where it was before, whatever it is to become.
        A1: Move(frozenset({0, 1}), frozenset({3, 10})),
        A0: Move(frozenset({0, 1}), frozenset({2})),
        B0: Move(frozenset({5, 6}), frozenset({7})),
    }
    assert plan.topic_throttles(moved) == {
        "a": {plan.LEADER_REPLICAS: "0:0,0:1,1:0,1:1", plan.FOLLOWER_REPLICAS: "0:2,1:10,1:3"},
        "b": {plan.LEADER_REPLICAS: "0:5,0:6", plan.FOLLOWER_REPLICAS: "0:7"},
    }
    assert plan.moving_brokers(moved) == [0, 1, 2, 3, 5, 6, 7, 10]
    assert plan.moving_brokers({}) == []
