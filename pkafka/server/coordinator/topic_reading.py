"""Reads a partition of an internal topic, from its first batch to the end of its log, in steps."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from pkafka.errors import StorageError
from pkafka.model import Offset, TopicPartition
from pkafka.records.batch import BatchHeader, peek, read_header
from pkafka.records.checksum import crc32c
from pkafka.records.errors import RecordError
from pkafka.records.loops import last_values
from pkafka.records.reading import Record, iter_entries, read_batches
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.log import Log

log = logging.getLogger(__name__)

Play: TypeAlias = Callable[[BatchHeader, Sequence[Record]], None]
"""Takes over one batch, the next in the log."""
StepT = TypeVar("StepT")

_MAGIC_V2: Final = 2
_STEP_BYTES: Final = 256 * 1024
"""So much of a log is gone through at a time: a millisecond or two."""


async def walk(
    key: tuple[str, int],
    read: Callable[[Log, Offset], Iterator[tuple[Offset, StepT | None]]],
    partitions: Partitions,
    disks: Disks,
) -> AsyncIterator[StepT]:
    """Go through the log of a partition; other tasks run between the steps.

    Args:
        key: names the partition. When this broker stops leading it, the walk is over.
        read: reads once from an offset on; gives, for each step, the offset behind it and what was found. One of the
            functions below.
        partitions: the replicas of this worker.
        disks: of the broker; told of one that refuses.
    """
    turns = Turns()
    position = 0
    while (found := partitions.led.get(key)) is not None:
        position = max(position, found.log.log_start_offset)
        following = position
        try:
            for end, step in read(found.log, position):
                following = max(following, end)
                if step is not None:
                    yield step
                await turns.step()
        except RecordError as error:
            log.error("%s is damaged behind offset %d: %s", found.log.topic_partition, following, error)
        except (StorageError, OSError) as error:
            disks.refused(*key, error)
        if following == position:
            return
        position = following


def read_batches_once(
    bytes_max: int, source: Log, offset: Offset
) -> Iterator[tuple[Offset, tuple[BatchHeader, list[Record]] | None]]:
    """Read once, and decode the batches that are whole."""
    data = memoryview(_read(source, offset, bytes_max))
    for start, size, _magic in iter_entries(data):
        batch = data[start : start + size]
        yield _end_of(batch), _decoded(batch, source.topic_partition)


def note_values_once(
    values: dict[bytes, bytes], play: Play, bytes_max: int, source: Log, offset: Offset
) -> Iterator[tuple[Offset, bool]]:
    """Read once, and note the values in the batches that are whole."""
    data = _read(source, offset, bytes_max)
    at = 0
    while at < len(data):
        taken, following = last_values(data, at, at + _STEP_BYTES, values, crc32c)
        if taken == at:
            entry = next(iter_entries(memoryview(data)[at:]), None)
            if entry is None:
                return
            taken = at + entry[1]
            batch = memoryview(data)[at:taken]
            following = _end_of(batch)
            decoded = _decoded(batch, source.topic_partition)
            if decoded is not None:
                play(*decoded)
        at = taken
        yield following, True


def _read(source: Log, offset: Offset, bytes_max: int) -> bytes:
    """Read once from ``offset`` on; what comes may end within a batch."""
    end = source.log_end_offset
    if offset >= end:
        return b""
    found = source.read(offset, bytes_max=bytes_max, min_one_batch=True, upper_bound=end)
    return found.segment.read_bytes(found.position, found.length)


def _end_of(data: memoryview) -> int:
    """Return the first offset behind a batch or an old message."""
    base_offset, _size, magic = peek(data)
    return read_header(data).next_offset if magic == _MAGIC_V2 else base_offset + 1


def _decoded(data: memoryview, source: TopicPartition) -> tuple[BatchHeader, list[Record]] | None:
    try:
        return next(iter(read_batches(data)))
    except RecordError as error:
        log.error("Leaving out the batch before offset %d of %s: %s", _end_of(data), source, error)
        return None
