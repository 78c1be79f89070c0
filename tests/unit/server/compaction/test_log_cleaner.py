"""The log cleaner and the workers whose logs it compacts, on one event loop."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pkafka.clock import SystemClock
from pkafka.records.reading import read_records
from pkafka.server.compaction.log_cleaner import CleanerSettings, LogCleaner, Throttle
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc.peer import Handler, Peer
from pkafka.server.ipc.words import CleaningRound, Due, Offer
from pkafka.server.processes.worker import Worker
from pkafka.storage.checkpoints import CLEANER_FILE
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from tests.unit.server.workers import Family, until, with_family
from tests.unit.storage.cleaned import write

T = TypeVar("T")

SETTINGS = CleanerSettings(
    threads=1,
    backoff_ms=20,
    dedupe_buffer_bytes=1 << 20,
    load_factor=0.9,
    io_buffer_bytes=1 << 19,
    io_bytes_per_second=float(2**62),
)
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}


class Stage:
    """A cleaner in the middle of some workers."""

    def __init__(
        self, family: Family, settings: CleanerSettings = SETTINGS, files: OsFiles | None = None
    ) -> None:
        self.family = family
        self.peers: list[Peer] = []
        self.checkpoints: list[Any] = []
        self.unlinked: list[str] = []
        self.asked = 0
        """How often a worker was asked what is due."""
        self.cleaner = LogCleaner(
            lambda: [peer for peer in self.peers if not peer.gone],
            settings,
            clock=SystemClock(),
            files=files or OsFiles(),
        )
        self._others: list[Peer] = []
        for worker in family.workers:
            self.introduce(worker)

    def introduce(self, worker: Worker) -> None:
        ours, theirs = socket.socketpair()
        operations: dict[str, Handler] = {
            "checkpoint": lambda _peer, row, _blob, _fds: self.checkpoints.append(row),
            "unlink": lambda _peer, row, _blob, _fds: self.unlinked.extend(row[0]),
            "abort_cleaning": lambda peer, row, _blob, _fds: self.cleaner.abort(peer, CleaningRound(*row)),
        }
        self.peers.append(Peer(f"worker-{worker.index}", ours, operations))
        ask = worker._operations["cleanable"]

        def count(peer: Peer, busy: Any, blob: memoryview, fds: list[int]) -> Any:
            self.asked += 1
            return ask(peer, busy, blob, fds)

        worker._operations["cleanable"] = count
        other = Peer("cleaner", theirs, worker._operations)
        self._others.append(other)
        worker._neighbours.cleaner = other
        worker.logs.cleaner_came(other)
        worker.logs.checkpoints.are_logs_open = True

    async def close(self) -> None:
        await self.cleaner.stop()
        for peer in (*self.peers, *self._others):
            peer.close()

    def checkpointed(self) -> dict[tuple[str, int], int]:
        """What the workers have told of the cleaner's checkpoint last."""
        told: dict[tuple[str, int], int] = {}
        for row in self.checkpoints:
            for files in row.values():
                told.update({(topic, index): offset for topic, index, offset in files.get(CLEANER_FILE, ())})
        return told


def with_stage(
    root: Path,
    body: Callable[[Stage], Awaitable[T]],
    *,
    workers: int = 1,
    settings: CleanerSettings = SETTINGS,
    files: OsFiles | None = None,
) -> T:
    async def run(family: Family) -> T:
        stage = Stage(family, settings, files)
        try:
            return await body(stage)
        finally:
            await stage.close()

    return with_family(root, run, workers=workers)


async def compacted_log(family: Family, topic: str, index: int = 0, **changes: str) -> Log:
    configs = COMPACT | {name.replace("_", "."): value for name, value in changes.items()}
    for worker in family.workers:
        worker.logs.set_topic_configs({topic: configs})
    await family.lead(topic, [index])
    (log,) = (
        worker.partitions.hosted[topic, index].log
        for worker in family.workers
        if (topic, index) in worker.partitions.hosted
    )
    return log


def fill(log: Log, count: int = 100, *, keys: int = 3) -> None:
    for number in range(count):
        write(log, (b"k%d" % (number % keys), b"%d" % number), (b"l%d" % (number % keys), b"." * 50))


def size_of(log: Log) -> int:
    return sum(len(list(read_records(os.pread(one.fileno(), one.size, 0)))) for one in log.segments)


def test_a_dirty_log_is_cleaned_and_its_checkpoint_told(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        log = await compacted_log(stage.family, "t")
        fill(log)
        bases = [one.base_offset for one in log.segments]
        stage.cleaner.start()
        await until(lambda: log.cleaner_checkpoint == bases[-1])
        await until(lambda: stage.checkpointed() == {("t", 0): bases[-1]})
        assert size_of(log) < 50
        assert stage.unlinked
        assert all(path.endswith(".deleted") for path in stage.unlinked)
        metrics = stage.cleaner.metrics()
        assert 0 < metrics["cleaner-recopy-percent"] < 50
        await until(lambda: stage.cleaner.metrics()["max-dirty-percent"] == 0)

    with_stage(tmp_path, body)


def test_a_round_that_begins_right_after_another_thread_asked_stays(tmp_path: Path) -> None:
    """One thread of the cleaner asks what is due while another begins: their words arrive together."""

    async def body(stage: Stage) -> None:
        fill(await compacted_log(stage.family, "t"))
        (worker,) = stage.peers
        asked, begun = worker.call("cleanable", []), worker.call("begin_cleaning", ["t", 0])
        assert (await begun)[0] is not None
        await asked
        assert (await worker.call("begin_cleaning", ["t", 0]))[0] is None  # somebody is at it

    with_stage(tmp_path, body)


def test_the_dirtiest_log_of_all_workers_comes_first(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        done: list[list[Any]] = []
        logs = {}
        for index, dirty in ((0, 20), (1, 60), (2, 40)):
            log = logs[index] = await compacted_log(stage.family, "t", index)
            fill(log, 60)
            log.cleaner_checkpoint = (60 - dirty) * 2
        for worker in stage.family.workers:
            note_ends(worker, done)
        stage.cleaner.start()
        await until(lambda: len(done) == 3)
        assert [row[1] for row in done] == [1, 2, 0]

    with_stage(tmp_path, body, workers=2)


def test_a_log_below_its_ratio_and_one_that_is_not_compacted_are_left_alone(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        clean = await compacted_log(stage.family, "clean", min_cleanable_dirty_ratio="0.9")
        fill(clean)
        clean.cleaner_checkpoint = 100
        kept = await compacted_log(stage.family, "kept", cleanup_policy="delete")
        fill(kept)
        other = await compacted_log(stage.family, "other")
        fill(other)
        stage.cleaner.start()
        await until(lambda: other.cleaner_checkpoint is not None)
        assert size_of(kept) == size_of(clean) == 200
        assert clean.cleaner_checkpoint == 100

    with_stage(tmp_path, body)


def test_a_damaged_log_is_given_up_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(stage: Stage) -> None:
        damaged = await compacted_log(stage.family, "damaged")
        fill(damaged)
        path = damaged.segments[1].path
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\xff" * 20)
        good = await compacted_log(stage.family, "good", min_cleanable_dirty_ratio="0.5")
        fill(good)
        stage.cleaner.start()
        await until(lambda: good.cleaner_checkpoint is not None)
        (worker,) = stage.family.workers
        await until(lambda: worker.logs.compaction.uncleanable() != [])
        ((directory, partitions, size),) = worker.logs.compaction.uncleanable()
        assert (directory, partitions) == (str(tmp_path), 1)
        assert size > 0
        assert damaged.cleaner_checkpoint is None
        assert not worker.disks.is_offline(str(tmp_path))
        assert not list(damaged.directory.glob("*.cleaned"))
        assert "Marking its partition (damaged-0) as uncleanable" in caplog.text
        worker.logs.compaction.leave(damaged)
        assert worker.logs.compaction.uncleanable() == []

    with_stage(tmp_path, body)


class SlowFiles(OsFiles):
    """A disk that holds up the first flush of a new segment until it is told to go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def fsync_directory(self, path: Path) -> None:
        self.reached.set()
        self.go_on.wait(20)
        super().fsync_directory(path)


def held_up(
    tmp_path: Path, body: Callable[[Stage, Log, SlowFiles], Awaitable[None]], *, backoff_ms: int = 20
) -> None:
    """Run a test's body while a log is being cleaned, its first group written and not yet swapped."""
    files = SlowFiles()

    async def run(stage: Stage) -> None:
        log = await compacted_log(stage.family, "t")
        fill(log)
        stage.cleaner.start()
        try:
            await until(files.reached.is_set)
            await body(stage, log, files)
        finally:
            files.go_on.set()

    with_stage(tmp_path, run, settings=replace(SETTINGS, backoff_ms=backoff_ms), files=files)


def note_ends(worker: Worker, ends: list[list[Any]]) -> None:
    """Have everything that the cleaner says at the end of a round noted, too."""
    end = worker._operations["end_cleaning"]

    def note(peer: Peer, row: Any, blob: memoryview, fds: list[int]) -> Any:
        ends.append(row)
        return end(peer, row, blob, fds)

    worker._operations["end_cleaning"] = note


def idle(stage: Stage) -> bool:
    return not stage.cleaner._jobs


def test_a_topic_that_is_deleted_while_it_is_cleaned(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        del worker.partitions.led["t", 0], worker.partitions.hosted["t", 0]
        worker.logs.delete(log)
        files.go_on.set()
        await until(lambda: idle(stage))
        assert not worker.disks.is_offline(str(tmp_path))
        assert worker.logs.compaction.uncleanable() == []

    held_up(tmp_path, body)


def test_a_policy_that_changes_while_the_log_is_cleaned(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        worker.logs.set_topic_configs({"t": {"cleanup.policy": "delete"}})
        files.go_on.set()
        await until(lambda: idle(stage))
        assert size_of(log) == 200
        assert not list(log.directory.glob("*.cleaned"))
        assert log.cleaner_checkpoint is None

    held_up(tmp_path, body)


def test_a_log_that_is_cut_while_it_is_cleaned(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        log.truncate_to(log.segments[2].base_offset + 2)
        files.go_on.set()
        await until(lambda: idle(stage) and log.cleaner_checkpoint is None)
        await until(lambda: stage.asked > 1)
        assert not worker.disks.is_offline(str(tmp_path))
        assert worker.logs.compaction.uncleanable() == []
        assert size_of(log) == log.log_end_offset

    held_up(tmp_path, body, backoff_ms=300)


def test_a_failure_over_files_that_were_cut_meanwhile_is_none(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        number = worker.logs.compaction._rounds["t", 0].number
        log.truncate_to(log.segments[2].base_offset)
        for problem, disk_refused in (("No such file or directory", True), ("a torn batch", False)):
            rounds = dict(worker.logs.compaction._rounds)
            worker.logs.compaction._end("t", 0, number, None, problem, disk_refused)
            assert not worker.disks.is_offline(str(tmp_path))
            assert worker.logs.compaction.uncleanable() == []
            worker.logs.compaction._rounds.update(rounds)

    held_up(tmp_path, body)


def test_nothing_is_begun_while_the_worker_stops(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        worker.logs.compaction.close()
        files.go_on.set()
        await until(lambda: idle(stage))
        assert not list(log.directory.glob("*.cleaned"))
        assert worker.logs.compaction._begin(("t", 0)) is None

    held_up(tmp_path, body)


def test_records_that_come_meanwhile_are_taken(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        end = write(log, (b"k0", b"newest"))
        files.go_on.set()
        await until(lambda: log.cleaner_checkpoint is not None)
        records = [
            record for one in log.segments for record in read_records(os.pread(one.fileno(), one.size, 0))
        ]
        assert [record.value for record in records if record.offset == end] == [b"newest"]

    held_up(tmp_path, body)


def test_nothing_is_deleted_by_age_from_a_log_that_is_cleaned(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        both = COMPACT | {"cleanup.policy": "compact,delete", "retention.bytes": "0"}
        worker.logs.set_topic_configs({"t": both})
        await worker.logs._delete_old()
        best, *_ = await worker.logs.compaction._cleanable([["t", 0]])
        assert best is None
        assert log.log_start_offset == 0
        files.go_on.set()
        await until(lambda: log.log_start_offset > 0)

    held_up(tmp_path, body)


def test_a_worker_that_dies_meanwhile_takes_its_round_along(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        stage.peers[0].close()
        files.go_on.set()
        await until(lambda: idle(stage))
        assert not list(log.directory.glob("*.cleaned")), "its successor may have looked for them already"
        assert size_of(log) == 200

    held_up(tmp_path, body)


async def asked_for_a_swap(stage: Stage, files: SlowFiles) -> Worker:
    """Let the cleaner go on until the worker is asked to take files over, which it never answers."""
    (worker,) = stage.family.workers
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def never(*_arguments: Any) -> bool:
        asked.set_result(None)
        await asyncio.Event().wait()
        return True

    worker._operations["replace_segments"] = never
    files.go_on.set()
    await asked
    return worker


def test_a_worker_that_dies_while_it_is_asked_for_a_swap_leaves_the_files_to_its_successor(
    tmp_path: Path,
) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        await asked_for_a_swap(stage, files)
        stage.peers[0].close()
        await until(lambda: idle(stage))
        assert list(log.directory.glob("*.cleaned"))
        assert size_of(log) == 200

    held_up(tmp_path, body)


def test_a_worker_that_stops_while_it_is_asked_for_a_swap(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        worker = await asked_for_a_swap(stage, files)
        assert list(log.directory.glob("*.cleaned"))
        worker.logs.compaction.close()
        await until(lambda: stage.cleaner._jobs["t", 0].is_released)
        stage.peers[0].close()
        await until(lambda: idle(stage))
        assert not list(log.directory.glob("*.cleaned"))
        assert size_of(log) == 200

    held_up(tmp_path, body)


def test_the_word_that_a_round_is_over_may_come_before_its_number(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        log = await compacted_log(stage.family, "t")
        fill(log)
        (worker,) = stage.family.workers
        begin = worker._operations["begin_cleaning"]

        def begin_and_stop(peer: Peer, key: Any, blob: memoryview, fds: list[int]) -> Any:
            answer = begin(peer, key, blob, fds)
            asyncio.get_running_loop().call_soon(worker.logs.compaction.close)
            return answer

        worker._operations["begin_cleaning"] = begin_and_stop
        stage.cleaner.start()
        await until(lambda: bool(stage.cleaner._jobs))
        await until(lambda: idle(stage))
        assert not list(log.directory.glob("*.cleaned"))
        assert size_of(log) == 200

    with_stage(tmp_path, body)


def test_a_cleaner_that_was_replaced_is_not_waited_for(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, _files: SlowFiles) -> None:
        (worker,) = stage.family.workers
        compaction = worker.logs.compaction
        assert await compaction._cleanable([["t", 0]]) == Due(None, 0.0, 0, 0, 0)
        compaction.cleaner_gone()
        best, *_ = await compaction._cleanable([])
        assert best == Offer("t", 0, 1.0)
        assert compaction._begin(("t", 0)) is not None
        assert compaction._begin(("t", 0)) is None, "one at a time"
        assert compaction._replace("t", 0, 1, [0], [0]) is False, "the word of the dead counts no more"
        best, *_ = await compaction._cleanable([])
        assert best == Offer("t", 0, 1.0), "the cleaner has forgotten what it does not name"

    held_up(tmp_path, body)


def test_it_stops_at_once(tmp_path: Path) -> None:
    async def body(stage: Stage, log: Log, files: SlowFiles) -> None:
        stopping = asyncio.create_task(stage.cleaner.stop())
        await asyncio.sleep(0)
        files.go_on.set()
        await stopping
        assert idle(stage)
        assert log.cleaner_checkpoint is None

    held_up(tmp_path, body)


def test_threads_come_and_go_with_their_number(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        stage.cleaner.start()
        stage.cleaner.configure(replace(SETTINGS, threads=3))
        assert len(stage.cleaner._threads) == 3
        stage.cleaner.configure(replace(SETTINGS, threads=1, backoff_ms=60_000))
        await until(lambda: [task.done() for task in stage.cleaner._threads.values()] == [False, True, True])
        assert stage.cleaner.metrics()["deadthreadcount"] == 0
        log = await compacted_log(stage.family, "t")
        fill(log)
        stage.cleaner.configure(replace(SETTINGS, backoff_ms=30_000))
        await until(lambda: log.cleaner_checkpoint is not None)

    with_stage(tmp_path, body)


def test_a_small_map_of_keys_takes_several_rounds(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        log = await compacted_log(stage.family, "t")
        fill(log, 60, keys=1000)
        steps: list[list[Any]] = []
        note_ends(stage.family.workers[0], steps)
        stage.cleaner.start()
        await until(lambda: log.cleaner_checkpoint == log.segments[-1].base_offset)
        assert len(steps) > 2

    with_stage(tmp_path, body, settings=replace(SETTINGS, dedupe_buffer_bytes=24 * 40, load_factor=0.5))


def test_a_disk_that_refuses_the_new_segment_takes_its_directory_offline(tmp_path: Path) -> None:
    class FullFiles(OsFiles):
        def fsync(self, descriptor: int) -> None:  # type: ignore[override]
            raise OSError(28, "No space left on device")

    async def body(stage: Stage) -> None:
        await compacted_log(stage.family, "t")
        log = stage.family.workers[0].partitions.hosted["t", 0].log
        fill(log)
        stage.cleaner.start()
        await until(lambda: stage.family.workers[0].disks.is_offline(str(tmp_path)))
        assert not list(log.directory.glob("*.cleaned"))

    with_stage(tmp_path, body, files=FullFiles())


def test_retention_of_compacted_logs_is_the_cleaners_alone(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        log = await compacted_log(
            stage.family,
            "t",
            cleanup_policy="compact,delete",
            retention_bytes="0",
            min_cleanable_dirty_ratio="1.0",
        )
        fill(log)
        (worker,) = stage.family.workers
        await worker.logs._delete_old()
        assert log.log_start_offset == 0
        stage.cleaner.start()
        await until(lambda: log.log_start_offset > 0)

    with_stage(tmp_path, body)


def test_the_throttle_keeps_to_its_rate() -> None:
    now = [100.0]
    throttle = Throttle(1000.0, lambda: now[0])
    assert throttle.took(200) == 0.0, "too little to tell"
    assert throttle.took(9_800) == pytest.approx(10.0)
    now[0] += 10.0
    assert throttle.took(100) == 0.0
    now[0] += 0.4
    assert throttle.took(400) == pytest.approx(0.1)
    now[0] += 0.5
    assert throttle.took(100) == 0.0, "below the rate"


def test_all_threads_share_one_rate(tmp_path: Path) -> None:
    # From before the throttle is made: until the first bytes come, their time passes.
    began_s = time.monotonic()

    async def body(stage: Stage) -> None:
        log = await compacted_log(stage.family, "t")
        fill(log, 200)
        stage.cleaner.start()
        await until(lambda: log.cleaner_checkpoint is not None)
        assert time.monotonic() - began_s > 0.8

    # Read twice, and what is left written: about 60 kB at 50 kB/s.
    with_stage(tmp_path, body, settings=replace(SETTINGS, io_bytes_per_second=50_000.0))


def test_no_read_is_larger_than_its_buffer(tmp_path: Path) -> None:
    class NotingFiles(OsFiles):
        largest = 0

        def read_into(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
            self.largest = max(self.largest, len(buffer))
            return super().read_into(descriptor, buffer, position)

    files = NotingFiles()

    async def body(stage: Stage) -> None:
        log = await compacted_log(stage.family, "t", segment_bytes="100000")
        fill(log, 500)
        write(log, (b"large", b"." * 20_000))
        log.roll(2)
        stage.cleaner.start()
        await until(lambda: log.cleaner_checkpoint is not None)
        assert size_of(log) < 20
        assert files.largest == 8192

    # Half of it is for writing, in Kafka; a batch that does not fit is read as a whole.
    with_stage(tmp_path, body, settings=replace(SETTINGS, io_buffer_bytes=16_384), files=files)


def test_what_compacts_gives_way_to_what_serves(tmp_path: Path) -> None:
    class NotingFiles(OsFiles):
        niceness: int | None = None

        def read_into(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
            self.niceness = _niceness()
            return super().read_into(descriptor, buffer, position)

    files = NotingFiles()

    async def body(stage: Stage) -> None:
        fill(await compacted_log(stage.family, "t"))
        stage.cleaner.start()
        await until(lambda: files.niceness is not None)
        assert files.niceness == min(_niceness() + 5, 19)

    with_stage(tmp_path, body, files=files)


def _niceness() -> int:
    """That of the calling thread; Linux has one for each."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_it_rests_for_its_backoff_when_nothing_is_due(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        began_s = time.monotonic()
        stage.cleaner.start()
        await until(lambda: stage.asked == 3)
        assert time.monotonic() - began_s >= 0.4

    with_stage(tmp_path, body, settings=replace(SETTINGS, backoff_ms=200))


def test_as_many_logs_at_a_time_as_there_are_threads(tmp_path: Path) -> None:
    files = SlowFiles()

    async def body(stage: Stage) -> None:
        for index in range(3):
            fill(await compacted_log(stage.family, "t", index))
        stage.cleaner.start()
        try:
            await until(lambda: len(stage.cleaner._jobs) == 2)
            await asyncio.sleep(0.1)
            assert len(stage.cleaner._jobs) == 2
        finally:
            files.go_on.set()

    with_stage(tmp_path, body, settings=replace(SETTINGS, threads=2), files=files)


def test_settings_are_those_of_the_configuration() -> None:
    config = BrokerConfig.load(
        None,
        {
            "log.dirs": "/nowhere",
            "log.cleaner.threads": "3",
            "log.cleaner.backoff.ms": "7",
            "log.cleaner.dedupe.buffer.size": "12000000",
            "log.cleaner.io.buffer.load.factor": "0.7",
            "log.cleaner.io.buffer.size": "600000",
            "log.cleaner.io.max.bytes.per.second": "1000.5",
        },
    )
    assert CleanerSettings.of(config) == CleanerSettings(3, 7, 12_000_000, 0.7, 600_000, 1000.5)
    assert CleanerSettings.of(config.replace({"log.cleaner.enable": "false"})).threads == 0


def test_workers_spend_little_of_their_time_on_answers(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        (worker,) = stage.family.workers
        ask = worker._operations["cleanable"]

        async def slow(*arguments: Any) -> Any:
            await asyncio.sleep(0.05)
            answer = ask(*arguments)
            assert isinstance(answer, Awaitable)
            return await answer

        worker._operations["cleanable"] = slow
        logs = [await compacted_log(stage.family, "t", index) for index in range(4)]
        for log in logs:
            fill(log, 40)
        began_s = time.monotonic()
        stage.cleaner.start()
        await until(lambda: all(log.cleaner_checkpoint is not None for log in logs))
        assert time.monotonic() - began_s > 3 * 5 * 0.05

    with_stage(tmp_path, body, settings=replace(SETTINGS, backoff_ms=60_000))
