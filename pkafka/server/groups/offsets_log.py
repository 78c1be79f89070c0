"""The partitions of __consumer_offsets that this worker leads, as the group coordinator writes and reads them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
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
from pkafka.server.replicas.acknowledgements import DelayedProduce
from pkafka.storage.log import Log

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.server.replicas.partition import Partition, PartitionKey

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
        try:
            found = worker.partitions.led.get((CONSUMER_OFFSETS_TOPIC, partition))
            if found is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            acks = self._acks if acks is None else acks
            base_offset = self._append(found, records, acks)
        except RecordError as error:
            committed(error.code, -1)
        except ApiError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                worker.disks.log_failed(CONSUMER_OFFSETS_TOPIC, partition)
            committed(error.code, -1)
        except (StorageError, OSError) as error:
            committed(worker.disks.refused(CONSUMER_OFFSETS_TOPIC, partition, error), -1)
        else:
            # The batch is committed when the high watermark has passed it. Without other replicas that is at once,
            # unless the batch has to be flushed first.
            end = found.log.log_end_offset
            when = self._waiting(found, end, base_offset, committed) if acks == _ACKS_ALL else None
            if found.log.flush_is_due:
                worker.tasks.spawn(self._flush(found, end, base_offset, committed, when))
            else:
                worker.progress.appended(found)
                self._wait(when, base_offset, committed)

    def _append(self, found: "Partition", records: Sequence[RecordFields], acks: int) -> int:
        worker = self._worker
        if acks == _ACKS_ALL:
            found.check_enough_in_sync()
        now_ms = worker.clock.now_ms()
        validated = build_validated(records, found.rules(_PRODUCE_VERSION), codec=self._codec, now_ms=now_ms)
        result = found.log.append_as_leader(
            validated, leader_epoch=found.leader_epoch, now_ms=now_ms, flush_later=True
        )
        worker.metrics.appended(CONSUMER_OFFSETS_TOPIC, validated)
        return result.base_offset

    async def _flush(
        self,
        partition: "Partition",
        end: int,
        base_offset: int,
        committed: Committed,
        when: DelayedProduce | None,
    ) -> None:
        if await self._worker.logs.flush_appended([(partition, end)]):
            committed(ErrorCode.KAFKA_STORAGE_ERROR, base_offset)
        else:
            self._wait(when, base_offset, committed)

    def _waiting(
        self, partition: "Partition", end: int, base_offset: int, committed: Committed
    ) -> DelayedProduce:
        def done(codes: "Mapping[PartitionKey, ErrorCode]") -> None:
            committed(codes[partition.key], base_offset)

        return DelayedProduce([(partition, end)], done)

    def _wait(self, when: DelayedProduce | None, base_offset: int, committed: Committed) -> None:
        if when is None:
            committed(ErrorCode.NONE, base_offset)
        else:
            when.begin(self._worker, timeout_ms=self._worker.config.offsets_commit_timeout_ms)

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
                self._worker.disks.refused(CONSUMER_OFFSETS_TOPIC, partition, error)
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
        when = DelayedProduce([(partition, end)], lambda _codes: over.set())
        when.begin(self._worker, timeout_ms=self._worker.config.offsets_commit_timeout_ms)
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
