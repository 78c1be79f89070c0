"""Directories of streams: what a killed batch left goes, everything else stays."""

import json
from pathlib import Path

import pytest

from pkafka.pipeline.stream_files import CheckpointInUseError, FilesError, local_path, make_ready, only_run

ID = "11111111-2222-3333-4444-55555555555"


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def finished(sink: Path, batch: str, *names: str) -> None:
    rows = [json.dumps({"path": f"{sink.as_uri()}/day=a%20b/{name}", "action": "add"}) for name in names]
    write(sink / "_spark_metadata" / batch, "\n".join(["v1", *rows]))


def test_only_what_no_finished_batch_names_goes(tmp_path: Path) -> None:
    sink, checkpoint = tmp_path / "out put", tmp_path / "state"
    kept = [f"part-0000{number}-{ID}{number}-c000.snappy.parquet" for number in range(3)]
    finished(sink, "1.compact", *kept[:2])
    finished(sink, "2", kept[2])
    for name in kept:
        write(sink / "day=a b" / name)
    left = write(sink / "day=a b" / f"part-00003-{ID}3-c000.snappy.parquet")
    crc = write(left.with_name(f".{left.name}.crc"))
    also = [write(sink / "part-of-the-truth.txt"), write(sink / "day=c" / "notes.txt")]
    (checkpoint / "offsets").mkdir(parents=True)
    assert make_ready(str(sink), str(checkpoint)) == 1
    assert not left.exists()
    assert not crc.exists()
    assert all(each.exists() for each in (*also, *((sink / "day=a b" / name) for name in kept)))
    assert make_ready(sink.as_uri(), str(checkpoint)) == 0


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    theirs = write(tmp_path / "out" / f"part-00000-{ID}0-c000.snappy.parquet")
    with pytest.raises(FilesError, match="files that no stream wrote"):
        make_ready(str(tmp_path / "out"), str(tmp_path / "state"))
    finished(tmp_path / "out", "0", "a")
    write(tmp_path / "out" / "_SUCCESS")  # a batch came after a stream
    with pytest.raises(FilesError, match="files that no stream wrote"):
        make_ready(str(tmp_path / "out"), str(tmp_path / "state"))
    assert theirs.exists()


def test_a_directory_that_belongs_to_another_checkpoint(tmp_path: Path) -> None:
    finished(tmp_path / "out", "0", "a")
    with pytest.raises(FilesError, match="another checkpoint"):
        make_ready(str(tmp_path / "out"), str(tmp_path / "state"))


def test_other_file_systems_are_not_looked_at(tmp_path: Path) -> None:
    assert make_ready("hdfs://name/out", "hdfs://name/state") == 0
    assert make_ready(str(tmp_path / "none"), str(tmp_path / "state")) == 0
    assert local_path("file:///a%20b") == Path("/a b")
    assert local_path("s3a://bucket/x") is None


def test_a_checkpoint_is_for_one_run_at_a_time(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "deep" / "state")
    with (
        only_run(checkpoint),
        pytest.raises(CheckpointInUseError, match="another run uses the checkpoint"),
        only_run(checkpoint),
    ):
        pass
    with only_run(checkpoint), only_run("hdfs://name/state"), only_run("hdfs://name/state"):
        pass
