import pytest

from pkafka.errors import ErrorCode
from pkafka.records import legacy
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.conversion import down_convert
from pkafka.records.errors import RecordError
from pkafka.records.reading import iter_entries, read_batches, read_records

pytestmark = pytest.mark.usefixtures("variant")

ROWS = [(10 + index, b"k", b"v%d" % index, [("h", b"x")]) for index in range(4)]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.ZSTD])
@pytest.mark.parametrize("magic", [0, 1])
def test_records_keep_what_the_old_format_has(codec: Codec, magic: int) -> None:
    data = build_batch(ROWS, codec=codec, base_offset=70)
    converted = down_convert(data + b"cut", magic)
    assert {found for _, _, found in iter_entries(converted)} == {magic}
    got = list(read_records(converted))
    assert [(each.offset, each.key, each.value, each.headers) for each in got] == [
        (70 + index, b"k", row[2], ()) for index, row in enumerate(ROWS)
    ]
    assert [each.timestamp for each in got] == [row[0] if magic else -1 for row in ROWS]
    assert {header.codec for header, _ in read_batches(converted)} == {codec}


def test_markers_are_dropped_and_older_sets_stay_as_they_are() -> None:
    marker = build_end_marker(
        committed=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1, base_offset=5
    )
    old = legacy.build_message_set([(1, 2, b"k", b"v")], magic=0)
    assert down_convert(marker, 1) == b""
    assert down_convert(old + marker, 1) == old
    assert down_convert(old + marker, 2) == old + marker


def test_records_before_the_wanted_offset_are_dropped() -> None:
    data = build_batch(ROWS, base_offset=70) + build_batch(ROWS, base_offset=74)
    assert [each.offset for each in read_records(down_convert(data, 1, from_offset=73))] == [
        73,
        74,
        75,
        76,
        77,
    ]


def test_zstd_has_no_old_form() -> None:
    with pytest.raises(RecordError) as caught:
        down_convert(build_batch(ROWS, codec=Codec.ZSTD), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
