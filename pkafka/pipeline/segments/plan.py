"""Decides which parts of which segments are read: finds the segments of directories and patterns, and splits them.

Files alone, without Spark. Every split begins with a batch that has a right checksum. A reader that comes from the
start of the file meets the same batch there, so no record is read twice and none is lost, however large the splits are.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.pipeline.segments.index import IndexedBatches
from pkafka.storage.log_directory import DirectoryKind, parse_directory_name
from pkafka.tools.logs.segment_walk import SegmentWalk
from pkafka.tools.logs.selection import EVERYTHING, Selection

SPLIT_BYTES: Final = 32 << 20
"""What one task reads at most, where a batch is not larger."""

_SEGMENT_SUFFIX: Final = ".log"


class SourceError(PkafkaError):
    """Segments cannot be read as a table; the text says what is wrong with a path, an option or a file."""


class Segment(NamedTuple):
    """One ``.log`` file; topic and partition are None where its directory's name names none.

    ``end_offset`` is the base offset of the next segment of its directory, None of the last one.
    """

    topic: str | None
    partition: int | None
    path: str
    base_offset: int
    end_offset: int | None
    size: int


class Split(NamedTuple):
    """The batches of a segment that begin from position ``start`` up to, but without, ``stop``."""

    segment: Segment
    start: int
    stop: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.stop - self.start


class Wanted(NamedTuple):
    """Which records are wanted: None is no bound. ``records`` is what of a partition."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    records: Selection = EVERYTHING

    def may_have(self, segment: Segment) -> bool:
        """Whether a segment may hold a record that is wanted, as far as names of files say."""
        first, end = self.records.offset_from, self.records.offset_to
        return (
            (self.topics is None or segment.topic in self.topics)
            and (self.partitions is None or segment.partition in self.partitions)
            and (end is None or segment.base_offset < end)
            and (first is None or segment.end_offset is None or segment.end_offset > first)
        )


class Plan(NamedTuple):
    """What to read. ``unindexed`` are segments that were read from their start for their boundaries: their index is not
    there, or wrong.
    """

    splits: list[Split]
    unindexed: list[str]


def find_segments(paths: Iterable[str]) -> list[Segment]:
    """The segments below data directories, partitions' directories and patterns of them, or segments by name.

    In order of the paths, and within one of topic, partition and offset. A segment that is found twice comes once.

    Raises:
        SourceError: a path does not exist or is no log.
        OSError: a directory cannot be listed.
    """
    found: dict[str, Segment] = {}
    listed = cache(_segments_in)  # a pattern may fit thousands of segments of one directory
    for name in paths:
        for path in _existing(name):
            for segment in _segments_at(path, listed):
                found.setdefault(os.path.realpath(segment.path), segment)
    return list(found.values())


def plan(segments: Iterable[Segment], wanted: Wanted, *, split_bytes: int = SPLIT_BYTES) -> Plan:
    """The splits in which the wanted records are, in order of the segments.

    Raises:
        SourceError: a segment is gone.
        OSError: a file cannot be read.
    """
    made = Plan([], [])
    for segment in segments:
        if wanted.may_have(segment) and segment.size:
            try:
                made.splits.extend(_splits_of(segment, wanted.records, split_bytes, made.unindexed))
            except FileNotFoundError as error:
                raise SourceError(gone(segment)) from error
    return made


def groups(splits: Iterable[Split], split_bytes: int = SPLIT_BYTES) -> list[tuple[Split, ...]]:
    """Splits for one task each: neighbours that are small go together."""
    made: list[list[Split]] = []
    size = split_bytes
    for split in splits:
        if size + split.size > split_bytes:
            made.append([])
            size = 0
        made[-1].append(split)
        size += split.size
    return [tuple(each) for each in made]


def gone(segment: Segment) -> str:
    """What to say of a segment that is not there any more."""
    return f"{segment.path} is gone since the read was planned: retention or compaction removed it"


def _existing(name: str) -> list[Path]:
    path = Path(name.strip())
    if path.exists():
        return [path]
    if not glob.has_magic(name):
        raise SourceError(f"{path}: there is no such file or directory")
    matches = sorted(glob.glob(name.strip(), recursive=True))
    if not matches:
        raise SourceError(f"{name.strip()}: no file fits this pattern")
    # A pattern like data/* fits checkpoints too, and the partitions that are about to be deleted.
    return [each for each in map(Path, matches) if _is_meant(each)] or [Path(matches[0])]


def _is_meant(path: Path) -> bool:
    parsed = parse_directory_name(path.name)
    if path.is_dir():
        return parsed is None or parsed[1] is DirectoryKind.LIVE
    return _is_segment(path)


def _segments_at(path: Path, listed: Callable[[Path], list[Segment]]) -> list[Segment]:
    if not path.is_dir():
        if not _is_segment(path):
            raise SourceError(f"{path} is no segment: those are named by their first offset, as {0:020}.log")
        return [each for each in listed(path.parent) if Path(each.path).name == path.name]
    if listed(path):
        return listed(path)
    logs: list[tuple[str, int, Path]] = []
    for each in path.iterdir():
        parsed = parse_directory_name(each.name) if each.is_dir() else None
        if parsed is not None and parsed[1] is DirectoryKind.LIVE:
            logs.append((*parsed[0], each))
    if (
        not logs and parse_directory_name(path.name) is None
    ):  # else it is that of a partition without segments
        raise SourceError(f"{path} holds neither segments nor directories of partitions")
    return [segment for *_, directory in sorted(logs) for segment in listed(directory)]


def _segments_in(directory: Path) -> list[Segment]:
    parsed = parse_directory_name(directory.resolve().name)
    topic, partition = (None, None) if parsed is None else (parsed[0].topic, parsed[0].partition)
    files = sorted((int(each.stem), each) for each in directory.iterdir() if _is_segment(each))
    ends: list[int | None] = [*(base for base, _ in files[1:]), None]
    return [
        Segment(topic, partition, str(path), base, end, path.stat().st_size)
        for (base, path), end in zip(files, ends, strict=False)
    ]


def _is_segment(path: Path) -> bool:
    return path.suffix == _SEGMENT_SUFFIX and path.stem.isdecimal()


def _splits_of(
    segment: Segment, selection: Selection, split_bytes: int, unindexed: list[str]
) -> Iterator[Split]:
    is_bounded = not (
        selection.offset_from is None and selection.offset_to is None and selection.time_from is None
    )
    if segment.size <= split_bytes and not is_bounded:
        yield Split(segment, 0, segment.size)
        return
    start, stop = 0, segment.size
    with IndexedBatches.of(segment.path, segment.base_offset) as index:
        # The last entry of the time index of the segment that is written to need not be about its latest record.
        if selection.time_from is not None and segment.end_offset is not None:
            latest = index.latest_time(segment.path)
            if latest is not None and latest < selection.time_from:
                return
        if selection.offset_from is not None:
            start = index.position_before(selection.offset_from)
        if selection.offset_to is not None:
            stop = index.position_behind(selection.offset_to) or stop
        if start >= stop:
            return
        places = boundaries(Path(segment.path), index, start, stop, split_bytes)
        if index.problem is not None and stop - start > split_bytes:
            unindexed.append(segment.path)
    yield from (Split(segment, *part) for part in pairwise((start, *places, stop)))


def boundaries(path: Path, index: IndexedBatches, start: int, stop: int, split_bytes: int) -> list[int]:
    """Where batches with a right checksum begin between two positions of a segment, ``split_bytes`` apart or more.

    Without a right index its batches are looked at one by one, as far as nothing is wrong with them.

    Raises:
        OSError: the segment cannot be read.
    """
    if stop - start <= split_bytes:
        return []
    if index.problem is None:
        return index.boundaries(start, stop, split_bytes)
    found: list[int] = []
    previous = start
    for batch in SegmentWalk(path, start=start, bytes_max=stop):
        if not batch.is_valid:
            break
        if batch.position - previous >= split_bytes:
            previous = batch.position
            found.append(previous)
    return found
