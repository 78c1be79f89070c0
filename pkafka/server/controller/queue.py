"""The controller's event queue: first in, first out. It holds each event of a watch at most once."""

import threading
from collections import deque
from typing import Final

from pkafka.server.controller.events import (
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
)

# Each of these makes the controller read the present state, so one in the queue is enough for many changes.
_COALESCED: Final = (
    ControllerChange,
    BrokerChange,
    TopicChange,
    PartitionChange,
    TopicDeletionWish,
    ReassignmentWish,
    ElectionWish,
    IsrChange,
    LogDirChange,
    Reload,
)


class EventQueue:
    """Holds the events; thread-safe. Events of watches coalesce and a request has one answer, so it stays small."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._waiting: set[tuple[type[Event], Event]] = set()
        """With their classes, since named tuples of two classes can be equal."""
        self._changed = threading.Condition()

    def put(self, event: Event) -> None:
        """Append an event, unless it says nothing new."""
        with self._changed:
            if isinstance(event, _COALESCED):
                key = (type(event), event)
                if key in self._waiting:
                    return
                self._waiting.add(key)
            self._events.append(event)
            self._changed.notify()

    def get(self, timeout_s: float | None = None) -> Event | None:
        """Take the first event, waiting for one; None when none came in time."""
        with self._changed:
            if not self._events:
                self._changed.wait(timeout_s)
            if not self._events:
                return None
            event = self._events.popleft()
            # The event leaves the queue before it is worked on: a change from now on needs another reading.
            if isinstance(event, _COALESCED):
                self._waiting.discard((type(event), event))
            return event

    def __len__(self) -> int:
        return len(self._events)
