"""What connectors and tasks do, from the records of the status topic."""

import pytest

from pkafka.connect.states import State, TaskName
from pkafka.connect.storage.statuses import (
    ConnectorStatus,
    Status,
    Statuses,
    TaskStatus,
    TopicStatus,
    status_record,
    topic_record,
    topic_tombstone,
)

NAME = TaskName("a-b", 3)


def task(state: State, generation: int, worker: str = "h:1") -> TaskStatus:
    return TaskStatus(NAME, state, worker, generation)


def read(*statuses: Status) -> Statuses:
    found = Statuses()
    for each in statuses:
        found.apply(*status_record(each))
    return found


def test_records_have_the_bytes_of_java() -> None:
    record = status_record(ConnectorStatus("c", State.FAILED, "h:1", 4, 'a"\n'))
    assert record.key == b"status-connector-c"
    assert record.value == rb'{"state":"FAILED","trace":"a\"\n","worker_id":"h:1","generation":4}'
    assert status_record(task(State.DESTROYED, 1)) == (b"status-task-a-b-3", None)
    assert topic_record(TopicStatus("t", "c", 1, 5)) == (
        b"status-topic-t:connector-c",
        b'{"topic":{"name":"t","connector":"c","task":1,"discoverTimestamp":5}}',
    )


def test_the_last_status_counts() -> None:
    found = read(task(State.RUNNING, 1), task(State.FAILED, 1))
    assert found.task(NAME) == task(State.FAILED, 1)
    assert found.tasks("a-b") == [task(State.FAILED, 1)]


@pytest.mark.parametrize(
    ("generation", "state"), [(1, State.RUNNING), (2, State.RUNNING), (3, State.UNASSIGNED)]
)
def test_who_gives_a_task_away_does_not_hide_its_new_owner(generation: int, state: State) -> None:
    found = read(task(State.RUNNING, 2, "h:2"), task(State.UNASSIGNED, generation))
    known = found.task(NAME)
    assert known is not None
    assert known.state is state


def test_a_connector_takes_its_tasks_along() -> None:
    found = read(ConnectorStatus("a-b", State.RUNNING, "h:1", 1), task(State.RUNNING, 1))
    entry = found.entry(task(State.RUNNING, 1))
    assert found.connectors() == ["a-b"]
    found.apply(b"status-connector-a-b", None)
    assert (found.connector("a-b"), found.tasks("a-b"), found.connectors()) == (None, [], [])
    assert entry.is_gone


@pytest.mark.parametrize(
    ("worker", "generation", "lets"),
    [("h:1", 1, True), ("h:2", 1, False), ("h:2", 2, True), ("h:2", 3, True)],
)
def test_a_safe_write_hides_no_later_generation_of_others(worker: str, generation: int, lets: bool) -> None:
    entry = read(task(State.RUNNING, 2)).entry(task(State.RUNNING, 2))
    assert entry.lets_write(task(State.FAILED, generation, worker)) is lets


def test_topics_of_connectors() -> None:
    found = Statuses()
    status = TopicStatus("t.1", "a:b", 0, 9)
    found.apply(*topic_record(status))
    assert found.topic("a:b", "t.1") == status
    assert found.topics("a:b") == [status]
    found.apply(*topic_tombstone("t.1", "a:b"))
    assert found.topics("a:b") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"x", b"{}"),
        (b"status-connector-", b"{}"),
        (b"status-connector-c", b"{"),
        (b"status-connector-c", b'{"state":"LOST","worker_id":"h:1","generation":1}'),
        (b"status-task-3", b"{}"),
        (b"status-task-c-x", b"{}"),
        (b"status-task-c-1", b"[]"),
        (b"status-topic-t", b"{}"),
        (b"status-topic-:connector-c", b"{}"),
        (b"status-topic-t:connector-", b"{}"),
        (b"status-topic-t:connector-c", b'{"topic":7}'),
    ],
)
def test_what_cannot_be_read_is_nothing(key: bytes | None, value: bytes) -> None:
    found = Statuses()
    found.apply(key, value)
    assert found.connector("c") is None
    assert (found.tasks("c"), found.topics("c")) == ([], [])
