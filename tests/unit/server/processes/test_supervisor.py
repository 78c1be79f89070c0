"""What the supervisor decides: whom to start again, when to give up, in which order to stop. No process is started."""

import contextlib
import signal
import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import CLEANER, CONTROL, worker_name
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.processes import supervisor
from pkafka.server.processes.supervisor import (
    RESTARTS_MAX,
    RESTARTS_WINDOW_S,
    STOP_MAX_S,
    Supervisor,
)

WORKERS = [worker_name(0), worker_name(1)]
NAMES = [CONTROL, *WORKERS, CLEANER]
NOTE = 3


class World:
    """Stands in for the system: forks nothing, remembers who was killed, and lets the test be the children."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.next_pid = 100
        self.ended: dict[int, int] = {}
        self.killed: list[int] = []
        self.lines: list[socket.socket] = []
        self.ready: list[dict[str, Any]] = []
        real_pair = socket.socketpair

        def pair() -> tuple[socket.socket, socket.socket]:
            ours, theirs = real_pair()
            self.lines.append(theirs.dup())
            return ours, theirs

        monkeypatch.setattr("os.fork", self._fork)
        monkeypatch.setattr("os.waitpid", self._waitpid)
        monkeypatch.setattr("os.kill", self._kill)
        monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self.supervisor = Supervisor(
            dict.fromkeys(NAMES, lambda _birth: 0),
            on_ready=self.ready.append,
            on_stopped=lambda _clean, _failed: None,
            silence_max_s=5.0,
        )
        monkeypatch.setattr("socket.socketpair", pair)
        self.ends: dict[int, socket.socket] = {}
        for name in NAMES:
            self.supervisor._start(name)

    def _fork(self) -> int:
        self.next_pid += 1
        # The line of a child is the first pair that is made for it.
        self.ends[self.next_pid] = self.lines[-1]
        return self.next_pid

    def _waitpid(self, pid: int, _options: int) -> tuple[int, int]:
        return (pid, self.ended.pop(pid)) if pid in self.ended else (0, 0)

    def _kill(self, pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.killed.append(pid)
        self.ended[pid] = int(signal.SIGKILL)

    # -- what the test does --

    def pid(self, name: str) -> int:
        return self.supervisor._children[name].pid

    def say(self, name: str, operation: str, payload: object = None) -> None:
        header: bytes = msgpack.packb([NOTE, 0, operation, payload, 0])
        self.ends[self.pid(name)].sendall(struct.pack(">II", len(header), 0) + header)
        self.supervisor._listen(self.supervisor._children[name])

    def heard(self, name: str) -> list[str]:
        """What a child was told since the last look, introductions left out."""
        end = self.ends[self.pid(name)]
        end.setblocking(False)
        data = b""
        with contextlib.suppress(BlockingIOError):
            while chunk := end.recv(1 << 20):  # one call never goes past a frame that carries descriptors
                data += chunk
        words = []
        while data:
            size = struct.unpack_from(">I", data)[0]
            words.append(msgpack.unpackb(data[8 : 8 + size])[2])
            data = data[8 + size :]
        return [word for word in words if word != lifeline.PEER]

    def end(self, name: str, code: int = ChildExit.CLEAN) -> None:
        self.ended[self.pid(name)] = code << 8
        self.turn()

    def turn(self) -> None:
        """One turn of the loop."""
        self.supervisor._reap()
        self.supervisor._kill_silent(slept_s=0.0)
        self.supervisor._continue_stop()

    @property
    def alive(self) -> list[str]:
        return list(self.supervisor._children)

    @property
    def clean(self) -> bool:
        return self.supervisor._outcome.clean


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(monkeypatch)
    yield world
    for line in world.lines:
        line.close()
    for child in world.supervisor._children.values():
        child.line.close()
    world.supervisor._signals.close()
    world.supervisor._signal_wakeup.close()


def test_a_dead_child_is_replaced_and_introduced_to_the_others(world: World) -> None:
    before = {name: world.pid(name) for name in NAMES}
    world.end("worker-0", ChildExit.CRASHED)
    assert sorted(world.alive) == sorted(NAMES)
    assert world.pid("worker-0") != before["worker-0"]
    assert {name: world.pid(name) for name in NAMES if name != "worker-0"} == {
        name: pid for name, pid in before.items() if name != "worker-0"
    }


def test_a_child_that_ends_by_itself_without_being_told_is_replaced_too(world: World) -> None:
    pid = world.pid(CLEANER)
    world.end(CLEANER, ChildExit.CLEAN)
    assert world.pid(CLEANER) != pid


@pytest.mark.parametrize("name", NAMES)
def test_who_cannot_boot_stops_the_broker(world: World, name: str) -> None:
    world.end(name, ChildExit.CANNOT_BOOT)
    assert name not in world.alive
    assert not world.clean
    # The order of the stop begins with control; without it, with the workers.
    told = [other for other in NAMES if other != name and world.heard(other) == [lifeline.STOP]]
    assert told == ([CONTROL] if name != CONTROL else WORKERS)


def test_too_many_deaths_in_a_row_stop_the_broker(world: World) -> None:
    for _ in range(RESTARTS_MAX):
        world.end("worker-1", ChildExit.CRASHED)
        world.now_s += RESTARTS_WINDOW_S / RESTARTS_MAX / 2
    assert "worker-1" in world.alive
    world.end("worker-1", ChildExit.CRASHED)
    assert "worker-1" not in world.alive
    assert not world.clean
    assert world.heard(CONTROL) == [lifeline.STOP]


def test_deaths_that_lie_apart_do_not_add_up(world: World) -> None:
    for _ in range(5 * RESTARTS_MAX):
        world.end("worker-1", ChildExit.CRASHED)
        world.now_s += RESTARTS_WINDOW_S / RESTARTS_MAX + 0.1
    assert sorted(world.alive) == sorted(NAMES)


def test_the_stop_goes_in_order(world: World) -> None:
    world.supervisor.stop()
    world.turn()
    assert [world.heard(name) for name in NAMES] == [[lifeline.STOP], [], [], []]
    world.say(CONTROL, lifeline.RELEASED)
    world.turn()
    assert [world.heard(name) for name in NAMES] == [[], [lifeline.STOP], [lifeline.STOP], []]
    world.end("worker-0")
    assert [world.heard(name) for name in (CONTROL, "worker-1", CLEANER)] == [[], [], []]
    world.end("worker-1")
    assert [world.heard(name) for name in (CONTROL, CLEANER)] == [[], [lifeline.STOP]]
    world.end(CLEANER)
    assert world.heard(CONTROL) == [lifeline.CLOSE]
    world.end(CONTROL)
    assert world.alive == []
    assert world.clean


def test_a_second_request_to_stop_changes_nothing(world: World) -> None:
    world.supervisor.stop()
    world.supervisor.stop()
    assert world.heard(CONTROL) == [lifeline.STOP]


def test_a_second_signal_kills_everybody(world: World) -> None:
    world.supervisor._obey(signal.SIGTERM)
    assert world.killed == []
    world.supervisor._obey(signal.SIGINT)
    assert len(world.killed) == len(NAMES)
    world.turn()
    assert world.alive == []
    assert not world.clean


def test_other_signals_mean_nothing(world: World) -> None:
    world.supervisor._obey(signal.SIGCHLD)
    assert [world.heard(name) for name in NAMES] == [[], [], [], []]


@pytest.mark.parametrize("dead", [*WORKERS, CLEANER])
def test_who_dies_while_leaders_are_given_away_is_replaced_and_stops_in_turn(world: World, dead: str) -> None:
    """Others would give up when nobody comes, and clients of what it leads would be served by nobody."""
    before = world.pid(dead)
    world.supervisor.stop()
    world.end(dead, ChildExit.CRASHED)
    assert world.pid(dead) != before
    world.say(CONTROL, lifeline.RELEASED)
    world.turn()
    for name in WORKERS:
        assert world.heard(name) == [lifeline.STOP]
        world.end(name)
    assert world.heard(CLEANER) == [lifeline.STOP]
    world.end(CLEANER)
    world.end(CONTROL)
    assert world.alive == []
    assert world.clean


def test_nobody_is_replaced_after_a_second_signal(world: World) -> None:
    world.supervisor.stop()
    world.supervisor._obey(signal.SIGINT)
    world.end("worker-0", ChildExit.CRASHED)
    world.turn()
    assert world.alive == []


@pytest.mark.parametrize("dead", NAMES)
def test_a_death_during_the_stop_ends_in_an_unclean_end_but_ends(world: World, dead: str) -> None:
    world.supervisor.stop()
    if dead != CONTROL:
        world.say(CONTROL, lifeline.RELEASED)
        world.turn()
    world.end(dead, ChildExit.CRASHED)
    world.turn()
    for name in (*WORKERS, CLEANER, CONTROL):
        if name in world.alive:
            world.end(name)
    assert world.alive == []
    assert not world.clean


def test_who_does_not_end_in_time_is_killed(world: World) -> None:
    world.supervisor.stop()
    world.now_s += 3
    for name in NAMES:
        world.say(name, lifeline.BOOTED)
    world.say(CONTROL, lifeline.RELEASED)
    world.turn()
    world.end("worker-0")
    slow = world.pid("worker-1")
    world.say(CONTROL, lifeline.BEAT)
    world.now_s += STOP_MAX_S + 1
    for name in (CONTROL, CLEANER):
        world.say(name, lifeline.BEAT)
    world.turn()
    assert world.killed == [slow]
    world.turn()
    world.end(CLEANER)
    world.end(CONTROL)
    assert world.alive == []
    assert not world.clean


def test_who_closes_one_log_after_the_other_is_given_the_time(world: World) -> None:
    world.supervisor.stop()
    world.say(CONTROL, lifeline.RELEASED)
    world.turn()
    for _ in range(10):
        world.now_s += STOP_MAX_S - 1
        for name in (CONTROL, CLEANER):
            world.say(name, lifeline.BEAT)
        world.say("worker-0", lifeline.CLOSING)
        world.turn()
    assert world.killed == []


def test_silence_is_measured_from_the_end_of_the_boot(world: World) -> None:
    world.now_s += 100
    world.turn()
    assert world.killed == []
    for name in NAMES:
        world.say(name, lifeline.BOOTED)
    world.now_s += 4.9
    world.say(CLEANER, lifeline.BEAT)
    world.turn()
    assert world.killed == []
    silent = {world.pid(name) for name in (CONTROL, *WORKERS)}
    world.now_s += 0.2
    world.turn()
    assert set(world.killed) == silent
    world.turn()
    assert sorted(world.alive) == sorted(NAMES)


def test_the_others_are_told_of_a_worker_that_is_silent_and_of_its_return(world: World) -> None:
    for name in NAMES:
        world.say(name, lifeline.BOOTED)
    world.now_s += 2
    for name in (CONTROL, "worker-0", CLEANER):
        world.say(name, lifeline.BEAT)
    world.turn()
    world.turn()
    assert [world.heard(name) for name in NAMES] == [[], [lifeline.LATE], [], []]
    world.say("worker-1", lifeline.BEAT)
    assert [world.heard(name) for name in NAMES] == [[], [lifeline.LATE], [], []]
    # Nobody waits for new clients of these two.
    world.now_s += 2
    for name in WORKERS:
        world.say(name, lifeline.BEAT)
    world.turn()
    assert [world.heard(name) for name in NAMES] == [[], [], [], []]
    assert world.killed == []


def test_the_supervisors_own_pause_is_not_taken_for_its_childrens_silence(world: World) -> None:
    for name in NAMES:
        world.say(name, lifeline.BOOTED)
    world.now_s += 60
    world.supervisor._kill_silent(slept_s=60.0)
    assert world.killed == []


def test_a_session_is_kept_for_the_successor_until_it_is_over(world: World) -> None:
    world.say(CONTROL, lifeline.SESSION, [7, b"secret"])
    assert world.supervisor._session == (7, b"secret")
    world.end(CONTROL, ChildExit.CRASHED)
    assert world.supervisor._session == (7, b"secret")
    world.say(CONTROL, lifeline.SESSION, None)
    assert world.supervisor._session is None


def test_the_first_screen_is_shown_once(world: World) -> None:
    world.say(CONTROL, lifeline.READY, {"broker_id": 1})
    world.end(CONTROL, ChildExit.CRASHED)
    world.say(CONTROL, lifeline.READY, {"broker_id": 1})
    assert world.ready == [{"broker_id": 1}]


def test_failed_directories_are_remembered(world: World) -> None:
    world.say("worker-0", lifeline.DIRECTORY_FAILED, "/a")
    world.say("worker-1", lifeline.DIRECTORY_FAILED, "/a")
    assert world.supervisor._failed_directories == {"/a"}
