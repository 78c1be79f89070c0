"""The rules for produced record sets; tests/interop/test_records_java.py asks Kafka's own validator the same."""

import tracemalloc

import pytest

from pkafka.errors import ErrorCode
from pkafka.records import legacy
from pkafka.records.batch import crc_is_valid, read_header, write_crc
from pkafka.records.builder import RecordFields, build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.errors import RecordError
from pkafka.records.reading import read_records
from pkafka.records.validation import ProduceRules, ValidatedRecords, build_validated, trust, validate

pytestmark = pytest.mark.usefixtures("variant")

NOW = 1_700_000_000_000
ROWS: list[RecordFields] = [
    (NOW, b"k", b"v", ()),
    (NOW + 5, None, b"w", [("h", b"x")]),
    (NOW + 5, b"k", None, ()),
]
REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def accepted(data: bytes | bytearray | memoryview, rules: ProduceRules = ProduceRules()) -> ValidatedRecords:  # noqa: B008
    result = validate(data, rules, now_ms=NOW)
    for batch in result.batches:
        header = read_header(result.data, batch.position)
        assert crc_is_valid(result.data, batch.position, batch.size)
        assert header.size_bytes == batch.size
        assert (header.max_timestamp, header.records_count) == (batch.max_timestamp, batch.records_count)
        assert not memoryview(result.data).readonly
    return result


def refused(data: bytes | bytearray, rules: ProduceRules = ProduceRules()) -> RecordError:  # noqa: B008
    before = bytes(data)
    with pytest.raises(RecordError) as caught:
        validate(data, rules, now_ms=NOW)
    assert bytes(data) == before  # a refused set is not touched
    return caught.value


def forged(data: bytearray, position: int, content: bytes) -> bytearray:
    copy = bytearray(data)
    copy[position : position + len(content)] = content
    write_crc(copy, 0, len(copy))
    return copy


@pytest.mark.parametrize("codec", list(Codec))
def test_a_good_batch_stays_in_its_memory(codec: Codec) -> None:
    data = build_batch(ROWS, codec=codec, producer_id=8, producer_epoch=1, base_sequence=30)
    before = bytes(data)
    result = accepted(memoryview(data))
    assert isinstance(result.data, memoryview)
    assert result.data.obj is data
    assert data == before
    assert result.source_codec is codec
    assert result.log_append_time_ms == -1
    [batch] = result.batches
    assert batch == (0, len(data), 2, 3, NOW + 5, 1, 8, 1, 30, False, False)


def test_a_read_only_set_is_copied() -> None:
    data = bytes(build_batch(ROWS))
    result = accepted(data)
    assert bytes(result.data) == data


def test_a_wrong_max_timestamp_is_put_right() -> None:
    data = forged(build_batch(ROWS), 35, (NOW + 99).to_bytes(8, "big"))
    assert accepted(data).batches[0].max_timestamp == NOW + 5
    assert accepted(bytes(forged(build_batch(ROWS), 35, bytes(8)))).batches[0].max_timestamp == NOW + 5


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_log_append_time_is_stamped(codec: Codec, magic: int) -> None:
    if magic == 2:
        data = bytes(build_batch(ROWS, codec=codec))
    elif codec is Codec.ZSTD:
        return
    else:
        data = legacy.build_message_set([(0, 1, b"k", b"v"), (1, 2, b"k", b"w")], magic=magic, codec=codec)
    result = accepted(data, ProduceRules(timestamp_type=1, produce_version=2))
    assert result.log_append_time_ms == NOW
    assert result.batches[0].max_timestamp_delta == 0
    assert read_header(result.data).timestamp_type == 1
    assert {each.timestamp for each in read_records(result.data)} == {NOW}


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_the_codec_of_the_topic_wins(source: Codec, target: Codec) -> None:
    data = build_batch(
        ROWS, codec=source, producer_id=8, producer_epoch=1, base_sequence=30, transactional=True
    )
    result = accepted(data, ProduceRules(codec=target))
    header = read_header(result.data)
    assert (header.codec, result.source_codec) == (target, source)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 1, 30)
    assert result.batches[0].is_transactional
    assert list(read_records(result.data)) == list(read_records(data))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_messages_become_one_v2_batch(magic: int, codec: Codec) -> None:
    rows = [(7 + index, NOW + index, b"k", b"v%d" % index) for index in range(5)]
    result = accepted(
        legacy.build_message_set(rows, magic=magic, codec=codec), ProduceRules(produce_version=2)
    )
    header = read_header(result.data)
    assert (header.records_count, header.codec, header.producer_id) == (5, codec, -1)
    assert [(each.offset, each.timestamp, each.value) for each in read_records(result.data)] == [
        (index, NOW + index if magic else -1, b"v%d" % index) for index in range(5)
    ]


def test_an_old_request_without_a_message_is_nothing() -> None:
    assert accepted(b"", ProduceRules(produce_version=2)).batches == []
    assert accepted(b"cut", ProduceRules(produce_version=0)).batches == []


def test_bytes_behind_the_batch_that_make_none_are_left_out() -> None:
    data = build_batch(ROWS)
    result = accepted(data + b"cut")
    assert bytes(result.data) == data


GOOD = build_batch(ROWS, producer_id=3, producer_epoch=0, base_sequence=0)
KEYED = build_batch(ROWS[:1])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (legacy.build_message_set([(0, 0, b"k", b"v")], magic=1), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 7, b"\x01"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 16, b"\x7f"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 8, b"\x00\x00\x00\x30"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 8, b"\xff\xff\xff\xff"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 8, b"\x7f\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 23, b"\x00\x00\x00\x09"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 23, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 57, b"\x00\x00\x00\x00"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 57, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (forged(forged(GOOD, 57, b"\x7f\xff\xff\xff"), 23, b"\x7f\xff\xff\xfe"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 21, b"\x00\x20"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 21, b"\x00\x05"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 21, b"\x00\x07"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 21, b"\x00\x04"), ErrorCode.CORRUPT_MESSAGE),
        (forged(GOOD, 51, b"\xff\xfb"), ErrorCode.INVALID_RECORD),
        (forged(GOOD, 53, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (build_batch(ROWS, transactional=True), ErrorCode.INVALID_RECORD),
        (GOOD[:-1] + b"\x01", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_bad_sets_are_refused_with_kafka_s_code(data: bytearray, code: ErrorCode) -> None:
    assert refused(data).code is code


def test_size_counts_before_the_checksum_and_after_the_rewriting() -> None:
    damaged = bytearray(GOOD)
    damaged[-1] ^= 1
    assert refused(damaged, ProduceRules(message_bytes_max=len(GOOD) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE
    packed = build_batch([(NOW, b"k", b"v" * 5000, ())], codec=Codec.GZIP)
    rules = ProduceRules(message_bytes_max=1000)
    assert accepted(packed, rules).batches[0].size < 1000
    assert refused(packed, rules._replace(codec=Codec.NONE)).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("version", "fine"), [(3, False), (6, False), (7, True)])
def test_zstd_needs_produce_v7(version: int, fine: bool) -> None:
    data = build_batch(ROWS, codec=Codec.ZSTD)
    rules = ProduceRules(produce_version=version)
    if fine:
        accepted(data, rules)
    else:
        assert refused(data, rules).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_compacted_topic_names_the_records_without_a_key() -> None:
    error = refused(build_batch(ROWS), ProduceRules(compacted=True))
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1]
    accepted(KEYED, ProduceRules(compacted=True))


@pytest.mark.parametrize("codec", list(Codec))
def test_times_outside_the_limits_name_their_records(codec: Codec) -> None:
    rows: list[RecordFields] = [
        (time, b"k", b"v", ()) for time in (NOW, NOW - 11, NOW + 21, -1, NOW - 10, NOW + 20)
    ]
    error = refused(
        build_batch(rows, codec=codec), ProduceRules(timestamp_before_max_ms=10, timestamp_after_max_ms=20)
    )
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1, 2]
    accepted(build_batch(rows, codec=codec), ProduceRules(timestamp_type=1, timestamp_after_max_ms=20))


@pytest.mark.parametrize("time", [0, -1, -(1 << 63), (1 << 63) - 1, 9_214_000_000_000_000])
@pytest.mark.parametrize("codec", [None, Codec.GZIP])
def test_strange_times_never_overflow(time: int, codec: Codec | None) -> None:
    rows: list[RecordFields] = [(NOW, b"k", b"v", ()), (time, b"k", b"v", ())]
    try:
        data = build_batch(rows)
    except (OverflowError, ValueError):
        return
    try:
        validate(data, ProduceRules(codec=codec), now_ms=NOW)
    except RecordError as problem:
        assert problem.code is ErrorCode.INVALID_TIMESTAMP  # noqa: PT017
    limits = ProduceRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
    if time != -1:
        assert refused(data, limits).code is ErrorCode.INVALID_TIMESTAMP


def test_a_producer_may_not_claim_log_append_time() -> None:
    data = build_batch(ROWS, timestamp_type=1)
    assert refused(data, ProduceRules(timestamp_type=1)).code is ErrorCode.INVALID_TIMESTAMP
    assert read_header(accepted(data).data).timestamp_type == 0


def test_offsets_out_of_sequence_are_numbered_anew() -> None:
    data = build_batch([(NOW, b"k", b"v", ()), (NOW, b"k", b"w", ())])
    wrong = forged(data, len(data) - 6, b"\x08")
    assert [each.offset for each in read_records(wrong)] == [0, 4]
    assert [each.offset for each in read_records(accepted(wrong).data)] == [0, 1]


@pytest.mark.parametrize("codec", list(Codec))
def test_no_flipped_byte_is_accepted(codec: Codec) -> None:
    data = build_batch(ROWS, codec=codec)
    for place in range(len(data)):
        if 12 <= place < 16:
            continue  # the leader epoch, which the log overwrites
        bad = bytearray(data)
        bad[place] ^= 0x08
        assert refused(bad).code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.MESSAGE_TOO_LARGE,
        )


@pytest.mark.parametrize("codec", list(Codec))
def test_no_cut_batch_is_accepted(codec: Codec) -> None:
    data = build_batch(ROWS, codec=codec)
    for end in range(len(data)):
        assert refused(data[:end]).code is ErrorCode.INVALID_RECORD
        cut = bytearray(data[:end])
        if end > 61:
            cut[8:12] = (end - 12).to_bytes(4, "big")
            write_crc(cut, 0, end)
            assert refused(cut).code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("codec", REAL)
def test_a_bomb_costs_no_more_than_the_cap(codec: Codec) -> None:
    data = build_batch([(NOW, b"k", bytes(32 << 20), ())], codec=codec)
    rules = ProduceRules(inflated_bytes_max=1 << 20, message_bytes_max=1 << 30)
    tracemalloc.start()
    try:
        assert refused(data, rules).code is ErrorCode.CORRUPT_MESSAGE
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_own_batches_are_taken_without_the_rules_for_clients() -> None:
    marker = build_end_marker(
        committed=True, producer_id=1, producer_epoch=2, coordinator_epoch=3, timestamp_ms=NOW
    )
    result = trust(marker + build_batch(ROWS))
    assert [batch.is_control for batch in result.batches] == [True, False]
    assert result.batches[1].position == len(marker)
    with pytest.raises(RecordError):
        trust(marker + b"x")


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    "rules",
    [
        ProduceRules(),
        ProduceRules(compacted=True),
        ProduceRules(codec=Codec.NONE),
        ProduceRules(codec=Codec.LZ4),
        ProduceRules(timestamp_type=1),
        ProduceRules(message_bytes_max=80),
        ProduceRules(timestamp_before_max_ms=3),
        ProduceRules(timestamp_after_max_ms=3),
    ],
)
@pytest.mark.parametrize(
    "records",
    [
        [(NOW, b"k", b"v", ())],
        [(NOW, b"k", b"v", ()), (NOW, b"l", None, [("h", b"x")])],
        [(NOW, b"k", b"v", ()), (NOW + 1, b"l", None, ())],
        [(NOW - 5, b"k", b"v", ())],
        [(NOW + 5, b"k", b"v", ())],
    ],
)
def test_own_records_are_built_as_they_would_be_validated(
    records: list[RecordFields], rules: ProduceRules, codec: Codec
) -> None:
    batch = build_batch(records, codec=codec)
    built: object
    try:
        result = build_validated(records, rules, codec=codec, now_ms=NOW)
        built = bytes(result.data), result[1:]
    except RecordError as error:
        built = error.code, error.message, error.record_errors
    assert built == outcome(batch, rules)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize(
    "rules",
    [
        ProduceRules(),
        ProduceRules(compacted=True),
        ProduceRules(timestamp_type=1),
        ProduceRules(timestamp_before_max_ms=3, timestamp_after_max_ms=3),
        ProduceRules(codec=Codec.NONE, message_bytes_max=80, produce_version=3),
        ProduceRules(codec=Codec.ZSTD, produce_version=0),
        ProduceRules(codec=Codec.LZ4, produce_version=6),
        ProduceRules(inflated_bytes_max=15),
    ],
)
def test_the_shortcut_for_ordinary_batches_says_what_the_long_way_says(
    rules: ProduceRules, transactional: bool, codec: Codec
) -> None:
    # The shortcut is for writable memory only, so the same bytes read-only take the long way.
    data = build_batch(
        [(NOW, b"k", b"v", ()), (NOW + 2, b"k", b"w", ())],
        producer_id=8,
        producer_epoch=1,
        base_sequence=30,
        transactional=transactional,
        codec=codec,
    )
    for place in range(len(data)):
        for flip in (0, 0x01, 0x03, 0x10, 0x80):
            forgery = bytearray(data)
            forgery[place] ^= flip
            if not 17 <= place < 21:
                write_crc(forgery, 0, len(forgery))
            assert outcome(bytearray(forgery), rules) == outcome(bytes(forgery), rules)


def outcome(data: bytes | bytearray, rules: ProduceRules) -> object:
    try:
        result = validate(data, rules, now_ms=NOW)
    except RecordError as error:
        return error.code, error.message, error.record_errors
    return bytes(result.data), result[1:]


# -- what is said about single records, and times before all time --


@pytest.mark.parametrize(
    ("codec", "kind", "nothing"), [(Codec.NONE, "DefaultRecord", 0), (Codec.GZIP, "PartialDefaultRecord", -1)]
)
def test_texts_about_records_name_what_kafkas_name(codec: Codec, kind: str, nothing: int) -> None:
    data = build_batch([(7, None, b"v", ()), (8, b"k", None, ())], timestamp_type=1, codec=codec)
    rules = ProduceRules(compacted=True, timestamp_type=1, place="t-3")
    with pytest.raises(RecordError) as caught:
        validate(data, rules, now_ms=10)
    assert caught.value.record_errors == [
        (0, "Compacted topic cannot accept message without key in topic partition t-3"),
        (
            1,
            f"Invalid timestamp type in message {kind}(offset=1, timestamp=8, key=1 bytes, value={nothing} bytes). "
            "Producer should not set timestamp type to LogAppendTime.",
        ),
    ]
    assert caught.value.is_told


def test_the_text_about_many_records_shows_three() -> None:
    data = build_batch([(7, None, b"v", ())] * 5)
    with pytest.raises(RecordError) as caught:
        validate(data, ProduceRules(compacted=True, place="t-0"), now_ms=10)
    assert len(caught.value.record_errors) == 5
    assert caught.value.message.count("RecordError(batchIndex=") == 3
    assert "due to 5 record errors in total" in caught.value.message


def test_no_maximum_timestamp_is_below_that_of_no_timestamp() -> None:
    data = build_batch([(-5, b"k", b"v", ()), (-7, b"k", b"v", ())])
    [stored] = validate(data, ProduceRules(), now_ms=10).batches
    assert (stored.max_timestamp, read_header(data).max_timestamp) == (-1, -1)


def test_times_before_all_time_are_not_written_anew() -> None:
    data = build_batch([(-5, b"k", b"v", ())])
    with pytest.raises(RecordError) as caught:
        validate(data, ProduceRules(codec=Codec.GZIP), now_ms=10)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("data", "is_told", "before_log"),
    [
        (bytes(16) + b"\3" + bytes(60), True, True),  # what cannot be taken apart
        (build_batch([(7, b"k", b"v", ())]) + bytes(30), False, False),  # nor what follows
        (b"", False, True),
        (build_batch([(7, b"k", b"v", ())])[:-1] + b"?", False, False),  # a wrong checksum
    ],
)
def test_what_a_producer_is_told(data: bytes, is_told: bool, before_log: bool) -> None:
    with pytest.raises(RecordError) as caught:
        validate(bytearray(data), ProduceRules(), now_ms=10)
    assert (caught.value.is_told, caught.value.before_log) == (is_told, before_log)
