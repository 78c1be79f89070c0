"""Lists of records into a batch: the compiled loops, the plain ones and the joined runs write the same bytes."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkafka.records import _plain, _writing, builder
from pkafka.records.builder import BatchBuilder, encode_headers, encode_records
from pkafka.records.compression import Codec
from pkafka.records.reading import read_records
from tests.unit.records.sources import plain_loops

SOURCE = plain_loops("_writing")
VARIANTS = [SOURCE, _plain, _writing]
DATA = st.one_of(st.none(), st.binary(max_size=5), st.binary(min_size=60, max_size=70))


@given(
    values=st.one_of(
        st.lists(DATA, min_size=1, max_size=40),
        st.tuples(st.binary(max_size=200), st.integers(1, 90)).map(lambda pair: [pair[0]] * pair[1]),
    ),
    keyed=st.booleans(),
    headers=st.lists(st.tuples(st.text(max_size=3), DATA), max_size=2),
    time=st.integers(-300, 10_000),
    room=st.integers(0, 6_000),
)
@example(values=[b"x" * 100] * 9_000, keyed=False, headers=[], time=0, room=10_000_000)
@example(values=[b""] * 70, keyed=False, headers=[("h", b"x")], time=-1, room=300)
def test_every_variant_writes_what_one_record_at_a_time_gives(
    values: list[bytes | None], keyed: bool, headers: list[Any], time: int, room: int
) -> None:
    keys: list[bytes | None] | None = list(reversed(values)) if keyed else None
    rows = [
        (5, None, b"first", ()),
        *((5 + time, keys[i] if keys else None, each, headers) for i, each in enumerate(values)),
    ]
    whole, count, *_ = encode_records(rows)
    first, *_ = encode_records(rows[:1])
    for variant in VARIANTS:
        out = bytearray(first)
        index = 0
        while index < len(values):
            before = len(out)
            end = variant.append_records(
                out, values, keys, encode_headers(headers), index, len(values), time, 1 + index, before + room
            )
            assert end > index
            assert len(out) <= before + room or end == index + 1
            index = end
        assert out == whole
    assert count == len(values) + 1


@pytest.mark.parametrize("bad", ["text", 5])
def test_what_is_not_bytes_leaves_the_batch_as_it_was(bad: Any) -> None:
    for variant in [_plain, _writing]:
        for values, keys in (([b"x"] * 9 + [bad], None), ([b"x", b"y"], [b"k", bad])):
            out = bytearray(b"before")
            with pytest.raises(TypeError):
                variant.append_records(out, values, keys, b"\0", 0, len(values), 0, 0, 10_000)
            assert out == b"before"


@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 100))
def test_keys_have_the_same_partition_everywhere(keys: list[bytes], count: int) -> None:
    found = [variant.partitions_of_keys(keys, count) for variant in VARIANTS]
    assert found[0] == found[1] == found[2]
    assert [[variant.murmur2(key) for key in keys] for variant in VARIANTS].count(
        [SOURCE.murmur2(key) for key in keys]
    ) == len(VARIANTS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_murmur2_is_kafkas(variant: Any) -> None:
    # Computed by org.apache.kafka.common.utils.Utils.murmur2 of 3.9.1.
    expected = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"abc": 479470107,
    }
    for key, number in expected.items():
        assert variant.murmur2(key) == number & 0xFFFFFFFF


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_builder_takes_lists_until_it_is_full(
    variant: Any, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "append_records", variant.append_records)
    made = BatchBuilder(1_000, codec=codec)
    values: list[bytes | None] = [b"%03d" % number for number in range(500)]
    assert made.append(50, None, b"one")
    end = made.append_many(40, values, None, (), 0, 500)
    assert 0 < end < 500
    assert made.size_bytes <= 1_000
    assert made.append_many(60, [b"x" * 1_000], None, (), 0, 1) == 0
    assert made.append_many(60, [b"x"], [b"k"], [("h", None)], 0, 1) == made.append(
        60, b"k", b"x", [("h", None)]
    )
    data = made.build(producer_id=3, producer_epoch=1, base_sequence=7)
    records = list(read_records(data))
    assert [each.value for each in records[: end + 1]] == [b"one", *values[:end]]
    assert [each.offset for each in records] == list(range(made.count))
    assert (records[0].timestamp, records[1].timestamp) == (50, 40)
    assert made.max_timestamp == max(each.timestamp for each in records)
    assert not made.append(1, None, b"too late")
    assert list(read_records(made.build())) == records


def test_a_record_larger_than_an_empty_batch_is_taken_alone() -> None:
    made = BatchBuilder(100)
    assert made.append_many(1, [b"v" * 500, b"w"], None, (), 0, 2) == 1
    assert made.append_many(1, [b"v" * 500, b"w"], None, (), 1, 2) == 1
    assert [len(each.value or b"") for each in read_records(made.build())] == [500]
