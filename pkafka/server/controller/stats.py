"""How long a controller's events take, and how often it elects an unclean leader: Kafka's ControllerStats.

The counters belong to the broker and not to a term of office, so that no count ever falls. Only the controller's thread
writes them; others read.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from time import perf_counter_ns
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Protocol, TypeVar

from pkafka.server.controller import events
from pkafka.server.metrics.latency import Histogram

if TYPE_CHECKING:
    from pkafka.server.controller.context import ControllerContext

P = ParamSpec("P")
T = TypeVar("T")


class Work(Enum):
    """Names the kinds of work by Kafka's timers. Updates of features are missing, as no event changes features here."""

    CONTROLLER_CHANGE = "ControllerChange"
    BROKER_CHANGE = "LeaderElection"
    """Kafka's name from when brokers that come and go were the only cause of an election."""
    TOPIC_CHANGE = "TopicChange"
    TOPIC_DELETION = "TopicDeletion"
    REASSIGNMENT = "PartitionReassignment"
    """Each partition of a request has a turn of its own here, so each counts as an event."""
    LIST_REASSIGNMENTS = "ListPartitionReassignment"
    AUTO_BALANCE = "AutoLeaderBalance"
    MANUAL_BALANCE = "ManualLeaderBalance"
    CONTROLLED_SHUTDOWN = "ControlledShutdown"
    ISR_CHANGE = "IsrChange"
    LEADER_AND_ISR_ANSWER = "LeaderAndIsrResponseReceived"
    LOG_DIR_CHANGE = "LogDirChange"
    UNCLEAN_ALLOWED = "UncleanLeaderElectionEnable"
    UNCLEAN_ALLOWED_FOR_TOPIC = "TopicUncleanLeaderElectionEnable"
    SHUTDOWN = "ControllerShutdown"


_KINDS: Final[Mapping[type, Work]] = {
    events.Startup: Work.CONTROLLER_CHANGE,
    events.ControllerChange: Work.CONTROLLER_CHANGE,
    events.SessionExpired: Work.CONTROLLER_CHANGE,
    events.Reload: Work.CONTROLLER_CHANGE,
    events.BrokerChange: Work.BROKER_CHANGE,
    events.TopicChange: Work.TOPIC_CHANGE,
    events.PartitionChange: Work.TOPIC_CHANGE,
    events.TopicDeletionWish: Work.TOPIC_DELETION,
    events.StopReplicaAnswered: Work.TOPIC_DELETION,
    events.ReassignmentWish: Work.REASSIGNMENT,
    events.ElectionWish: Work.MANUAL_BALANCE,
    events.Balance: Work.AUTO_BALANCE,
    events.IsrChange: Work.ISR_CHANGE,
    events.IsrsDecided: Work.ISR_CHANGE,
    events.LogDirChange: Work.LOG_DIR_CHANGE,
    events.UncleanElectionAllowed: Work.UNCLEAN_ALLOWED_FOR_TOPIC,
    events.LeaderAndIsrAnswered: Work.LEADER_AND_ISR_ANSWER,
    events.Shutdown: Work.SHUTDOWN,
}
"""The kind of work as which an event counts (ControllerEvent.state)."""


def work_of(event: events.Event) -> Work:
    """Return the kind of work as which an event counts."""
    if isinstance(event, events.UncleanElectionAllowed) and event.topic is None:
        return Work.UNCLEAN_ALLOWED
    return _KINDS[type(event)]


class ControllerStats:
    """Counts and times the work of a controller.

    Attributes:
        unclean_elections: leaders that were elected although they lacked records.
    """

    def __init__(self) -> None:
        self.unclean_elections = 0
        self._times: Final = {work: Histogram() for work in Work}
        self._is_busy = False

    @contextlib.contextmanager
    def timed(self, work: Work) -> Iterator[None]:
        """Count and time the work in the ``with`` block. Inside other work it counts as part of that, as in Kafka."""
        if self._is_busy:
            yield
            return
        self._is_busy = True
        began_ns = perf_counter_ns()
        try:
            yield
        finally:
            self._is_busy = False
            self._times[work].record(perf_counter_ns() - began_ns)

    def by_name(self) -> Mapping[str, Histogram]:
        """The times in nanoseconds, under the names of Kafka's timers."""
        return {f"{work.value}RateAndTimeMs": times for work, times in self._times.items()}


class _Knowing(Protocol):
    _context: "ControllerContext"


K = TypeVar("K", bound=_Knowing)


def counted_as(work: Work) -> Callable[[Callable[Concatenate[K, P], T]], Callable[Concatenate[K, P], T]]:
    """Decorate a method that serves a request: each call counts as an event of Kafka's controller."""

    def decorate(method: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
        @functools.wraps(method)
        def timed(self: K, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with self._context.stats.timed(work):
                return method(self, *args, **kwargs)

        return timed

    return decorate
