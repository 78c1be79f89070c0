"""Shards that are loaded and let go, with a log and entries that the test makes up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import cast

import pytest

from pkafka.errors import ErrorCode
from pkafka.records.batch import BatchHeader
from pkafka.records.reading import Record
from pkafka.server.coordinator import shards
from pkafka.server.coordinator.shards import Shard, Shards
from pkafka.server.replicas.delayed import Timer
from tests.unit.server.workers import until

HEADER = cast("BatchHeader", None)


class FakeLog:
    """A topic whose partitions have two batches each; all is committed when the test says so."""

    topic = "__some"

    def __init__(self) -> None:
        self.committed = asyncio.Event()
        self.committed.set()
        self.read_now: list[int] = []
        self.reading = 0
        self.fails = False

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        self.reading += 1
        assert self.reading == 1, "one partition at a time"
        self.read_now.append(partition)
        for _ in range(2):
            yield HEADER, []
            await asyncio.sleep(0)
        self.reading -= 1
        if self.fails:
            raise RuntimeError("an unexpected error")

    async def all_committed(self, _partition: int) -> None:
        await self.committed.wait()


class Loading:
    """Makes one entry of a partition, which says how many batches it has."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self.played = 0
        self.done: Shard[str] | None = None

    def begin(self) -> None:
        self.played = 0

    def play(self, header: BatchHeader, _records: Sequence[Record]) -> None:
        assert header is HEADER
        self.played += 1

    def entries(self) -> Iterator[tuple[str, str]]:
        yield "key", f"{self.played} batches of {self._partition}"

    def loaded(self, entries: Shard[str], took_ms: float) -> None:
        assert took_ms >= 0
        self.done = entries


class Bench:
    """Shards with what they need."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.buried: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.loadings: list[Loading] = []
        self.shards: Shards[str, Loading] = Shards(
            self.log,
            self._loading,
            self.buried.append,
            what="things",
            timer=Timer(asyncio.get_running_loop()),
            spawn=lambda work: self._tasks.add(asyncio.ensure_future(work)),
        )

    def _loading(self, partition: int) -> Loading:
        self.loadings.append(Loading(partition))
        return self.loadings[-1]

    def refusal(self, partition: int) -> ErrorCode:
        return self.shards.look_up(partition, "key")[0]


def on_bench(body: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        await body(Bench())

    asyncio.run(run())


def test_shards_are_loaded_one_after_the_other() -> None:
    async def body(bench: Bench) -> None:
        for partition in (0, 1, 1):
            bench.shards.begin(partition)
        assert bench.refusal(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert bench.shards.all_there() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert list(bench.shards.loadings) == bench.loadings
        await until(lambda: not bench.shards.loadings)
        assert bench.log.read_now == [0, 1]
        assert bench.shards.look_up(1, "key") == (ErrorCode.NONE, "2 batches of 1")
        assert bench.shards.look_up(1, "other") == (ErrorCode.NONE, None)
        assert bench.refusal(2) is ErrorCode.NOT_COORDINATOR
        assert [loading.done for loading in bench.loadings] == [
            {"key": "2 batches of 0"},
            {"key": "2 batches of 1"},
        ]

    on_bench(body)


def test_a_shard_that_is_let_go_while_it_waits_is_not_begun_with() -> None:
    async def body(bench: Bench) -> None:
        bench.log.committed.clear()
        bench.shards.begin(0)
        await until(lambda: bench.loadings[0].played == 2)
        assert bench.shards.end(0) == 0
        bench.shards.begin(0)
        bench.log.committed.set()
        await until(lambda: bench.refusal(0) is ErrorCode.NONE)
        assert bench.loadings[0].done is None
        assert bench.loadings[1].done is not None

    on_bench(body)


def test_entries_that_leave_their_shard_are_ended() -> None:
    async def body(bench: Bench) -> None:
        bench.shards.begin(0)
        await until(lambda: bench.refusal(0) is ErrorCode.NONE)
        bench.shards.add(0, "new", "new")
        assert sorted(bench.shards.entries()) == ["2 batches of 0", "new"]
        bench.shards.remove(0, "key")
        assert bench.buried == []
        bench.shards.resign()
        assert bench.buried == ["new"]
        bench.shards.begin(0)
        assert bench.refusal(0) is bench.shards.all_there() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    on_bench(body)


def test_a_loading_that_fails_begins_again_from_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(bench: Bench) -> None:
        bench.log.fails = True
        bench.shards.begin(3)
        await until(lambda: bool(caplog.records))
        bench.log.fails = False
        await until(lambda: bench.refusal(3) is ErrorCode.NONE)
        assert bench.shards.look_up(3, "key")[1] == "2 batches of 3"
        assert len(bench.loadings) == 1

    monkeypatch.setattr(shards, "LOAD_AGAIN_MS", 10)
    on_bench(body)
    assert "The things of __some-3 cannot be loaded; trying again in 0 seconds" in caplog.text
