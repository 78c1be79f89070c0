"""A worker whose connectors and tasks run in processes beside it, which it makes as they are needed.

Unless a number of processes is asked for, there is one, and another one whenever one was busy for a while: a part of
its tasks starts anew there, in order, as when a cluster shares them out anew.

A process that ends under its tasks ends nothing else: they start in another one. A task that ignores its end is left
behind; its process takes no more work, and is killed when all others have left it.
"""

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol

from pkafka.connect.connector import TaskMetric
from pkafka.connect.errors import ConnectError
from pkafka.connect.hosts.channel import Channel, PeerEndedError
from pkafka.connect.hosts.deaths import WINDOW_S, Deaths, how_it_ended
from pkafka.connect.hosts.maker import Child
from pkafka.connect.hosts.messages import (
    CountTasks,
    End,
    SetLevel,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    TellLoad,
)  # fmt: skip
from pkafka.connect.hosts.placement import Name, parted, place, to_relieve
from pkafka.connect.hosts.relief import Load, leavers
from pkafka.connect.hosts.remote import RemoteConnector, RemoteHost, RemoteTask, Run
from pkafka.connect.runner import Fallen, Guard
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.storage.offset_store import OffsetStore
from pkafka.connect.task_run import Counter, Report, TaskCounts
from pkafka.connect.traces import trace_of
from pkafka.connect.worker_config import WorkerConfig

log = logging.getLogger("org.apache.kafka.connect.runtime.Worker")

_MAKING_S: Final = 120.0
"""How long a connector or a task may take to be made; it may look for topics meanwhile."""
_ANSWER_S: Final = 5.0
"""How long a process may take to answer, beside what it has to do."""
_LOOK_S: Final = 5.0
"""How often the worker looks which processes are busy."""


class Maker(Protocol):
    """Makes processes; see :class:`~pkafka.connect.hosts.maker.HostMaker`."""

    def start(self, broken: Callable[[], None]) -> None: ...
    def fork(self) -> tuple[Child, socket.socket]: ...
    def kill(self, pid: int) -> None: ...
    def close(self) -> None: ...


class HostedWorker:
    """Runs connectors and tasks; see :class:`~pkafka.connect.runner.Runner`.

    Args:
        config: of the worker.
        most: how many processes there may be, see :func:`hosts_of`.
        maker: makes them.
        store: keeps the offsets of sources.
        used_topic: told which topics a connector uses.
        fallen: called when something has ended with its process, for whoever calls :meth:`take_fallen`; on any thread.
        broken: called when no more processes can be made.
        spreads: whether each task has a process of its own as long as there may be more; else a process is made when
            those that there are were busy for a while.
        look_s: how often to look for that.
    """

    def __init__(
        self,
        config: WorkerConfig,
        most: int,
        maker: Maker,
        store: OffsetStore,
        used_topic: Callable[[TaskName, str], None],
        fallen: Callable[[], None],
        broken: Callable[[], None],
        *,
        spreads: bool,
        look_s: float = _LOOK_S,
    ) -> None:
        self.connectors: dict[str, RemoteConnector] = {}
        self.tasks: dict[TaskName, RemoteTask] = {}
        self._most = most
        self._graceful_s = float(config.parsed["task.shutdown.graceful.timeout.ms"]) / 1000
        self._maker = maker
        self._store = store
        self._used_topic = used_topic
        self._fallen = fallen
        self._broken = broken
        self._deaths = Deaths(config.parsed["pkafka.connect.restart.max"])
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        """Guards the processes, and which of them has what."""
        self._hosts: dict[int, RemoteHost] = {}
        self._parties: dict[Name, tuple[int, float]] = {}
        """The suspects: the party in which each is kept, and until when."""
        self._levels: dict[str, int] = {}
        self._spreads = spreads
        self._look_s = look_s
        self._leaving: dict[TaskName, int] = {}
        """Tasks that are to leave a busy process, and the number of that."""
        self._is_ending = threading.Event()

    def start(self) -> None:
        """Begin; processes are made as they are needed."""
        self._maker.start(self._broken)
        if not self._spreads and self._most > 1:
            threading.Thread(target=self._watch, name="connect-host-loads", daemon=True).start()

    def stop(self) -> None:
        """End all that runs, and the processes."""
        self._is_ending.set()
        with self._lock:
            hosts = list(self._hosts.values())
            for host in hosts:
                host.is_ending = True
        asked = [(host, host.channel.ask(End())) for host in hosts]
        deadline_s = time.monotonic() + self._graceful_s + _ANSWER_S
        for host, future in asked:
            _outcome(future, deadline_s)
            host.channel.close()
        for host in hosts:
            if not host.child.ended.wait(max(0.0, deadline_s - time.monotonic())):
                self._maker.kill(host.pid)
        self._maker.close()

    def set_level(self, logger: str, level: int) -> None:
        """Set the level of a logger in all processes, those that are made later too."""
        with self._lock:
            self._levels[logger] = level
            for host in self._hosts.values():
                host.channel.tell(SetLevel(logger, level))

    def counts(self) -> dict[TaskName, TaskCounts]:
        """What tasks have counted; those of a process that does not answer are left out."""
        with self._lock:
            asked = [host.channel.ask(CountTasks()) for host in self._hosts.values() if not host.is_dead]
        deadline_s = time.monotonic() + _ANSWER_S
        found: dict[TaskName, TaskCounts] = {}
        for future in asked:
            for connector, number, counters, own in _outcome(future, deadline_s) or ():
                name = TaskName(connector, number)
                if name in self.tasks:  # and is not one that was left behind
                    found[name] = TaskCounts(
                        [Counter(*each) for each in counters], [TaskMetric(*each) for each in own]
                    )
        return found

    # -- connectors --

    def start_connector(
        self,
        name: str,
        configs: Mapping[str, str],
        target: Target,
        *,
        report: Callable[[State, str | None], None],
        reconfigure: Callable[[], None],
        then: Callable[[State], None],
    ) -> None:
        """Make a connector and bring it where it is to be; see :meth:`~pkafka.connect.worker.Worker.start_connector`.

        Raises:
            ConnectError, ConfigError: it cannot be made.
        """
        run = RemoteConnector(next(self._numbers), name, report, reconfigure, then)
        host = self._give(run)
        self.connectors[name] = run
        self._make(host, run, StartConnector(run.run, name, dict(configs), target.value))

    def stop_connector(self, name: str) -> None:
        """End a connector."""
        run = self.connectors.pop(name, None)
        if run is not None:
            self._end([(run, run.channel.ask(StopConnector(run.run)))])

    # -- tasks --

    def start_task(
        self,
        name: TaskName,
        configs: Mapping[str, str],
        task_configs: Mapping[str, str],
        target: Target,
        report: Report,
        guard: Guard | None = None,
    ) -> None:
        """Make a task and start it; see :meth:`~pkafka.connect.worker.Worker.start_task`.

        Raises:
            ConnectError, ConfigError: it cannot be made.
        """
        run = RemoteTask(next(self._numbers), name, report, guard)
        host = self._give(run)
        self.tasks[name] = run
        asked = StartTask(
            run.run, *name, dict(configs), dict(task_configs), target.value, is_exact=guard is not None
        )
        self._make(host, run, asked)

    def stop_tasks(self, names: Iterable[TaskName]) -> None:
        """End tasks; those that take longer than all together may are left behind."""
        runs = [run for name in names if (run := self.tasks.pop(name, None)) is not None]
        for run in runs:
            run.stopping.set()
        self._end([(run, run.channel.ask(StopTask(run.run))) for run in runs])

    # -- processes --

    def _give(self, run: Run) -> RemoteHost:
        """Find a process for something, or make one.

        Raises:
            ConnectError: none can be made.
        """
        with self._lock:
            now_s = time.monotonic()
            party, until_s = self._parties.get(run.name, (None, 0.0))
            if until_s <= now_s:
                party = None
            left = self._leaving.pop(run.name, None) if isinstance(run, RemoteTask) else None
            loads = [
                host.load(now_s, spreads=self._spreads)
                for host in self._hosts.values()
                if host.takes_work and host.number != left
            ]
            number = place(loads, self._most, party=party, is_task=isinstance(run, RemoteTask))
            host = self._new_host(party, left) if number is None else self._hosts[number]
            host.runs[run.run] = run
            run.host = host
            return host

    def _new_host(self, party: int | None, left: int | None) -> RemoteHost:
        """Make a process.

        Args:
            party: of the suspects that it is for.
            left: the number of the process that a task has left as it was busy, and where it goes on when none can be
                made.

        Raises:
            ConnectError: none can be made.
        """
        try:
            child, sock = self._maker.fork()
        except ConnectError as error:
            former = self._hosts.get(-1 if left is None else left)
            if former is None or not former.takes_work:
                raise
            log.warning("Tasks stay in process %d, which is busy: %s", former.pid, error)
            return former
        number = next(self._numbers)
        until_s = time.monotonic() + WINDOW_S
        host = RemoteHost(number, child, Channel(sock), self._store, self._used_topic, party, until_s)
        self._hosts[number] = host
        for logger, level in self._levels.items():
            host.channel.tell(SetLevel(logger, level))
        threading.Thread(
            target=self._listen, args=(host,), name=f"connect-host-{number}", daemon=True
        ).start()
        log.info("Made process %d for connectors and tasks", child.pid)
        return host

    def _make(self, host: RemoteHost, run: Run, message: StartConnector | StartTask) -> None:
        try:
            host.channel.ask(message).result(_MAKING_S)
        except PeerEndedError:
            log.warning("The process of %s has ended before it was made", run.name)  # see take_fallen
        except TimeoutError as error:
            self._leave(run, has_ended=False)
            raise ConnectError(f"{run.name} was not made within {_MAKING_S:g} seconds") from error
        except BaseException:
            self._leave(run, has_ended=True)
            raise

    def _end(self, asked: "list[tuple[Run, Future[Any]]]") -> None:
        """Wait until connectors or tasks have ended, but no longer than they may take."""
        deadline_s = time.monotonic() + self._graceful_s + _ANSWER_S
        for run, future in asked:
            has_ended = _outcome(future, deadline_s)
            if future.done() and isinstance(future.exception(), PeerEndedError):
                run.said(State.UNASSIGNED)  # it has ended with its process, and could not say so itself
                has_ended = True
            self._leave(run, has_ended=bool(has_ended))

    def _leave(self, run: Run, *, has_ended: bool) -> None:
        """Something has left its process, or was left behind in it."""
        host = run.host
        assert host is not None
        with self._lock:
            host.runs.pop(run.run, None)
            if not has_ended:
                log.error("%s has not ended; process %d takes no more work", run.name, host.pid)
                host.is_spoiled = True
            if host.runs or host.is_dead or host.is_ending:
                return
            if host.is_spoiled:
                log.warning("Killing process %d, in which nothing is left but what did not end", host.pid)
                host.is_ending = True
                self._maker.kill(host.pid)
            elif sum(each.takes_work for each in self._hosts.values()) > self._most:
                host.is_ending = True
                host.channel.ask(End()).add_done_callback(lambda _future: host.channel.close())

    # -- busy processes --

    def _watch(self) -> None:
        while not self._is_ending.wait(self._look_s):
            try:
                self._look()
            except Exception:
                log.exception("Cannot see how busy the processes of tasks are; trying again")

    def _look(self) -> None:
        """See how busy the processes are; have a part of the tasks of the busiest start anew in another one."""
        with self._lock:
            hosts = [host for host in self._hosts.values() if host.takes_work]
            asked = [(host, host.channel.ask(TellLoad())) for host in hosts]
        deadline_s = time.monotonic() + _ANSWER_S
        for host, future in asked:
            answer = _outcome(future, deadline_s)
            if answer is not None:
                cpu_s, rows = answer
                records = {TaskName(connector, number): count for connector, number, count in rows}
                host.watch.look(time.monotonic(), Load(cpu_s, records))
        with self._lock:
            now_s = time.monotonic()
            loads = [host.load(now_s, spreads=False) for host in self._hosts.values() if host.takes_work]
            number = to_relieve(loads, self._most)
            if number is None:
                return
            host = self._hosts[number]
            host.watch.begin_again()
            own = {run.name for run in host.runs.values() if isinstance(run, RemoteTask)}
            found = leavers({task: host.watch.shares.get(task, 0) for task in own})
            self._leaving.update(dict.fromkeys(found, number))
        log.info("Process %d is busy: %d of its %d tasks move to another one", host.pid, len(found), len(own))
        self._fallen()

    def _moved(self) -> list[TaskName]:
        """End the tasks that leave a busy process; they are to start again."""
        with self._lock:
            found = [
                task
                for task, number in self._leaving.items()
                if (run := self.tasks.get(task)) is not None
                and run.host is not None
                and run.host.number == number
            ]
            self._leaving = {task: self._leaving[task] for task in found}
        self.stop_tasks(found)
        return found

    # -- the end of processes --

    def _listen(self, host: RemoteHost) -> None:
        """Hear what a process says, until it ends."""
        host.channel.run(host)
        ended = host.child.ended
        if not ended.wait(_ANSWER_S):  # the line breaks a moment before the end
            self._maker.kill(host.pid)
            ended.wait(_ANSWER_S)
        with self._lock:
            host.is_dead = True
            if not host.runs:
                self._hosts.pop(host.number, None)
                return
        if not host.is_ending:
            log.error("Process %d of connectors and tasks %s", host.pid, how_it_ended(host.child.status))
        self._fallen()

    def take_fallen(self) -> Fallen:
        """What ended with its process, or leaves a busy one, and is to start again.

        A connector or task whose process has ended too often is FAILED from now on. The herder's thread calls this: no
        other thread starts and stops tasks.
        """
        with self._lock:
            dead = [host for host in self._hosts.values() if host.is_dead]
            for host in dead:
                del self._hosts[host.number]
        again: list[Name] = []
        for host in dead:
            again += self._bury(host)
        again += self._moved()
        return Fallen(
            frozenset(each for each in again if isinstance(each, str)),
            frozenset(each for each in again if isinstance(each, TaskName)),
        )

    def _bury(self, host: RemoteHost) -> list[Name]:
        """Decide about what ran in a process that has ended."""
        again: list[Name] = []
        for run in list(host.runs.values()):
            runs: dict[Any, Any] = self.tasks if isinstance(run, RemoteTask) else self.connectors
            if runs.get(run.name) is not run:
                continue  # it was stopped meanwhile
            del runs[run.name]
            self._parties.pop(run.name, None)
            if self._deaths.may_start_again(run.name, time.monotonic()):
                again.append(run.name)
            else:
                run.said(State.FAILED, trace_of(ConnectError(self._verdict(host))))
        for suspects in parted(again):
            party = (next(self._numbers), time.monotonic() + WINDOW_S)
            self._parties.update(dict.fromkeys(suspects, party))
        return again

    def _verdict(self, host: RemoteHost) -> str:
        return (
            f"The process in which this ran {how_it_ended(host.child.status)}. It was started again"
            f" {self._deaths.most} times in {WINDOW_S / 60:g} minutes (pkafka.connect.restart.max), and is left"
            " until somebody restarts it."
        )


def hosts_grow(config: WorkerConfig) -> bool:
    """Whether the worker makes processes as those that there are become busy: no number was asked for."""
    return config.parsed["pkafka.connect.hosts"] is None


def hosts_of(config: WorkerConfig) -> int:
    """How many processes a worker may have for its tasks; 0: they run in the worker's own."""
    most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = config.parsed["pkafka.connect.hosts"]
    return most if wanted is None else min(int(wanted), most)


def _outcome(future: "Future[Any]", deadline_s: float) -> Any:  # noqa: ANN401 - by what was asked
    """An answer; None: there is none in time, or a failure."""
    try:
        return future.result(max(0.0, deadline_s - time.monotonic()))
    except (ConnectError, TimeoutError) as error:
        log.debug("A process of tasks has not answered: %s", error)
        return None
