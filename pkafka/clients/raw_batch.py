"""A batch of records as bytes: what ``Consumer.poll_batches()`` gives and ``Producer.send_raw_batch()`` takes."""

from collections.abc import Iterator
from typing import NamedTuple

from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.records.reading import Record, read_records


class RawBatch(NamedTuple):
    """One v2 batch that a producer may send as it is.

    Attributes:
        partition: where it was read.
        data: the whole batch, header included.
        first_offset: of its first record, where it was read.
        next_offset: behind it there; what to commit when it is written elsewhere.
        record_count: how many records it has.
        leader_epoch: of the leader that appended it.
        was_encoded_again: whether its records stood otherwise in the log: with holes, with the broker's time, in an
            older format, or behind others that the consumer had read already.
    """

    partition: TopicPartition
    data: Buffer
    first_offset: int
    next_offset: int
    record_count: int
    leader_epoch: int
    was_encoded_again: bool = False

    def records(self) -> Iterator[Record]:
        """Its records one by one; their offsets are those of the log where the bytes were not encoded again."""
        return read_records(self.data, check_crc=False)
