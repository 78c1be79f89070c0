"""A worker with processes beside it, which here are threads that say and do what a test wants."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from pkafka.connect.connector import TaskMetric
from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.errors import ConnectError
from pkafka.connect.hosts import hosted_worker
from pkafka.connect.hosts.channel import Channel
from pkafka.connect.hosts.hosted_worker import HostedWorker, hosts_grow, hosts_of
from pkafka.connect.hosts.maker import Child
from pkafka.connect.hosts.messages import (
    AimTask,
    ConnectorReached,
    ConnectorSaid,
    CountTasks,
    End,
    Fence,
    Message,
    SeeThatMine,
    SetLevel,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    TaskSaid,
    TellLoad,
    UsedTopic,
    WantsTasks,
)
from pkafka.connect.plugins import load_plugins
from pkafka.connect.runner import Fallen, Guard
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.task_run import Counter, TaskCounts
from tests.connect_stores import worker_settings
from tests.talk import wait_for

PATIENCE_S: Final = 60.0
TASK: Final = TaskName("c", 0)
OTHER: Final = TaskName("c", 1)


class Process:
    """A process that answers as it is told to."""

    def __init__(self, pid: int, sock: socket.socket, answers: dict[type, Callable[[Any], object]]) -> None:
        self.child = Child(pid)
        self.channel = Channel(sock)
        self.heard: list[Message] = []
        self.asked: list[Message] = []
        self._answers = answers
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def _live(self) -> None:
        self.channel.run(self)
        self.child.ended.set()

    def hear(self, message: Message) -> None:
        self.heard.append(message)

    def answer(self, message: Message) -> object:
        self.asked.append(message)
        found = self._answers.get(type(message))
        return None if found is None else found(message)

    def run_of(self, kind: type, index: int = -1) -> int:
        """The number of something that was started here."""
        found = [each for each in self.asked if isinstance(each, kind)]
        return int(found[index][0])

    def die(self, status: int) -> None:
        if self.child.status is None:
            self.child.status = status
        self.channel.close()


class Maker:
    """Makes such processes."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.killed: list[int] = []
        self.answers: dict[type, Callable[[Any], object]] = {
            StopTask: lambda _asked: True,
            StopConnector: lambda _asked: True,
            CountTasks: lambda _asked: [],
        }
        self.can_fork = True

    def start(self, broken: Callable[[], None]) -> None:
        """Nothing to do."""

    def fork(self) -> tuple[Child, socket.socket]:
        if not self.can_fork:
            raise ConnectError("no more processes")
        ours, theirs = socket.socketpair()
        process = Process(100 + len(self.processes), theirs, self.answers)
        self.processes.append(process)
        return process.child, ours

    def kill(self, pid: int) -> None:
        self.killed.append(pid)
        self.processes[pid - 100].die(9)

    def close(self) -> None:
        for process in self.processes:
            process.die(0)
            process.thread.join(PATIENCE_S)


class Scene:
    """A worker, and what it was told."""

    def __init__(self, most: int = 1, restarts: int = 1, *, spreads: bool = True) -> None:
        settings = {"pkafka.connect.restart.max": str(restarts), "task.shutdown.graceful.timeout.ms": "0"}
        config = distributed_config({**worker_settings("a:1", "g"), **settings}, load_plugins())
        self.maker = Maker()
        self.said: list[tuple[object, State, str | None]] = []
        self.used: list[tuple[TaskName, str]] = []
        self.fallen = threading.Semaphore(0)
        self.worker = HostedWorker(
            config,
            most,
            self.maker,
            _NoOffsets(),
            lambda task, topic: self.used.append((task, topic)),
            self.fallen.release,
            lambda: None,
            spreads=spreads,
            look_s=0.01,
        )
        self.worker.start()

    def start(self, task: TaskName, guard: Guard | None = None) -> None:
        self.worker.start_task(task, {"a": "b"}, {}, Target.STARTED, self.report, guard)

    def report(self, task: TaskName, state: State, trace: str | None) -> None:
        self.said.append((task, state, trace))

    def wait_for_death(self) -> Fallen:
        assert self.fallen.acquire(timeout=PATIENCE_S)
        return self.worker.take_fallen()


class _NoOffsets:
    def refresh(self) -> None:
        """Nothing to do."""

    def get(self, key: bytes) -> bytes | None:
        return None

    def entries(self) -> dict[bytes, bytes | None]:
        return {}

    def put(self, entries: object) -> None:
        """Nothing to do."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer that comes at once comes late."""
    monkeypatch.setattr(hosted_worker, "_ANSWER_S", PATIENCE_S)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.worker.stop()


def test_what_tasks_say_is_heard_until_they_are_left_behind(scene: Scene) -> None:
    scene.maker.answers[StopTask] = lambda _asked: False
    scene.start(TASK)
    (process,) = scene.maker.processes
    run = process.run_of(StartTask)
    process.channel.tell(TaskSaid(run, "RUNNING", None))
    process.channel.tell(UsedTopic(*TASK, "t"))
    wait_for(lambda: scene.used == [(TASK, "t")])
    assert scene.said == [(TASK, State.RUNNING, None)]
    scene.start(OTHER)
    scene.worker.stop_tasks([TASK])
    process.channel.tell(TaskSaid(run, "RUNNING", None))
    process.channel.tell(UsedTopic(*TASK, "u"))
    wait_for(lambda: len(scene.used) == 2)
    assert len(scene.said) == 1


def test_a_process_with_something_left_behind_gets_no_more_and_is_killed_when_empty(scene: Scene) -> None:
    scene.maker.answers[StopTask] = lambda asked: asked.run != scene.maker.processes[0].run_of(StartTask, 0)
    scene.start(TASK)
    scene.start(OTHER)
    scene.worker.stop_tasks([TASK])
    assert scene.maker.killed == []
    scene.start(TASK)
    assert len(scene.maker.processes) == 2
    scene.worker.stop_tasks([OTHER])
    assert scene.maker.killed == [100]
    scene.worker.stop_tasks([TASK])
    assert scene.maker.killed == [100]


def test_what_falls_starts_again_and_then_fails(scene: Scene) -> None:
    scene.start(TASK)
    scene.maker.processes[0].die(9)
    assert scene.wait_for_death() == Fallen(frozenset(), frozenset({TASK}))
    scene.start(TASK)
    scene.maker.processes[1].die(3 << 8)
    assert scene.wait_for_death() == Fallen(frozenset(), frozenset())
    ((task, state, trace),) = scene.said
    assert (task, state) == (TASK, State.FAILED)
    assert "The process in which this ran has ended with exit code 3. It was started again 1 times" in str(
        trace
    )
    scene.worker.stop_tasks([TASK])  # there is nothing to end any more
    scene.start(TASK)
    assert len(scene.maker.processes) == 3


def test_those_that_fell_together_are_parted(scene: Scene) -> None:
    tasks = [TaskName("c", number) for number in range(8)]
    for task in tasks:
        scene.start(task)
    assert len(scene.maker.processes) == 1
    scene.maker.processes[0].die(11)
    assert scene.wait_for_death().tasks == set(tasks)
    for task in tasks:
        scene.start(task)
    assert [len(process.asked) for process in scene.maker.processes[1:]] == [2, 2, 2, 2]


@pytest.fixture
def growing() -> Iterator[Scene]:
    """Up to two processes, of which the worker makes the second one when the first is busy; four tasks, all busy."""
    scene = Scene(most=2, spreads=False)
    rows = [["c", number, 0] for number in range(4)]
    scene.maker.answers[TellLoad] = lambda _asked: [time.monotonic(), rows]
    for number in range(4):
        scene.start(TaskName("c", number))
    assert len(scene.maker.processes) == 1
    yield scene
    scene.worker.stop()


def test_a_part_of_the_tasks_of_a_busy_process_moves_to_another_one(growing: Scene) -> None:
    moved = growing.wait_for_death().tasks
    assert moved == {TaskName("c", 1), TaskName("c", 3)}
    one = growing.maker.processes[0]
    assert sorted(each.run for each in one.asked if isinstance(each, StopTask)) == sorted(
        each.run for each in one.asked if isinstance(each, StartTask) and each.number in {1, 3}
    )
    for task in sorted(moved):
        growing.start(task)
    other = growing.maker.processes[1]
    assert {each.number for each in other.asked if isinstance(each, StartTask)} == {1, 3}
    assert not growing.fallen.acquire(timeout=0.2), "there are as many processes as there may be"
    assert len(growing.maker.processes) == 2


def test_tasks_stay_where_they_are_when_no_process_can_be_made_for_them(growing: Scene) -> None:
    moved = growing.wait_for_death().tasks
    growing.maker.can_fork = False
    for task in sorted(moved):
        growing.start(task)
    (one,) = growing.maker.processes
    assert [each.number for each in one.asked if isinstance(each, StartTask)] == [0, 1, 2, 3, 1, 3]


def test_a_task_that_was_taken_away_meanwhile_moves_nowhere(growing: Scene) -> None:
    wait_for(lambda: growing.worker._leaving)
    growing.worker.stop_tasks([TaskName("c", 1)])
    assert growing.wait_for_death().tasks == {TaskName("c", 3)}


def test_processes_that_are_not_busy_keep_their_tasks() -> None:
    scene = Scene(most=2, spreads=False)
    looks = threading.Semaphore(0)

    def load(_asked: TellLoad) -> list[object]:
        looks.release()
        return [0.0, []]

    scene.maker.answers[TellLoad] = load
    for number in range(4):
        scene.start(TaskName("c", number))
    for _ in range(5):
        assert looks.acquire(timeout=PATIENCE_S)
    assert not scene.fallen.acquire(blocking=False)
    assert len(scene.maker.processes) == 1
    scene.worker.stop()


def test_a_death_while_a_task_is_made_is_a_death_like_any_other(scene: Scene) -> None:
    scene.maker.answers[StartTask] = lambda _asked: scene.maker.processes[-1].die(9)
    scene.start(TASK)
    assert scene.wait_for_death().tasks == {TASK}


def test_what_was_stopped_meanwhile_does_not_start_again(scene: Scene) -> None:
    scene.start(TASK)
    scene.start(OTHER)
    scene.maker.processes[0].die(9)
    scene.worker.stop_tasks([TASK])
    assert scene.said == [(TASK, State.UNASSIGNED, None)]
    assert scene.wait_for_death().tasks == {OTHER}


def test_what_cannot_be_made_raises_and_leaves_nothing(scene: Scene) -> None:
    def refuse(_asked: StartTask) -> None:
        raise ConnectError("no such class")

    scene.maker.answers[StartTask] = refuse
    with pytest.raises(ConnectError, match="no such class"):
        scene.start(TASK)
    scene.maker.processes[0].die(9)
    wait_for(lambda: not scene.maker.processes[0].thread.is_alive())
    assert scene.worker.take_fallen() == Fallen(frozenset(), frozenset())
    scene.maker.can_fork = False
    with pytest.raises(ConnectError, match="no more processes"):
        scene.start(OTHER)


def test_a_connector_says_where_it_is(scene: Scene) -> None:
    states: list[State] = []
    reached: list[State] = []
    wants = threading.Event()

    def report(state: State, _trace: str | None) -> None:
        states.append(state)

    scene.worker.start_connector(
        "c", {"x": "y"}, Target.PAUSED, report=report, reconfigure=wants.set, then=reached.append
    )
    (process,) = scene.maker.processes
    run = process.run_of(StartConnector)
    assert process.asked == [StartConnector(run, "c", {"x": "y"}, "PAUSED")]
    process.channel.tell(ConnectorSaid(run, "PAUSED", None))
    process.channel.tell(ConnectorReached(run, "PAUSED"))
    process.channel.tell(WantsTasks(run))
    assert wants.wait(PATIENCE_S)
    assert (states, reached, scene.worker.connectors["c"].state) == (
        [State.PAUSED],
        [State.PAUSED],
        State.PAUSED,
    )
    scene.worker.stop_connector("c")
    process.channel.tell(WantsTasks(run))
    process.channel.tell(UsedTopic(*TASK, "t"))
    wait_for(lambda: scene.used)
    assert scene.worker.connectors == {}


def test_a_task_is_fenced_and_looked_after_by_the_worker(scene: Scene) -> None:
    fenced: list[threading.Event] = []

    def after() -> None:
        raise ConnectError("it has already been revoked from this worker")

    scene.start(TASK, Guard(fenced.append, after))
    (process,) = scene.maker.processes
    run = process.run_of(StartTask)
    process.channel.ask(Fence(run)).result(PATIENCE_S)
    with pytest.raises(ConnectError, match="revoked"):
        process.channel.ask(SeeThatMine(run)).result(PATIENCE_S)
    assert [event.is_set() for event in fenced] == [False]
    scene.worker.stop_tasks([TASK])
    assert fenced[0].is_set()


def test_levels_and_counts_are_those_of_all_processes() -> None:
    scene = Scene(most=2)
    scene.worker.set_level("a", 10)
    scene.start(TASK)
    scene.worker.set_level("b", 20)
    scene.start(OTHER)
    one, other = scene.maker.processes
    scene.worker.tasks[TASK].aim(Target.PAUSED)
    scene.maker.answers[CountTasks] = lambda _asked: [
        [*TASK, [["n", "about", 3]], [["m", "about", {"tag": "x"}, 1.5]]]
    ]
    counts = TaskCounts([Counter("n", "about", 3)], [TaskMetric("m", "about", {"tag": "x"}, 1.5)])
    assert scene.worker.counts() == {TASK: counts}
    assert one.heard == [SetLevel("a", 10), SetLevel("b", 20), AimTask(one.run_of(StartTask), "PAUSED")]
    assert other.heard == [SetLevel("a", 10), SetLevel("b", 20)]
    scene.worker.stop()
    assert (one.asked[-1], other.asked[-1], scene.maker.killed) == (End(), End(), [])


@pytest.mark.parametrize(("wanted", "most"), [("0", 0), ("1", 1)])
def test_there_are_as_many_processes_as_are_wanted(wanted: str, most: int) -> None:
    settings = {**worker_settings("a:1", "g"), "pkafka.connect.hosts": wanted}
    assert hosts_of(distributed_config(settings, load_plugins())) == most


def test_there_are_never_more_processes_than_cores() -> None:
    plugins = load_plugins()
    default = distributed_config(worker_settings("a:1", "g"), plugins)
    many = distributed_config({**worker_settings("a:1", "g"), "pkafka.connect.hosts": "100000"}, plugins)
    assert hosts_of(default) == hosts_of(many) >= 1
    assert (hosts_grow(default), hosts_grow(many)) == (True, False)
