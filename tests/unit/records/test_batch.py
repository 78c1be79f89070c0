import pytest

from pkafka.errors import ErrorCode
from pkafka.records import batch
from pkafka.records.builder import build_batch
from pkafka.records.errors import RecordError
from pkafka.records.validation import ProduceRules, validate

pytestmark = pytest.mark.usefixtures("variant")


def test_header_of_a_built_batch_says_what_went_in() -> None:
    data = build_batch(
        [(1000, b"k", b"v", ()), (1005, None, b"w", [("h", None)])],
        producer_id=7,
        producer_epoch=2,
        base_sequence=9,
    )
    header = batch.read_header(data)
    assert header.records_count == 2
    assert header.last_offset_delta == 1
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1005)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 9)
    assert header.last_sequence == 10
    assert header.size_bytes == len(data)
    assert batch.crc_is_valid(data, 0, len(data))


def test_a_plain_batch_is_validated_in_place() -> None:
    data = build_batch([(1000 + index % 3, b"k", b"v" * index, ()) for index in range(300)])
    result = validate(data, ProduceRules(), now_ms=5000)
    assert result.batches[0].max_timestamp == 1002
    assert result.batches[0].max_timestamp_delta == 2
    assert result.data.obj is data  # type: ignore[union-attr]


def test_stamping_leaves_the_checksum_right() -> None:
    data = build_batch([(1000, None, b"v", ())])
    batch.stamp(data, 0, len(data), base_offset=77, leader_epoch=5)
    header = batch.read_header(data)
    assert (header.base_offset, header.partition_leader_epoch, header.next_offset) == (77, 5, 78)
    assert batch.crc_is_valid(data, 0, len(data))


def test_a_flipped_bit_is_corrupt() -> None:
    data = build_batch([(1000, None, b"v", ())])
    data[-2] ^= 1
    with pytest.raises(RecordError) as caught:
        validate(data, ProduceRules(), now_ms=5000)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_headers_are_stepped_over_and_a_cut_batch_is_left_out() -> None:
    one = build_batch([(1, b"k", b"v", ())] * 3, base_offset=5)
    two = build_batch([(1, b"k", b"v", ())] * 2, base_offset=8)
    whole = bytes(one + two)
    for end in range(len(whole) + 1):
        found = list(batch.iter_headers(whole, 0, end))
        assert len(found) == (end >= len(one)) + (end >= len(whole))
    assert [(position, header.base_offset) for position, header in found] == [(0, 5), (len(one), 8)]
    assert batch.offset_range(whole + b"cut") == (5, 10, len(whole))
    assert batch.offset_range(whole[:30]) is None


@pytest.mark.parametrize(
    ("position", "content"),
    [(16, b"\x01"), (16, b"\x03"), (8, b"\x00\x00\x00\x30"), (8, b"\xff\xff\xff\xff")],
)
def test_an_impossible_header_is_corrupt(position: int, content: bytes) -> None:
    data = build_batch([(1, None, b"v", ())])
    data[position : position + len(content)] = content
    with pytest.raises(RecordError) as caught:
        list(batch.iter_headers(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_last_sequence_wraps_around() -> None:
    data = build_batch(
        [(1, None, b"v", ())] * 3, producer_id=1, producer_epoch=0, base_sequence=(1 << 31) - 2
    )
    assert batch.read_header(data).last_sequence == 0
    assert batch.read_header(build_batch([(1, None, b"v", ())])).last_sequence == -1


def test_attributes_are_told_apart() -> None:
    header = batch.read_header(
        build_batch([(1, None, b"v", ())], transactional=True, control=True, timestamp_type=1, producer_id=1)
    )
    assert (header.is_transactional, header.is_control, header.timestamp_type) == (True, True, 1)
    assert not header.has_delete_horizon
    assert header.codec == 0


def test_a_checksum_beyond_the_buffer_is_not_valid() -> None:
    data = build_batch([(1, None, b"v", ())])
    assert not batch.crc_is_valid(data, 0, len(data) + 1)
    assert not batch.crc_is_valid(data, 0, 60)
