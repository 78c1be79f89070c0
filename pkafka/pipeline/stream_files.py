"""The directories of a stream: its checkpoint, which one run uses at a time, and what a killed run left in its sink's.

Spark writes a batch's files into the directory of the sink and then, in one step, their names into ``_spark_metadata``.
It reads only files that are named there, so a batch that was killed in between and done again counts once. But other
programs read all files of the directory. So before a stream goes on, the files of an unfinished batch are removed.
"""

import fcntl
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pkafka.errors import PkafkaError

_LOCK: Final = "pk-pipeline.lock"
_LOG: Final = "_spark_metadata"
_OF_BATCHES: Final = "_SUCCESS"
# As Spark names them: a task, an id of its own for each attempt, a file of that task.
_WRITTEN: Final = re.compile(r"part-\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[-.].*")


class FilesError(PkafkaError):
    """The directory of a sink has something else in it than what this stream wrote."""


class CheckpointInUseError(PkafkaError):
    """Another run works with the checkpoint."""


@contextmanager
def only_run(checkpoint: str) -> Iterator[None]:
    """Be the only run of a stream for as long as the block lasts; on this machine, if the checkpoint is there.

    Spark notices a second run as well, but only after both have written. Until then each would remove the files that
    the other is about to name, as if a killed run had left them.

    Raises:
        CheckpointInUseError: there is one already.
    """
    directory = local_path(checkpoint)
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("w") as lock:
        try:
            fcntl.flock(
                lock, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # the system lets go of it when this process ends
        except BlockingIOError as error:
            raise CheckpointInUseError(f"another run uses the checkpoint {checkpoint}") from error
        yield


def make_ready(path: str, checkpoint: str) -> int:
    """Remove what an unfinished batch left; of a directory of this machine only.

    Args:
        path: of the sink.
        checkpoint: of the stream.

    Returns:
        How many files were removed.

    Raises:
        FilesError: the files are not of the stream of this checkpoint. Spark would leave out its first batches then.
    """
    directory, state = local_path(path), local_path(checkpoint)
    if directory is None or not directory.is_dir():
        return 0
    written = set(_files(directory))
    log = directory / _LOG
    if written and (not log.is_dir() or (directory / _OF_BATCHES).exists()):
        raise FilesError(f"{path} has files that no stream wrote; a stream needs a directory of its own")
    named = _named(log)
    if named and state is not None and not (state / "offsets").is_dir():
        raise FilesError(f"{path} has what a stream with another checkpoint than {checkpoint} wrote")
    left = [each for each in written if each.name not in named]
    for each in left:
        each.unlink()
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    return len(left)


def local_path(path: str) -> Path | None:
    """A path of this machine; None of another file system."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file") and not parts.netloc:
        return Path(unquote(parts.path) if parts.scheme else path)
    return None


def _files(directory: Path) -> Iterator[Path]:
    """What tasks of Spark's wrote, in the directories of columns too."""
    for each in directory.rglob("part-*"):
        if _WRITTEN.fullmatch(each.name) and each.is_file():
            yield each


def _named(log: Path) -> set[str]:
    """The files of finished batches. A line of the log is a version, or a file as JSON."""
    found = set()
    for batch in log.glob("[0-9]*"):
        for line in batch.read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                found.add(unquote(json.loads(line)["path"]).rpartition("/")[2])
    return found
