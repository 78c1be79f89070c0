"""Checkpoints of streams: how far they are, and that only a checkpoint is removed."""

import json
from pathlib import Path

import pytest

from pkafka.pipeline.checkpoint import CheckpointError, committed_offsets, remove_state
from pkafka.pipeline.stream_files import CheckpointInUseError, only_run

TOPIC = {"orders": {"0": 7, "1": 2}}


def checkpoint(directory: Path, *, version: str = "v1", done: tuple[int, ...] = (0, 9, 10)) -> Path:
    for name in ("offsets", "commits", "sources/0", "state"):
        (directory / name).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"x"}')
    for number in range(12):
        offset = {"orders": {"0": number - 3, "1": 2}}
        lines = [version, "{}", json.dumps(offset), "-", '"text"', '{"logOffset":3}']
        (directory / "offsets" / str(number)).write_text("\n".join(lines))
    for number in done:
        (directory / "commits" / str(number)).write_text("v1\n{}")
        (directory / "commits" / f".{number}.crc").write_text("")
    return directory


def test_the_latest_batch_that_is_done_counts(tmp_path: Path) -> None:
    found = [(0, TOPIC), (2, {"offset": "text"}), (3, {"logOffset": 3})]
    directory = checkpoint(tmp_path / "a b")
    assert committed_offsets(str(directory)) == found
    assert committed_offsets(directory.as_uri()) == found


def test_before_the_first_batch_there_is_nothing(tmp_path: Path) -> None:
    assert committed_offsets(str(tmp_path / "none")) == []
    assert committed_offsets(str(checkpoint(tmp_path / "new", done=()))) == []


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="the format v7, which is not known"):
        committed_offsets(str(checkpoint(tmp_path / "later", version="v7")))
    with pytest.raises(CheckpointError, match="offsets/99 cannot be read"):
        committed_offsets(str(checkpoint(tmp_path / "gap", done=(99,))))
    with pytest.raises(CheckpointError, match="not in a directory of this machine"):
        committed_offsets("hdfs://elsewhere/state")


def test_removed_is_what_spark_wrote(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "state")
    (directory / "notes.txt").write_text("mine")
    assert remove_state(str(directory))
    assert committed_offsets(str(directory)) == []
    assert sorted(each.name for each in directory.iterdir()) == ["notes.txt", "pk-pipeline.lock"]
    assert not remove_state(str(directory))
    assert not remove_state(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_what_is_no_checkpoint_stays(tmp_path: Path) -> None:
    (tmp_path / "state" / "important").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="is not the checkpoint of a stream; nothing was removed"):
        remove_state(str(tmp_path))
    assert (tmp_path / "state" / "important").is_dir()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "state")
    (tmp_path / "important").mkdir()
    (tmp_path / "important" / "file").write_text("")
    (directory / "sources" / "0").rmdir()
    (directory / "sources").rmdir()
    (directory / "sources").symlink_to(tmp_path / "important")
    with pytest.raises(OSError, match="symbolic link"):
        remove_state(str(directory))
    assert (tmp_path / "important" / "file").exists()


def test_a_stream_that_runs_keeps_its_checkpoint(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "state")
    with only_run(str(directory)), pytest.raises(CheckpointInUseError):
        remove_state(str(directory))
    assert committed_offsets(str(directory))[0] == (0, TOPIC)
