"""What a worker knows of its processes, and of the connectors and tasks in them."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from pkafka.connect.hosts.channel import Channel
from pkafka.connect.hosts.maker import Child
from pkafka.connect.hosts.messages import (
    AimConnector,
    AimTask,
    AskForTasks,
    ConnectorReached,
    ConnectorSaid,
    FailConnector,
    Fence,
    Message,
    SeeThatMine,
    TaskSaid,
    UsedTopic,
    WantsTasks,
    failure,
)  # fmt: skip
from pkafka.connect.hosts.offsets import answer_of
from pkafka.connect.hosts.placement import HostLoad
from pkafka.connect.hosts.relief import Watch
from pkafka.connect.runner import Guard
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.storage.offset_store import OffsetStore
from pkafka.connect.task_run import Report

log = logging.getLogger("org.apache.kafka.connect.runtime.Worker")


class RemoteConnector:
    """A connector in a process of its own; see :class:`~pkafka.connect.connector_run.ConnectorRun`.

    Args:
        run: numbers this start of it.
        name: of the connector.
        report: hears of every change of state, with the trace of a failure.
        reconfigure: the connector asks to be asked for its tasks again.
        then: takes the state that it has when it is where it was to be.
    """

    def __init__(
        self,
        run: int,
        name: str,
        report: Callable[[State, str | None], None],
        reconfigure: Callable[[], None],
        then: Callable[[State], None],
    ) -> None:
        self.run = run
        self.name = name
        self.reconfigure = reconfigure
        self.then = then
        self.host: RemoteHost | None = None
        self._report = report
        self._state = State.UNASSIGNED

    @property
    def state(self) -> State:
        """What the connector does."""
        return self._state

    @property
    def channel(self) -> Channel:
        """To the process that has it."""
        assert self.host is not None
        return self.host.channel

    def aim_soon(self, target: Target, then: Callable[[State], None]) -> None:
        """Start or stop the connector, without waiting for it.

        Args:
            then: takes the state that the connector has afterwards.
        """
        self.then = then
        self.channel.tell(AimConnector(self.run, target.value))

    def task_configs_soon(self) -> "Future[list[dict[str, str]]]":
        """The configurations of the tasks, without waiting for the connector."""
        return self.channel.ask(AskForTasks(self.run))

    def failed(self, error: BaseException) -> None:
        """The connector cannot go on."""
        self.channel.tell(FailConnector(self.run, *failure(error)))

    def said(self, state: State, trace: str | None = None) -> None:
        """The connector is in another state."""
        self._state = state
        self._report(state, trace)


class RemoteTask:
    """A task in a process of its own; see :class:`~pkafka.connect.task_run.TaskRun`.

    Args:
        run: numbers this start of it.
        name: of the task.
        report: hears of every change of state.
        guard: of a source that writes exactly once.
    """

    def __init__(self, run: int, name: TaskName, report: Report, guard: Guard | None) -> None:
        self.run = run
        self.name = name
        self.guard = guard
        self.stopping = threading.Event()
        """Set when the task is to end."""
        self.host: RemoteHost | None = None
        self._report = report

    @property
    def channel(self) -> Channel:
        """To the process that has it."""
        assert self.host is not None
        return self.host.channel

    def aim(self, target: Target) -> None:
        """Pause, or go on."""
        self.channel.tell(AimTask(self.run, target.value))

    def said(self, state: State, trace: str | None = None) -> None:
        """The task is in another state."""
        self._report(self.name, state, trace)


Run = RemoteConnector | RemoteTask


class RemoteHost:
    """A process, and what it says.

    Args:
        number: of the process among its worker's.
        child: the process.
        channel: to it.
        store: keeps the offsets of sources.
        used_topic: told which topics a connector uses.
        party: of suspects, for which it was made.
        party_until_s: when they are suspect no more, by a clock that never goes back.
    """

    def __init__(
        self,
        number: int,
        child: Child,
        channel: Channel,
        store: OffsetStore,
        used_topic: Callable[[TaskName, str], None],
        party: int | None,
        party_until_s: float,
    ) -> None:
        self.number = number
        self.child = child
        self.channel = channel
        self.runs: dict[int, Run] = {}
        """What runs in it, but for what was left behind: of that, no word counts."""
        self.is_spoiled = False
        """Whether something was left behind in it, so that it takes no more work."""
        self.is_dead = False
        self.is_ending = False
        """Whether it was told to end, or killed."""
        self.watch = Watch()
        self._store = store
        self._used_topic = used_topic
        self._party = party
        self._party_until_s = party_until_s

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.child.pid

    @property
    def takes_work(self) -> bool:
        """Whether it may get more to run."""
        return self.channel.is_open and not (self.is_spoiled or self.is_dead or self.is_ending)

    def load(self, now_s: float, *, spreads: bool = True) -> HostLoad:
        """What it has to do.

        Args:
            now_s: by a clock that never goes back.
            spreads: whether one task is enough for it, while there may be more processes.
        """
        runs = list(self.runs.values())
        tasks = sum(isinstance(each, RemoteTask) for each in runs)
        party = self._party if now_s < self._party_until_s else None
        is_taken = tasks > 0 if spreads else self.watch.is_busy
        return HostLoad(self.number, len(runs) - tasks, tasks, party, is_taken)

    def hear(self, message: Message) -> None:
        """Take up what the process says."""
        match message:
            case UsedTopic(connector, number, topic):
                self._used_topic(TaskName(connector, number), topic)
            case ConnectorSaid(run, state, trace) | TaskSaid(run, state, trace):
                if (found := self.runs.get(run)) is not None:
                    found.said(State(state), trace)
            case ConnectorReached(run, state):
                if isinstance(found := self.runs.get(run), RemoteConnector):
                    found.then(State(state))
            case WantsTasks(run):
                if isinstance(found := self.runs.get(run), RemoteConnector):
                    found.reconfigure()
            case _:
                log.error("A process of tasks has sent a %s", type(message).__name__)

    def answer(self, message: Message) -> object:
        """Answer what the process asks.

        Raises:
            ConnectError: the task is to end, or must not run; or offsets cannot be read or stored.
        """
        match message:
            case Fence(run):
                if isinstance(found := self.runs.get(run), RemoteTask) and found.guard is not None:
                    found.guard.before(found.stopping)
                return None
            case SeeThatMine(run):
                if isinstance(found := self.runs.get(run), RemoteTask) and found.guard is not None:
                    found.guard.after()
                return None
            case _:
                return answer_of(self._store, message)
