"""The life of a child: its line to the supervisor, and its end."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import Birth, Life, main_of, worker_index, worker_name
from pkafka.server.ipc.lifeline import ChildExit, Lifeline
from tests.unit.server.workers import until


class Stage:
    """A life, and the supervisor at the other end of its line."""

    def __init__(self, *, has_close: bool = False) -> None:
        ours, theirs = socket.socketpair()
        self.supervisor = Lifeline(ours)
        self.seen: list[object] = []
        self.life = Life(
            Birth(theirs, "cleaner", first=True, session=None),
            meet=self._meet,
            stop=lambda: self.seen.append("stop"),
            close=(lambda: self.seen.append("close")) if has_close else None,
            late=lambda name, late: self.seen.append((name, late)),
            orphaned=lambda _line: self.seen.append("orphaned"),
        )

    def _meet(self, name: str, sock: socket.socket) -> None:
        sock.close()
        self.seen.append(name)


def on_stage(play: Callable[[Stage], Awaitable[None]], *, has_close: bool = False) -> None:
    async def run() -> None:
        stage = Stage(has_close=has_close)
        try:
            await play(stage)
        finally:
            stage.life.line.close()
            stage.supervisor.close()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(("has_close", "closed"), [(True, "close"), (False, "stop")])
def test_the_words_of_the_supervisor(has_close: bool, closed: str) -> None:
    async def play(stage: Stage) -> None:
        one, other = socket.socketpair()
        with one, other:
            stage.supervisor.note(lifeline.PEER, "worker-1", [one.fileno()])
        stage.supervisor.note(lifeline.LATE, ["worker-1", True])
        stage.supervisor.note(lifeline.STOP)
        stage.supervisor.note(lifeline.CLOSE)
        await until(lambda: len(stage.seen) == 4)
        assert stage.seen == ["worker-1", ("worker-1", True), "stop", closed]

    on_stage(play, has_close=has_close)


def test_a_supervisor_that_is_gone_leaves_an_orphan() -> None:
    async def play(stage: Stage) -> None:
        stage.supervisor.close()
        await until(lambda: stage.seen == ["orphaned"])

    on_stage(play)


def test_what_the_supervisor_hears() -> None:
    async def play(stage: Stage) -> None:
        stage.life.booted()
        beating = asyncio.ensure_future(stage.life.beat_for_ever())
        await asyncio.sleep(0)
        beating.cancel()
        stage.life.closing()
        stage.life.tell(lifeline.DIRECTORY_FAILED, "/d")
        assert stage.supervisor.read() == [
            (lifeline.BOOTED, None),
            (lifeline.BEAT, None),
            (lifeline.CLOSING, None),
            (lifeline.DIRECTORY_FAILED, "/d"),
        ]

    on_stage(play)


def test_the_first_reason_to_end_counts() -> None:
    async def play(stage: Stage) -> None:
        stage.life.end(ChildExit.CANNOT_BOOT)
        stage.life.end(ChildExit.CLEAN)
        assert await stage.life.ended == ChildExit.CANNOT_BOOT

    on_stage(play)


class Lived:
    """A process whose life is over at once."""

    def __init__(self, birth: Birth) -> None:
        self._name = birth.name

    async def run(self) -> int:
        assert asyncio.get_running_loop().is_running()
        return len(self._name)


@pytest.mark.parametrize("leaves_threads", [False, True])
def test_a_main_runs_a_process_and_returns_its_exit_code(leaves_threads: bool) -> None:
    begun: list[str] = []
    line, other = socket.socketpair()
    with line, other:
        main = main_of(Lived, begin=lambda: begun.append("begun"), leaves_threads=leaves_threads)
        assert main(Birth(line, "seven77", first=True, session=None)) == 7
    assert begun == ["begun"]
    if leaves_threads:
        asyncio.get_event_loop_policy().get_event_loop().close()
        asyncio.set_event_loop(None)


@pytest.mark.parametrize(("name", "index"), [(worker_name(12), 12), ("control", None), ("cleaner", None)])
def test_the_number_of_a_worker_is_in_its_name(name: str, index: int | None) -> None:
    assert worker_index(name) == index
