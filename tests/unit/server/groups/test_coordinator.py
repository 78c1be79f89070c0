"""The coordinator on real logs: loading and unloading, what is stored before whom is answered, cleaning."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.clock import ManualClock
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.records.batch import BatchHeader
from pkafka.records.reading import Record
from pkafka.server.cluster.metadata import FULL_UPDATE, LEADER_DURING_DELETE
from pkafka.server.coordinator import shards
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.coordinator.topic_log import Committed, TopicLog, TransactionalProducer
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.effects import JoinResult, SyncResult
from pkafka.server.groups.events import JoinRequest, Leaving, SyncRequest
from pkafka.server.groups.group import GroupSettings
from pkafka.server.groups.hosted import CoordinatorSettings, offsets_log_settings
from pkafka.server.groups.offset_keeper import OffsetKeeper
from pkafka.server.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    UnknownKey,
    decode_key,
    encode_offset_key,
)
from pkafka.server.groups.states import GroupState
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas.partition import Partition
from tests.skipped_time import LoopTime
from tests.unit.server.workers import Family, lead_replicas, until, with_family

PARTITIONS = 4
A, B = ("a", 0), ("b", 1)
MINUTE_MS = 60_000
ONE = CommittedOffset(1, 0)


class OffsetsLog(TopicLog):
    """The log of offsets of a worker."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(
            CONSUMER_OFFSETS_TOPIC,
            offsets_log_settings(worker.config),
            partitions=worker.partitions,
            appending=worker.appending,
            disks=worker.disks,
            clock=worker.clock,
        )


class Bench:
    """A coordinator of its own on the logs of a worker that owns all of them, with a clock that the test moves."""

    def __init__(self, worker: Worker, *, group_log: OffsetsLog | None = None) -> None:
        self.worker = worker
        self.clock = ManualClock()
        self.groups = GroupCoordinator(
            CoordinatorSettings(
                group=GroupSettings(initial_rebalance_delay_ms=0, min_session_timeout_ms=1),
                offset_metadata_chars_max=10,
                offsets_retention_ms=MINUTE_MS,
            ),
            group_log=group_log or OffsetsLog(worker),
            partition_of=lambda group: partition_of(group, PARTITIONS),
            timer=worker.timer,
            clock=self.clock,
            spawn=worker.tasks.spawn,
        )
        self.keeper = OffsetKeeper(self.groups)

    async def load(self) -> "Bench":
        for partition in range(PARTITIONS):
            self.groups.begin(partition)
        await until(lambda: not any(self.refusal(f"{number}") for number in range(30)))
        return self

    def refusal(self, group: str) -> ErrorCode:
        return self.groups.look_up(group)[0]

    def commit(
        self, group: str, *, generation: int = -1, member: str = "", **offsets: CommittedOffset
    ) -> Any:
        commits = (
            {A: offsets.get("a", ONE)}
            if not offsets
            else {(name, ord(name) - 97): one for name, one in offsets.items()}
        )
        return self.keeper.commit(group, member, None, generation, commits)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        error, found = self.keeper.committed(group, None, require_stable=False)
        assert error is ErrorCode.NONE
        return {key: one.offset for key, one in found.items() if isinstance(one, CommittedOffset)}

    async def stable(self, group: str, **options: Any) -> str:
        """A group of one member; its id."""
        joined = self.groups.join(group, joining(**options))
        joined = await joined if isinstance(joined, asyncio.Future) else joined
        assert joined.error is ErrorCode.NONE
        synced = self.groups.sync(
            group,
            SyncRequest(
                member_id=joined.member_id,
                generation=joined.generation,
                assignments={joined.member_id: b"share"},
            ),
        )
        synced = await synced if isinstance(synced, asyncio.Future) else synced
        assert synced.assignment == b"share"
        return joined.member_id

    async def records(self, group: str) -> list[tuple[Any, bytes | None]]:
        """What the log has for a group, in order."""
        found = []
        async for header, records in OffsetsLog(self.worker).read(partition_of(group, PARTITIONS)):
            if not header.is_control:
                found += [(decode_key(record.key or b""), record.value) for record in records]
        return [
            (key, value) for key, value in found if not isinstance(key, UnknownKey) and key.group == group
        ]


def joining(**options: Any) -> JoinRequest:
    facts: dict[str, Any] = {
        "member_id": "",
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": (("range", b""),),
        "requires_known_member": False,
        "can_skip_assignment": False,
    }
    return JoinRequest(**{**facts, **options})


def on_bench(root: Path, body: Callable[[Bench], Awaitable[None]], **settings: str) -> None:
    """Run a test on a new worker's logs."""

    async def run(family: Family) -> None:
        await family.lead(CONSUMER_OFFSETS_TOPIC, range(PARTITIONS))
        await body(await Bench(family.workers[0]).load())

    with_family(root, run, workers=1, settings=settings)


def test_a_group_is_found_by_whoever_loads_its_partition_next(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        member = await bench.stable("g")
        assert bench.commit("g", generation=1, member=member, b=CommittedOffset(7, 5, 2, "meta")) == {
            B: ErrorCode.NONE
        }
        assert bench.commit("simple") == {A: ErrorCode.NONE}
        after = await Bench(bench.worker).load()
        count, total_ms, longest_ms = after.groups.load_times.figures(after.groups.timer.now_ms())
        assert count == PARTITIONS
        # One after the other, and each counts from when it was wanted: the last one waited for all.
        assert 0 < total_ms / count <= longest_ms <= total_ms
        described = after.groups.describe("g")
        assert not isinstance(described, ErrorCode)
        assert (described.state, described.protocol, len(described.members)) == (
            GroupState.STABLE,
            "range",
            1,
        )
        assert described.members[0].assignment == b"share"
        assert after.groups.heartbeat("g", member, None, 1) is ErrorCode.NONE
        assert after.keeper.committed("g", [B], require_stable=True)[1] == {
            B: CommittedOffset(7, 5, 2, "meta")
        }
        assert after.offsets("simple") == {A: 1}

    on_bench(tmp_path, body)


def test_a_worker_that_leads_nothing_coordinates_nothing(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        other = Bench(bench.worker)
        groups, keeper = other.groups, other.keeper
        assert groups.look_up("g")[0] is ErrorCode.NOT_COORDINATOR
        assert groups.look_up("")[0] is ErrorCode.INVALID_GROUP_ID
        assert keeper.commit("g", "", None, -1, {A: ONE}) == {A: ErrorCode.NOT_COORDINATOR}
        assert keeper.committed("g", None, require_stable=False) == (ErrorCode.NOT_COORDINATOR, {})
        assert groups.describe("g") is ErrorCode.NOT_COORDINATOR
        assert keeper.delete_group("g") is ErrorCode.NOT_COORDINATOR
        assert keeper.delete_offsets("g", [A]) == (ErrorCode.NOT_COORDINATOR, {})
        assert groups.leave("g", [Leaving(member_id="m")]).error is ErrorCode.NOT_COORDINATOR
        assert groups.overview() == (ErrorCode.NONE, [])

    on_bench(tmp_path, body)


def test_while_a_partition_loads_its_members_go_on(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        groups = Bench(bench.worker).groups
        partition = groups.partition_of("g")
        groups.begin(partition)
        assert groups.look_up("g")[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.heartbeat("g", "m", None, 1) is ErrorCode.NONE
        synced = groups.sync("g", SyncRequest(member_id="m", generation=1))
        assert isinstance(synced, SyncResult)
        assert synced.error is ErrorCode.REBALANCE_IN_PROGRESS
        joined = groups.join("g", joining(member_id="m"))
        assert isinstance(joined, JoinResult)
        assert joined.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.overview()[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await until(lambda: groups.look_up("g")[0] is ErrorCode.NONE)
        assert groups.heartbeat("g", "m", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    on_bench(tmp_path, body)


def uncommitted(bench: Bench) -> Partition:
    """The partition of group g, with an offset of it that a follower in sync has not fetched yet."""
    partition = bench.worker.partitions.led[CONSUMER_OFFSETS_TOPIC, bench.groups.partition_of("g")]
    lead_replicas(partition, [0, 1], [0, 1])
    bench.commit("g")
    return partition


def test_what_is_not_committed_yet_is_not_coordinated(tmp_path: Path) -> None:
    """Whoever coordinates next may not have it: no member is told of such a generation, or of such an offset."""

    async def body(bench: Bench) -> None:
        worker, partition = bench.worker, uncommitted(bench)
        number = partition.index
        after = Bench(worker)
        for each in range(PARTITIONS):
            after.groups.begin(each)
        elsewhere = next(f"{one}" for one in range(99) if after.groups.partition_of(f"{one}") != number)
        await until(lambda: after.refusal(elsewhere) is ErrorCode.NONE)
        # Not by another epoch of this leader either.
        lead_replicas(partition, [0, 1], [0, 1])
        worker.progress.produces.check(partition.key)
        await asyncio.sleep(0.05)
        assert after.refusal("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        worker.progress.follower_fetched(partition, 1, 1, 0)
        await until(lambda: after.refusal("g") is ErrorCode.NONE)
        assert after.offsets("g") == {A: 1}

    on_bench(tmp_path, body)


def test_a_loading_that_waits_ends_with_the_leadership(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        worker, partition = bench.worker, uncommitted(bench)
        number = partition.index
        after = Bench(worker)
        after.groups.begin(number)
        waits = asyncio.create_task(OffsetsLog(worker).all_committed(number))
        await asyncio.sleep(0.01)
        after.groups.end(number)
        del worker.partitions.led[partition.key]
        partition.stop()
        worker.progress.produces.check(partition.key)
        await waits
        assert after.refusal("g") is ErrorCode.NOT_COORDINATOR

    on_bench(tmp_path, body)


def test_who_waits_is_told_when_the_coordinator_moves(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.stable("g")
        waiting = bench.groups.join("g", joining())
        assert isinstance(waiting, asyncio.Future)
        bench.groups.end(bench.groups.partition_of("g"))
        assert (await waiting).error is ErrorCode.NOT_COORDINATOR
        assert bench.groups.look_up("g")[0] is ErrorCode.NOT_COORDINATOR
        bench.groups.begin(bench.groups.partition_of("g"))
        await until(lambda: bench.groups.look_up("g")[0] is ErrorCode.NONE)
        described = bench.groups.describe("g")
        assert not isinstance(described, ErrorCode)
        assert described.state is GroupState.STABLE

    on_bench(tmp_path, body)


def test_a_loading_that_is_overtaken_leaves_nothing(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.commit("g")
        other = Bench(bench.worker)
        groups = other.groups
        partition = groups.partition_of("g")
        groups.begin(partition)
        groups.end(partition)
        assert groups.look_up("g")[0] is ErrorCode.NOT_COORDINATOR
        groups.begin(partition)
        await until(lambda: groups.look_up("g")[0] is ErrorCode.NONE)
        await asyncio.sleep(0.01)
        assert other.keeper.committed("g", None, require_stable=False)[1] == {A: ONE}
        assert groups.load_times.figures(groups.timer.now_ms())[0] == 1

    on_bench(tmp_path, body)


def test_a_loading_that_fails_is_begun_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailsOnce(OffsetsLog):
        failed = False

        async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
            async for each in super().read(partition):
                if not self.failed:
                    self.failed = True
                    raise RuntimeError("something that nobody expected")
                yield each

    async def body(bench: Bench) -> None:
        bench.commit("g")
        other = Bench(bench.worker, group_log=FailsOnce(bench.worker))
        other.groups.begin(other.groups.partition_of("g"))
        await until(lambda: "cannot be loaded" in caplog.text)
        await until(lambda: other.refusal("g") is ErrorCode.NONE)
        assert other.offsets("g") == {A: 1}

    monkeypatch.setattr(shards, "LOAD_AGAIN_MS", 10)
    on_bench(tmp_path, body)
    assert "something that nobody expected" in caplog.text


def test_resigning_tells_everybody_and_takes_nothing_new(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.stable("g")
        waiting = bench.groups.join("g", joining())
        bench.groups.resign()
        assert isinstance(waiting, asyncio.Future)
        assert (await waiting).error is ErrorCode.NOT_COORDINATOR
        bench.groups.begin(0)
        assert bench.groups.look_up("g")[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert bench.groups.overview() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])

    on_bench(tmp_path, body)


def test_a_group_larger_than_is_allowed_by_now_rebalances_when_loaded(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        first = await bench.stable("g")
        waiting = bench.groups.join("g", joining())
        again = bench.groups.join("g", joining(member_id=first))
        assert isinstance(waiting, asyncio.Future)
        assert isinstance(again, asyncio.Future) or again.error is ErrorCode.NONE
        second = await waiting
        shares = {first: b"1", second.member_id: b"2"}
        leader = second.leader
        synced = bench.groups.sync(
            "g", SyncRequest(member_id=leader, generation=second.generation, assignments=shares)
        )
        assert isinstance(synced, SyncResult)
        after = Bench(bench.worker)
        after.groups.settings = CoordinatorSettings(group=GroupSettings(max_size=1))
        await after.load()
        described = after.groups.describe("g")
        assert not isinstance(described, ErrorCode)
        assert described.state is GroupState.PREPARING_REBALANCE

    on_bench(tmp_path, body)


def test_a_session_that_ends_is_seen_by_the_timer(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        time = LoopTime()
        await bench.stable("g", session_timeout_ms=600_000)

        def state() -> GroupState:
            described = bench.groups.describe("g")
            assert not isinstance(described, ErrorCode)
            return described.state

        await time.skip(300)
        assert state() is GroupState.STABLE
        await time.skip(300)
        await until(lambda: state() is GroupState.EMPTY)
        # The loader knows that too.
        after = await Bench(bench.worker).load()
        described = after.groups.describe("g")
        assert not isinstance(described, ErrorCode)
        assert described.state is GroupState.EMPTY

    on_bench(tmp_path, body)


class SlowLog(OffsetsLog):
    """Appends are committed when the test says so, or refused."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.waiting: list[tuple[Committed, ErrorCode, int]] = []

    def append(
        self,
        partition: int,
        records: Any,
        committed: Committed,
        *,
        acks: int | None = None,
        timeout_ms: int | None = None,
        producer: TransactionalProducer | None = None,
    ) -> int | None:
        return super().append(
            partition,
            records,
            lambda error, offset: self.waiting.append((committed, error, offset)),
            acks=acks,
            timeout_ms=timeout_ms,
            producer=producer,
        )

    def commit(self, error: ErrorCode | None = None) -> None:
        """Let all that waits have an outcome."""
        waiting, self.waiting = self.waiting, []
        for committed, outcome, offset in waiting:
            committed(error or outcome, -1 if error else offset)


def on_slow_log(root: Path, body: Callable[[Bench, SlowLog], Awaitable[None]]) -> None:
    async def run(family: Family) -> None:
        await family.lead(CONSUMER_OFFSETS_TOPIC, range(PARTITIONS))
        log = SlowLog(family.workers[0])
        await body(await Bench(family.workers[0], group_log=log).load(), log)

    with_family(root, run, workers=1)


def test_nobody_is_answered_before_the_record_is_committed(tmp_path: Path) -> None:
    async def body(bench: Bench, log: SlowLog) -> None:
        joined = bench.groups.join("g", joining())
        joined = await joined if isinstance(joined, asyncio.Future) else joined
        synced = bench.groups.sync(
            "g",
            SyncRequest(member_id=joined.member_id, generation=1, assignments={joined.member_id: b"share"}),
        )
        assert isinstance(synced, asyncio.Future)
        await asyncio.sleep(0.01)
        assert not synced.done()
        log.commit()
        assert (await synced).assignment == b"share"
        committed = bench.commit("simple")
        assert isinstance(committed, asyncio.Future)
        assert bench.offsets("simple") == {}
        log.commit()
        assert await committed == {A: ErrorCode.NONE}
        assert bench.offsets("simple") == {A: 1}

    on_slow_log(tmp_path, body)


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_commit_that_cannot_be_written(tmp_path: Path, error: ErrorCode, answered: ErrorCode) -> None:
    async def body(bench: Bench, log: SlowLog) -> None:
        committed = bench.commit("g")
        log.commit(error)
        assert await committed == {A: answered}
        assert bench.offsets("g") == {}

    on_slow_log(tmp_path, body)


def test_outcomes_of_appends_may_come_after_the_coordinator_has_moved(tmp_path: Path) -> None:
    async def body(bench: Bench, log: SlowLog) -> None:
        joined = bench.groups.join("g", joining())
        joined = await joined if isinstance(joined, asyncio.Future) else joined
        synced = bench.groups.sync("g", SyncRequest(member_id=joined.member_id, generation=1))
        committed = bench.commit("other")
        assert isinstance(synced, asyncio.Future)
        for partition in range(PARTITIONS):
            bench.groups.end(partition)
        assert (await synced).error is ErrorCode.NOT_COORDINATOR
        log.commit()
        assert await committed == {A: ErrorCode.NONE}

    on_slow_log(tmp_path, body)


def test_a_commit_too_large_for_the_topic(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        names = [f"{number:050d}" for number in range(30_000)]
        outcomes = bench.keeper.commit("g", "", None, -1, {(name, 0): ONE for name in names})
        assert isinstance(outcomes, dict)
        assert set(outcomes.values()) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
        assert bench.offsets("g") == {}

    on_bench(tmp_path, body)


def test_metadata_that_is_too_long_fails_alone(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        outcomes = bench.commit(
            "g", a=CommittedOffset(1, 0, -1, "x" * 11), b=CommittedOffset(2, 0, -1, "x" * 10)
        )
        assert outcomes == {A: ErrorCode.OFFSET_METADATA_TOO_LARGE, B: ErrorCode.NONE}
        assert bench.offsets("g") == {B: 2}

    on_bench(tmp_path, body)


def test_what_expires_is_gone_for_the_next_coordinator_too(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        now = bench.clock.now_ms()
        bench.commit("g", a=CommittedOffset(1, now), b=CommittedOffset(2, now + MINUTE_MS))
        bench.commit("h", a=CommittedOffset(1, now))
        member = await bench.stable("m")
        bench.groups.leave("m", [Leaving(member_id=member)])
        await bench.keeper.expire_offsets()
        assert bench.groups.gauges()["NumGroups"] == 2, "an empty group without offsets is removed"
        bench.clock.advance(ms=MINUTE_MS)
        await bench.keeper.expire_offsets()
        assert bench.offsets("g") == {B: 2}
        assert [group.group_id for group in bench.groups.overview()[1]] == ["g"]
        assert bench.groups.counters.offset_expirations == 2
        assert (await bench.records("h"))[-1] == (OffsetKey("h", *A), None)
        assert (await bench.records("m"))[-1] == (GroupKey("m"), None)
        after = await Bench(bench.worker).load()
        assert after.offsets("g") == {B: 2}
        assert [group.group_id for group in after.groups.overview()[1]] == ["g"]

    on_bench(tmp_path, body)


def test_deleted_topics_take_their_offsets_along(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.commit("g", a=ONE, b=ONE)
        bench.commit("h", a=ONE)
        bench.keeper.partitions_deleted([A, ("x", 0)])
        assert bench.offsets("g") == {B: 1}
        assert [group.group_id for group in bench.groups.overview()[1]] == ["g"]
        assert (await bench.records("g"))[-1] == (OffsetKey("g", *A), None)
        assert bench.groups.counters.offset_deletions == 2

    on_bench(tmp_path, body)


def test_topics_that_are_deleted_while_groups_are_loaded(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.commit("g", a=ONE, b=ONE)
        after = Bench(bench.worker)
        loading = after.load()
        for partition in range(PARTITIONS):
            after.groups.begin(partition)
        after.keeper.partitions_deleted([A])
        await loading
        assert after.offsets("g") == {B: 1}
        assert (await bench.records("g"))[-1] == (OffsetKey("g", *A), None)

    on_bench(tmp_path, body)


def test_a_deleted_group_is_gone_with_all_that_it_had(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        member = await bench.stable("g")
        bench.commit("g", generation=1, member=member, a=ONE, b=ONE)
        assert bench.keeper.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
        bench.groups.leave("g", [Leaving(member_id=member)])
        assert bench.keeper.delete_group("g") is ErrorCode.NONE
        assert bench.keeper.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND
        last = [value for _key, value in (await bench.records("g"))[-3:]]
        assert last == [None] * 3
        after = await Bench(bench.worker).load()
        assert after.groups.overview() == (ErrorCode.NONE, [])

    on_bench(tmp_path, body)


def test_a_group_with_very_many_offsets_is_deleted_for_good(tmp_path: Path) -> None:
    """Its tombstones together would be larger than a batch may be."""

    async def body(bench: Bench) -> None:
        for part in range(3):
            names = [f"{part}-{number:0200d}" for number in range(2_000)]
            bench.keeper.commit("g", "", None, -1, {(name, 0): ONE for name in names})
        assert len(bench.offsets("g")) == 6_000
        assert bench.keeper.delete_group("g") is ErrorCode.NONE
        after = await Bench(bench.worker).load()
        assert after.groups.overview() == (ErrorCode.NONE, [])

    on_bench(tmp_path, body)


def test_offsets_are_deleted_where_nobody_consumes_them(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.commit("g", a=ONE, b=ONE)
        assert bench.keeper.delete_offsets("g", [A]) == (ErrorCode.NONE, {A: ErrorCode.NONE})
        assert bench.offsets("g") == {B: 1}
        await bench.stable("c", protocol_type="connect")
        assert bench.keeper.delete_offsets("c", [A]) == (ErrorCode.NON_EMPTY_GROUP, {})
        assert bench.keeper.delete_offsets("nobody", [A]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})

    on_bench(tmp_path, body)


def test_the_codec_of_the_topic_of_offsets(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.commit("g")
        codecs = [
            header.codec async for header, _ in OffsetsLog(bench.worker).read(partition_of("g", PARTITIONS))
        ]
        assert codecs == [3]
        assert (await Bench(bench.worker).load()).offsets("g") == {A: 1}

    on_bench(tmp_path, body, **{"offsets.topic.compression.codec": "3"})


def test_loading_reads_in_steps_of_the_buffer(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        for number in range(50):
            bench.commit("g", a=CommittedOffset(number, 0))
        after = await Bench(bench.worker).load()
        assert after.offsets("g") == {A: 49}

    on_bench(tmp_path, body, **{"offsets.load.buffer.size": "300"})


def test_a_damaged_batch_costs_its_own_offsets_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body(bench: Bench) -> None:
        bench.commit("g", a=CommittedOffset(1, 0))
        bench.commit("g", b=CommittedOffset(2, 0))
        bench.commit("g", a=CommittedOffset(3, 0))
        log = bench.worker.partitions.led[CONSUMER_OFFSETS_TOPIC, partition_of("g", PARTITIONS)].log
        data = log.segments[0].path.read_bytes()
        with log.segments[0].path.open("r+b") as file:
            file.seek(data.rindex(encode_offset_key("g", *A)))
            file.write(b"\xff")
        after = await Bench(bench.worker).load()
        assert after.offsets("g") == {A: 1, B: 2}
        assert "Leaving out the batch before offset 3" in caplog.text

    on_bench(tmp_path, body)


def test_gauges(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        await bench.stable("g")
        bench.commit("h", a=ONE, b=ONE)
        assert bench.groups.gauges() == {
            "NumOffsets": 2,
            "NumGroups": 2,
            "NumGroupsEmpty": 1,
            "NumGroupsPreparingRebalance": 0,
            "NumGroupsCompletingRebalance": 0,
            "NumGroupsStable": 1,
            "NumGroupsDead": 0,
        }
        assert bench.groups.counters.by_name() == {
            "offset_commit": 2,
            "offset_expiration": 0,
            "offset_deletion": 0,
            "group_completed_rebalance": 1,
        }

    on_bench(tmp_path, body)


def test_a_commit_is_acknowledged_when_it_is_flushed_where_that_was_asked_for(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        committed = bench.commit("g")
        assert isinstance(committed, asyncio.Future)
        assert bench.offsets("g") == {}
        assert await committed == {A: ErrorCode.NONE}
        log = bench.worker.partitions.led[CONSUMER_OFFSETS_TOPIC, partition_of("g", PARTITIONS)].log
        assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (1, 1, 1)
        await bench.stable("h")

    on_bench(tmp_path, body, **{"log.flush.interval.messages": "1"})


def test_a_failed_disk_ends_the_coordination_of_its_groups(tmp_path: Path) -> None:
    """As the worker sees it: it is the worker's own coordinator that is asked."""

    async def run(family: Family) -> None:
        [worker] = family.workers
        await family.lead(CONSUMER_OFFSETS_TOPIC, range(50))
        groups = worker.groups
        await until(lambda: groups.look_up("g")[0] is ErrorCode.NONE)
        assert worker.offsets.commit("g", "", None, -1, {A: ONE}) == {A: ErrorCode.NONE}
        waiting = worker.groups.join("g", joining(session_timeout_ms=60_000))
        worker.disks.directory_failed(tmp_path)
        if isinstance(waiting, asyncio.Future):
            assert (await waiting).error is ErrorCode.NOT_COORDINATOR
        assert groups.look_up("g")[0] is ErrorCode.NOT_COORDINATOR

    with_family(tmp_path, run, workers=1)


def tell(worker: Worker, topic: str, *leaders: int, type: int = 0) -> None:
    """An UpdateMetadata with these leaders of a topic's partitions; without any, no topic."""
    states = [
        UpdateMetadataPartitionState(
            partition_index=index, leader=leader, leader_epoch=0, isr=[0], replicas=[0]
        )
        for index, leader in enumerate(leaders)
    ]
    topics = [UpdateMetadataTopicState(topic_name=topic, topic_id=b"i" * 16, partition_states=states)]
    request = UpdateMetadataRequest(
        controller_id=0,
        controller_epoch=1,
        type=type,
        topic_states=topics if states else [],
        live_brokers=[],
    )
    worker._operations["update_metadata"](cast("Any", None), None, memoryview(encode(request, 8)), [])


def test_only_a_deletion_by_the_controller_takes_offsets_along(tmp_path: Path) -> None:
    """A full update that lacks a topic comes from somebody who may not know it yet."""

    async def run(family: Family) -> None:
        [worker] = family.workers
        await family.lead(CONSUMER_OFFSETS_TOPIC, range(50))
        await until(lambda: worker.groups.look_up("g")[0] is ErrorCode.NONE)
        tell(worker, "a", 0)
        assert worker.offsets.commit("g", "", None, -1, {A: ONE}) == {A: ErrorCode.NONE}
        tell(worker, "a", type=FULL_UPDATE)
        assert "a" not in worker.metadata.topics
        assert worker.offsets.committed("g", [A], require_stable=False)[1] == {A: ONE}
        tell(worker, "a", 0)
        tell(worker, "a", LEADER_DURING_DELETE)
        assert worker.offsets.committed("g", [A], require_stable=False)[1] == {A: None}

    with_family(tmp_path, run, workers=1)


def test_groups_stay_where_they_are_whatever_the_metadata_lack_for_a_moment(tmp_path: Path) -> None:
    async def run(family: Family) -> None:
        [worker] = family.workers
        partition_of_group = worker.groups.partition_of
        assert partition_of_group("group") == partition_of("group", 50)
        tell(worker, CONSUMER_OFFSETS_TOPIC, *[0] * 7)
        assert partition_of_group("group") == partition_of("group", 7)
        tell(worker, CONSUMER_OFFSETS_TOPIC, type=FULL_UPDATE)
        assert partition_of_group("group") == partition_of("group", 7)
        tell(worker, CONSUMER_OFFSETS_TOPIC, *[0] * 7)
        tell(worker, CONSUMER_OFFSETS_TOPIC, *[LEADER_DURING_DELETE] * 7)
        assert partition_of_group("group") == partition_of("group", 50)
        tell(worker, CONSUMER_OFFSETS_TOPIC, *[0] * 3)
        assert partition_of_group("group") == partition_of("group", 3)

    with_family(tmp_path, run, workers=1)
