"""One partition's part of one answer: kept as bytes, decoded batch by batch as it is taken."""

from collections.abc import Iterator
from typing import TypeAlias

from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.transactions import AbortedBatches
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.records.batch import BatchHeader, peek
from pkafka.records.reading import decode_columns_at, decode_run_at, scan

Batches: TypeAlias = list[tuple[int, BatchHeader | None]]


class _Progress:
    """How far an answer has been taken: apart from it, so that what decodes it does not hold it in a circle.

    A circle would keep the megabyte of every answer until the garbage collector comes by, which is seldom.
    """

    __slots__ = ("next_offset",)

    def __init__(self, offset: int) -> None:
        self.next_offset = offset


class Fetched:
    """What an answer brought of a partition. Nothing of it is decoded before it is taken, so that a seek costs nothing.

    Args:
        records: whole batches, the last of which may be cut off.
        offset: the first that was asked for.
        check_crcs: whether to compare checksums.
        aborted: the aborted transactions among them, for a read_committed reader; None for one that reads everything.
    """

    def __init__(
        self,
        partition: TopicPartition,
        records: Buffer,
        offset: int,
        *,
        check_crcs: bool,
        aborted: list[AbortedTransaction] | None = None,
    ) -> None:
        self.partition = partition
        self.size = len(records)
        """In bytes."""
        self._progress = _Progress(offset)
        view = memoryview(records)
        batches, damage = scan(view)
        self.end = max(offset, _end(view, batches))
        """Behind the last whole batch: where the next fetch goes on."""
        self._is_damaged = damage is not None
        self.has_nothing = self.end == offset and not self._is_damaged
        """Not one whole batch came, and nothing says why."""
        self.error: ApiError | None = None
        """What is wrong with the batch at :attr:`next_offset`; nothing comes after it."""
        self._chunks = _decode(partition, self._progress, view, batches, damage, check_crcs, aborted)
        self._chunk: Chunk | None = None
        self._taken = 0

    @property
    def next_offset(self) -> int:
        """Behind the last record taken, and behind the batches that have none to take."""
        return self._progress.next_offset

    @property
    def is_drained(self) -> bool:
        """Whether :meth:`take` has surely nothing more; it may have nothing where this is not known yet."""
        return self._chunk is None and self.next_offset >= self.end and not self._is_damaged

    def take(self, records_max: int) -> Chunk | None:
        """At most so many of the records that are left; None when there are no more.

        Raises:
            ApiError: CORRUPT_MESSAGE or INVALID_RECORD, the next batch is damaged; every later call says so again.
        """
        if self.error is not None:
            raise self.error
        chunk = self._chunk
        if chunk is None:
            try:
                chunk = next(self._chunks, None)
            except ApiError as error:
                text = f"Record batch for partition {self.partition} at offset {self.next_offset} is invalid, cause: "
                self.error = ApiError(error.code, f"{text}{error.message}")
                raise self.error from error
            if chunk is None:
                return None
        start, stop = self._taken, self._taken + records_max
        if stop < len(chunk):
            self._chunk, self._taken = chunk, stop
            self._progress.next_offset = chunk.offsets[stop]
            return chunk.part(start, stop)
        self._chunk, self._taken = None, 0
        self._progress.next_offset = chunk.offsets[-1] + 1
        return chunk.part(start) if start else chunk


def _decode(
    partition: TopicPartition,
    progress: _Progress,
    view: memoryview,
    batches: Batches,
    damage: ApiError | None,
    check_crcs: bool,
    aborted: list[AbortedTransaction] | None,
) -> Iterator[Chunk]:
    start = progress.next_offset
    filter_ = None if aborted is None else AbortedBatches(aborted)
    skip = None if filter_ is None else filter_.skip
    index = 0
    while index < len(batches):
        position, known = batches[index]
        if known is not None and known.last_offset < start:
            index += 1
            continue
        if known is not None and known.base_offset >= start:
            index, run = decode_run_at(view, batches, index, check_crc=check_crcs)
            if run is not None:
                progress.next_offset = known.base_offset
                yield Chunk(partition, run, 0, known.partition_leader_epoch)
                progress.next_offset = run.offsets[-1] + 1
                continue
        index += 1
        header, columns = decode_columns_at(
            view, position, known, check_crc=check_crcs, from_offset=start, skip=skip
        )
        if columns is not None:
            if header.is_control:
                if filter_ is not None:
                    filter_.note_marker(header, columns.keys[0])
            else:
                progress.next_offset = columns.offsets[0]
                yield Chunk(partition, columns, header.attributes >> 3 & 1, header.partition_leader_epoch)
        progress.next_offset = max(progress.next_offset, header.base_offset + header.last_offset_delta + 1)
    if damage is not None:
        raise damage


def _end(view: memoryview, batches: Batches) -> int:
    """The first offset behind the last whole batch; -1 where there is none."""
    if not batches:
        return -1
    position, header = batches[-1]
    return peek(view, position)[0] + 1 if header is None else header.next_offset
