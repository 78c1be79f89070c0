"""How long a controller's events take, and how often it elects a leader at a loss: Kafka's ControllerStats.

They belong to the broker and not to a term of office, so that a count never falls. Written by the controller's thread
alone; others only read.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from time import perf_counter_ns
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Protocol, TypeVar

from pkafka.server.latency import Histogram

if TYPE_CHECKING:
    from pkafka.server.controller.context import ControllerContext

P = ParamSpec("P")
T = TypeVar("T")


class Work(Enum):
    """What a controller does, by the name of Kafka's timer. Features are never updated here: no event changes them."""

    CONTROLLER_CHANGE = "ControllerChange"
    BROKER_CHANGE = "LeaderElection"
    """Kafka's name from when brokers that come and go were the only cause of an election."""
    TOPIC_CHANGE = "TopicChange"
    TOPIC_DELETION = "TopicDeletion"
    REASSIGNMENT = "PartitionReassignment"
    """Each partition of a request has a turn of its own here, and so counts for itself."""
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


class ControllerStats:
    """See the module.

    Attributes:
        unclean_elections: leaders that were elected although they lacked records.
    """

    def __init__(self) -> None:
        self.unclean_elections = 0
        self._times: Final = {work: Histogram() for work in Work}
        self._is_busy = False

    @contextlib.contextmanager
    def timed(self, work: Work) -> Iterator[None]:
        """Count what is done meanwhile; within other work it is part of that, as an event of Kafka's has one state."""
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
    """Of a method that somebody outside asks for: a turn of it is an event of Kafka's."""

    def decorate(method: Callable[Concatenate[K, P], T]) -> Callable[Concatenate[K, P], T]:
        @functools.wraps(method)
        def timed(self: K, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with self._context.stats.timed(work):
                return method(self, *args, **kwargs)

        return timed

    return decorate
