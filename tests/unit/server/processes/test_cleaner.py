"""The cleaner process: checkpoint files from what all workers said last, and files that go after a while."""

import asyncio
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import Birth
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Peer
from pkafka.server.processes.cleaner import Cleaner, CleanerSetup
from pkafka.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE
from pkafka.storage.log_directory import LogDirectory


class Stage:
    """A cleaner on this event loop, with the supervisor and two workers at its other ends."""

    def __init__(self, *homes: Path) -> None:
        self.directories = [LogDirectory(home) for home in homes]
        ours, theirs = socket.socketpair()
        birth = Birth(theirs, "cleaner", first=True, session=None)
        self.said: list[str] = []
        self._line = Peer(
            "cleaner",
            ours,
            {
                word: lambda *_arguments, word=word: self.said.append(word)
                for word in (lifeline.BEAT, lifeline.BOOTED)
            },
        )
        config = BrokerConfig.load(
            None, {"log.dirs": ",".join(str(home) for home in homes), "log.cleaner.enable": "false"}
        )
        self.cleaner = Cleaner(CleanerSetup(config, self.directories, workers=2), birth)
        self._life = asyncio.create_task(self.cleaner.run())
        self.failed: list[str] = []
        """What workers heard of failed directories."""
        self.workers = [self.introduce(f"worker-{index}") for index in range(2)]

    def introduce(self, name: str) -> Peer:
        ours, theirs = socket.socketpair()
        self._line.note(lifeline.PEER, name, b"", [theirs.fileno()])
        theirs.close()
        return Peer(
            "cleaner", ours, {"log_dir_failed": lambda _peer, path, _blob, _fds: self.failed.append(path)}
        )

    async def end(self) -> int:
        self._line.note(lifeline.STOP)
        code = await self._life
        self.cleaner._life.line.close()  # else it would take the end of this stage for the supervisor's, and end pytest
        for peer in (self._line, *self.workers):
            peer.close()
        return code


def on_stage(homes: list[Path], play: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        stage = Stage(*homes)
        try:
            await play(stage)
        finally:
            assert await stage.end() == ChildExit.CLEAN
        assert stage.said[:2] == [lifeline.BOOTED, lifeline.BEAT]

    asyncio.run(asyncio.wait_for(run(), 90))


Rows = dict[str, dict[str, list[list[object]]]]


def rows(home: Path, **offsets: int) -> Rows:
    listed: list[list[object]] = [[name, 0, offset] for name, offset in offsets.items()]
    return {str(home): {RECOVERY_POINT_FILE: listed}}


def test_a_checkpoint_is_written_when_every_worker_has_spoken(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        (directory,) = stage.directories
        await stage.workers[0].call("checkpoint", rows(tmp_path, a=1))
        assert not (tmp_path / RECOVERY_POINT_FILE).exists()
        await stage.workers[1].call("checkpoint", rows(tmp_path, b=2))
        assert directory.recovery_points() == {TopicPartition("a", 0): 1, TopicPartition("b", 0): 2}
        # What a worker says replaces what it said before: it gave its only partition up.
        await stage.workers[0].call("checkpoint", rows(tmp_path))
        assert directory.recovery_points() == {TopicPartition("b", 0): 2}

    on_stage([tmp_path], play)


def test_the_last_words_of_a_dead_worker_count_until_its_successor_speaks(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        (directory,) = stage.directories
        await stage.workers[0].call("checkpoint", rows(tmp_path, a=1))
        await stage.workers[1].call("checkpoint", rows(tmp_path, b=2))
        stage.workers[0].close()
        await stage.workers[1].call("checkpoint", rows(tmp_path, b=3))
        assert directory.recovery_points() == {TopicPartition("a", 0): 1, TopicPartition("b", 0): 3}
        stage.workers[0] = stage.introduce("worker-0")
        await stage.workers[0].call("checkpoint", rows(tmp_path, a=5))
        assert directory.recovery_points() == {TopicPartition("a", 0): 5, TopicPartition("b", 0): 3}

    on_stage([tmp_path], play)


def test_each_directory_and_each_kind_has_its_own_file(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]

    async def play(stage: Stage) -> None:
        kinds = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE)
        said = {
            str(home): {kind: [["t", number, 10 * number + place]] for place, kind in enumerate(kinds)}
            for number, home in enumerate(homes)
        }
        for worker in stage.workers:
            await worker.call("checkpoint", said)
        for number, directory in enumerate(stage.directories):
            key = TopicPartition("t", number)
            assert directory.recovery_points() == {key: 10 * number}
            assert directory.log_start_offsets() == {key: 10 * number + 1}
            assert directory.high_watermarks() == {key: 10 * number + 2}

    on_stage(homes, play)


def test_a_disk_that_refuses_does_not_end_the_cleaner_and_the_workers_hear_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    homes = [tmp_path / "bad", tmp_path / "good"]

    async def play(stage: Stage) -> None:
        (homes[0] / f"{RECOVERY_POINT_FILE}.tmp").mkdir()  # nobody can write a file of that name
        for worker in stage.workers:
            await worker.call("checkpoint", {**rows(homes[0], t=1), **rows(homes[1], t=2)})
        assert stage.directories[1].recovery_points() == {TopicPartition("t", 0): 2}
        while len(stage.failed) < 2:  # noqa: ASYNC110 - the workers are served by this loop
            await asyncio.sleep(0)
        assert stage.failed == [str(homes[0])] * 2

    on_stage(homes, play)
    assert "Cannot write" in caplog.text


def test_files_and_trees_go_after_their_delay(tmp_path: Path) -> None:
    file, tree, later = tmp_path / "a.deleted", tmp_path / "t-0.x-delete", tmp_path / "b.deleted"
    file.write_text("x")
    later.write_text("x")
    tree.mkdir()
    (tree / "inside").write_text("x")

    async def play(stage: Stage) -> None:
        # Told twice, as after the death of a predecessor; and of one that is gone already.
        for worker in stage.workers:
            worker.note("unlink", [[str(file), str(tree), str(tmp_path / "never was")], 1])
            worker.note("unlink", [[str(later)], 60_000])
        while file.exists() or tree.exists():  # noqa: ASYNC110 - files cannot be waited for
            await asyncio.sleep(0.005)
        assert later.exists()

    on_stage([tmp_path], play)
    assert later.exists()


class SlowDisk:
    """Removes the tree that it is told to when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def remove(self, path: Path) -> None:
        self.begun.set()
        assert self.goes_on.wait(30)
        path.rmdir()


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    disk = SlowDisk()
    monkeypatch.setattr(shutil, "rmtree", disk.remove)
    return disk


def test_a_deletion_that_takes_long_keeps_nobody_waiting(tmp_path: Path, slow_disk: SlowDisk) -> None:
    """Nor does the supervisor take the cleaner for hung."""
    tree = tmp_path / "t-0.0-delete"
    tree.mkdir()

    async def play(stage: Stage) -> None:
        worker = stage.workers[0]
        worker.note("unlink", [[str(tree)], 0])
        assert await asyncio.to_thread(slow_disk.begun.wait, 20)
        await asyncio.wait_for(worker.call("checkpoint", rows(tmp_path, t=1)), 20)
        slow_disk.goes_on.set()
        while tree.exists():  # noqa: ASYNC110 - files cannot be waited for
            await asyncio.sleep(0.005)

    on_stage([tmp_path], play)


def test_a_file_that_comes_by_the_name_of_one_that_is_being_deleted_goes_too(
    tmp_path: Path, slow_disk: SlowDisk
) -> None:
    """A segment that is compacted over and over leaves files of one name."""
    old, tree = tmp_path / "00000000000000000000.log.deleted", tmp_path / "t-0.0-delete"
    old.write_text("old")
    tree.mkdir()

    async def play(stage: Stage) -> None:
        worker = stage.workers[0]
        worker.note("unlink", [[str(old), str(tree)], 0])
        assert await asyncio.to_thread(slow_disk.begun.wait, 20)
        assert not old.exists()
        old.write_text("new")
        worker.note("unlink", [[str(old)], 0])
        await asyncio.wait_for(worker.call("checkpoint", rows(tmp_path, t=1)), 20)
        slow_disk.goes_on.set()
        while old.exists():  # noqa: ASYNC110 - files cannot be waited for
            await asyncio.sleep(0.005)

    on_stage([tmp_path], play)
