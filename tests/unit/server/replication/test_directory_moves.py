"""Replicas that move to another log directory of their broker (KIP-113): what lies where, meanwhile and after."""

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import TopicPartition
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pkafka.records.builder import build_batch
from pkafka.server.handlers import alter_replica_log_dirs, describe_log_dirs
from pkafka.server.handlers.alter_replica_log_dirs import Move
from pkafka.server.handlers.describe_log_dirs import Described
from pkafka.server.processes.worker import Worker
from pkafka.server.replication.directory_moves import RATE_KEY
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from tests.unit.server.workers import Family, append_as_producer, until
from tests.unit.storage.makers import everything

KEY = ("t", 0)
TP = TopicPartition("t", 0)
HOLD = "1"
"""Bytes a second: one batch is copied, and the next one not before the test is over."""

Body = Callable[[Family, Worker], Awaitable[None]]


def moving(root: Path, body: Body, *, homes: int = 2, settings: dict[str, str] | None = None) -> None:
    """A worker that leads partition 0 of topic "t" in home-0."""

    async def run() -> None:
        paths = ",".join(str(root / f"home-{number}") for number in range(homes))
        family = Family(root, workers=1, settings={"log.dirs": paths, **(settings or {})})
        (worker,) = family.workers
        try:
            worker.moves.start()
            await family.lead("t", [0])
            assert home_of(worker) == "home-0"
            await body(family, worker)
        finally:
            family.close()

    asyncio.run(run())


def append(worker: Worker, value: bytes = b"v", *, count: int = 1) -> None:
    for _ in range(count):
        data = build_batch([(1, b"k", value, [])])
        assert append_as_producer(worker, *KEY, data, 1)[2] == ErrorCode.NONE


def replica(worker: Worker) -> Log:
    return worker.partitions.hosted[KEY].log


def home_of(worker: Worker) -> str:
    return replica(worker).directory.parent.name


def throttle(worker: Worker, rate: str | None) -> None:
    worker.config = worker.config.replace({RATE_KEY: rate})


def move(worker: Worker, home: str, key: tuple[str, int] = KEY) -> ErrorCode:
    (code,) = alter_replica_log_dirs.local(worker, Move(*key, str(worker.disks.log_dirs[0].parent / home)))
    return ErrorCode(code)


def names(root: Path) -> dict[str, list[str]]:
    """What lies in the log directories, without the ids of future and deleted replicas."""
    return {
        home.name: sorted(
            ".".join([path.name.split(".")[0], *path.name.rpartition("-")[2:][:1]])
            if "." in path.name
            else path.name
            for path in home.iterdir()
            if path.is_dir()
        )
        for home in sorted(root.glob("home-*"))
    }


async def held(worker: Worker, home: str = "home-1") -> Log:
    """A move that stands still in the middle."""
    append(worker, b"x" * 200, count=5)
    throttle(worker, HOLD)
    assert move(worker, home) is ErrorCode.NONE
    future = worker.moving.future_of(KEY)
    assert future is not None
    await until(lambda: future.log_end_offset == 1)
    return future


def crash(worker: Worker, *logs: Log) -> None:
    """The process is gone: nothing is closed, nothing written down."""
    worker.moves.close()
    for log in (*worker.partitions.logs(), *worker.moving.logs(), *logs):
        for segment in log.segments:
            segment.release_files()
    worker.partitions.hosted.clear()
    worker.moving.moves.clear()


async def moved(worker: Worker, home: str = "home-1") -> None:
    await until(lambda: home_of(worker) == home)


def test_a_replica_moves_with_all_that_it_knows(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        append(worker, count=20)
        old = replica(worker)
        old.raise_log_start_offset(3)
        old.cleaner_checkpoint = 7
        before = everything(old)
        assert move(worker, "home-1") is ErrorCode.NONE
        assert names(tmp_path) == {"home-0": ["t-0"], "home-1": ["t-0.future"]}
        await moved(worker)
        new = replica(worker)
        assert new.directory == tmp_path / "home-1" / "t-0"
        assert names(tmp_path) == {"home-0": ["t-0.delete"], "home-1": ["t-0"]}
        assert old.is_closed
        assert everything(new) == before
        assert (new.log_start_offset, new.high_watermark, new.last_stable_offset) == (3, 20, 20)
        assert (new.cleaner_checkpoint, new.topic_id) == (7, old.topic_id)
        assert new.leader_epochs.entries == old.leader_epochs.entries
        append(worker)
        assert new.log_end_offset == 21
        assert KEY not in worker.moving
        new.close()
        found = (await worker.logs.open_all({})).current
        assert found[TP].log_end_offset == 21
        assert found[TP].directory == new.directory
        found[TP].close()

    moving(tmp_path, body)


def test_writes_that_never_pause_do_not_keep_a_replica_from_arriving(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        async def write() -> None:
            while True:
                append(worker, b"x" * 5000)
                await asyncio.sleep(0)

        append(worker, b"x" * 30_000, count=50)
        writer = asyncio.create_task(write())
        move(worker, "home-1")
        await moved(worker)
        writer.cancel()
        new = replica(worker)
        assert [offset for offset, _ in everything(new)] == list(range(new.log_end_offset))

    moving(tmp_path, body, settings={"log.segment.bytes": "100000"})


def test_producers_are_known_after_the_move(tmp_path: Path) -> None:
    def batch(sequence: int) -> bytearray:
        return build_batch([(1, None, b"v", [])], producer_id=5, producer_epoch=0, base_sequence=sequence)

    async def body(_family: Family, worker: Worker) -> None:
        for sequence in range(3):
            assert append_as_producer(worker, *KEY, batch(sequence), 1)[3] == sequence
        move(worker, "home-1")
        await moved(worker)
        assert append_as_producer(worker, *KEY, batch(2), 1)[3] == 2
        assert replica(worker).log_end_offset == 3
        assert append_as_producer(worker, *KEY, batch(4), 1)[2] == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    moving(tmp_path, body)


def test_how_far_a_move_is(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)
        rows = describe_log_dirs.local(worker)
        assert rows == [
            Described(str(tmp_path / "home-0"), "t", 0, False, replica(worker).size_bytes, 0),
            Described(str(tmp_path / "home-1"), "t", 0, True, future.size_bytes, 4),
        ]
        throttle(worker, None)
        await moved(worker)
        assert describe_log_dirs.local(worker) == [
            Described(str(tmp_path / "home-1"), "t", 0, False, future.size_bytes, 0)
        ]

    moving(tmp_path, body)


def test_a_move_is_given_up_or_goes_elsewhere(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        first = await held(worker)
        assert move(worker, "home-1") is ErrorCode.NONE
        assert worker.moving.future_of(KEY) is first
        assert move(worker, "home-2") is ErrorCode.NONE
        assert first.is_closed
        assert names(tmp_path) == {"home-0": ["t-0"], "home-1": ["t-0.delete"], "home-2": ["t-0.future"]}
        assert move(worker, "home-0") is ErrorCode.NONE
        assert KEY not in worker.moving
        assert names(tmp_path) == {"home-0": ["t-0"], "home-1": ["t-0.delete"], "home-2": ["t-0.delete"]}
        throttle(worker, None)
        assert move(worker, "home-2") is ErrorCode.NONE
        await moved(worker, "home-2")

    moving(tmp_path, body, homes=3)


def test_what_cannot_be_moved(tmp_path: Path) -> None:
    async def body(family: Family, worker: Worker) -> None:
        assert move(worker, "nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert move(worker, "home-1", ("ghosts", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert move(worker, "home-1", ("t" * 214, 0)) is ErrorCode.INVALID_TOPIC_EXCEPTION
        await family.lead("u", [0])
        worker.disks.directory_failed(tmp_path / "home-2")
        assert move(worker, "home-2") is ErrorCode.KAFKA_STORAGE_ERROR
        # With a directory offline, there might be such a replica in it.
        assert move(worker, "home-1") is ErrorCode.KAFKA_STORAGE_ERROR
        assert move(worker, "home-0") is ErrorCode.NONE  # nothing is to be done
        worker.disks.directory_failed(tmp_path / "home-0")
        assert move(worker, "home-1") is ErrorCode.KAFKA_STORAGE_ERROR

    moving(tmp_path, body, homes=3)


def test_a_replica_that_is_not_here_yet_is_made_where_it_is_wanted(tmp_path: Path) -> None:
    async def body(family: Family, worker: Worker) -> None:
        assert move(worker, "home-2", ("later", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await family.lead("later", [0])
        assert worker.partitions.hosted["later", 0].log.directory.parent.name == "home-2"
        # Once: what is made after that goes where the fewest are.
        worker.logs.delete(worker.partitions.hosted.pop(("later", 0)).log)
        await family.lead("later", [0])
        assert worker.partitions.hosted["later", 0].log.directory.parent.name == "home-1"

    moving(tmp_path, body, homes=3)


def test_a_replica_that_is_wanted_in_a_failed_directory_is_made_nowhere(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        move(worker, "home-2", ("later", 0))
        worker.disks.directory_failed(tmp_path / "home-2")
        with pytest.raises(ApiError) as refused:
            worker.logs.create(TopicPartition("later", 0), bytes(16), is_new=True)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    moving(tmp_path, body, homes=3)


def test_a_follower_that_is_cut_has_its_copy_cut(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        append(worker, count=6)
        old = replica(worker)
        future = await held(worker)
        throttle(worker, None)
        await moved(worker)
        throttle(worker, HOLD)
        move(worker, "home-0")
        copy = worker.moving.future_of(KEY)
        assert copy is not None
        await until(lambda: copy.log_end_offset > 0)
        # Another leader had less, and has something else instead.
        future.truncate_to(0)
        state = LeaderAndIsrPartitionState(partition_index=0, leader=0, leader_epoch=3, replicas=[0], isr=[0])
        worker.partitions.hosted[KEY].lead(state)
        append(worker, b"other", count=3)
        throttle(worker, None)
        worker.moves.update(KEY)
        await moved(worker, "home-0")
        assert [value for _, value in everything(replica(worker))] == [b"other"] * 3
        assert old.is_closed

    moving(tmp_path, body)


def test_a_copy_begins_anew_where_the_log_begins_that_let_go_of_all(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)
        old = replica(worker)
        old.raise_log_start_offset(5)
        old.delete_old_segments(worker.clock.now_ms())
        throttle(worker, None)
        await moved(worker)
        assert (future.log_start_offset, future.log_end_offset) == (5, 5)
        append(worker)
        assert everything(future) == [(5, b"v")]

    moving(tmp_path, body)


def test_records_deleted_meanwhile_are_not_there_afterwards(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        await held(worker)
        replica(worker).raise_log_start_offset(4)
        throttle(worker, None)
        await moved(worker)
        assert replica(worker).log_start_offset == 4

    moving(tmp_path, body)


def test_a_start_goes_on_with_what_was_under_way(tmp_path: Path) -> None:
    async def body(family: Family, worker: Worker) -> None:
        await held(worker)
        crash(worker)
        successor = family.start(0)
        found = await successor.logs.open_all({})
        assert list(found.current) == list(found.future) == [TP]
        assert not found.future[TP].is_closed
        assert found.future[TP].log_end_offset == 1
        successor.partitions.found_on_disk(found.current)
        successor.moving.found_on_disk(found.future)
        successor.moves.start()
        await asyncio.sleep(0)
        assert names(tmp_path)["home-1"] == ["t-0.future"]  # not before the controller says what it is
        family.workers = [successor]
        await family.lead("t", [0])
        await moved(successor)
        assert [offset for offset, _ in everything(replica(successor))] == list(range(5))
        assert names(tmp_path) == {"home-0": ["t-0.delete"], "home-1": ["t-0"]}

    moving(tmp_path, body)


def test_a_copy_of_a_topic_of_the_same_name_is_not_gone_on_with(tmp_path: Path) -> None:
    async def body(family: Family, worker: Worker) -> None:
        future = await held(worker)
        future.topic_id = b"another topic's."
        await family.lead("t", [0])
        assert KEY not in worker.moving
        assert names(tmp_path) == {"home-0": ["t-0"], "home-1": ["t-0.delete"]}

    moving(tmp_path, body)


@pytest.mark.parametrize("copied", ["while it is read", "later"])
def test_a_topic_that_is_deleted_takes_its_copy_with_it(tmp_path: Path, copied: str) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        disk = threading.Event()
        if copied == "later":
            await held(worker)
        else:
            append(worker, b"x" * 900_000, count=3)
            for _ in range(4):
                worker.threads.submit(disk.wait, 30)
            move(worker, "home-1")
            await asyncio.sleep(0)
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
        topic = StopReplicaTopicState(topic_name="t", partition_states=[state])
        await worker.decisions.stop_replica(StopReplicaRequest(controller_epoch=1, topic_states=[topic]))
        disk.set()
        assert KEY not in worker.moving
        assert names(tmp_path) == {"home-0": ["t-0.delete"], "home-1": ["t-0.delete"]}
        await asyncio.to_thread(lambda: None)
        assert not worker.disks.is_offline(str(tmp_path / "home-1"))

    moving(tmp_path, body)


def test_the_target_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)

        def refuse(one: Log, _data: object) -> None:
            raise StorageError("the disk is full") if one is future else AssertionError

        monkeypatch.setattr(Log, "append_as_follower", refuse)
        future.fence(OSError(errno.ENOSPC, "No space left on device"))
        throttle(worker, None)
        await until(lambda: worker.disks.is_offline(str(tmp_path / "home-1")))
        assert KEY not in worker.moving
        assert home_of(worker) == "home-0"
        append(worker)
        assert names(tmp_path)["home-1"] == ["t-0.future"]  # for a start that finds the disk well

    moving(tmp_path, body)


def test_the_source_fails(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)
        worker.disks.directory_failed(tmp_path / "home-0")
        throttle(worker, None)
        assert describe_log_dirs.local(worker) == [
            Described(str(tmp_path / "home-1"), "t", 0, True, future.size_bytes, -1)
        ]
        await asyncio.sleep(0)
        assert not future.is_closed
        assert names(tmp_path) == {"home-0": ["t-0"], "home-1": ["t-0.future"]}

    moving(tmp_path, body)


def test_the_directory_of_the_copy_refuses_the_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = OsFiles.rename

    def refuse(files: OsFiles, source: Path, target: Path) -> None:
        if source.name.endswith("-future"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        rename(files, source, target)

    async def body(_family: Family, worker: Worker) -> None:
        append(worker)
        monkeypatch.setattr(OsFiles, "rename", refuse)
        move(worker, "home-1")
        await until(lambda: worker.disks.is_offline(str(tmp_path / "home-1")))
        assert home_of(worker) == "home-0"
        append(worker)

    moving(tmp_path, body)


def test_the_old_directory_refuses_to_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the name then; a start keeps the one that was written longer."""
    rename = OsFiles.rename

    def refuse(files: OsFiles, source: Path, target: Path) -> None:
        if target.name.endswith("-delete"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        rename(files, source, target)

    async def body(family: Family, worker: Worker) -> None:
        append(worker)
        monkeypatch.setattr(OsFiles, "rename", refuse)
        move(worker, "home-1")
        await moved(worker)
        await until(lambda: worker.disks.is_offline(str(tmp_path / "home-0")))
        append(worker, b"later")
        assert names(tmp_path) == {"home-0": ["t-0"], "home-1": ["t-0"]}
        monkeypatch.undo()
        replica(worker).close()
        successor = family.start(0)
        found = await successor.logs.open_all({})
        assert found.current[TP].directory.parent.name == "home-1"
        assert [value for _, value in everything(found.current[TP])] == [b"v", b"later"]
        assert names(tmp_path) == {"home-0": ["t-0.stray"], "home-1": ["t-0"]}
        found.current[TP].close()

    moving(tmp_path, body)


@pytest.mark.parametrize("target", ["home-0", "home-1"])
def test_a_broker_that_dies_between_the_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    async def body(family: Family, worker: Worker) -> None:
        append(worker, count=3)
        if target == "home-0":
            move(worker, "home-1")
            await moved(worker)
            (deleted,) = (tmp_path / "home-0").glob("*-delete")
            os.rename(deleted, tmp_path / "gone")
        monkeypatch.setattr(worker.logs, "delete", lambda _log: None)
        old = replica(worker)
        move(worker, target)
        await moved(worker, target)
        crash(worker, old)
        successor = family.start(0)
        found = await successor.logs.open_all({})
        assert found.current[TP].directory.parent.name == target
        assert len(everything(found.current[TP])) == 3
        other = "home-1" if target == "home-0" else "home-0"
        assert names(tmp_path) == {target: ["t-0"], other: ["t-0.delete"]}
        found.current[TP].close()

    moving(tmp_path, body)


def test_nobody_cleans_a_log_that_moves(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        worker.logs.set_topic_configs({"t": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}})
        append(worker, count=3)
        replica(worker).roll(1)
        begin, end = (worker.logs.compaction.operations[word] for word in ("begin_cleaning", "end_cleaning"))
        row = begin(None, KEY, memoryview(b""), [])  # type: ignore[arg-type]
        assert row is not None
        future = await held(worker)
        assert end(None, [*KEY, row[0], 3, None, False], memoryview(b""), []) is None  # type: ignore[arg-type, index]
        assert replica(worker).cleaner_checkpoint is None
        assert begin(None, KEY, memoryview(b""), []) is None  # type: ignore[arg-type]
        throttle(worker, None)
        await moved(worker)
        future.roll(1)
        assert begin(None, KEY, memoryview(b""), []) is not None  # type: ignore[arg-type]
        assert replica(worker) is future

    moving(tmp_path, body)


def test_settings_reach_the_copy(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)
        worker.logs.set_topic_configs({"t": {"segment.bytes": "12345"}})
        assert future.config.segment_bytes == replica(worker).config.segment_bytes == 12345

    moving(tmp_path, body)


def test_a_flush_that_the_move_overtakes(tmp_path: Path) -> None:
    """The copy's segment is flushed in a thread while it takes its place, and its producer still waits for a flush."""

    async def body(_family: Family, worker: Worker) -> None:
        append(worker)
        disk = threading.Event()
        for _ in range(4):
            worker.flushers.submit(disk.wait, 30)
        move(worker, "home-1")
        future = worker.moving.future_of(KEY)
        assert future is not None
        partition, old = worker.partitions.hosted[KEY], replica(worker)
        flushing = asyncio.create_task(worker.logs.flush_appended([(partition, 1)]))
        await asyncio.sleep(0)
        await until(lambda: home_of(worker) == "home-1" or old.log_end_offset < 1)
        future.roll(1)
        await asyncio.sleep(0)
        disk.set()
        assert await flushing == []
        assert future.recovery_point == 1
        assert not worker.disks.is_offline(str(tmp_path / "home-0"))
        assert not worker.disks.is_offline(str(tmp_path / "home-1"))

    moving(tmp_path, body)


def test_the_names_of_the_copy_are_flushed_although_it_takes_its_place_meanwhile(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)
        disk = threading.Event()
        for _ in range(4):
            worker.flushers.submit(disk.wait, 30)
        future.roll(1)
        await asyncio.sleep(0)
        throttle(worker, None)
        await moved(worker)
        disk.set()
        await until(lambda: future.recovery_point == 1)
        assert not worker.disks.is_offline(str(tmp_path / "home-1"))

    moving(tmp_path, body)


def test_files_deleted_of_the_copy_are_unlinked_under_its_new_name(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        future = await held(worker)
        future.roll(1)
        future.raise_log_start_offset(1)
        future.delete_old_segments(1)
        throttle(worker, None)
        await moved(worker)
        told = {path for paths, _delay in worker.logs.cleaner.to_unlink.values() for path in paths}
        left = {str(path) for path in replica(worker).directory.glob("*.deleted")}
        assert left
        assert left <= told

    moving(tmp_path, body)


def test_a_damaged_log_is_not_copied_and_others_are(tmp_path: Path) -> None:
    async def body(family: Family, worker: Worker) -> None:
        append(worker, b"x" * 100)
        await family.lead("u", [0])
        await family.lead("v", [0])
        other = next(key for key in (("u", 0), ("v", 0)) if key in worker.partitions.hosted)
        old = replica(worker)
        with (old.directory / "00000000000000000000.log").open("r+b") as file:
            file.seek(100)
            file.write(b"damaged")
        assert move(worker, "home-1") is ErrorCode.NONE
        home = worker.partitions.hosted[other].log.directory.parent.name
        target = "home-0" if home == "home-1" else "home-1"
        assert move(worker, target, other) is ErrorCode.NONE
        await until(lambda: worker.partitions.hosted[other].log.directory.parent.name == target)
        assert home_of(worker) == "home-0"
        assert KEY in worker.moving
        assert not worker.disks.is_offline(str(tmp_path / "home-0"))

    moving(tmp_path, body)


def test_what_is_told_of_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = {"lags": [], "failed": 0, "dead": 0, "requests": {}}

    async def body(_family: Family, worker: Worker) -> None:
        assert worker.moves.gauges() == none
        future = await held(worker)
        assert worker.moves.gauges() == {**none, "lags": [["t", 0, 4]], "requests": {"0": 1}}

        def refuse(_log: Log, _data: object) -> None:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE)

        with monkeypatch.context() as patched:
            patched.setattr(Log, "append_as_follower", refuse)
            throttle(worker, None)
            await until(lambda: worker.moves.gauges()["failed"] == 1)
            assert future.log_end_offset == 1
        await until(lambda: KEY not in worker.moving)
        assert home_of(worker) == "home-1"
        assert worker.moves.gauges() == none

    moving(tmp_path, body, settings={"replica.fetch.backoff.ms": "10"})


def test_the_rate_is_kept(tmp_path: Path) -> None:
    async def body(_family: Family, worker: Worker) -> None:
        append(worker, b"x" * 10_000, count=40)
        throttle(worker, "200000")
        began = worker.clock.monotonic_ms()
        move(worker, "home-1")
        await moved(worker)
        # 400 kB in windows of a second: the first passes at once, then it is as fast as it may be.
        assert 900 < worker.clock.monotonic_ms() - began < 60_000

    moving(tmp_path, body)
