"""The partitions of __consumer_offsets that this worker leads, as the group coordinator writes and reads them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.records.batch import BatchHeader, peek, read_header
from pkafka.records.builder import RecordFields
from pkafka.records.compression import Codec
from pkafka.records.errors import RecordError
from pkafka.records.reading import Record, iter_entries, read_batches
from pkafka.records.validation import build_validated
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.acknowledgements import DelayedProduce, Unacknowledged
from pkafka.server.replicas.appending import Appended
from pkafka.server.replicas.disks import LOG_ERRORS
from pkafka.storage.log import Log

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.server.replicas.partition import Partition

log = logging.getLogger(__name__)

Committed: TypeAlias = Callable[[ErrorCode, int], None]
"""Called once, now or later, with the outcome of an append: NONE and the offset of its first record, or the error."""

_ACKS_ALL: Final = -1
_LOOK_AGAIN_S: Final = 0.01
_PRODUCE_VERSION: Final = 11
_MAGIC_V2: Final = 2


class OffsetsLog:
    """Appends to and reads the partitions of __consumer_offsets that a worker leads.

    Args:
        worker: the owner of the partitions.
    """

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._acks = worker.config.offsets_commit_required_acks
        self._codec = Codec(worker.config.offsets_topic_compression_codec)

    # -- writing --

    def append(
        self,
        partition: int,
        records: Sequence[RecordFields],
        committed: Committed,
        *,
        acks: int | None = None,
    ) -> None:
        """Append records as one batch, and call back when they are committed.

        Args:
            acks: like a producer's; ``offsets.commit.required.acks`` when left out.
        """
        worker = self._worker
        acks = self._acks if acks is None else acks
        key = CONSUMER_OFFSETS_TOPIC, partition
        try:
            found = worker.partitions.led.get(key)
            if found is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            result, unsafe = self._append(found, records, needs_all=acks == _ACKS_ALL)
        except LOG_ERRORS as error:
            committed(worker.disks.refused(*key, error), -1)
        else:
            if unsafe is None:
                committed(ErrorCode.NONE, result.base_offset)
            else:
                worker.appending.when_safe(
                    [unsafe],
                    lambda codes: committed(codes.get(key, ErrorCode.NONE), result.base_offset),
                    timeout_ms=worker.config.offsets_commit_timeout_ms,
                )

    def _append(self, found: "Partition", records: Sequence[RecordFields], *, needs_all: bool) -> Appended:
        if needs_all:
            found.check_enough_in_sync()
        now_ms = self._worker.clock.now_ms()
        validated = build_validated(records, found.rules(_PRODUCE_VERSION), codec=self._codec, now_ms=now_ms)
        return self._worker.appending.append(found, validated, needs_all=needs_all, now_ms=now_ms)

    # -- reading --

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """Read every batch of a partition to the end of its log; ends early when this broker stops leading it.

        Other tasks run between the reads. A damaged batch is left out, and an error is logged.
        """
        turns = Turns()
        key = (CONSUMER_OFFSETS_TOPIC, partition)
        position = 0
        while (found := self._worker.partitions.led.get(key)) is not None:
            position = max(position, found.log.log_start_offset)
            following = position
            try:
                for data in _batches(found.log, position, self._worker.config.offsets_load_buffer_size):
                    following = max(following, _end_of(data))
                    for batch in _decoded(data, found.log.topic_partition):
                        yield batch
                    await turns.step()
            except RecordError as error:
                log.error("%s is damaged behind offset %d: %s", found.log.topic_partition, following, error)
            except (StorageError, OSError) as error:
                self._worker.disks.refused(*key, error)
            if following == position:
                return
            position = following

    async def all_committed(self, partition: int) -> None:
        """Wait until all that a partition has now is committed, or this broker stops leading it."""
        worker = self._worker
        key = (CONSUMER_OFFSETS_TOPIC, partition)
        found = worker.partitions.led.get(key)
        end = 0 if found is None else found.log.log_end_offset
        while (
            found is not None and found is worker.partitions.led.get(key) and found.log.high_watermark < end
        ):
            await self._answered(found, end)
            if found.log.high_watermark < end:
                # Another broker led meanwhile, or the disk refuses: this worker hears of either in a moment.
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _answered(self, partition: "Partition", end: int) -> None:
        """Wait until a producer with acks=all would get its answer for records before ``end``."""
        over = asyncio.Event()
        when = DelayedProduce([Unacknowledged.up_to(partition, end)], lambda _codes: over.set())
        when.begin(self._worker.progress.produces, timeout_ms=self._worker.config.offsets_commit_timeout_ms)
        await over.wait()


def _batches(source: Log, offset: int, bytes_max: int) -> Iterator[memoryview]:
    """Read once from ``offset`` on, and return the batches that are whole."""
    end = source.log_end_offset
    if offset >= end:
        return
    found = source.read(offset, bytes_max=bytes_max, min_one_batch=True, upper_bound=end)
    data = memoryview(found.segment.read_bytes(found.position, found.length))
    for start, size, _magic in iter_entries(data):
        yield data[start : start + size]


def _end_of(data: memoryview) -> int:
    """Return the first offset behind a batch or an old message."""
    base_offset, _size, magic = peek(data)
    return read_header(data).next_offset if magic == _MAGIC_V2 else base_offset + 1


def _decoded(data: memoryview, source: TopicPartition) -> Iterable[tuple[BatchHeader, list[Record]]]:
    try:
        return list(read_batches(data))
    except RecordError as error:
        log.error("Leaving out the batch before offset %d of %s: %s", _end_of(data), source, error)
        return ()
