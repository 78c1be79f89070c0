"""What a leader checks and changes in a produced record set before it may enter the log.

The rules and their order are those of Kafka 3.9 (ProduceRequest.validateRecords, UnifiedLog, LogValidator); where Kafka
answers UNKNOWN_SERVER_ERROR to damaged bytes, this answers CORRUPT_MESSAGE. Offsets are not assigned here,
and nothing is known about a producer's earlier batches: both are storage's.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from pkafka.errors import ErrorCode
from pkafka.model import NO_TIMESTAMP
from pkafka.records import legacy
from pkafka.records.batch import (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
    crc_is_valid,
    iter_headers,
    read_header,
    stamp_times,
)
from pkafka.records.builder import RecordFields, build_batch, encode_records, finish_batch
from pkafka.records.checksum import crc32c
from pkafka.records.compression import Codec, codec_of, inflate
from pkafka.records.errors import RecordError, corrupt, invalid
from pkafka.records.loops import decode_records, walk
from pkafka.records.reading import Record, iter_entries

__all__ = [
    "ProduceRules",
    "RecordError",
    "ValidatedBatch",
    "ValidatedRecords",
    "build_validated",
    "trust",
    "validate",
]

LONG_MAX: Final = (1 << 63) - 1
INFLATED_BYTES_MAX: Final = 64 << 20
_FIRST_VERSION_WITH_ZSTD: Final = 7
_ZSTD: Final = 4
_NONE: Final = Codec.NONE
"""Compiled code finds it at once, and a member of its enumeration by two look-ups."""
_new: Final = tuple.__new__
"""A named tuple made by this costs half of one made by its class."""
_Header: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
# Their types are said because compiled code compares numbers of unknown types as objects.
_header_of: Final = cast("Callable[[memoryview], _Header]", HEADER.unpack_from)
_walk: Final = cast("Callable[[memoryview, int], tuple[int, int, int, int, int]]", walk)


class ProduceRules(NamedTuple):
    """What a topic and a request version ask of a record set.

    Attributes:
        compacted: cleanup.policy contains compact, so every record needs a key.
        timestamp_type: 0 = CreateTime, 1 = LogAppendTime (message.timestamp.type).
        timestamp_before_max_ms: message.timestamp.before.max.ms.
        timestamp_after_max_ms: message.timestamp.after.max.ms.
        message_bytes_max: max.message.bytes, per batch.
        codec: compression.type of the topic; None keeps the producer's.
        codec_level: the level for ``codec``, None for its default.
        produce_version: the version of the Produce request.
        place: topic and partition, as Kafka's texts name them.
        inflated_bytes_max: how large a compressed batch may become; no setting of Kafka's, which has no cap.
    """

    compacted: bool = False
    timestamp_type: int = 0
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = LONG_MAX
    message_bytes_max: int = 1048588
    codec: Codec | None = None
    codec_level: int | None = None
    produce_version: int = 11
    place: str = ""
    inflated_bytes_max: int = INFLATED_BYTES_MAX


class ValidatedBatch(NamedTuple):
    """One batch of :class:`ValidatedRecords`; ``position`` and ``size`` are in its data.

    ``max_timestamp_delta`` is the offset delta of the (first) record that has ``max_timestamp``, 0 under
    LogAppendTime.
    """

    position: int
    size: int
    last_offset_delta: int
    records_count: int
    max_timestamp: int
    max_timestamp_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool


class ValidatedRecords(NamedTuple):
    """A record set that may be written once offsets and leader epoch are stamped on its batches.

    ``data`` is the memory that was given where nothing had to change and it was writable.
    ``log_append_time_ms`` is -1 for CreateTime.
    """

    data: bytearray | memoryview
    batches: list[ValidatedBatch]
    source_codec: Codec
    log_append_time_ms: int


def validate(data: Buffer, rules: ProduceRules, *, now_ms: int) -> ValidatedRecords:
    """Check one partition's record set of a Produce request and bring it into the form that the log stores.

    A v2 batch whose codec is the topic's stays as it is, but for its timestamp type and maximum timestamp;
    old messages, batches to be compressed otherwise and batches with offset deltas out of sequence are written anew.

    Args:
        data: the record set as it came; may be written to when it is writable.
        rules: what the topic and the request's version ask for.
        now_ms: the wall clock, for LogAppendTime and for the timestamp limits.

    Returns:
        The batches to store: one, or none when a Produce of version 0 to 2 brought no message.

    Raises:
        RecordError: with the code that Kafka answers, and the records at fault where single ones are.
    """
    view = memoryview(data)
    ordinary = _accept_ordinary(view, rules, now_ms)
    if ordinary is not None:
        return ordinary
    entries = _take_apart(view)
    _check_produce_version(view, entries, rules.produce_version)
    if not entries:
        return ValidatedRecords(bytearray(), [], _NONE, NO_TIMESTAMP)
    _, size, magic = entries[0]
    if len(entries) == 1 and magic == 2:
        if size != len(view):
            view = view[:size]
        header = read_header(view)
        return _validate_batch(view, header, _check_v2(view, 0, header, rules), rules, now_ms)
    source = Codec.NONE
    for entry in entries:
        source = _check_entry(view, *entry, rules) or source
    if len(entries) > 1 and (magic == 2 or source is not _NONE):
        raise invalid("a compressed record set may hold only one batch")
    return _convert_legacy(view, entries, source, rules, now_ms)


def build_validated(
    records: Sequence[RecordFields], rules: ProduceRules, *, codec: Codec, now_ms: int
) -> ValidatedRecords:
    """One batch of records that this broker writes itself, as :func:`validate` would return it.

    What such records nearly always are, of one time and not to be compressed, is not read again to be checked.

    Args:
        records: as for build_batch, at least one, each with a key.
        rules: what the topic asks for.
        codec: the compression where the topic keeps that of the producer.
        now_ms: the wall clock.

    Raises:
        RecordError: as :func:`validate`.
    """
    if codec or rules.codec or rules.timestamp_type:
        return validate(build_batch(records, codec=codec), rules, now_ms=now_ms)
    body, count, base_timestamp, max_timestamp = encode_records(records)
    data = finish_batch(body, count, base_timestamp, max_timestamp)
    size = len(data)
    if (
        size > rules.message_bytes_max
        or max_timestamp != base_timestamp
        or now_ms - base_timestamp > rules.timestamp_before_max_ms
        or base_timestamp - now_ms > rules.timestamp_after_max_ms
    ):
        return validate(data, rules, now_ms=now_ms)
    batch = _new(
        ValidatedBatch, (0, size, count - 1, count, max_timestamp, 0, -1, -1, NO_SEQUENCE, False, False)
    )
    return _new(ValidatedRecords, (data, [batch], _NONE, NO_TIMESTAMP))


def trust(data: bytearray | memoryview) -> ValidatedRecords:
    """The description of v2 batches that this broker built itself: markers, group and transaction state.

    The largest timestamp is taken to be the last record's.

    Raises:
        RecordError: CORRUPT_MESSAGE, the data is not whole v2 batches.
    """
    batches = []
    end = 0
    codec = Codec.NONE
    for position, header in iter_headers(data):
        codec = codec_of(header.attributes)
        batches.append(_describe(position, header, header.max_timestamp, header.last_offset_delta))
        end = position + header.size_bytes
    if end != len(data):
        raise corrupt(f"{len(data) - end} bytes follow the last whole batch")
    return ValidatedRecords(data, batches, codec, NO_TIMESTAMP)


def _accept_ordinary(view: memoryview, rules: ProduceRules, now_ms: int) -> ValidatedRecords | None:
    """The outcome for what nearly every producer sends: one v2 batch that may stay as it is.

    None for everything else, also for a batch with a fault: the long way judges that and says what is wrong.

    Raises:
        RecordError: INVALID_RECORD, the framing is damaged; CORRUPT_MESSAGE, what is compressed is.
    """
    size = len(view)
    if size < BATCH_OVERHEAD or view.readonly:
        return None
    (
        base_offset, batch_length, _leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp,
        max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = _header_of(view)  # fmt: skip
    number = attributes & ATTRIBUTE_CODEC
    flags = attributes ^ number
    if (
        magic != 2
        or batch_length != size - LOG_OVERHEAD
        or size > rules.message_bytes_max
        or base_offset
        or (flags and flags != ATTRIBUTE_TRANSACTIONAL)
        or (rules.codec is not None and rules.codec != number)
        or (number >= _ZSTD and (number > _ZSTD or rules.produce_version < _FIRST_VERSION_WITH_ZSTD))
        or rules.timestamp_type
        or count <= 0
        or count != last_offset_delta + 1
        or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
        or (flags and producer_id < 0)
        or crc32c(view[ATTRIBUTES_POSITION:]) != crc
    ):
        return None
    body = view[BATCH_OVERHEAD:]
    codec = _NONE
    if number:
        codec = codec_of(attributes)
        body = inflate(codec, body, bytes_max=rules.inflated_bytes_max)
    ts_min, ts_max, ts_max_index, null_keys, misplaced = _walk(body, count)
    oldest, newest = base_timestamp + ts_min, base_timestamp + ts_max
    if (
        misplaced
        or newest != max_timestamp
        or oldest < NO_TIMESTAMP
        or now_ms - oldest > rules.timestamp_before_max_ms
        or newest - now_ms > rules.timestamp_after_max_ms
        or (null_keys and rules.compacted)
    ):
        return None
    batch = _new(
        ValidatedBatch,
        (0, size, last_offset_delta, count, newest, ts_max_index, producer_id, producer_epoch, base_sequence,
         flags != 0, False),
    )  # fmt: skip
    return _new(ValidatedRecords, (view, [batch], codec, NO_TIMESTAMP))


def _take_apart(view: memoryview) -> list[tuple[int, int, int]]:
    entries: list[tuple[int, int, int]] = []
    try:
        for entry in iter_entries(view):
            entries.append(entry)
    except RecordError as error:
        error.before_log = not entries
        raise
    return entries


def _check_produce_version(view: memoryview, entries: list[tuple[int, int, int]], version: int) -> None:
    if version < 3:
        return
    code = ErrorCode.INVALID_RECORD
    if not entries:
        problem = "must have at least one record batch per partition"
    elif entries[0][2] != 2:
        problem = "are only allowed to contain record batches with magic version 2"
    elif version < _FIRST_VERSION_WITH_ZSTD and read_header(view).codec == Codec.ZSTD:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        problem = "are not allowed to use ZStandard compression"
    elif len(entries) > 1:
        problem = "are only allowed to contain exactly one record batch per partition"
    else:
        return
    raise RecordError(code, f"Produce requests with version {version} {problem}", before_log=True)


def _check_entry(view: memoryview, position: int, size: int, magic: int, rules: ProduceRules) -> Codec:
    """What holds for every batch or message alone; its codec."""
    if magic == 2:
        return _check_v2(view, position, read_header(view, position), rules)
    _check_size(size, rules)
    return codec_of(legacy.read_message(view, position).attributes)


def _check_v2(view: memoryview, position: int, header: BatchHeader, rules: ProduceRules) -> Codec:
    """Base offset, size, checksum and codec, in this order."""
    if header.base_offset != 0:
        raise invalid(f"the base offset of a produced batch must be 0, not {header.base_offset}")
    size = header.size_bytes
    _check_size(size, rules)
    if not crc_is_valid(view, position, size):
        raise corrupt(f"the batch does not match its checksum {header.crc:#010x}")
    return codec_of(header.attributes)


def _check_size(size: int, rules: ProduceRules) -> None:
    if size > rules.message_bytes_max:
        raise RecordError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {size} bytes, which exceeds the maximum of {rules.message_bytes_max}",
        )


def _validate_batch(
    view: memoryview, header: BatchHeader, source: Codec, rules: ProduceRules, now_ms: int
) -> ValidatedRecords:
    """The v2 batch that fills ``view``."""
    _check_header(header)
    body = view[BATCH_OVERHEAD:]
    if source is not _NONE:
        body = inflate(source, body, bytes_max=rules.inflated_bytes_max)
    ts_min, ts_max, ts_max_index, null_keys, misplaced = walk(body, header.records_count)
    oldest, newest = header.base_timestamp + ts_min, header.base_timestamp + ts_max
    target = source if rules.codec is None else rules.codec
    if (
        misplaced
        or target is not source
        or (null_keys and rules.compacted)
        or header.timestamp_type
        or oldest < NO_TIMESTAMP
        or newest > LONG_MAX
        or not _times_are_legal(oldest, newest, rules, now_ms)
    ):
        records = _decode(header, body)
        # What Kafka would not decode to check it, it calls by another name.
        is_looked_through = source is not _NONE and target is source
        kind = "PartialDefaultRecord" if is_looked_through else "DefaultRecord"
        _check_records(records, header.timestamp_type, rules, now_ms, kind)
        if misplaced or target is not source:
            return _rebuild(records, source, target, rules, now_ms, header)
        times = [record.timestamp for record in records]
        newest = max(times)
        ts_max_index = times.index(newest)
        newest = max(newest, NO_TIMESTAMP)
    if rules.timestamp_type:
        newest, ts_max_index = now_ms, 0
    if newest != header.max_timestamp or rules.timestamp_type != header.timestamp_type:
        if view.readonly:
            view = memoryview(bytearray(view))
        stamp_times(view, 0, timestamp_type=rules.timestamp_type, max_timestamp=newest)
    data: bytearray | memoryview = bytearray(view) if view.readonly else view
    batch = _describe(0, header, newest, ts_max_index)
    return ValidatedRecords(data, [batch], source, _append_time(rules, now_ms))


def _check_header(header: BatchHeader) -> None:
    count = header.records_count
    if header.last_offset_delta < 0:
        raise invalid(f"Batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if count <= 0:
        raise invalid(f"Invalid reported count for record batch: {count}")
    if count != header.last_offset_delta + 1:
        raise invalid(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}"
        )
    if header.is_control:
        raise invalid("Clients are not allowed to write control records")
    if header.producer_id >= 0:
        if header.base_sequence < 0:
            raise invalid(
                f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
            )
        if header.producer_epoch < 0:
            raise invalid(f"the batch has the producer id {header.producer_id} but no producer epoch")
    elif header.is_transactional:
        raise invalid("a transactional batch needs a producer id")


def _times_are_legal(oldest: int, newest: int, rules: ProduceRules, now_ms: int) -> bool:
    if rules.timestamp_type:
        return True
    return (
        now_ms - oldest <= rules.timestamp_before_max_ms and newest - now_ms <= rules.timestamp_after_max_ms
    )


def _decode(header: BatchHeader, body: memoryview) -> list[Record]:
    fixed = header.max_timestamp if header.timestamp_type else None
    records: list[Record] = decode_records(
        bytes(body), header.records_count, 0, header.base_timestamp, fixed, Record
    )
    return records


def _check_records(
    records: Iterable[Record],
    source_timestamp_type: int,
    rules: ProduceRules,
    now_ms: int,
    kind: str = "DefaultRecord",
) -> None:
    """What holds for single records; the slow path, taken when a batch may have a record at fault.

    Args:
        kind: what Kafka's text calls a record.
    """
    faults = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(records):
        if rules.compacted and record.key is None:
            faults.append(
                (index, f"Compacted topic cannot accept message without key in topic partition {rules.place}")
            )
        elif (problem := _time_problem(record, source_timestamp_type, rules, now_ms, kind)) is not None:
            code = ErrorCode.INVALID_TIMESTAMP
            faults.append((index, problem))
    if not faults:
        return
    if code is ErrorCode.INVALID_TIMESTAMP:
        raise RecordError(code, "One or more records have been rejected due to invalid timestamp", faults)
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in faults[:3])
    raise RecordError(
        code,
        f"One or more records have been rejected due to {len(faults)} record errors in total, and only showing "
        f"the first three errors at most: [{shown}]",
        faults,
    )


def _time_problem(
    record: Record, source_timestamp_type: int, rules: ProduceRules, now_ms: int, kind: str
) -> str | None:
    if rules.timestamp_type == 0 and record.timestamp != NO_TIMESTAMP:
        if _times_are_legal(record.timestamp, record.timestamp, rules, now_ms):
            return None
        return (
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The timestamp "
            f"should be within [{now_ms - rules.timestamp_before_max_ms}, {now_ms + rules.timestamp_after_max_ms}]"
        )
    if source_timestamp_type:
        nothing = 0 if kind == "DefaultRecord" else -1
        key, value = (nothing if part is None else len(part) for part in (record.key, record.value))
        return (
            f"Invalid timestamp type in message {kind}(offset={record.offset}, timestamp={record.timestamp}, "
            f"key={key} bytes, value={value} bytes). Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _convert_legacy(
    view: memoryview, entries: list[tuple[int, int, int]], source: Codec, rules: ProduceRules, now_ms: int
) -> ValidatedRecords:
    """Write messages of v0 or v1 as one v2 batch."""
    first_magic = entries[0][2]
    records: list[Record] = []
    for position, _, magic in entries:
        if magic != first_magic:
            raise invalid(
                f"Batch magic {magic} is not the same as the first batch's magic byte {first_magic}"
            )
        message = legacy.read_message(view, position, check_crc=False)
        begin = len(records)
        for each in legacy.deep_messages(
            view, position, bytes_max=rules.inflated_bytes_max, check_crc=source is not _NONE
        ):
            records.append(Record(len(records), each.timestamp, each.key, each.value, ()))
        # Each message is a batch of its own: the first with a fault says what is wrong.
        _check_records(records[begin:], message.timestamp_type if magic else 0, rules, now_ms)
    target = source if rules.codec is None else rules.codec
    return _rebuild(records, source, target, rules, now_ms, None)


def _rebuild(
    records: list[Record],
    source: Codec,
    target: Codec,
    rules: ProduceRules,
    now_ms: int,
    header: BatchHeader | None,
) -> ValidatedRecords:
    """Write the records as a new batch of the codec ``target`` that keeps the producer of ``header``."""
    times = [each.timestamp for each in records]
    newest = max(times)
    if min(times) < NO_TIMESTAMP:
        # Kafka fails to write such, and says UNKNOWN_SERVER_ERROR.
        raise RecordError(ErrorCode.INVALID_TIMESTAMP, f"Invalid negative timestamp {min(times)}")
    rows: list[RecordFields] = [(each.timestamp, each.key, each.value, each.headers) for each in records]
    producer = (header.producer_id, header.producer_epoch, header.base_sequence) if header else (-1, -1, -1)
    data = build_batch(
        rows,
        codec=target,
        level=rules.codec_level,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=header is not None and header.is_transactional,
    )
    _check_size(len(data), rules)  # what is stored counts too, not only what was sent
    newest_index = times.index(newest)
    if rules.timestamp_type:
        newest, newest_index = now_ms, 0
        stamp_times(data, 0, timestamp_type=1, max_timestamp=now_ms)
    batch = _describe(0, read_header(data), newest, newest_index)
    return ValidatedRecords(data, [batch], source, _append_time(rules, now_ms))


def _describe(
    position: int, header: BatchHeader, max_timestamp: int, max_timestamp_delta: int
) -> ValidatedBatch:
    attributes = header.attributes
    return _new(
        ValidatedBatch,
        (
            position,
            header.batch_length + LOG_OVERHEAD,
            header.last_offset_delta,
            header.records_count,
            max_timestamp,
            max_timestamp_delta,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            attributes & ATTRIBUTE_TRANSACTIONAL != 0,
            attributes & ATTRIBUTE_CONTROL != 0,
        ),
    )


def _append_time(rules: ProduceRules, now_ms: int) -> int:
    return now_ms if rules.timestamp_type else NO_TIMESTAMP
