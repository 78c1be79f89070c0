"""The partitions of an internal topic that this worker leads, as the topic's coordinator writes and reads them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from mypy_extensions import mypyc_attr

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_OFFSET, Millis, Offset, ProducerId
from pkafka.records.batch import BatchHeader
from pkafka.records.builder import RecordFields, build_batch
from pkafka.records.compression import Codec
from pkafka.records.reading import Record
from pkafka.records.validation import ValidatedRecords, build_validated, validate
from pkafka.server.coordinator.topic_reading import Play, note_values_once, read_batches_once, walk
from pkafka.server.replicas.acknowledgements import Unacknowledged
from pkafka.server.replicas.appending import Appended, Appending, Unsafe
from pkafka.server.replicas.disks import LOG_ERRORS, Disks
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.log_values import AppendOrigin

Committed: TypeAlias = Callable[[ErrorCode, int], None]
"""Called once, now or later, with the outcome of an append: NONE and the offset of its first record, or the error."""

_ACKS_ALL: Final = -1
_FIRST_SEQUENCE: Final = 0
_LOOK_AGAIN_S: Final = 0.01
_PRODUCE_VERSION: Final = 11


class TransactionalProducer(NamedTuple):
    """Names the producer whose transaction a batch becomes part of."""

    producer_id: ProducerId
    epoch: int


class TopicLogSettings(NamedTuple):
    """Holds the broker's keys for one internal topic; none of them changes while the broker runs."""

    acks: int
    """Like a producer's."""
    codec: Codec
    commit_timeout_ms: Millis
    """How long an append waits for replicas."""
    load_buffer_bytes: int
    """How much is read at a time."""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class TopicLog:
    """Appends to and reads the partitions of an internal topic that a worker leads.

    Args:
        topic: its name.
        settings: of the topic.
        partitions: the replicas of this worker.
        appending: appends to them, and waits.
        disks: of the broker.
        clock: wall clock, for what is written.
    """

    def __init__(
        self,
        topic: str,
        settings: TopicLogSettings,
        *,
        partitions: Partitions,
        appending: Appending,
        disks: Disks,
        clock: Clock,
    ) -> None:
        self.topic = topic
        self._settings = settings
        self._partitions = partitions
        self._appending = appending
        self._disks = disks
        self._clock = clock

    # -- writing --

    def append(
        self,
        partition: int,
        records: Sequence[RecordFields],
        committed: Committed,
        *,
        acks: int | None = None,
        timeout_ms: Millis | None = None,
        producer: TransactionalProducer | None = None,
    ) -> Offset | None:
        """Append records as one batch, and call back when they are committed.

        Args:
            acks: like a producer's; what the topic's settings say when left out.
            timeout_ms: how long to wait for replicas; what the topic's settings say when left out.
            producer: whose transaction the batch is part of; None for a batch that counts at once. As in Kafka every
                batch of a transaction has sequence 0, and only the producer's epoch is looked at.

        Returns:
            The offset of the first record; None when the records are not in the log.
        """
        key = self.topic, partition
        acks = self._settings.acks if acks is None else acks
        try:
            found = self._partitions.led.get(key)
            if found is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            result, unsafe = self._append(found, records, producer, needs_all=acks == _ACKS_ALL)
        except LOG_ERRORS as error:
            committed(self._disks.refused(*key, error), -1)
            return None
        if unsafe is None:
            committed(ErrorCode.NONE, result.base_offset)
        else:
            self._appending.when_safe(
                [unsafe],
                lambda codes: committed(codes.get(key, ErrorCode.NONE), result.base_offset),
                timeout_ms=self._settings.commit_timeout_ms if timeout_ms is None else timeout_ms,
            )
        return result.base_offset

    def _append(
        self,
        found: Partition,
        records: Sequence[RecordFields],
        producer: TransactionalProducer | None,
        *,
        needs_all: bool,
    ) -> Appended:
        if needs_all:
            found.check_enough_in_sync()
        now_ms = self._clock.now_ms()
        validated = self._validated(found, records, producer, now_ms)
        return self._appending.append(
            found, validated, needs_all=needs_all, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
        )

    def _validated(
        self,
        found: Partition,
        records: Sequence[RecordFields],
        producer: TransactionalProducer | None,
        now_ms: Millis,
    ) -> ValidatedRecords:
        rules, codec = found.rules(_PRODUCE_VERSION), self._settings.codec
        if producer is None:
            return build_validated(records, rules, codec=codec, now_ms=now_ms)
        data = build_batch(
            records,
            codec=codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=_FIRST_SEQUENCE,
            transactional=True,
        )
        return validate(data, rules, now_ms=now_ms)

    def open_transaction(self, partition: int, producer_id: ProducerId) -> TransactionalProducer | None:
        """The producer with its epoch, when the log has an open transaction of it; None when it has none."""
        found = self._partitions.led.get((self.topic, partition))
        entry = None if found is None else found.log.producers.entries.get(producer_id)
        if entry is None or entry.transaction_first_offset == NO_OFFSET:
            return None
        return TransactionalProducer(producer_id, entry.producer_epoch)

    # -- reading --

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """Read every batch of a partition to the end of its log; ends early when this broker stops leading it.

        Other tasks run between the reads. A damaged batch is left out, and an error is logged.
        """
        return walk(
            (self.topic, partition),
            partial(read_batches_once, self._settings.load_buffer_bytes),
            self._partitions,
            self._disks,
        )

    def read_last(self, partition: int, values: dict[bytes, bytes], play: Play) -> AsyncIterator[bool]:
        """Note the last value of each key of a partition, in steps to the end of its log; else as :meth:`read`.

        Args:
            values: by key; a record without a value takes its key out.
            play: called with each batch that needs another look: that is compressed, for example, or has markers. The
                values of all others are noted without an object for each record.
        """
        return walk(
            (self.topic, partition),
            partial(note_values_once, values, play, self._settings.load_buffer_bytes),
            self._partitions,
            self._disks,
        )

    async def all_committed(self, partition: int) -> None:
        """Wait until all that a partition has now is committed, or this broker stops leading it."""
        key = (self.topic, partition)
        found = self._partitions.led.get(key)
        end = 0 if found is None else found.log.log_end_offset
        while found is not None and found is self._partitions.led.get(key) and found.log.high_watermark < end:
            await self._answered(found, end)
            if found.log.high_watermark < end:
                # Another broker led meanwhile, or the disk refuses: this worker hears of either in a moment.
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _answered(self, partition: Partition, end: int) -> None:
        """Wait until a producer with acks=all would get its answer for records before ``end``."""
        over = asyncio.Event()
        self._appending.when_safe(
            [Unsafe(partition, flush_to=None, unacknowledged=Unacknowledged.up_to(partition, end))],
            lambda _codes: over.set(),
            timeout_ms=self._settings.commit_timeout_ms,
        )
        await over.wait()
