"""Fetch of readers of committed transactions: where they end, what wakes them, what they hear of aborted ones."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.headers import RequestHeader, decode_response, encode_request
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pkafka.records.builder import build_batch
from pkafka.records.control import build_end_marker
from pkafka.records.validation import trust
from pkafka.server.handlers import fetch
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas import reading
from pkafka.server.replicas.partition import Partition
from tests.unit.server.handlers.test_fetch import VERSION, Connection, assembled
from tests.unit.server.workers import Family, follow, lead_replicas, until, with_family

COMMITTED = 1
NOW = 1_700_000_000_000
LONG_MS = 60_000


class Writing:
    """Transactions in one partition of some workers, written without a coordinator."""

    def __init__(self, family: Family, index: int = 0) -> None:
        self.worker: Worker = next(one for one in family.workers if ("t", index) in one.partitions.hosted)
        self.partition: Partition = self.worker.partitions.hosted["t", index]
        self._sequences: dict[int, int] = {}

    def batch(self, producer: int | None = None, *, value: bytes = b"v", count: int = 1) -> int:
        """Write records, in the transaction of a producer or plain; the first offset."""
        options: dict[str, Any] = {}
        if producer is not None:
            first = self._sequences.get(producer, 0)
            self._sequences[producer] = first + count
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": first,
                "transactional": True,
            }
        return self._append(build_batch([(NOW, b"k", value, ())] * count, **options))

    def end(self, producer: int, *, commit: bool) -> int:
        """Write a marker; its offset."""
        return self._append(
            build_end_marker(
                committed=commit,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW,
            )
        )

    def _append(self, data: bytearray) -> int:
        result, _unsafe = self.worker.appending.append(
            self.partition, trust(data), needs_all=False, now_ms=NOW
        )
        return result.base_offset


def ask(
    worker: Worker,
    connection: Connection,
    offset: int = 0,
    *,
    partitions: Sequence[int] = (0,),
    isolation: int = COMMITTED,
    max_wait_ms: int = 0,
    bytes_max: int = 1_000_000,
) -> Any:
    """What the handler answers at once."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=isolation,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=bytes_max)
                    for index in partitions
                ],
            )
        ],
    )
    body = encode_request(1, VERSION, 5, "me", request)[4:]
    header = RequestHeader(1, VERSION, 5, "me")
    return fetch.handle(worker, connection, header, memoryview(body), 8 + 2 + 2 + 1)


def parts_of(answer: Any) -> list[Any]:
    data = answer if isinstance(answer, bytes) else assembled(answer)
    response: Any = decode_response(1, VERSION, data[4:])[1]
    return [part for topic in response.responses for part in topic.partitions]


def read(worker: Worker, offset: int = 0, **options: Any) -> Any:
    """What there is for one fetch of partition 0, at once."""
    [part] = parts_of(ask(worker, Connection(), offset, **options))
    return part


def aborted(part: Any) -> list[tuple[int, int]] | None:
    if part.aborted_transactions is None:
        return None
    return [(one.producer_id, one.first_offset) for one in part.aborted_transactions]


def in_partition(root: Path, body: Callable[[Family, Writing], Awaitable[None]], **settings: str) -> None:
    async def run(family: Family) -> None:
        await family.lead("t", [0])
        await body(family, Writing(family))

    with_family(root, run, workers=1, settings=settings)


def test_a_reader_of_committed_records_ends_at_the_last_stable_offset(tmp_path: Path) -> None:
    async def body(_family: Family, writing: Writing) -> None:
        writing.batch(value=b"plain")
        writing.batch(7, value=b"open")
        writing.batch(value=b"behind")
        part = read(writing.worker)
        assert (part.high_watermark, part.last_stable_offset) == (3, 1)
        assert b"plain" in bytes(part.records)
        assert b"open" not in bytes(part.records)
        assert aborted(part) == []
        everything = read(writing.worker, isolation=0)
        assert b"behind" in bytes(everything.records)
        assert aborted(everything) is None
        writing.end(7, commit=False)
        part = read(writing.worker)
        assert (part.last_stable_offset, aborted(part)) == (4, [(7, 1)])
        assert b"behind" in bytes(part.records)

    in_partition(tmp_path, body)


def test_a_reader_of_committed_records_wakes_when_a_transaction_ends_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(_family: Family, writing: Writing) -> None:
        worker = writing.worker
        writing.batch(7)
        looks: list[int] = []
        original = reading._read_partition

        def counted(*arguments: Any) -> Any:
            looks.append(1)
            return original(*arguments)

        monkeypatch.setattr(reading, "_read_partition", counted)
        waiting, eager = Connection(), Connection()
        assert ask(worker, waiting, max_wait_ms=LONG_MS) is None
        assert ask(worker, eager, offset=1, isolation=0, max_wait_ms=LONG_MS) is None
        looks.clear()
        writing.batch()
        assert len(eager.answers) == 1
        for _ in range(10):
            writing.batch(7)
            writing.batch()
        # Only the reader of everything has looked at the log again.
        assert (len(looks), waiting.answers) == (1, [])
        writing.end(7, commit=True)
        assert len(waiting.answers) == 1
        assert parts_of(waiting.answers[0])[0].last_stable_offset == 23
        assert not worker.progress.fetches.size

    in_partition(tmp_path, body)


def test_a_reader_at_several_workers_waits_for_the_last_stable_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        here, there = (Writing(family, index) for index in range(2))
        assert here.worker is not there.worker
        asked = []
        original = family.workers[0].files.fetch

        async def counted(*arguments: Any) -> Any:
            asked.append(1)
            return await original(*arguments)

        monkeypatch.setattr(family.workers[0].files, "fetch", counted)
        for writing in (here, there):
            writing.batch(7)
        connection = Connection()
        worker = family.workers[0]
        assert ask(worker, connection, partitions=range(2), max_wait_ms=LONG_MS) is None
        await until(lambda: all(one.progress.fetches.size for one in family.workers))
        looks = len(asked)
        for writing in (here, there):
            writing.batch()
        there.end(7, commit=True)
        await until(lambda: bool(connection.answers))
        assert len(asked) == looks + 1
        ends = {part.partition_index: part.last_stable_offset for part in parts_of(connection.answers[0])}
        assert ends == {here.partition.index: 0, there.partition.index: 3}
        await until(lambda: not worker.progress.fetches.size)

    with_family(tmp_path, body)


def test_a_marker_that_followers_lack_wakes_no_reader(tmp_path: Path) -> None:
    async def body(_family: Family, writing: Writing) -> None:
        worker, partition = writing.worker, writing.partition
        lead_replicas(partition, [0, 1], [0, 1])
        writing.batch(7)
        connection = Connection()
        assert ask(worker, connection, max_wait_ms=LONG_MS) is None
        worker.progress.follower_fetched(partition, 1, 1, 0)
        writing.end(7, commit=False)
        assert connection.answers == []
        worker.progress.follower_fetched(partition, 1, 2, 0)
        [part] = parts_of(connection.answers[0])
        assert (part.last_stable_offset, aborted(part)) == (2, [(7, 0)])

    in_partition(tmp_path, body)


def test_a_follower_serves_committed_records(tmp_path: Path) -> None:
    """KIP-392: it knows the markers from the records that it copies."""

    async def body(family: Family, writing: Writing) -> None:
        worker = writing.worker
        lead_replicas(writing.partition, [0, 1], [0, 1])
        writing.batch(7)
        writing.end(7, commit=False)
        writing.batch(8)
        await follow(family, "t", [0], leader=1, epoch=5)
        log = worker.partitions.hosted["t", 0].log
        log.set_high_watermark(1)
        assert read(worker).last_stable_offset == 0
        log.set_high_watermark(3)
        part = read(worker)
        assert part.error_code == ErrorCode.NONE
        assert (part.high_watermark, part.last_stable_offset, aborted(part)) == (3, 2, [(7, 0)])

    in_partition(tmp_path, body)


def test_small_reads_hear_of_the_aborted_transactions_near_them(tmp_path: Path) -> None:
    async def body(_family: Family, writing: Writing) -> None:
        firsts = []
        for _ in range(200):
            firsts.append(writing.batch(7, value=bytes(1_000)))
            writing.end(7, commit=False)
        log = writing.partition.log
        assert len(log.segments) > 2
        for place in (0, 20, 100, 199):
            part = read(writing.worker, firsts[place], bytes_max=2_000)
            named = aborted(part)
            assert named is not None
            assert named[0] == (7, firsts[place])
            # An index entry comes every 4096 bytes.
            assert len(named) <= 10
        assert [first for _producer, first in aborted(read(writing.worker, isolation=1)) or ()][:3] == firsts[
            :3
        ]

    in_partition(tmp_path, body, **{"log.segment.bytes": "50000"})


def test_a_transaction_that_ends_in_a_later_segment_is_named(tmp_path: Path) -> None:
    async def body(_family: Family, writing: Writing) -> None:
        first = writing.batch(7)
        for _ in range(3):
            writing.partition.log.roll(NOW)
            writing.batch()
            writing.batch(7)
        writing.end(7, commit=False)
        part = read(writing.worker, first, bytes_max=200)
        assert aborted(part) == [(7, first)]

    in_partition(tmp_path, body)


def test_deleted_records_of_an_open_transaction_hold_no_reader_back(tmp_path: Path) -> None:
    async def body(_family: Family, writing: Writing) -> None:
        writing.batch(7)
        writing.batch()
        log = writing.partition.log
        log.raise_log_start_offset(1)
        assert log.last_stable_offset == 1
        assert read(writing.worker, 1).last_stable_offset == 1

    in_partition(tmp_path, body)
