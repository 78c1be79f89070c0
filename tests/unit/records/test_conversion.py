import pytest

from pkafka.errors import ErrorCode
from pkafka.records import legacy
from pkafka.records.batch import BATCH_OVERHEAD
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.conversion import MORE_THAN_FITS, down_convert, for_old_consumer
from pkafka.records.errors import RecordError
from pkafka.records.reading import iter_entries, read_batches, read_records

pytestmark = pytest.mark.usefixtures("variant")

ROWS = [(10 + index, b"k", b"v%d" % index, [("h", b"x")]) for index in range(4)]
MARKER = build_end_marker(
    committed=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1, base_offset=5
)


def converted(data: bytes | bytearray, magic: int, from_offset: int = 0) -> bytes:
    return b"".join(down_convert(data, magic, from_offset=from_offset))


def offsets(data: bytes) -> list[int]:
    return [each.offset for each in read_records(data)]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.ZSTD])
@pytest.mark.parametrize("magic", [0, 1])
def test_records_keep_what_the_old_format_has(codec: Codec, magic: int) -> None:
    data = build_batch(ROWS, codec=codec, base_offset=70)
    old = converted(data + b"cut", magic)
    assert {found for _, _, found in iter_entries(old)} == {magic}
    got = list(read_records(old))
    assert [(each.offset, each.key, each.value, each.headers) for each in got] == [
        (70 + index, b"k", row[2], ()) for index, row in enumerate(ROWS)
    ]
    assert [each.timestamp for each in got] == [row[0] if magic else -1 for row in ROWS]
    assert {header.codec for header, _ in read_batches(old)} == {codec}


def test_markers_are_dropped_and_older_sets_stay_as_they_are() -> None:
    old = legacy.build_message_set([(1, 2, b"k", b"v")], magic=0)
    assert converted(MARKER, 1) == b""
    assert converted(old + MARKER, 1) == old


def test_records_before_the_wanted_offset_are_dropped() -> None:
    data = build_batch(ROWS, base_offset=70) + build_batch(ROWS, base_offset=74)
    assert offsets(converted(data, 1, 73)) == [73, 74, 75, 76, 77]


def test_a_compressed_batch_stays_whole() -> None:
    data = build_batch(ROWS, base_offset=70, codec=Codec.GZIP)
    assert offsets(converted(data, 1, 73)) == [70, 71, 72, 73]


def test_zstd_has_no_old_form() -> None:
    with pytest.raises(RecordError) as caught:
        converted(build_batch(ROWS, codec=Codec.ZSTD), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# -- what of a range is sent --


def test_a_range_is_looked_at_beyond_its_first_batch() -> None:
    data = legacy.build_message_set([(0, 1, b"k", b"v")], magic=1) + build_batch(ROWS, base_offset=1)
    sent = for_old_consumer(data, 0, 0)
    assert {magic for _, _, magic in iter_entries(sent)} == {0}
    assert offsets(sent) == [0, 1, 2, 3, 4]


def test_no_more_is_sent_than_the_range_has_bytes() -> None:
    rows = [(10, None, b"x", ())] * 50
    data = b"".join(build_batch(rows, base_offset=50 * number) for number in range(4))
    sent = for_old_consumer(data, 1, 0)
    message = len(sent) // len(offsets(sent))
    assert len(sent) <= len(data) < len(sent) + message
    assert offsets(sent) == [*range(len(sent) // message)]


@pytest.mark.parametrize("before", [b"", bytes(MARKER)])
def test_the_first_batch_that_leaves_something_is_sent_whole(before: bytes) -> None:
    rows = [(10, None, b"x", ())] * 50
    data = before + build_batch(rows, base_offset=6) + build_batch(rows, base_offset=56)
    assert offsets(for_old_consumer(data[: len(before) + len(build_batch(rows)) + 10], 1, 6)) == [
        *range(6, 56)
    ]


def test_a_batch_that_does_not_fit_is_left_for_the_next_fetch() -> None:
    grows = [(10, None, b"x", ())] * 50
    data = build_batch(ROWS) + build_batch(grows, base_offset=4, codec=Codec.GZIP)
    sent = for_old_consumer(data[:-1], 1, 0)
    assert offsets(sent) == [0, 1, 2, 3]


def test_a_range_ends_where_it_cannot_be_converted() -> None:
    good, zstd = build_batch(ROWS), build_batch(ROWS, base_offset=4, codec=Codec.ZSTD)
    assert offsets(for_old_consumer(good + zstd + build_batch(ROWS, base_offset=8), 1, 2)) == [2, 3]
    damaged = bytearray(good)
    damaged[BATCH_OVERHEAD - 1] += 1  # one record more than there is
    assert offsets(for_old_consumer(good + damaged, 1, 0)) == [0, 1, 2, 3]
    for first, code in (
        (zstd, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (MARKER + zstd, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ):
        with pytest.raises(RecordError) as caught:
            for_old_consumer(first + good, 1, 4)
        assert caught.value.code is code


@pytest.mark.parametrize("magic", [0, 1])
def test_where_nothing_is_left_the_consumer_is_told_to_ask_for_more(magic: int) -> None:
    assert for_old_consumer(MARKER, magic, 5) == MORE_THAN_FITS
    assert for_old_consumer(build_batch(ROWS), magic, 4) == MORE_THAN_FITS


@pytest.mark.parametrize("size", [1, 16, 17, 40])
def test_part_of_a_batch_is_of_no_use(size: int) -> None:
    assert for_old_consumer(build_batch(ROWS)[:size], 1, 0) == b""
