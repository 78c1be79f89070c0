"""What workers lend each other: open files, across deaths, in any number."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from pkafka.records.builder import build_batch
from pkafka.server.handlers import produce
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.replicas import reading
from pkafka.server.replicas.reading import Found, Limits, Wanted
from pkafka.server.serving import lent_files
from pkafka.storage import open_files
from tests.unit.server.workers import Family, until, with_family

LIMITS = Limits(bytes_max=50_000_000, at_least_one_batch=True, isolation_level=0, replica_id=-1, version=12)


def append(family: Family, topic: str, partition: int, value: bytes) -> None:
    owner = family.workers[family.workers[0].partitions.owner(topic, partition)]
    batch = build_batch([(1, None, value, [])])
    row = produce.append(owner, topic, partition, batch, 9, 1, None, None)
    assert row[2] == 0


def wanted(topic: str, partitions: list[int]) -> list[Wanted]:
    return [(topic, index, -1, 0, -1, 1_000_000, None, -1) for index in partitions]


def owned_by(family: Family, owner: int, count: int) -> list[int]:
    partitions = family.workers[0].partitions
    return [index for index in range(count * family.size) if partitions.owner("t", index) == owner]


def bytes_of(found: Found) -> bytes:
    records = found.records
    return os.pread(records.fd, records.length, records.position)  # type: ignore[union-attr]


def test_a_successor_is_lent_what_its_predecessor_had(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(4))
        owner, reader = family.workers
        mine = owned_by(family, 0, 2)
        append(family, "t", mine[0], b"first")
        found = await reader.files.fetch(0, wanted("t", mine[:1]), LIMITS)
        assert b"first" in bytes_of(found[0])
        # The supervisor tells of the successor before the owner has seen the end of the line to the dead one.
        successor = family.start(1)
        before = owner.peers.others[1]
        family.introduce(owner, successor)
        await until(lambda: owner.peers.others.get(1) not in (None, before) and 0 in successor.peers.others)
        assert before.gone
        found = await successor.files.fetch(0, wanted("t", mine[:1]), LIMITS)
        assert b"first" in bytes_of(found[0])

    with_family(tmp_path, body)


def test_more_partitions_than_descriptors_are_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent_files, "LENT_MAX", 4)
    monkeypatch.setattr(lent_files, "FDS_PER_FRAME_MAX", 3)
    monkeypatch.setattr(reading, "RANGES_MAX", 4)

    async def body(family: Family) -> None:
        await family.lead("t", range(24))
        mine = owned_by(family, 0, 10)
        for index in mine:
            append(family, "t", index, b"of %d." % index)
        reader = family.workers[1]
        seen: set[int] = set()
        for _ in range(10):
            order = [*(index for index in mine if index not in seen), *sorted(seen)]
            answers = await reader.files.fetch(0, wanted("t", order), LIMITS)
            for index, answer in zip(order, answers, strict=True):
                assert answer.error == 0
                if answer.length:
                    assert b"of %d." % index in bytes_of(answer)
                    seen.add(index)
        assert seen == set(mine)

    with_family(tmp_path, body)


def test_a_fetch_that_ends_with_its_owner_is_an_ordinary_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(4))
        reader = family.workers[1]
        mine = owned_by(family, 0, 2)
        append(family, "t", mine[0], b"first")
        await reader.files.fetch(0, wanted("t", mine[:1]), LIMITS)
        ask = reader.peers.ask

        def ask_the_dying(*what: Any) -> "asyncio.Future[Any]":
            # The answer is there, and then the line ends, before the one who waits for it has its turn.
            reply = ask(*what)
            reply.add_done_callback(lambda _reply: reader.peers.others[0]._lose())
            return reply

        monkeypatch.setattr(reader.peers, "ask", ask_the_dying)
        with pytest.raises(PeerGone):
            await reader.files.fetch(0, wanted("t", mine[:1]), LIMITS)
        assert not reader.files._borrowed

    with_family(tmp_path, body)


def test_files_of_one_answer_do_not_close_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RANGES_MAX", 4)

    async def body(family: Family) -> None:
        await family.lead("t", range(12))
        owner = family.workers[0]
        mine = owned_by(family, 0, 6)
        for index in mine:
            append(family, "t", index, b"of %d." % index)
            log = owner.partitions.led["t", index].log
            log._files._open_files._limit = 4
            log.roll(1)
            log.segments[0].release_files()
        for order in (mine, mine[::-1]):
            answers = reading.read(owner, wanted("t", order), LIMITS)
            full = [index for index, answer in zip(order, answers, strict=True) if answer.length]
            assert full == order[:4]
            for index, answer in zip(order[:4], answers, strict=False):
                assert b"of %d." % index in bytes_of(answer)

    with_family(tmp_path, body)


def test_the_limits_leave_room_for_each_other() -> None:
    assert reading.RANGES_MAX <= lent_files.LENT_MAX
    assert reading.RANGES_MAX <= open_files.INACTIVE_OPEN_MAX


def test_deleted_files_are_given_back_at_once(tmp_path: Path) -> None:
    """A descriptor that a reader keeps would keep the space on the disk too."""

    async def body(family: Family) -> None:
        await family.lead("t", range(4))
        owner, reader = family.workers
        kept, shortened = owned_by(family, 0, 2)
        for index in (kept, shortened):
            append(family, "t", index, b"of %d." % index)
        await reader.files.fetch(0, wanted("t", [kept, shortened]), LIMITS)
        log = owner.partitions.led["t", shortened].log
        log.roll(1)
        # Closed for others and opened again: still the file that was lent.
        log.segments[0].release_files()
        await reader.files.fetch(0, wanted("t", [shortened]), LIMITS)
        assert len(reader.files._borrowed[0]) == 2
        log.raise_log_start_offset(1)
        assert log.delete_old_segments(1)
        await until(lambda: len(reader.files._borrowed[0]) == 1)
        owner.logs.delete(owner.partitions.led.pop(("t", kept)).log)
        del owner.partitions.hosted["t", kept]
        await until(lambda: not reader.files._borrowed[0])
        assert not owner.files._lent[1]

    with_family(tmp_path, body)
