"""The producer snapshot of a log (``<offset>.snapshot``): the producers as of the records below the offset.

Format, big-endian:
    version i16 = 1 | CRC-32C u32 of everything behind it | number of entries i32, then per entry
    producer id i64 | producer epoch i16 | last sequence i32 | last offset i64 | offset delta of the last batch i32 |
    last timestamp i64 | coordinator epoch i32 | first offset of the open transaction i64, -1 for none
"""

from collections.abc import Collection
from pathlib import Path
from struct import Struct
from typing import Final

from pkafka.errors import StorageError
from pkafka.records.checksum import crc32c
from pkafka.storage.files import Files, read_file, replace_file
from pkafka.storage.producer_state import BatchMetadata, ProducerEntry, advance_sequence

SNAPSHOT_SUFFIX: Final = ".snapshot"

_VERSION: Final = 1
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, -1, 0, -1)
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Read a snapshot file.

    Raises:
        StorageError: it is damaged or of an unknown version.
    """
    start = _HEAD.size + _COUNT.size
    if len(data) < start:
        raise StorageError(f"a producer snapshot of {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise StorageError(f"a producer snapshot of version {version}")
    if crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise StorageError("a producer snapshot with a wrong checksum")
    count = _COUNT.unpack_from(data, _HEAD.size)[0]
    if count < 0 or len(data) != start + count * _ENTRY.size:
        raise StorageError(f"a producer snapshot of {len(data)} bytes for {count} entries")
    return [_entry(*values) for values in _ENTRY.iter_unpack(memoryview(data)[start:])]


def read_snapshot(files: Files, path: Path) -> list[ProducerEntry]:
    """The entries in a snapshot file.

    Raises:
        StorageError: it is missing or damaged.
    """
    data = read_file(files, path)
    if data is None:
        raise StorageError(f"{path} is gone")
    return decode_snapshot(data)


def write_snapshot(files: Files, path: Path, entries: Collection[ProducerEntry], *, durable: bool) -> None:
    """Write a snapshot file in one step.

    Raises:
        OSError: the disk refused.
    """
    replace_file(files, path, encode_snapshot(entries), durable=durable)


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id)
    entry.producer_epoch = epoch
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = timestamp
    entry.transaction_first_offset = transaction_first_offset
    if last_offset >= 0:
        first_sequence = advance_sequence(last_sequence, -offset_delta)
        entry.batches = (BatchMetadata(first_sequence, last_sequence, last_offset, offset_delta, timestamp),)
    return entry
