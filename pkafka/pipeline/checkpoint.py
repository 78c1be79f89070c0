"""What is in the checkpoint of a stream: how far it is, and how to forget that. No Spark is needed to look.

Spark plans a batch by a file of ``offsets``, and names it in ``commits`` when it is done. A file of offsets has a line
for its version, one for settings of the session, and one for each source that is streamed.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from pkafka.errors import PkafkaError
from pkafka.pipeline.stream_files import local_path, only_run

_VERSION: Final = "v1"
_METADATA: Final = "metadata"
_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_DIRECTORIES: Final = (_OFFSETS, _COMMITS, "sources", "state")
_FILES: Final = (_METADATA, f".{_METADATA}.crc")
_NOTHING: Final = "-"


class CheckpointError(PkafkaError):
    """A directory is no checkpoint that can be read or removed here."""


def committed_offsets(checkpoint: str) -> list[tuple[int, dict[str, Any]]]:
    """How far the latest batch that is done has come.

    Args:
        checkpoint: its directory, which may be missing.

    Returns:
        A source's number, as Spark counts those that are streamed, and an offset: of topics, their partitions with the
        offsets of the next records. Nothing before the first batch is done.

    Raises:
        CheckpointError: it is on another file system, or in a format that is not known.
    """
    directory = _local(checkpoint)
    done = [int(each.name) for each in (directory / _COMMITS).glob("*") if each.name.isdecimal()]
    if not done:
        return []
    planned = directory / _OFFSETS / str(max(done))
    try:
        version, _settings, *sources = planned.read_text(encoding="utf-8").splitlines()
        if version != _VERSION:
            raise CheckpointError(f"{planned} is in the format {version}, which is not known")
        return [(number, _offset(line)) for number, line in enumerate(sources) if line != _NOTHING]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{planned} cannot be read: {error}") from error


def remove_state(checkpoint: str) -> bool:
    """Forget how far a stream is: remove what Spark keeps in its checkpoint, and leave everything else there.

    Returns:
        Whether there was something.

    Raises:
        CheckpointError: the directory is on another file system, or no checkpoint of a stream; nothing was removed.
        CheckpointInUseError: the stream runs.
        OSError: something cannot be removed.
    """
    directory = _local(checkpoint)
    if not directory.is_dir() or not any((directory / each).exists() for each in (*_DIRECTORIES, _METADATA)):
        return False
    if not (directory / _METADATA).is_file():
        raise CheckpointError(f"{checkpoint} is not the checkpoint of a stream; nothing was removed")
    with only_run(checkpoint):
        for name in _DIRECTORIES:
            if (directory / name).exists():
                shutil.rmtree(directory / name)
        # Last: without it, the rest would be no checkpoint for the next attempt.
        for name in reversed(_FILES):
            (directory / name).unlink(missing_ok=True)
    return True


def _local(checkpoint: str) -> Path:
    directory = local_path(checkpoint)
    if directory is None:
        raise CheckpointError(f"the checkpoint {checkpoint} is not in a directory of this machine")
    return directory


def _offset(line: str) -> dict[str, Any]:
    found = json.loads(line)
    return found if isinstance(found, dict) else {"offset": found}
