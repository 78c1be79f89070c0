"""Batches that are read as bytes and sent on as bytes."""

from typing import Any

import pytest

from pkafka.clients.consumer import RawBatch
from pkafka.clients.consumer.fetched import Fetched
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.records.batch import read_header, write_crc
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.reading import read_records
from tests.unit.clients.test_fetcher import T0, consuming
from tests.unit.clients.test_fetcher import Logs as FetchedLogs
from tests.unit.clients.test_producer_sending import error, running

HEADERS = (("h", b"1"), ("n", None))


def batch(base: int = 0, count: int = 10, codec: Codec = Codec.ZSTD, **more: Any) -> bytes:
    records = [(1_000 + each, b"k%d" % each, b"%d" % (base + each), HEADERS) for each in range(count)]
    return bytes(build_batch(records, codec=codec, base_offset=base, **more))


def without_middle(base: int) -> bytes:
    """What compaction leaves of three records: the first and the last."""
    whole = bytearray(build_batch([(5, b"a", b"0", ()), (5, b"c", b"2", ())], base_offset=base))
    first_end = 61 + 1 + whole[61] // 2
    delta_at = first_end + 3
    assert whole[delta_at] == 2, "the second record's offset delta is 1"
    whole[delta_at] = 4
    whole[23:27] = (2).to_bytes(4, "big")
    write_crc(whole, 0, len(whole))
    return bytes(whole)


def all_of(fetched: Fetched) -> list[RawBatch]:
    found = []
    while (each := fetched.take_batch(1)) is not None:
        found.append(each)
    return found


def test_batches_come_as_the_bytes_that_they_are() -> None:
    data = batch(0) + batch(10, codec=Codec.NONE)
    found = all_of(Fetched(T0, data, 0, check_crcs=True))
    assert b"".join(bytes(each.data) for each in found) == data
    assert [(each.first_offset, each.next_offset, each.record_count) for each in found] == [
        (0, 10, 10),
        (10, 20, 10),
    ]
    assert not any(each.was_encoded_again for each in found)


@pytest.mark.parametrize(
    ("data", "start"),
    [(batch(0), 4), (without_middle(0), 0), (batch(0, timestamp_type=1), 0)],
    ids=["begins before the position", "has holes", "has the broker's time"],
)
def test_what_cannot_be_sent_as_it_is_is_encoded_again(data: bytes, start: int) -> None:
    (found,) = all_of(Fetched(T0, data, start, check_crcs=True))
    wanted = list(read_records(data, from_offset=start))
    assert found.was_encoded_again
    assert (found.first_offset, found.next_offset) == (wanted[0].offset, read_header(data).next_offset)
    assert [each[1:] for each in found.records()] == [each[1:] for each in wanted]
    header = read_header(found.data)
    assert (header.records_count, header.timestamp_type) == (header.last_offset_delta + 1, 0)
    assert header.codec == read_header(data).codec


def test_aborted_transactions_and_markers_are_left_out_also_after_a_change_from_records_to_batches() -> None:
    def part(base: int, producer: int) -> bytes:
        return batch(base, 1, producer_id=producer, producer_epoch=0, base_sequence=base, transactional=True)

    def marker(base: int, producer: int, *, committed: bool) -> bytes:
        return bytes(
            build_end_marker(
                committed=committed,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=base,
            )
        )

    data = part(0, 7) + part(1, 8) + marker(2, 7, committed=False) + part(3, 7) + part(4, 7)
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    assert [each.first_offset for each in all_of(Fetched(T0, data, 0, check_crcs=True, aborted=aborted))] == [
        1,
        3,
        4,
    ]
    fetched = Fetched(T0, data, 0, check_crcs=True, aborted=aborted)
    offsets: list[int] = []
    for _ in range(2):
        chunk = fetched.take(1)
        assert chunk is not None
        offsets += chunk.offsets
    assert offsets == [1, 3]
    assert [each.first_offset for each in all_of(fetched)] == [4]
    assert fetched.is_drained


def test_a_damaged_batch_is_not_handed_out() -> None:
    data = bytearray(batch(0))
    data[-1] ^= 1
    for _ in range(2):
        with pytest.raises(ApiError, match="at offset 0 is invalid"):
            Fetched(T0, data, 0, check_crcs=True).take_batch(1)


def test_a_consumer_goes_on_with_records_where_batches_ended() -> None:
    with consuming(FetchedLogs(3)) as (consumer, _):
        first = consumer.poll_batches(10_000)
        assert [each.first_offset for each in first] == [10 * each for each in range(len(first))]
        assert consumer.position(T0) == first[-1].next_offset
        found: list[int] = []
        while consumer.position(T0) < 30:
            found += [each.offset for each in consumer.poll(10_000)]
        assert found == list(range(first[-1].next_offset, 30))


def test_a_batch_is_sent_on_compressed_as_it_is_under_the_sequence_of_the_producer() -> None:
    data = batch(1_000, producer_id=99, producer_epoch=3, base_sequence=5)
    with running() as (logs, producer):
        producer.send("t", b"before").result(60)
        ahead = producer.send("t", b"ahead")
        raw = RawBatch(T0, data, 1_000, 1_010, 10, 0)
        runs = producer.send_raw_batch("t", raw, partition=0).result(60)
        producer.send("t", b"behind").result(60)
        assert ahead.result(60).offset == 1
    assert [(run.offset, run.length) for run in runs] == [(2, 10)]
    assert logs.values() == [b"before", b"ahead", *(b"%d" % each for each in range(1_000, 1_010)), b"behind"]
    assert [each[1:] for each in logs.records["t", 0][2:12]] == [each[1:] for each in read_records(data)]
    assert logs.batch_sizes[-2] == len(data)


def test_a_batch_that_the_broker_finds_too_large_is_sent_in_halves_though_it_is_compressed() -> None:
    records = [(1, None, b"x" * 1_000, ()) for _ in range(9)]
    data = build_batch(records, codec=Codec.GZIP)
    assert len(data) < 1_000
    with running() as (logs, producer):
        logs.errors += [error(ErrorCode.MESSAGE_TOO_LARGE)]
        runs = producer.send_raw_batch("t", data, partition=0).result(60)
    assert [(run.offset, run.length) for run in runs] == [(0, 4), (4, 5)]
    assert logs.values() == [b"x" * 1_000] * 9


def test_a_batch_that_is_too_large_for_a_request_is_sent_in_parts_and_one_record_too_many_is_refused() -> (
    None
):
    records = [(1, None, bytes([each]) * 600, ()) for each in range(5)]
    with running(max_request_size=1_500) as (logs, producer):
        runs = producer.send_raw_batch("t", build_batch(records), partition=0).result(60)
        assert sum(run.length for run in runs) == 5
        assert logs.values() == [value for _, _, value, _ in records]
        large = producer.send_raw_batch("t", build_batch([(1, None, bytes(2_000), ())]), partition=0)
        with pytest.raises(ApiError, match=r"which is the value of the max\.request\.size") as caught:
            large.result(0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1] + b"\0", ErrorCode.CORRUPT_MESSAGE),
        (without_middle(0), ErrorCode.INVALID_RECORD),
        (batch(timestamp_type=1), ErrorCode.INVALID_RECORD),
    ],
    ids=["cut off", "damaged", "holes", "the broker's time"],
)
def test_what_is_no_whole_batch_of_its_own_is_refused(data: bytes, code: ErrorCode) -> None:
    with running() as (logs, producer):
        with pytest.raises(ApiError) as caught:
            producer.send_raw_batch("t", data, partition=0)
        assert caught.value.code is code
    assert not logs.count()
