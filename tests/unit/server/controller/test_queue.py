"""The controller's queue: in order, and what watches say waits there once."""

import pytest

from pkafka.server.controller.events import (
    Balance,
    BrokerChange,
    ControllerChange,
    ElectionWish,
    Event,
    IsrChange,
    LogDirChange,
    PartitionChange,
    ReassignmentWish,
    Reload,
    TopicChange,
    TopicDeletionWish,
    UncleanElectionAllowed,
)
from pkafka.server.controller.queue import EventQueue


@pytest.mark.parametrize(
    "event",
    [
        ControllerChange(),
        BrokerChange(),
        TopicChange(),
        PartitionChange("t"),
        TopicDeletionWish(),
        ReassignmentWish(),
        ElectionWish(),
        IsrChange(),
        LogDirChange(),
        Reload(),
    ],
)
def test_what_only_says_that_something_may_have_changed_waits_once(event: Event) -> None:
    queue = EventQueue()
    for one in (event, Balance(), event):
        queue.put(one)
    assert [queue.get(0), queue.get(0), queue.get(0)] == [event, Balance(), None]
    # What comes while it is worked on needs another look.
    queue.put(event)
    assert queue.get(0) == event


def test_two_topics_are_two_changes() -> None:
    queue = EventQueue()
    for name in ("t", "u", "t"):
        queue.put(PartitionChange(name))
    assert len(queue) == 2


def test_what_was_asked_for_twice_waits_twice() -> None:
    queue = EventQueue()
    for _ in range(2):
        queue.put(UncleanElectionAllowed("t"))
    assert len(queue) == 2
