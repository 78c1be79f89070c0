"""What pk-dump-log and pk-verify-log share: which files are meant, and how far they have been read."""

import glob
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit import output
from pkafka.cli.kit.kafka_command import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable


def named_paths(text: str) -> list[Path]:
    """The files and directories in a list with commas between them; patterns (``*``, ``?``, ``[a-z]``) are expanded.

    Raises:
        CommandError: one does not exist, or a pattern fits nothing.
    """
    paths: list[Path] = []
    for name in text.split(","):
        path = Path(name.strip())
        if not name.strip():
            continue
        if path.exists():
            paths.append(path)
        elif glob.has_magic(name):
            found = sorted(glob.glob(name.strip(), recursive=True))
            if not found:
                raise CommandError(f"{name.strip()}: no file fits this pattern")
            paths += map(Path, found)
        else:
            raise CommandError(f"{path}: there is no such file")
    return paths


def files_to_dump(paths: Sequence[Path]) -> list[Path]:
    """Files as they are, and in the place of a directory the files of a log in it, in order of their offsets.

    A data directory stands for its own checkpoints and for the directories of its partitions.

    Raises:
        CommandError: a directory holds no file of a log.
    """
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = _known_files(path)
        for partition in partition_directories(path):
            inside += _known_files(partition)
        if not inside:
            raise CommandError(f"{path}: this directory holds no file of a log")
        files += inside
    return files


def without_segments_elsewhere(files: Sequence[Path], first: int | None, end: int | None) -> list[Path]:
    """Files without those of segments that are known, by their neighbours' names, to hold no offset of a range."""
    bases: dict[Path, list[int]] = {}
    for path in files:
        if path.suffix == ".log" and path.stem.isdecimal():
            bases.setdefault(path.parent, []).append(int(path.stem))

    for found in bases.values():
        found.sort()

    def may_have(path: Path) -> bool:
        known = bases.get(path.parent)
        if known is None or path.suffix not in _OF_SEGMENTS or not path.stem.isdecimal():
            return True
        base = int(path.stem)
        place = bisect_right(known, base)
        ends_before = first is not None and place < len(known) and known[place] <= first
        return not ends_before and (end is None or base < end)

    return [path for path in files if may_have(path)]


def partition_directories(directory: Path) -> list[Path]:
    """The directories of partitions in a data directory, in order of their names."""
    found = [each for each in directory.iterdir() if each.is_dir() and _names_a_partition(each.name)]
    return sorted(found, key=_topic_and_partition)


_OF_SEGMENTS: Final = (".log", ".index", ".timeindex", ".txnindex")


@contextmanager
def progress(files: Sequence[Path], what: str) -> "Iterator[Callable[[int], None]]":
    """A bar of the bytes read on standard error, where that is a terminal and standard output is none."""
    total = sum(path.stat().st_size for path in files if path.is_file())
    with output.progress(total, what) as read:
        yield read


def is_segment(path: Path) -> bool:
    """Whether a file is a segment, as its name says."""
    return path.suffix == ".log" and path.stem.isdecimal()


def _known_files(directory: Path) -> list[Path]:
    from pkafka.tools.logs.dump import is_known

    inside = [each for each in directory.iterdir() if each.is_file() and is_known(each)]
    return sorted(inside, key=_place)


def _place(path: Path) -> tuple[bool, str, str]:
    """Files that belong to no segment come first."""
    stem = path.name.split(".")[0]
    return stem.isdecimal(), stem, path.suffix


def _names_a_partition(name: str) -> bool:
    topic, dash, partition = name.rpartition("-")
    return bool(topic and dash) and partition.isdecimal()


def _topic_and_partition(path: Path) -> tuple[str, int]:
    topic, _, partition = path.name.rpartition("-")
    return topic, int(partition)
