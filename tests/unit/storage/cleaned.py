"""A round of compaction without processes, and what a log should be after it."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from pkafka.records.batch import BatchHeader
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.reading import Record, read_batches
from pkafka.records.validation import ProduceRules, validate
from pkafka.storage.cleaning import Cleaning
from pkafka.storage.files import OsFiles
from pkafka.storage.log import Log
from pkafka.storage.log_cleaning import LogCleaning, cleanable_part_of
from pkafka.storage.offset_map import OffsetMap
from tests.unit.storage.makers import NOW, SMALL

COMPACT = replace(SMALL, cleanup_policy=("compact",))
KeyValue = tuple[bytes | None, bytes | None]


def write(
    log: Log,
    *records: KeyValue,
    timestamp: int = NOW,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> int:
    """Append one batch of keys and values; returns its base offset."""
    data = build_batch(
        [(timestamp, key, value, ()) for key, value in records],
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        codec=codec,
    )
    result = log.append_as_leader(
        validate(data, ProduceRules(), now_ms=timestamp), leader_epoch=0, now_ms=timestamp
    )
    log.set_high_watermark(log.log_end_offset)
    return result.base_offset


def compact(
    log: Log,
    *,
    now: int = NOW,
    offsets: OffsetMap | None = None,
    files: OsFiles | None = None,
    before_take: Callable[[], object] = lambda: None,
) -> tuple[LogCleaning, Cleaning]:
    """One round over a log, as the cleaner process and the owner make it together."""
    owner = LogCleaning(log, cleanable_part_of(log, now))
    cleaning = Cleaning(
        owner.plan,
        offsets or OffsetMap(1 << 20, 0.9),
        files=files or OsFiles(),
        now_ms=now,
        pace=lambda _: None,
    )
    cleaning.map_keys()
    for group in cleaning.groups():
        replacement = cleaning.rewrite(group)
        if replacement is not None:
            before_take()
            if not owner.take(replacement.old, replacement.new):
                cleaning.discard()
                return owner, cleaning
            cleaning.accepted()
    owner.end(cleaning.end_offset)
    return owner, cleaning


def records_of(log: Log) -> list[Record]:
    """Every record in the files of a log, the active segment's too; those of control batches left out."""
    return [record for header, records in batches_of(log) if not header.is_control for record in records]


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch in the files of a log, with its records."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    for segment in log.segments:
        found += read_batches(os.pread(segment.fileno(), segment.size, 0))
    return found


def latest(records: Iterable[Record]) -> dict[bytes, bytes]:
    """What a reader of everything ends up with."""
    state: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state
