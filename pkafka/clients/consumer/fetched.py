"""One partition's part of one answer: kept as bytes, decoded batch by batch as it is taken."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.transactions import AbortedBatches
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.records.batch import BatchHeader, crc_is_valid, peek
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec, codec_of
from pkafka.records.errors import corrupt
from pkafka.records.forwarding import can_be_forwarded, encode_again
from pkafka.records.reading import decode_columns_at, decode_run_at, scan

P = TypeVar("P", Chunk, RawBatch)
Batches: TypeAlias = list[tuple[int, BatchHeader | None]]


def count_of(piece: Chunk | RawBatch) -> int:
    """How many records a piece of an answer has."""
    return piece.record_count if isinstance(piece, RawBatch) else len(piece)


def first_offset(piece: Chunk | RawBatch) -> int:
    """The offset of its first record."""
    return piece.first_offset if isinstance(piece, RawBatch) else piece.offsets[0]


class _Progress:
    """How far an answer has been taken: apart from it, so that what decodes it does not hold it in a circle.

    A circle would keep the megabyte of every answer until the garbage collector comes by, which is seldom.
    """

    __slots__ = ("next_offset",)

    def __init__(self, offset: int) -> None:
        self.next_offset = offset


class _Source(NamedTuple):
    """What is read of an answer, and how."""

    partition: TopicPartition
    progress: _Progress
    view: memoryview
    batches: Batches
    damage: ApiError | None
    check_crcs: bool
    aborted: list[AbortedTransaction] | None


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
        self._source = _Source(partition, self._progress, view, batches, damage, check_crcs, aborted)
        self._chunks: Iterator[Chunk] | None = None
        self._raw: Iterator[RawBatch] | None = None
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
        chunk = self._chunk
        if chunk is None:
            if self._chunks is None:
                self._chunks, self._raw = _decode(self._source), None
            chunk = self._next(self._chunks)
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

    def take_batch(self, records_max: int) -> RawBatch | None:
        """The next batch as bytes; None when there are no more.

        Raises:
            ApiError: as :meth:`take`.
        """
        if self._raw is None:
            # What take() has decoded and not handed out is read again: from the next record on.
            self._chunk, self._taken, self._chunks = None, 0, None
            self._raw = _batches(self._source)
        batch = self._next(self._raw)
        if batch is not None:
            self._progress.next_offset = batch.next_offset
        return batch

    def _next(self, pieces: Iterator[P]) -> P | None:
        if self.error is not None:
            raise self.error
        try:
            return next(pieces, None)
        except ApiError as error:
            text = f"Record batch for partition {self.partition} at offset {self.next_offset} is invalid, cause: "
            self.error = ApiError(error.code, f"{text}{error.message}")
            raise self.error from error


def _batches(source: _Source) -> Iterator[RawBatch]:
    partition, progress, view, batches, damage, check_crcs, aborted = source
    start = progress.next_offset
    filter_ = None if aborted is None else AbortedBatches(aborted)
    for position, known in batches:
        if known is not None and known.last_offset < start:
            if filter_ is not None:
                _note(filter_, view, position, known)
            continue
        header, columns = _checked(
            view,
            position,
            known,
            check_crc=check_crcs,
            from_offset=start,
            skip=None if filter_ is None else filter_.skip,
        )
        following = header.base_offset + header.last_offset_delta + 1
        if isinstance(columns, memoryview):
            yield RawBatch(
                partition,
                columns,
                header.base_offset,
                following,
                header.records_count,
                header.partition_leader_epoch,
            )
        elif columns is not None and header.is_control:
            if filter_ is not None:
                filter_.note_marker(header, columns.keys[0])
        elif columns is not None:
            first, count = columns.offsets[0], len(columns.values)
            codec = Codec.NONE if known is None else codec_of(header.attributes)
            data = encode_again(columns, codec)
            yield RawBatch(partition, data, first, following, count, header.partition_leader_epoch, True)
        progress.next_offset = max(progress.next_offset, following)
    if damage is not None:
        raise damage


def _decode(source: _Source) -> Iterator[Chunk]:
    partition, progress, view, batches, damage, check_crcs, aborted = source
    start = progress.next_offset
    filter_ = None if aborted is None else AbortedBatches(aborted)
    skip = None if filter_ is None else filter_.skip
    index = 0
    while index < len(batches):
        position, known = batches[index]
        if known is not None and known.last_offset < start:
            if filter_ is not None:
                _note(filter_, view, position, known)
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


def _checked(
    view: memoryview,
    position: int,
    known: BatchHeader | None,
    *,
    check_crc: bool,
    from_offset: int,
    skip: Callable[[BatchHeader], bool] | None,
) -> tuple[BatchHeader, RecordColumns | memoryview | None]:
    """A batch as its bytes where they can be sent so, else its records; neither where it has none to give."""
    if known is None or known.base_offset < from_offset or not can_be_forwarded(known):
        return decode_columns_at(
            view, position, known, check_crc=check_crc, from_offset=from_offset, skip=skip
        )
    if check_crc and not crc_is_valid(view, position, known.size_bytes):
        raise corrupt(f"the batch at offset {known.base_offset} does not match its checksum")
    if skip is not None and skip(known):
        return known, None
    return known, view[position : position + known.size_bytes]


def _note(filter_: AbortedBatches, view: memoryview, position: int, header: BatchHeader) -> None:
    """Look at a batch before the position: transactions that begin or end there do so no later."""
    filter_.skip(header)
    if header.is_control:
        _, columns = decode_columns_at(view, position, header, check_crc=False)
        if columns is not None:
            filter_.note_marker(header, columns.keys[0])
