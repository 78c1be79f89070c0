"""How workers tell each other of appends: waits begin at each owner of what a fetch asks, and none is left behind."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.hot.fetch import FetchHeader
from pkafka.records.builder import build_batch
from pkafka.server.handlers import fetch, produce
from tests.unit.server.workers import Family, until, with_family


def append(family: Family, topic: str, partition: int, value: bytes) -> None:
    owner = family.workers[family.workers[0].partitions.owner(topic, partition)]
    batch = build_batch([(1, None, value, [])])
    row = produce.append(owner, topic, partition, batch, 9, 1, None, None)
    assert row[2] == 0


def owned_by(family: Family, owner: int, count: int) -> list[int]:
    partitions = family.workers[0].partitions
    return [index for index in range(count * family.size) if partitions.owner("t", index) == owner]


def test_waits_at_other_workers_end_however_long_a_client_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that follows partitions of several workers leaves a wait at the idle ones with every answer."""
    monkeypatch.setattr(fetch, "_REMOTE_WAIT_MAX_MS", 20)

    async def body(family: Family) -> None:
        await family.lead("t", range(4))
        idle, reader = family.workers
        quiet, busy = owned_by(family, 0, 1)[0], owned_by(family, 1, 1)[0]
        connection = cast("Any", SimpleNamespace(closed=False, finish=lambda _answer: None, listener="L"))
        waits: list[int] = []
        watch = idle.progress.fetches.watch

        def watch_and_note(operation: Any, keys: Any, *, timeout_ms: int) -> None:
            waits.append(timeout_ms)
            watch(operation, keys, timeout_ms=timeout_ms)

        monkeypatch.setattr(idle.progress.fetches, "watch", watch_and_note)

        async def fetch_both(offset: int) -> None:
            request = FetchHeader(
                replica_id=-1,
                max_wait_ms=2**31 - 1,
                min_bytes=1,
                max_bytes=1000,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                rack_id="",
                partitions=[("t", quiet, -1, 0, -1, -1, 1000), ("t", busy, -1, offset, -1, -1, 1000)],
                forgotten=[],
            )
            waiting = fetch._Fetch(
                reader, connection, RequestHeader(1, 12, offset, None), request, may_begin_session=False
            )
            before = len(waits)
            assert waiting.begin() is None
            await until(lambda: len(waits) > before)
            append(family, "t", busy, b"v")
            await until(lambda: waiting.completed)

        for offset in range(3):
            await fetch_both(offset)
        assert set(waits) == {20}
        await until(lambda: not idle.progress.fetches.size)

    with_family(tmp_path, body)
