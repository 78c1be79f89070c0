"""Two partitions are compared record by record, whatever their batches; as bytes where these are the same."""

from collections.abc import Iterable

import pytest

from pkafka.clients.consumer import RawBatch
from pkafka.model import TopicPartition
from pkafka.records.batch import read_header
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.tools.mirroring import comparison
from pkafka.tools.mirroring.comparison import Comparison, Difference

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def rows(numbers: Iterable[int]) -> list[Row]:
    return [(1_000 + each, b"k%d" % each, b"v%d" % each, (("h", b"%d" % each),)) for each in numbers]


def batches(records: list[Row], size: int, codec: Codec = Codec.NONE, first: int = 0) -> list[RawBatch]:
    found = []
    for start in range(0, len(records), size):
        part = records[start : start + size]
        data = bytes(build_batch(part, codec=codec, base_offset=first + start))
        header = read_header(data)
        found.append(
            RawBatch(TopicPartition("t", 0), data, header.base_offset, header.next_offset, len(part), 0)
        )
    return found


def compared(
    source: list[RawBatch], target: list[RawBatch], *, ignores_timestamps: bool = False
) -> Comparison:
    found = Comparison(ignores_timestamps=ignores_timestamps)
    for each in source:
        found.add_source(each)
        found.compare()
    for each in target:
        found.add_target(each)
        found.compare()
    found.end()
    return found


@pytest.mark.parametrize(
    ("size", "codec"), [(5, Codec.NONE), (3, Codec.NONE), (20, Codec.ZSTD), (1, Codec.GZIP)]
)
def test_the_same_records_are_the_same_in_any_batches(size: int, codec: Codec) -> None:
    found = compared(batches(rows(range(20)), 5), batches(rows(range(20)), size, codec, first=700))
    assert (found.same, found.repeated, found.difference) == (20, 0, None)


def test_same_batches_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a batch was decoded")

    monkeypatch.setattr(comparison, "decode_columns_at", never)
    found = compared(
        batches(rows(range(20)), 5, Codec.ZSTD), batches(rows(range(20)), 5, Codec.ZSTD, first=700)
    )
    assert (found.same, found.difference) == (20, None)


def test_records_that_come_again_are_counted() -> None:
    again = [*rows(range(12)), *rows(range(6, 12)), *rows(range(12, 20)), *rows(range(18, 20))]
    found = compared(batches(rows(range(20)), 7), batches(again, 5))
    assert (found.same, found.repeated, found.difference) == (20, 8, None)


def test_a_missing_record_is_found_at_its_place() -> None:
    gone = [each for each in rows(range(20)) if each[1] != b"k13"]
    found = compared(batches(rows(range(20)), 5), batches(gone, 5, first=100))
    assert (found.same, found.difference) == (13, Difference(13, 113, "record"))


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("timestamp", (9, b"k13", b"v13", (("h", b"13"),))),
        ("key", (1_013, b"other", b"v13", (("h", b"13"),))),
        ("value", (1_013, b"k13", None, (("h", b"13"),))),
        ("headers", (1_013, b"k13", b"v13", ())),
        ("record", (1_013, b"other", b"other", ())),
    ],
)
def test_what_differs_is_named(part: str, changed: Row) -> None:
    other = [*rows(range(13)), changed, *rows(range(14, 20))]
    found = compared(batches(rows(range(20)), 5), batches(other, 5))
    assert (found.same, found.difference) == (13, Difference(13, 13, part))


def test_timestamps_may_be_ignored() -> None:
    other = [(5, key, value, headers) for _, key, value, headers in rows(range(20))]
    found = compared(batches(rows(range(20)), 5), batches(other, 5), ignores_timestamps=True)
    assert (found.same, found.difference) == (20, None)


def test_a_record_that_only_the_target_has_is_a_difference() -> None:
    found = compared(batches(rows(range(5)), 5), batches(rows(range(6)), 3))
    assert (found.same, found.difference) == (5, Difference(None, 5, "record"))


def test_a_copy_that_is_behind_does_not_differ() -> None:
    found = compared(batches(rows(range(20)), 5), batches(rows(range(12)), 4))
    assert (found.same, found.difference, found.source_offset) == (12, None, 12)
