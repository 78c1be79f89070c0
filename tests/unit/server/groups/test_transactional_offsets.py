"""Offsets that are stored in transactions, on real logs: pending, counted or forgotten, removed, and loaded again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.coordinator.topic_log import TransactionalProducer
from pkafka.server.groups.events import Leaving
from pkafka.server.groups.records import CommittedOffset, OffsetKey
from pkafka.server.groups.transactional_offsets import Committing, TransactionalOffsets
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.marker_appends import MarkerAppends
from tests.unit.server.groups.test_coordinator import MINUTE_MS, ONE, PARTITIONS, A, B, Bench, OffsetsLog
from tests.unit.server.workers import Family, with_family

Verified = Callable[[ErrorCode], None]
NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
PRODUCER = 1_000


class TransactionBench(Bench):
    """A group coordinator with the transactions of some producers, whose coordinator is the test."""

    def __init__(self, worker: Worker, *, group_log: OffsetsLog | None = None) -> None:
        super().__init__(worker, group_log=group_log)
        self.asked: list[tuple[str, TransactionalProducer, int]] = []
        self.answer: ErrorCode | None = NONE
        """Of the transaction's coordinator; None: it says nothing for now."""
        self.waiting: list[Verified] = []
        self.transactional = TransactionalOffsets(self.groups, self._verify)
        self._markers = MarkerAppends(
            worker.partitions, worker.appending, worker.disks, self.groups, self.clock
        )

    def _verify(
        self, transactional_id: str, producer: TransactionalProducer, partition: int, done: Verified
    ) -> None:
        self.asked.append((transactional_id, producer, partition))
        if self.answer is None:
            self.waiting.append(done)
        else:
            done(self.answer)

    def store(
        self,
        group: str,
        *,
        producer: int = PRODUCER,
        epoch: int = 0,
        generation: int = -1,
        member: str = "",
        **offsets: int,
    ) -> Any:
        commits = {(name, ord(name) - 97): CommittedOffset(offset, 0) for name, offset in offsets.items()}
        who = Committing(group, member, None, generation, "tid", TransactionalProducer(producer, epoch))
        return self.transactional.commit(who, commits or {A: ONE})

    def end(self, group: str, *, producer: int = PRODUCER, epoch: int = 0, commit: bool = True) -> ErrorCode:
        """Write the marker of a transaction; its code."""
        codes: list[ErrorCode] = []
        self._markers.append(
            (CONSUMER_OFFSETS_TOPIC, partition_of(group, PARTITIONS)),
            [Marker(producer, epoch, 0, commit)],
            codes.extend,
            timeout_ms=1_000,
        )
        [code] = codes
        return code

    def stable_offsets(self, group: str) -> dict[tuple[str, int], int | ErrorCode]:
        error, found = self.keeper.committed(group, [A, B], require_stable=True)
        assert error is NONE
        return {
            key: one.offset if isinstance(one, CommittedOffset) else one
            for key, one in found.items()
            if one is not None
        }

    async def again(self) -> "TransactionBench":
        """The next coordinator of the same logs."""
        after = TransactionBench(self.worker)
        await after.load()
        return after


def on_bench(root: Path, body: Callable[[TransactionBench], Awaitable[None]]) -> None:
    async def run(family: Family) -> None:
        await family.lead(CONSUMER_OFFSETS_TOPIC, range(PARTITIONS))
        bench = TransactionBench(family.workers[0])
        await bench.load()
        await body(bench)

    with_family(root, run, workers=1)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restart", [True, False])
def test_offsets_count_when_their_transaction_commits(tmp_path: Path, commit: bool, restart: bool) -> None:
    async def body(bench: TransactionBench) -> None:
        assert bench.commit("g", a=CommittedOffset(1, 0)) == {A: NONE}
        # Twice in one transaction, and with the same number of records: neither is taken for the other.
        assert bench.store("g", a=5) == {A: NONE}
        assert bench.store("g", a=6, b=7) == {A: NONE, B: NONE}
        assert bench.store("g", a=8, b=7) == {A: NONE, B: NONE}
        assert bench.offsets("g") == {A: 1}
        assert bench.stable_offsets("g") == {A: UNSTABLE, B: UNSTABLE}
        if restart:
            bench = await bench.again()
            assert bench.offsets("g") == {A: 1}
            assert bench.stable_offsets("g") == {A: UNSTABLE, B: UNSTABLE}
        assert bench.end("g", commit=commit) is NONE
        expected = {A: 8, B: 7} if commit else {A: 1}
        assert bench.offsets("g") == bench.stable_offsets("g") == expected
        assert (await bench.again()).offsets("g") == expected

    on_bench(tmp_path, body)


def test_a_marker_ends_the_transaction_of_its_producer_and_partition_alone(tmp_path: Path) -> None:
    async def body(bench: TransactionBench) -> None:
        names = [
            name for name in "ghijklmnop" if partition_of(name, PARTITIONS) == partition_of("g", PARTITIONS)
        ]
        other = next(name for name in "hijklmnop" if name not in names)
        assert len(names) > 1
        for name in (*names, other):
            bench.store(name, a=3)
        bench.store("g", producer=PRODUCER + 1, b=4)
        assert bench.end("g") is NONE
        assert {name: bench.offsets(name) for name in names} == {name: {A: 3} for name in names}
        assert bench.stable_offsets("g") == {A: 3, B: UNSTABLE}
        assert bench.stable_offsets(other) == {A: UNSTABLE}
        assert bench.end("g", producer=PRODUCER + 1, commit=False) is NONE
        assert bench.end(other) is NONE
        assert bench.stable_offsets("g") == bench.stable_offsets(other) == {A: 3}

    on_bench(tmp_path, body)


def test_nothing_is_stored_before_the_transaction_is_verified(tmp_path: Path) -> None:
    async def body(bench: TransactionBench) -> None:
        bench.answer = None
        stored = bench.store("g", a=5)
        assert isinstance(stored, asyncio.Future)
        assert bench.asked == [("tid", TransactionalProducer(PRODUCER, 0), partition_of("g", PARTITIONS))]
        assert bench.stable_offsets("g") == {}
        bench.waiting.pop()(NONE)
        assert await stored == {A: NONE}
        assert bench.stable_offsets("g") == {A: UNSTABLE}
        refused = bench.store("h", a=5)
        bench.waiting.pop()(ErrorCode.INVALID_TXN_STATE)
        assert await refused == {A: ErrorCode.INVALID_TXN_STATE}
        assert await bench.records("h") == []

    on_bench(tmp_path, body)


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_what_a_verification_that_failed_is_called(
    tmp_path: Path, error: ErrorCode, answered: ErrorCode
) -> None:
    async def body(bench: TransactionBench) -> None:
        bench.answer = error
        assert bench.store("g") == {A: answered}
        assert bench.stable_offsets("g") == {}
        # As in Kafka, which lists the group until it looks for expired offsets.
        assert [group.group_id for group in bench.groups.overview()[1]] == ["g"]
        await bench.keeper.expire_offsets()
        assert bench.groups.overview()[1] == []

    on_bench(tmp_path, body)


def test_a_zombie_stores_nothing_and_takes_nothing_away(tmp_path: Path) -> None:
    """In Kafka its refused commit makes the group forget the successor's, until the group is loaded again."""

    async def body(bench: TransactionBench) -> None:
        assert bench.store("g", epoch=3, a=5) == {A: NONE}
        assert bench.store("g", epoch=2, a=6) == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert bench.end("g", epoch=3) is NONE
        assert bench.offsets("g") == {A: 5}

    on_bench(tmp_path, body)


def test_members_are_checked_where_the_request_names_one(tmp_path: Path) -> None:
    async def body(bench: TransactionBench) -> None:
        member = await bench.stable("g")
        assert bench.store("g", member=member, generation=1, a=1) == {A: NONE}
        assert bench.store("g", member=member, generation=0) == {A: ErrorCode.ILLEGAL_GENERATION}
        assert bench.store("g", member="zombie", generation=1) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
        assert bench.store("g", a=2) == {A: NONE}, "versions below 3 name no member"
        assert bench.store("") == {A: ErrorCode.INVALID_GROUP_ID}

    on_bench(tmp_path, body)


def test_metadata_that_is_too_long_leaves_nothing_pending(tmp_path: Path) -> None:
    """KAFKA-16371."""

    async def body(bench: TransactionBench) -> None:
        who = Committing("g", "", None, -1, "tid", TransactionalProducer(PRODUCER, 0))
        long = CommittedOffset(1, 0, metadata="x" * 11)
        too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert bench.transactional.commit(who, {A: long}) == {A: too_large}
        assert bench.transactional.commit(who, {A: long, B: ONE}) == {A: too_large, B: NONE}
        assert bench.stable_offsets("g") == {B: UNSTABLE}
        assert bench.end("g") is NONE
        assert bench.offsets("g") == {B: 1}

    on_bench(tmp_path, body)


def test_a_plain_commit_between_record_and_marker_wins(tmp_path: Path) -> None:
    async def body(bench: TransactionBench) -> None:
        bench.store("g", a=5, b=5)
        assert bench.commit("g", a=CommittedOffset(3, 0)) == {A: NONE}
        assert bench.end("g") is NONE
        assert bench.offsets("g") == (await bench.again()).offsets("g") == {A: 3, B: 5}

    on_bench(tmp_path, body)


@pytest.mark.parametrize("restart", [True, False])
def test_what_is_deleted_does_not_come_back_with_the_marker(tmp_path: Path, restart: bool) -> None:
    async def body(bench: TransactionBench) -> None:
        bench.commit("g", a=ONE)
        bench.store("g", a=5, b=5)
        bench.store("kept", a=5, c=5)
        bench.store("other", a=7)
        bench.store("g", producer=PRODUCER + 1, epoch=4, b=6)
        assert bench.keeper.delete_group("g") is NONE
        assert bench.keeper.delete_offsets("other", [A, B]) == (NONE, {A: NONE, B: NONE})
        bench.keeper.partitions_deleted([("c", 2)])
        if restart:
            bench = await bench.again()
        for group in ("g", "other", "kept"):
            bench.end(group)
        bench.end("g", producer=PRODUCER + 1, epoch=4)
        for one in (bench, await bench.again()):
            assert one.offsets("g") == one.offsets("other") == {}
            assert one.offsets("kept") == {A: 5}
            assert "g" not in [group.group_id for group in one.groups.overview()[1]]

    on_bench(tmp_path, body)


def test_what_is_deleted_behind_the_marker_gets_plain_tombstones(tmp_path: Path) -> None:
    """As part of the transaction they would begin another one, which no coordinator would ever end."""

    async def body(bench: TransactionBench) -> None:
        bench.store("g", a=5)
        # The marker is in the log, and its outcome has not reached the group yet.
        other = TransactionBench(bench.worker)
        other._markers._offsets = _Silent()
        other.end("g")
        assert bench.stable_offsets("g") == {A: UNSTABLE}
        assert bench.keeper.delete_offsets("g", [A]) == (NONE, {A: NONE})
        assert (await bench.records("g"))[-1] == (OffsetKey("g", *A), None)
        log = bench.worker.partitions.led[CONSUMER_OFFSETS_TOPIC, partition_of("g", PARTITIONS)].log
        assert log.producers.first_unstable_offset is None
        assert (await bench.again()).offsets("g") == {}

    on_bench(tmp_path, body)


class _Silent:
    """Groups that do not hear of the ends of transactions."""

    def refusal(self, _partition: int) -> ErrorCode:
        return NONE

    def complete_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None: ...


def test_offsets_of_open_transactions_do_not_expire(tmp_path: Path) -> None:
    async def body(bench: TransactionBench) -> None:
        bench.commit("g", a=ONE)
        bench.store("g", a=5)
        bench.store("h", a=5)
        bench.clock.advance(ms=2 * MINUTE_MS)
        await bench.keeper.expire_offsets()
        assert sorted(group.group_id for group in bench.groups.overview()[1]) == ["g", "h"]
        for group in ("g", "h"):
            assert bench.end(group) is NONE
        assert bench.offsets("g") == bench.offsets("h") == {A: 5}

    on_bench(tmp_path, body)


def test_a_group_may_come_back_within_the_transaction(tmp_path: Path) -> None:
    async def body(bench: TransactionBench) -> None:
        member = await bench.stable("g")
        bench.store("g", member=member, generation=1, a=5, b=5)
        bench.groups.leave("g", [Leaving(member_id=member)])
        assert bench.keeper.delete_group("g") is NONE
        assert bench.store("g", a=9) == {A: NONE}
        assert bench.end("g") is NONE
        assert bench.offsets("g") == (await bench.again()).offsets("g") == {A: 9}

    on_bench(tmp_path, body)


def test_no_marker_is_taken_while_the_groups_are_loaded(tmp_path: Path) -> None:
    """The loading may or may not read it."""

    async def body(bench: TransactionBench) -> None:
        bench.store("g", a=5)
        partition = partition_of("g", PARTITIONS)
        bench.groups.end(partition)
        assert bench.end("g") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.groups.begin(partition)
        assert bench.end("g") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await bench.load()
        assert bench.end("g") is NONE
        assert bench.offsets("g") == {A: 5}

    on_bench(tmp_path, body)
