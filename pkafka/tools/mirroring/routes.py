"""How a batch reaches its copy: as the bytes that it is, or taken apart. Pure.

Kafka's mirror maker hands record by record to its producer, which chooses the partition by the key. A batch may go as
bytes wherever that producer would put all of its records into one partition:

* the target has one partition, or
* the hashes of all its keys lead to one partition; records without a key may be anywhere, so they go along.

Of the records of other batches, and of small ones, new batches are made (``regrouping.py``).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pkafka.clients.raw_batch import RawBatch
from pkafka.records.batch import ATTRIBUTE_CODEC, BatchHeader, read_header
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec
from pkafka.records.loops import partitions_of_keys
from pkafka.records.reading import decode_columns_at

SMALL_BYTES: Final = 1_024
SMALL_RECORDS: Final = 16
BATCH_BYTES: Final = 262_144
"""As of a producer that has many records at hand."""
_NO_TIME: Final = -1
_MANY: Final = 64
_BY_RECORD_ONLY: Final = ("partitioner.class", "interceptor.classes")


class Rules(NamedTuple):
    """What the settings say about all batches.

    Args:
        are_batches_enough: whether no record has to be looked at by itself; else all go one by one.
        keeps_partitions: whether records stay in the partition of their number, whatever their keys.
        codec, level: the compression that was asked for; None: each batch keeps its own.
        batch_bytes: how large batches become that are made anew, uncompressed.
    """

    are_batches_enough: bool = True
    keeps_partitions: bool = False
    codec: Codec | None = None
    level: int | None = None
    batch_bytes: int = BATCH_BYTES


def rules_of(
    producer: Mapping[str, object],
    consumer: Mapping[str, object],
    *,
    has_handler: bool,
    keeps_partitions: bool,
) -> Rules:
    """The rules of a mirror.

    Args:
        producer, consumer: their settings, as the user gave them.
        has_handler: whether a message handler looks at each record.
        keeps_partitions: whether that was asked for.
    """
    looks_at_records = (
        has_handler
        or any(producer.get(key) for key in _BY_RECORD_ONLY)
        or bool(consumer.get("interceptor.classes"))
        or str(producer.get("partitioner.ignore.keys", "false")).strip().lower() == "true"
    )
    named = str(producer.get("compression.type", "")).strip().lower()
    codec = Codec[named.upper()] if named.upper() in Codec.__members__ else None
    level = producer.get(f"compression.{named}.level")
    return Rules(
        not looks_at_records,
        keeps_partitions,
        codec,
        None if level is None else int(str(level)),
        max(1, int(str(producer.get("batch.size", BATCH_BYTES)))),
    )


def route_of(batch: RawBatch, partition_count: int, rules: Rules) -> int | RecordColumns:
    """The partition to which a batch may go as bytes; or its records, of which new batches are to be made.

    Args:
        partition_count: of the topic on the target.

    Raises:
        RecordError: its records cannot be read.
    """
    header = read_header(batch.data)
    if _may_be_raw(batch, header, rules):
        if rules.keeps_partitions:
            return batch.partition.partition
        if partition_count == 1:
            return 0
        columns = columns_of(batch, header)
        target = _common_partition(columns, batch.partition.partition % partition_count, partition_count)
        return columns if target is None else target
    return columns_of(batch, header)


def _may_be_raw(batch: RawBatch, header: BatchHeader, rules: Rules) -> bool:
    return (
        (len(batch.data) >= SMALL_BYTES or batch.record_count >= SMALL_RECORDS)
        and header.max_timestamp != _NO_TIME
        and rules.codec in (None, header.attributes & ATTRIBUTE_CODEC)
    )


def columns_of(batch: RawBatch, header: BatchHeader | None = None) -> RecordColumns:
    """The records of a batch.

    Args:
        header: of it, where that is at hand.

    Raises:
        RecordError: they cannot be read.
    """
    known = read_header(batch.data) if header is None else header
    _, columns = decode_columns_at(memoryview(batch.data), 0, known, check_crc=False)
    assert columns is not None  # a consumer gives no batch without records
    return columns


def _common_partition(columns: RecordColumns, own: int, partition_count: int) -> int | None:
    """The one partition for all keys; ``own`` where no record has a key."""
    if not columns.has_keys:
        return own
    keys = [key for key in columns.keys if key is not None]
    if not keys:
        return own
    # Most batches that cannot go as bytes show it within their first keys.
    first = set(partitions_of_keys(keys[:_MANY], partition_count))
    if len(first) > 1 or set(partitions_of_keys(keys[_MANY:], partition_count)) - first:
        return None
    return int(first.pop())
