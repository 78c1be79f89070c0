import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ErrorCode
from pkafka.records import legacy
from pkafka.records.batch import stamp_times, write_crc
from pkafka.records.builder import BatchBuilder, build_batch
from pkafka.records.columns import RecordColumns
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.errors import RecordError
from pkafka.records.reading import (
    Record,
    decode_columns_at,
    decode_run_at,
    read_batches,
    read_records,
    scan,
)
from tests.unit.records.golden import RECORDS, WRITTEN_BY_JAVA

pytestmark = pytest.mark.usefixtures("variant")

ROWS = st.lists(
    st.tuples(
        st.integers(0, 1 << 45),
        st.none() | st.binary(max_size=50),
        st.none() | st.binary(max_size=50),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=10,
)


def wanted(rows: Any, base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, time, key, value, tuple(headers))
        for index, (time, key, value, headers) in enumerate(rows)
    ]


@given(rows=ROWS, codec=st.sampled_from(Codec), base=st.integers(0, 1 << 60))
def test_what_is_built_is_read(rows: Any, codec: Codec, base: int) -> None:
    data = build_batch(rows, codec=codec, base_offset=base)
    assert list(read_records(data)) == wanted(rows, base)


@pytest.mark.parametrize(("codec", "magic"), WRITTEN_BY_JAVA)
def test_what_java_wrote_is_read(codec: Codec, magic: int) -> None:
    data = bytes.fromhex(WRITTEN_BY_JAVA[codec, magic])
    expected = wanted(RECORDS, 42)
    if magic < 2:
        expected = [each._replace(headers=(), timestamp=each.timestamp if magic else -1) for each in expected]
    assert list(read_records(data)) == expected
    if codec is Codec.NONE and magic == 2:
        assert build_batch(
            RECORDS, base_offset=42, producer_id=7, producer_epoch=1, base_sequence=5, transactional=True
        ) == bytearray(data)
    if codec is Codec.NONE and magic < 2:
        rows = [(42 + index, time, key, value) for index, (time, key, value, _) in enumerate(RECORDS)]
        assert legacy.build_message_set(rows, magic=magic) == data


@pytest.mark.parametrize(("codec", "magic"), WRITTEN_BY_JAVA)
def test_no_flipped_byte_is_overlooked_or_escapes(codec: Codec, magic: int) -> None:
    data = bytearray.fromhex(WRITTEN_BY_JAVA[codec, magic])
    whole = list(read_records(data))
    for place in range(len(data)):
        data[place] ^= 0x10
        try:
            read = list(read_records(data))
        except RecordError as problem:
            code: ErrorCode | None = problem.code
        else:
            code = None
            if (
                magic == 2
            ):  # offset, length and leader epoch lie outside the checksum; so do old offsets, of each message
                assert place < 17
                assert read != whole or 12 <= place < 16
        assert code in (None, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
        data[place] ^= 0x10


@pytest.mark.parametrize(("codec", "magic"), WRITTEN_BY_JAVA)
def test_a_cut_set_yields_its_whole_batches(codec: Codec, magic: int) -> None:
    data = bytes.fromhex(WRITTEN_BY_JAVA[codec, magic])
    first = build_batch([(1, b"k", b"v", ())])
    for end in range(len(data)):
        read = list(read_records(first + data[:end]))
        assert read[0] == Record(0, 1, b"k", b"v", ())
        assert codec is Codec.NONE and magic < 2 or len(read) == 1  # noqa: RUF021


def test_reading_begins_at_the_offset_asked_for_and_skips_markers() -> None:
    marker = build_end_marker(
        committed=False, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1, base_offset=3
    )
    data = (
        build_batch([(1, None, b"a", ())] * 3)
        + marker
        + build_batch([(1, None, b"b", ())] * 2, base_offset=4)
    )
    assert [each.offset for each in read_records(data, from_offset=2)] == [2, 4, 5]
    assert [header.is_control for header, _ in read_batches(data)] == [False, True, False]
    assert [len(records) for _, records in read_batches(data, from_offset=3)] == [1, 2]


def test_checksums_are_looked_at_only_when_asked() -> None:
    data = build_batch([(1, None, b"value", ())])
    data[-3] ^= 1
    with pytest.raises(RecordError):
        list(read_records(data))
    assert len(list(read_records(data, check_crc=False))) == 1


def test_log_append_time_is_the_time_of_all() -> None:
    data = build_batch([(5, None, b"a", ()), (9, None, b"b", ())], timestamp_type=1)
    assert [each.timestamp for each in read_records(data)] == [9, 9]
    rows = [(0, 5, None, b"a"), (1, 9, None, b"b")]
    old = legacy.build_message_set(rows, magic=1, codec=Codec.GZIP, timestamp_type=1)
    assert [each.timestamp for each in read_records(old)] == [9, 9]


def test_a_hostile_batch_is_an_error_and_never_another() -> None:
    chance = random.Random(5)
    good = build_batch([(1, b"k", b"v" * 20, [("a", b"b")])] * 3, codec=Codec.NONE)
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(17, len(bad))] = chance.randrange(256)
        write_crc(bad, 0, len(bad))
        try:
            list(read_records(bad))
        except RecordError as problem:
            code: ErrorCode | None = problem.code
        else:
            code = None
        assert code in (None, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_an_impossible_base_offset_is_corrupt() -> None:
    for base in (-5, (1 << 63) - 1):
        with pytest.raises(RecordError):
            list(read_records(build_batch([(1, None, None, ())], base_offset=base), from_offset=-10))


def test_header_keys_that_are_no_utf8_are_replaced_as_in_java() -> None:
    data = build_batch([(1, None, None, [("ab", b"c")])])
    place = bytes(data).index(b"ab")
    data[place] = 0xFF
    write_crc(data, 0, len(data))
    assert next(read_records(data)).headers == (("�b", b"c"),)


def test_a_builder_fills_up_to_its_size_and_can_be_built_again() -> None:
    builder = BatchBuilder(300, codec=Codec.NONE)
    taken = 0
    while builder.append(1000 - taken, b"key", b"v" * 20, [("h", b"x")]):
        taken += 1
    assert taken == builder.count == 7
    data = builder.build(producer_id=1, producer_epoch=0, base_sequence=4)
    assert len(data) == builder.size_bytes <= 300
    assert [each.timestamp for each in read_records(data)] == [1000 - index for index in range(7)]
    again = builder.build(producer_id=1, producer_epoch=3, base_sequence=9)
    assert list(read_records(again)) == list(read_records(data))
    assert builder.max_timestamp == 1000


def test_one_record_larger_than_the_batch_is_taken_alone() -> None:
    builder = BatchBuilder(100)
    assert builder.append(1, None, b"v" * 500)
    assert not builder.append(1, None, b"v")
    assert len(list(read_records(builder.build()))) == 1


def test_nothing_makes_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])
    with pytest.raises(ValueError, match="at least one"):
        BatchBuilder(100).build()


def columns_of(data: Any, from_offset: int = 0, *, check_crc: bool = True) -> list[RecordColumns]:
    view = memoryview(data)
    batches, damage = scan(view)
    if damage is not None:
        raise damage
    found = [
        decode_columns_at(view, position, header, check_crc=check_crc, from_offset=from_offset)
        for position, header in batches
    ]
    return [columns for header, columns in found if columns is not None and not header.is_control]


def in_columns(data: Any, from_offset: int = 0) -> list[Record]:
    return [Record(*row) for columns in columns_of(data, from_offset) for row in columns.rows()]


@given(rows=ROWS, codec=st.sampled_from(Codec), base=st.integers(0, 1 << 60), skipped=st.integers(0, 12))
def test_columns_hold_what_records_hold(rows: Any, codec: Codec, base: int, skipped: int) -> None:
    data = build_batch(rows, codec=codec, base_offset=base)
    assert in_columns(data, base + skipped) == wanted(rows, base)[skipped:]
    for columns in columns_of(data):
        assert len(columns) == len(columns.keys) == len(columns.headers) == len(rows)
        assert list(columns.part(1, 3).rows()) == list(columns.rows())[1:3]


@pytest.mark.parametrize(("codec", "magic"), WRITTEN_BY_JAVA)
def test_columns_of_what_java_wrote(codec: Codec, magic: int) -> None:
    data = bytes.fromhex(WRITTEN_BY_JAVA[codec, magic])
    assert in_columns(data) == list(read_records(data))
    assert in_columns(data, 43) == list(read_records(data, from_offset=43))


def test_columns_keep_the_holes_that_compaction_leaves_and_one_time_of_appending() -> None:
    holes = build_batch([(5, None, b"value", ())] * 4, base_offset=10)
    record_bytes = (len(holes) - 61) // 4
    for index, delta in enumerate((0, 3, 4, 9)):
        holes[61 + index * record_bytes + 3] = delta << 1
    holes[23:27] = (9).to_bytes(4, "big")
    write_crc(holes, 0, len(holes))
    assert in_columns(holes) == list(read_records(holes))
    (columns,) = columns_of(holes)
    assert list(columns.offsets) == [10, 13, 14, 19]
    assert in_columns(holes, 14) == list(read_records(holes, from_offset=14))
    stamped = build_batch([(1, None, b"a", ()), (2, None, b"b", ())])
    stamp_times(stamped, 0, timestamp_type=1, max_timestamp=99)
    (columns,) = columns_of(stamped)
    assert list(columns.timestamps) == [99, 99]


def test_a_scan_finds_whole_batches_and_says_what_is_wrong_behind_them() -> None:
    one, two = build_batch([(1, None, b"a", ())]), build_batch([(1, None, b"b", ())] * 2, base_offset=1)
    old = legacy.build_message_set([(3, 5, None, b"old")], magic=1)
    data = bytes(one + two + old)
    batches, damage = scan(data)
    assert damage is None
    assert [position for position, _ in batches] == [0, len(one), len(one) + len(two)]
    assert [header and header.records_count for _, header in batches] == [1, 2, None]
    for end in range(len(one), len(one) + len(two)):
        assert scan(data[:end]) == (batches[:1], None)
    for bad in (b"\0" * 16 + b"\7" + b"\0" * 60, b"\0" * 11 + b"\x20" + b"\0" * 4 + b"\2" + b"\0" * 60):
        found, damage = scan(bytes(one) + bad)
        assert found == batches[:1]
        assert isinstance(damage, RecordError)


def test_columns_of_a_damaged_batch_are_refused() -> None:
    data = build_batch([(1, None, b"value", ())])
    data[-2] ^= 1
    with pytest.raises(RecordError):
        in_columns(data)
    (columns,) = columns_of(data, check_crc=False)
    assert len(columns) == 1
    data[57:61] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(RecordError, match="cannot be"):
        columns_of(data, check_crc=False)


def runs_of(data: Any, *, check_crc: bool = True) -> list[int]:
    """How many batches go together, run by run; 1 for one that stands alone. What they hold is compared on the way."""
    view = memoryview(data)
    batches, _ = scan(view)
    found: list[int] = []
    index = 0
    while index < len(batches):
        behind, run = decode_run_at(view, batches, index, check_crc=check_crc)
        if run is None:
            assert behind == index
            behind += 1
        else:
            size = batches[behind][0] if behind < len(batches) else len(view)
            alone = columns_of(view[batches[index][0] : size], check_crc=check_crc)
            assert list(run.rows()) == [row for columns in alone for row in columns.rows()]
        found.append(behind - index)
        index = behind
    return found


def batch_at(offset: int, count: int = 2, **keywords: Any) -> bytearray:
    return build_batch([(offset, b"k", b"v", [("h", b"x")])] * count, base_offset=offset, **keywords)


def test_plain_batches_in_a_row_make_one_run_up_to_one_that_differs() -> None:
    plain = bytes(batch_at(0) + batch_at(2, 3) + batch_at(5))
    assert runs_of(plain) == [3]
    assert runs_of(plain + bytes(batch_at(8))) == [3, 1]  # one is missing between them
    squeezed = bytes(batch_at(7, codec=Codec.GZIP))
    assert runs_of(plain + squeezed + bytes(batch_at(9) + batch_at(11))) == [3, 1, 2]
    stamped = batch_at(7)
    stamp_times(stamped, 0, timestamp_type=1, max_timestamp=99)
    assert runs_of(plain + bytes(stamped)) == [3, 1]
    of_another_leader = batch_at(7)
    of_another_leader[12:16] = (4).to_bytes(4, "big")
    assert runs_of(plain + bytes(of_another_leader) * 2) == [3, 1, 1]
    assert runs_of(bytes(legacy.build_message_set([(0, 5, None, b"old")], magic=1))) == [1]


def test_a_run_ends_before_a_damaged_batch_and_at_a_size() -> None:
    damaged = bytearray(batch_at(0) + batch_at(2) + batch_at(4))
    damaged[-3] ^= 1
    view = memoryview(damaged)
    batches, _ = scan(view)
    behind, run = decode_run_at(view, batches, 0)
    assert behind == 2
    assert run is not None
    assert list(run.offsets) == [0, 1, 2, 3]
    crc_is_right = bytearray(batch_at(4))
    crc_is_right[61] ^= 2  # the length of the first record
    write_crc(crc_is_right, 0, len(crc_is_right))
    view = memoryview(bytes(batch_at(0) + batch_at(2)) + bytes(crc_is_right))
    batches, _ = scan(view)
    assert decode_run_at(view, batches, 0) == (0, None)  # one by one those before it are found
    large = b"".join(
        bytes(build_batch([(1, None, bytes(100_000), ())], base_offset=each)) for each in range(7)
    )
    assert runs_of(large) == [2, 2, 2, 1]


def test_a_run_of_batches_with_holes_is_decoded_one_by_one() -> None:
    holes = batch_at(4)
    record_bytes = (len(holes) - 61) // 2
    holes[61 + record_bytes + 3] = 9 << 1
    write_crc(holes, 0, len(holes))  # it still says that its last offset is the second one
    assert runs_of(bytes(batch_at(2)) + bytes(holes)) == [1, 1]


@given(
    st.lists(st.tuples(ROWS, st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4])), min_size=1, max_size=6)
)
def test_runs_hold_what_their_batches_hold(parts: Any) -> None:
    data, offset = b"", 0
    for rows, codec in parts:
        data += bytes(build_batch(rows, codec=codec, base_offset=offset))
        offset += len(rows)
    assert sum(runs_of(data)) == len(parts)
