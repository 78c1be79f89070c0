"""Making a partition: what a power cut right after it may leave, and that nothing there waits for the disk."""

from pathlib import Path
from typing import Any

from pkafka.model import TopicPartition
from pkafka.storage.config import LogConfig
from pkafka.storage.files import OsFiles
from pkafka.storage.leader_epochs import LEADER_EPOCH_FILE, decode_epochs
from pkafka.storage.partition_metadata import PARTITION_METADATA_FILE, read_topic_id
from pkafka.storage.recovery import LogEnvironment, create_log, open_log
from pkafka.topic_ids import new_topic_id

KEY = TopicPartition("t", 0)


class CountingFiles(OsFiles):
    """Counts how often somebody waits for the disk."""

    def __init__(self) -> None:
        self.waits = 0

    def fsync(self, descriptor: int) -> None:  # type: ignore[override] # a static method there
        self.waits += 1

    def fsync_directory(self, path: Path) -> None:
        self.waits += 1


def make(directory: Path, **environment: Any) -> None:
    log = create_log(
        directory / "t-0", KEY, LogConfig(), LogEnvironment(**environment), topic_id=new_topic_id()
    )
    log.begin_epoch(0)
    log.close()


def test_creating_a_partition_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    files = CountingFiles()
    log = create_log(tmp_path / "t-0", KEY, LogConfig(), LogEnvironment(files=files), topic_id=new_topic_id())
    log.begin_epoch(0)
    assert files.waits == 0
    log.begin_epoch(1)
    assert files.waits > 0  # from now on an epoch may be all that tells two leaders' records apart
    log.close()


def test_an_empty_metadata_file_is_no_damage(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "t-0" / PARTITION_METADATA_FILE).write_bytes(b"")
    assert read_topic_id(OsFiles(), tmp_path / "t-0") is None


def test_opening_what_a_crash_left_of_an_idle_partition_writes_nothing_anew(tmp_path: Path) -> None:
    """A worker that is started again opens thousands of them before it serves."""
    make(tmp_path)
    epochs = tmp_path / "t-0" / LEADER_EPOCH_FILE
    written = epochs.stat().st_ino
    files = CountingFiles()
    log = open_log(tmp_path / "t-0", KEY, LogConfig(), LogEnvironment(files=files))
    log.begin_epoch(0)
    assert files.waits == 0
    assert epochs.stat().st_ino == written
    log.begin_epoch(1)
    assert decode_epochs(epochs.read_bytes()) == [(1, 0)]
    log.close()
