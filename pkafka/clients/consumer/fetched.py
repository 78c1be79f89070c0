"""One partition's part of one answer: kept as bytes, decoded batch by batch as it is taken."""

from collections.abc import Iterator

from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.transactions import AbortedBatches
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.records.batch import peek, read_header
from pkafka.records.reading import iter_entries, read_columns


class Fetched:
    """See the module. Nothing of it is decoded before it is taken, so that a seek costs nothing.

    Args:
        records: whole batches, the last of which may be cut off.
        offset: the first that was asked for.
        check_crcs: whether to compare checksums.
        aborted: the aborted transactions among them, for a read_committed reader; None for one that reads everything.

    Raises:
        ApiError: CORRUPT_MESSAGE, the batches are not framed as batches.
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
        self.next_offset = offset
        """Behind the last record taken, and behind the batches that have none to take."""
        self.end = max(offset, end_offset(records))
        """Behind the last whole batch: where the next fetch goes on."""
        self.error: ApiError | None = None
        """What is wrong with the batch at :attr:`next_offset`; nothing comes after it."""
        self._chunks = self._decode(records, check_crcs, aborted)
        self._chunk: Chunk | None = None
        self._taken = 0

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
            self.next_offset = chunk.offsets[stop]
            return chunk.part(start, stop)
        self._chunk, self._taken = None, 0
        self.next_offset = chunk.offsets[-1] + 1
        return chunk.part(start) if start else chunk

    def _decode(
        self, records: Buffer, check_crcs: bool, aborted: list[AbortedTransaction] | None
    ) -> Iterator[Chunk]:
        start = self.next_offset
        filter_ = None if aborted is None else AbortedBatches(aborted)
        skip = None if filter_ is None else filter_.skip
        for header, columns in read_columns(records, check_crc=check_crcs, from_offset=start, skip=skip):
            if header.is_control:
                if filter_ is not None and columns:
                    filter_.note_marker(header, columns.keys[0])
            elif columns:
                self.next_offset = columns.offsets[0]
                yield Chunk(self.partition, columns, header.timestamp_type, header.partition_leader_epoch)
            self.next_offset = max(self.next_offset, header.last_offset + 1)


def end_offset(records: Buffer) -> int:
    """The first offset behind the last whole batch; -1 where there is none.

    Raises:
        ApiError: CORRUPT_MESSAGE, a length or magic that no format has.
    """
    view = memoryview(records)
    last = None
    for position, _, magic in iter_entries(view):
        last = position, magic
    if last is None:
        return -1
    position, magic = last
    return read_header(view, position).next_offset if magic >= 2 else peek(view, position)[0] + 1
