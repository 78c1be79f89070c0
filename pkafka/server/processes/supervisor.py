"""The parent process: forks the broker's processes, watches them, replaces the ones that die, and stops them in order.

It owns the listening sockets (a worker's death resets no queued connection), the locks of the log directories and the
pid file. It runs no event loop and touches no log; it imports what its children need so that they share its pages.
Signal handlers only enqueue (the wake-up descriptor); everything happens in one loop.
"""

import contextlib
import gc
import logging
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pkafka.net import parents
from pkafka.server.config.broker_loggers import set_log_level
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import CLEANER, CONTROL, Birth, ChildMain
from pkafka.server.ipc.lifeline import ChildExit, Lifeline

log = logging.getLogger(__name__)

SILENCE_MAX_S: Final = 10.0
"""A child whose event loop said nothing for this long hangs, and is killed and replaced."""
LATE_SHARE: Final = 0.3
"""After this part of that time a child seems to hang: the others hear of it, and do not wait for it any more."""
POLL_S: Final = 0.5
BOOT_MAX_S: Final = 600.0
RESTARTS_MAX: Final = 6
RESTARTS_WINDOW_S: Final = 30.0
"""With more deaths than this within the window the broker stops."""
STOP_MAX_S: Final = 60.0
"""A child that has not ended this long after it was asked to, or after it closed a log, is killed. Its logs recover at
the next start."""


@dataclass(slots=True)
class Child:
    """Tracks a running child process."""

    name: str
    pid: int
    line: Lifeline
    heard_s: float
    booted: bool = False
    late: bool = False
    """The others were told that it seems to hang."""
    stopping: bool = False

    @property
    def is_worker(self) -> bool:
        """Whether it serves clients."""
        return self.name not in (CONTROL, CLEANER)


@dataclass(slots=True)
class Outcome:
    """Says how the broker ended."""

    clean: bool = True
    deaths: "deque[float]" = field(default_factory=deque)


class Supervisor:
    """Runs the children of one broker until a signal or a failure ends it.

    Args:
        mains: what each child runs after the fork, by name; its return value is the child's exit code.
        on_ready: called once, with the facts that the control process reports, when clients are served.
        on_stopped: called when all children have ended, with whether every one ended cleanly, and the log directories
            that failed meanwhile: what lies there is not what the logs were.
        silence_max_s: a booted child that is silent for longer hangs.
    """

    def __init__(
        self,
        mains: Mapping[str, ChildMain],
        *,
        on_ready: Callable[[dict[str, Any]], None],
        on_stopped: Callable[[bool, frozenset[str]], None],
        silence_max_s: float = SILENCE_MAX_S,
    ) -> None:
        self._mains = dict(mains)
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        self._silence_max_s = silence_max_s
        self._late_s = max(LATE_SHARE * silence_max_s, 1.5 * lifeline.BEAT_INTERVAL_S)
        self._failed_directories: set[str] = set()
        self._children: dict[str, Child] = {}
        self._born: set[str] = set()
        self._session: tuple[int, bytes] | None = None
        self._outcome = Outcome()
        self._ready = False
        self._stop_queue: list[list[str]] | None = None
        self._stop_deadline_s = 0.0
        self._waiting_for: set[str] = set()
        self._signals, self._signal_wakeup = socket.socketpair()
        self._prctl = parents.load_death_signal()

    # -- the loop --

    def run(self) -> int:
        """Start the children and watch them until they have ended.

        Returns:
            The exit code of the broker: 0 after a clean stop.
        """
        with self._signal_handling():
            # Objects that exist now are never collected again: their pages stay shared with the children. To look for
            # garbage before would take 40 ms, and find hardly any among what was imported.
            gc.freeze()
            for name in self._mains:
                self._start(name)
            while self._children:
                awake_s = time.monotonic()
                self._poll(timeout_s=POLL_S)
                self._reap()
                self._kill_silent(slept_s=time.monotonic() - awake_s)
                self._continue_stop()
        self._on_stopped(self._outcome.clean, frozenset(self._failed_directories))
        return 0 if self._outcome.clean else 1

    @contextlib.contextmanager
    def _signal_handling(self) -> Iterator[None]:
        self._signals.setblocking(False)
        self._signal_wakeup.setblocking(False)
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)
        previous = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
        previous_fd = signal.set_wakeup_fd(self._signal_wakeup.fileno())
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous_fd)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _poll(self, *, timeout_s: float) -> None:
        poller = select.poll()
        by_fd = {child.line.sock.fileno(): child for child in self._children.values()}
        for fd in (self._signals.fileno(), *by_fd):
            poller.register(fd, select.POLLIN)
        for fd, _events in poller.poll(int(timeout_s * 1000)):
            if fd == self._signals.fileno():
                for number in self._signals.recv(4096):
                    self._obey(number)
            elif by_fd[fd].name in self._children:
                self._listen(by_fd[fd])

    def _obey(self, number: int) -> None:
        if number not in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            return
        if self._stop_queue is not None:
            log.warning("Second signal: ending at once; logs recover at the next start")
            self._kill_all()
        else:
            log.info("Stopping (signal %s)", signal.Signals(number).name)
            self.stop()

    def _listen(self, child: Child) -> None:
        child.heard_s = time.monotonic()
        if child.late:
            self._set_late(child, late=False)
        for operation, payload in child.line.read():
            if operation == lifeline.BOOTED:
                child.booted = True
            elif operation == lifeline.SESSION:
                self._session = (payload[0], payload[1]) if payload else None
            elif operation == lifeline.READY and not self._ready:
                self._ready = True
                self._on_ready(payload)
            elif operation == lifeline.DIRECTORY_FAILED:
                self._failed_directories.add(payload)
            elif operation == lifeline.RELEASED:
                self._waiting_for.discard(child.name)
            elif operation == lifeline.CLOSING and child.name in self._waiting_for:
                self._stop_deadline_s = time.monotonic() + STOP_MAX_S
            elif operation == lifeline.LOG_LEVEL:
                self._set_log_level(payload)

    def _set_late(self, child: Child, *, late: bool) -> None:
        child.late = late
        for other in self._children.values():
            if other is not child and other.is_worker:
                other.line.note(lifeline.LATE, [child.name, late])

    def _set_log_level(self, change: list[Any]) -> None:
        """Change a logger's level here, for those that are forked from now on, and in every child."""
        set_log_level(change[0], change[1])
        for child in self._children.values():
            child.line.note(lifeline.LOG_LEVEL, change)

    # -- starting --

    def _start(self, name: str) -> None:
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        birth = Birth(theirs, name, first=name not in self._born, session=self._session)
        pid = os.fork()
        if pid == 0:
            self._become_child(birth, ours, parent)
        theirs.close()
        self._born.add(name)
        child = Child(name, pid, Lifeline(ours), heard_s=time.monotonic())
        self._children[name] = child
        log.debug("Started %s (pid %d)", name, pid)
        for other in list(self._children.values()):
            if other is not child:
                self._introduce(child, other)

    def _become_child(self, birth: Birth, ours: socket.socket, parent: int) -> None:
        """Run the child's main and end the process; never returns."""
        code: int = ChildExit.CRASHED
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                # A terminal's Ctrl-C reaches the whole group; the supervisor alone decides what it means.
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # The control process ends its session with the coordination store first (Control._orphaned).
            parents.die_with_parent(self._prctl if birth.name != CONTROL else None, parent)
            parents.set_title(self._prctl, birth.name)
            ours.close()
            self._signals.close()
            self._signal_wakeup.close()
            for sibling in self._children.values():
                sibling.line.close()
            code = self._mains[birth.name](birth)
        except BaseException:
            log.exception("%s ends", birth.name)
        finally:
            logging.shutdown()
            os._exit(code)

    def _introduce(self, one: Child, other: Child) -> None:
        ends = socket.socketpair()
        one.line.note(lifeline.PEER, other.name, [ends[0].fileno()])
        other.line.note(lifeline.PEER, one.name, [ends[1].fileno()])
        for end in ends:
            end.close()
        if other.late and one.is_worker:
            one.line.note(lifeline.LATE, [other.name, True])

    # -- watching --

    def _reap(self) -> None:
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._listen(child)
                child.line.close()
                del self._children[child.name]
                self._bury(child, os.waitstatus_to_exitcode(status))

    def _bury(self, child: Child, code: int) -> None:
        self._waiting_for.discard(child.name)
        if self._stop_queue is not None and (child.name == CONTROL or not self._gives_leaders_away):
            if code != ChildExit.CLEAN:
                log.warning("%s (pid %d) did not end cleanly: %s", child.name, child.pid, _describe(code))
                self._outcome.clean = False
            return
        if code == ChildExit.CANNOT_BOOT:
            self._outcome.clean = False
            self.stop()
            return
        if code == ChildExit.SESSION_OVER:
            # The child has logged why. Such an end does not count as a death, however often it happens.
            self._start(child.name)
            return
        log.error("%s (pid %d) died: %s; starting it again", child.name, child.pid, _describe(code))
        now = time.monotonic()
        deaths = self._outcome.deaths
        deaths.append(now)
        while deaths and deaths[0] < now - RESTARTS_WINDOW_S:
            deaths.popleft()
        if len(deaths) > RESTARTS_MAX:
            log.critical("%d processes died within %.0f s; the broker stops", len(deaths), RESTARTS_WINDOW_S)
            self._outcome.clean = False
            self.stop()
            return
        self._start(child.name)

    def _kill_silent(self, *, slept_s: float) -> None:
        now = time.monotonic()
        # This process itself was held up (Ctrl-Z, a suspended machine), so the silence of the children proves nothing.
        held_up_s = slept_s if slept_s > 2 * POLL_S else 0.0
        for child in self._children.values():
            child.heard_s += held_up_s
            limit = self._silence_max_s if child.booted else BOOT_MAX_S
            silent_s = now - child.heard_s
            if child.is_worker and child.booted and not child.late and silent_s > self._late_s:
                log.warning("%s (pid %d) has been silent for %.0f s", child.name, child.pid, silent_s)
                self._set_late(child, late=True)
            if not child.stopping and silent_s > limit:
                log.error("%s (pid %d) has been silent for %.0f s; killing it", child.name, child.pid, limit)
                child.heard_s = now
                os.kill(child.pid, signal.SIGKILL)

    # -- stopping --

    def stop(self) -> None:
        """Begin the ordered stop: give leaders away, close logs, write checkpoints, give the session back."""
        if self._stop_queue is not None:
            return
        workers = [name for name in self._mains if name not in (CONTROL, CLEANER)]
        self._stop_queue = [[CONTROL], workers, [CLEANER], [CONTROL]]
        self._next_stop()

    @property
    def _gives_leaders_away(self) -> bool:
        """Whether the stop is at its first step. It may take long when the controller is hard to reach; clients are
        served until its end, so all processes have to be there."""
        return bool(self._stop_queue) and CONTROL in self._waiting_for

    def _next_stop(self) -> None:
        queue = self._stop_queue
        assert queue is not None
        self._stop_deadline_s = time.monotonic() + STOP_MAX_S
        self._waiting_for = set()
        while queue and not self._waiting_for:
            names = queue.pop(0)
            last = not queue
            for name in names:
                child = self._children.get(name)
                if child is None:
                    continue
                child.stopping = child.stopping or last or name != CONTROL
                self._waiting_for.add(name)
                child.line.note(lifeline.CLOSE if last else lifeline.STOP)

    def _continue_stop(self) -> None:
        if self._stop_queue is None:
            return
        if not self._waiting_for and (self._stop_queue or self._children):
            self._next_stop()
        elif time.monotonic() > self._stop_deadline_s:
            log.error(
                "Still running %.0f s after they were asked to end, killed: %s",
                STOP_MAX_S,
                sorted(self._waiting_for),
            )
            self._outcome.clean = False
            for name in self._waiting_for:
                if name in self._children:
                    os.kill(self._children[name].pid, signal.SIGKILL)
            self._stop_deadline_s = time.monotonic() + STOP_MAX_S

    def _kill_all(self) -> None:
        self._outcome.clean = False
        if self._stop_queue is not None:
            self._stop_queue.clear()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)


def _describe(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
