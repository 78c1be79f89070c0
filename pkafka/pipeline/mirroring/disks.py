"""What is left of a cluster: the log directories of its brokers, read without a broker. Files alone, without Spark.

Of each partition the longest log is taken, and of that only what is below the high watermark, where one of the
directories says it: what lies above may never have been acknowledged. A broker writes its high watermarks down every
few seconds and when it stops, so those of one that was killed are a little old.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from pkafka.clients.admin.results import ConfigEntry
from pkafka.clients.consumer.fetched import Fetched
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition
from pkafka.pipeline.mirroring.transactions import Aborted, aborted_in
from pkafka.pipeline.segments.index import IndexedBatches
from pkafka.pipeline.segments.plan import Segment, find_segments
from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, read_offsets
from pkafka.storage.files import OsFiles
from pkafka.tools.logs.segment_walk import SegmentWalk

_PIECE_BYTES: Final = 1 << 20
_ALL: Final = 2**31 - 1


class DamagedLogError(PkafkaError):
    """A log of a dead cluster has no right batch where one has to be."""


class Piece(NamedTuple):
    """Batches that follow each other in a segment.

    Args:
        data: their bytes.
        first_offset, last_offset: of the first and the last batch.
    """

    data: bytes
    first_offset: int
    last_offset: int


class DiskLog(NamedTuple):
    """Reads a partition from its segments.

    Args:
        partition: which.
        segments: in their order.
    """

    partition: TopicPartition
    segments: tuple[Segment, ...]

    def batches(self, start: int, end: int) -> Generator[RawBatch, None, None]:
        """As a consumer with ``read_committed`` reads them; a transaction without an end counts as aborted.

        Args:
            start, end: offsets.

        Raises:
            DamagedLogError: a batch is damaged or missing.
            ApiError: its records cannot be read.
            OSError: a file cannot be read.
        """
        aborted = aborted_in(self.segments, end)
        following = start
        for piece in pieces(self.segments, start, end):
            inside = [each for each in aborted if each.reaches_into(piece.first_offset, piece.last_offset)]
            fetched = Fetched(
                self.partition,
                piece.data,
                start,
                check_crcs=False,  # they were, when it was read from the disk
                aborted=[_as_told(each) for each in inside],
            )
            while (batch := fetched.take_batch(_ALL)) is not None:
                if batch.first_offset < end:
                    yield batch
            following = piece.last_offset + 1
        if following < end:
            raise DamagedLogError(
                f"the log of {self.partition} ends at offset {following}, and should at {end}"
            )


class Replica(NamedTuple):
    """A partition's log in one directory.

    Args:
        segments: in their order.
        start: its first offset.
        high_watermark: as its broker has written it down last; None: it has not.
    """

    segments: tuple[Segment, ...]
    start: int
    high_watermark: int | None


class DeadCluster:
    """The partitions that lie in directories.

    Args:
        replicas: all logs of each partition.
        takes_all: whether what lies above high watermarks is taken too.
    """

    def __init__(
        self, replicas: Mapping[TopicPartition, Sequence[Replica]], *, takes_all: bool = False
    ) -> None:
        self._replicas = replicas
        self._takes_all = takes_all
        self._left_out = 0

    @classmethod
    def of(cls, directories: Iterable[str], *, takes_all: bool = False) -> Self:
        """Look into directories.

        Args:
            directories: as in ``log.dirs`` of brokers.
            takes_all: see the class.

        Raises:
            SourceError: one of them is no log directory.
            StorageError: a checkpoint file is damaged.
            OSError: a file cannot be read.
        """
        found: defaultdict[TopicPartition, list[Replica]] = defaultdict(list)
        for directory in directories:
            for partition, replica in _replicas(Path(directory)):
                found[partition].append(replica)
        return cls(dict(found), takes_all=takes_all)

    def partitions(self) -> dict[str, list[int]]:
        """See ``Source`` of ``tools/mirroring``."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for topic, number in sorted(self._replicas):
            found[topic].append(number)
        return dict(found)

    def configs(self, topics: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """None: they were in the cluster's metadata."""
        return {}

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset and the high watermark of partitions.

        Raises:
            OSError: a file cannot be read.
        """
        found = {}
        for each in partitions:
            longest, last = self._longest(each)
            told = [
                replica.high_watermark
                for replica in self._replicas[each]
                if replica.high_watermark is not None
            ]
            end = min(last, max(told)) if told and not self._takes_all else last
            self._left_out += last - end
            found[each] = min(longest.start, end), end
        return found

    def log(self, partition: TopicPartition) -> DiskLog:
        """What reads a partition.

        Raises:
            OSError: a file cannot be read.
        """
        return DiskLog(partition, self._longest(partition)[0].segments)

    def notes(self) -> list[str]:
        """What an operator should know, once bounds were asked for."""
        found = ["topics are created with the target's settings: directories do not tell those of the source"]
        if self._left_out:
            found.append(
                f"{self._left_out} offset(s) above high watermarks are left out (--above-high-watermark takes them)"
            )
        return found

    def _longest(self, partition: TopicPartition) -> tuple[Replica, int]:
        """The longest log of a partition, and its end."""
        ends = [(max(_end_of(each.segments[-1]), each.start), each) for each in self._replicas[partition]]
        end, longest = max(ends, key=lambda each: each[0])
        return longest, end


def pieces(segments: Sequence[Segment], start: int, end: int) -> Iterator[Piece]:
    """The batches of a log that have offsets from one up to another, some at a time.

    Raises:
        DamagedLogError: one is damaged.
        OSError: a file cannot be read.
    """
    for segment in segments:
        if segment.base_offset >= end:
            return
        if segment.end_offset is None or segment.end_offset > start:
            yield from _pieces_of(segment, start, end)


def _pieces_of(segment: Segment, start: int, end: int) -> Iterator[Piece]:
    with IndexedBatches.of(segment.path, segment.base_offset) as index:
        position = index.position_before(start)
    walk = SegmentWalk(Path(segment.path), start=position, stop_offset=end)
    data, first, last = bytearray(), -1, -1
    for batch in walk:
        if not batch.is_valid:
            raise DamagedLogError(f"{segment.path}: the batch at position {batch.position} is damaged")
        if batch.header.last_offset < start:
            continue
        if data and len(data) + batch.size > _PIECE_BYTES:
            yield Piece(bytes(data), first, last)
            data.clear()
        if not data:
            first = batch.header.base_offset
        data += batch.view[batch.at : batch.at + batch.size]
        last = batch.header.last_offset
    if data:
        yield Piece(bytes(data), first, last)
    if walk.end < walk.size and segment.end_offset is not None:
        raise DamagedLogError(f"{segment.path}: there is no batch at position {walk.end}")


def _replicas(directory: Path) -> Iterator[tuple[TopicPartition, Replica]]:
    files = OsFiles()
    marks, starts = (
        read_offsets(files, directory / each) for each in (HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE)
    )
    grouped: defaultdict[TopicPartition, list[Segment]] = defaultdict(list)
    for segment in find_segments([str(directory)]):
        if segment.topic is not None and segment.partition is not None:
            grouped[TopicPartition(segment.topic, segment.partition)].append(segment)
    for partition, segments in grouped.items():
        start = max(segments[0].base_offset, starts.get(partition, 0))
        yield partition, Replica(tuple(segments), start, marks.get(partition))


def _end_of(segment: Segment) -> int:
    """Behind the last right batch of a log's last segment; what a broker that was killed wrote last may be torn."""
    end = segment.base_offset
    for batch in SegmentWalk(Path(segment.path)):
        if not batch.is_valid:
            break
        end = batch.header.next_offset
    return end


def _as_told(aborted: Aborted) -> AbortedTransaction:
    """As a broker tells a consumer."""
    return AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
