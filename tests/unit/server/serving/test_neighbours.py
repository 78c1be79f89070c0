"""What a worker makes of the death of other processes, and of nobody coming in their place."""

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import CLEANER
from pkafka.server.processes.worker import Worker
from pkafka.server.serving import neighbours
from tests.skipped_time import LoopTime
from tests.unit.server.workers import Family, until, with_family

PATIENCE_S = 400.0
"""Over when a test says so."""


class Stage:
    """A worker whose cleaner comes and goes."""

    def __init__(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worker: Worker = family.workers[0]
        self.crashes: list[BaseException] = []
        self._line = family.lines[self.worker]
        monkeypatch.setattr(neighbours, "SUCCESSOR_MAX_S", PATIENCE_S)
        self.worker.tasks.crash = self.crashes.append

    async def cleaner(self) -> socket.socket:
        """The channel of a new cleaner, which the worker has met."""
        ours, theirs = socket.socketpair()
        before = self.worker._neighbours.cleaner
        self._line.note(lifeline.PEER, CLEANER, [theirs.fileno()])
        theirs.close()
        await until(lambda: self.worker._neighbours.cleaner not in (None, before))
        return ours

    async def dies(self, cleaner: socket.socket) -> None:
        cleaner.close()
        await until(lambda: self.worker._neighbours.cleaner is None)


def with_stage(root: Path, monkeypatch: pytest.MonkeyPatch, body: Callable[[Stage], Awaitable[None]]) -> None:
    async def run(family: Family) -> None:
        stage = Stage(family, monkeypatch)
        await body(stage)
        if stage.worker._neighbours.cleaner is not None:
            stage.worker._neighbours.cleaner.close()

    with_family(root, run, workers=1)


def test_a_worker_that_nobody_comes_back_to_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(stage: Stage) -> None:
        await stage.dies(await stage.cleaner())
        await LoopTime().skip(PATIENCE_S)
        await until(lambda: len(stage.crashes) == 1)

    with_stage(tmp_path, monkeypatch, body)


def test_a_successor_that_dies_soon_has_a_successor_in_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(stage: Stage) -> None:
        time = LoopTime()
        await stage.dies(await stage.cleaner())
        await time.skip(PATIENCE_S * 0.6)
        await stage.dies(await stage.cleaner())
        await time.skip(PATIENCE_S * 0.7)
        last = await stage.cleaner()
        await time.skip(PATIENCE_S)
        assert stage.crashes == []
        last.close()

    with_stage(tmp_path, monkeypatch, body)
