"""The compiled loops, the plain ones and the columns say the same of every input."""

import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ErrorCode
from pkafka.records import _loops, _plain, _plain_columns, _writing, varint
from pkafka.records.builder import build_batch
from pkafka.records.columns import RecordColumns
from pkafka.records.errors import RecordError
from pkafka.records.reading import Record
from tests.unit.records.sources import plain_loops

SOURCE = plain_loops()
WRITING = plain_loops("_writing")
COLUMNS = [
    SOURCE.decode_columns,
    partial(_plain_columns.decode_columns, columns_part=SOURCE.columns_part, new_times=SOURCE.new_times),
    _loops.decode_columns,
]
BATCHES = [
    SOURCE.decode_batches,
    *(partial(_plain_columns.decode_batches, decode=decode) for decode in COLUMNS[:2]),
    _loops.decode_batches,
]
WALKS = [SOURCE.walk, partial(_plain.walk, walk_part=SOURCE.walk_part), _loops.walk]


def summary(records: list[Record]) -> Any:
    times = [each.timestamp for each in records]
    return (
        min(times),
        max(times),
        times.index(max(times)),
        sum(each.key is None for each in records),
        sum(each.offset != index for index, each in enumerate(records)),
    )


def from_columns(decode: Any, data: bytes, count: int) -> list[Record]:
    keys, values, times, heads, in_order = decode(data, count, 0)
    offsets = range(count) if in_order else SOURCE.offset_deltas(data, count)
    columns = RecordColumns(offsets, times, keys, values, data=data, heads=heads)
    return [Record(*row) for row in columns.rows()]


def verdicts(data: bytes, count: int) -> list[Any]:
    found: list[Any] = []
    read: list[list[Record]] = []
    for walk in WALKS:
        for form in (data, bytearray(data), memoryview(data)):
            try:
                found.append(walk(form, count))
            except RecordError as problem:
                found.append("refused" if problem.code is ErrorCode.INVALID_RECORD else problem.code)
    for source in (SOURCE, _loops):
        try:
            read.append(source.decode_records(data, count, 0, 0, None, Record))
        except RecordError:
            found.append("refused")
        else:
            found.append(summary(read[-1]))
    for decode in COLUMNS:
        try:
            read.append(from_columns(decode, data, count))
        except RecordError:
            found.append("refused")
        else:
            found.append(summary(read[-1]))
    assert all(records == read[0] for records in read)
    return found


def agreed(data: bytes, count: int) -> Any:
    found = verdicts(data, count)
    assert found.count(found[0]) == len(found), found
    return found[0]


def shaped(chance: random.Random, count: int) -> bytes:
    """Records in runs of one shape, as producers send them, with breaks."""
    rows = []
    key: bytes | None = b"k"
    size, step, time = 10, 0, 1000
    for _ in range(count):
        if chance.random() < 0.02:
            size = chance.choice((0, 10, 63, 64, 100, 9000))
            key = chance.choice((None, b"", b"key", b"x" * 70))
            step = chance.choice((0, 0, 1, -3, 100, 9000, 1 << 40))
        time += step if chance.random() < 0.5 else 0
        headers = [("h", b"v")] if chance.random() < 0.01 else []
        rows.append((time, key, b"v" * size, headers))
    return bytes(build_batch(rows)[61:])


@pytest.mark.parametrize("seed", range(3))
def test_on_runs_of_records_of_one_shape(seed: int) -> None:
    chance = random.Random(seed)
    data = shaped(chance, 700)
    assert agreed(data, 700) != "refused"
    for _ in range(25):
        bad = bytearray(data)
        bad[chance.randrange(len(bad))] = chance.randrange(256)
        agreed(bytes(bad), 700)
        agreed(data[: chance.randrange(len(data))], 700)


def test_across_every_length_of_an_offset() -> None:
    count = 17_000
    data = bytes(build_batch([(5, None, None, ())] * count)[61:])
    assert agreed(data, count) == (0, 0, 0, count, 0)
    chance = random.Random(1)
    for _ in range(10):
        bad = bytearray(data)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        agreed(bytes(bad), count)


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 40), 1 << 40),
            st.none() | st.binary(max_size=80),
            st.none() | st.binary(max_size=80),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=3),
        ),
        min_size=1,
        max_size=40,
    ),
    st.data(),
)
def test_on_records_of_any_kind_whole_cut_and_damaged(rows: Any, data: Any) -> None:
    body = bytes(build_batch(rows)[61:])
    assert agreed(body, len(rows)) != "refused"
    assert agreed(body, len(rows) + 1) == "refused"
    assert agreed(body + b"\x00", len(rows)) == "refused"
    assert agreed(body[: data.draw(st.integers(0, len(body) - 1))], len(rows)) == "refused"
    bad = bytearray(body)
    bad[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    agreed(bytes(bad), len(rows))


@given(st.binary(max_size=60), st.integers(1, 40))
def test_on_rubbish(data: bytes, count: int) -> None:
    agreed(data, count)


LONG_NEGATIVE_ONE = b"\x81\x80\x80\x80\x00"


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00\x01\x01\x02" + b"\x02\x68",  # one header whose value is missing
        b"\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f",  # 2^31 - 1 headers
        b"\x00\x00\x00\x01\x01\x02\x01\x01",  # header key of length -1
        b"\x00\x00\x00\x01\x01\x02\x00\x03",  # header value of length -2
        b"\x00\x00\x00\x03\x01\x00",  # key of length -2
        b"\x00\x00\x00\x01\x03\x00",  # value of length -2
        b"\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x00",  # key of length 2^31 - 1
        b"\x00\x00\x00\x01\xfe\xff\xff\xff\x0f\x00",
        b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x01\x01\x00",  # a time of 65 bits
        b"\x00\x00\xff\xff\xff\xff\x1f\x01\x01\x00",  # an offset of 33 bits
        b"\x00\x00\x00\x01\x01\x00\x00",  # a byte behind the headers
        b"",
    ],
)
def test_hostile_records_are_refused_by_all(body: bytes) -> None:
    assert agreed(varint.encode(len(body)) + body, 1) == "refused"


def test_an_offset_below_the_first_is_read_alike() -> None:
    agreed(b"\x0c\x00\x00\x01\x01\x01\x00", 1)


def test_lengths_that_are_longer_than_they_need_to_be_are_read_like_java_reads_them() -> None:
    body = b"\x00\x80\x00\x80\x00" + LONG_NEGATIVE_ONE + LONG_NEGATIVE_ONE + b"\x80\x00"
    assert agreed(varint.encode(len(body)) + body, 1) == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("base", [0, (1 << 63) - 1, -(1 << 63), 1 << 62, -(1 << 62)])
@pytest.mark.parametrize("delta", [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 61, 1 << 62])
def test_times_wrap_around_alike(base: int, delta: int) -> None:
    body = b"\x00" + varint.encode(delta) + b"\x00\x01\x01\x00"
    data = varint.encode(len(body)) + body
    wrapped = (base + delta + (1 << 63)) % (1 << 64) - (1 << 63)
    for source in (SOURCE, _loops):
        assert source.decode_records(data, 1, 0, base, None, Record)[0].timestamp == wrapped
    for decode in COLUMNS:
        assert list(decode(data * 30, 30, base)[2]) == [wrapped] * 30


@given(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, (1 << 31) - 1),
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=200),
)
def test_encoders_write_the_same_bytes(
    time: int, offset: int, key: bytes | None, value: bytes | None
) -> None:
    written = []
    for append in (WRITING.append_record, _plain.append_record, _writing.append_record):
        out = bytearray(b"before")
        append(out, time, offset, key, value, b"\x00")
        written.append(bytes(out))
    assert written[0] == written[1] == written[2]
    record = Record(*SOURCE.decode_records(written[0][6:], 1, 0, 0, None, Record)[0])
    assert record == (offset, time, key, value, ())


def test_the_variable_forces_plain_loops() -> None:
    program = """
from pkafka.records import loops
print(*(module.__file__ for module in (loops._in_use, loops._keys, loops._writing)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PKAFKA_PURE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [Path(file).suffix for file in done.stdout.split()] == [".py"] * 3


def side_by_side(parts: list[tuple[bytes, int]]) -> tuple[bytes, list[int], list[int], list[int], list[int]]:
    """Records of several batches with something between them, and where they are."""
    data = b""
    starts, ends = [], []
    for part, _ in parts:
        data += b"between"
        starts.append(len(data))
        data += part
        ends.append(len(data))
    return data, starts, ends, [count for _, count in parts], [1000 * index for index in range(len(parts))]


@pytest.mark.parametrize("decode", BATCHES)
def test_several_batches_are_those_one_after_the_other(decode: Any) -> None:
    chance = random.Random(7)
    parts = [(shaped(chance, count), count) for count in (1, 40, 300, 2)]
    data, starts, ends, counts, times = side_by_side(parts)
    keys, values, stamps, heads, in_order = decode(data, starts, ends, counts, times)
    wanted = [
        (time + each.timestamp, each.key, each.value, each.headers)
        for (part, count), time in zip(parts, times, strict=True)
        for each in SOURCE.decode_records(part, count, 0, 0, None, Record)
    ]
    columns = RecordColumns(range(len(values)), stamps, keys, values, data=data, heads=heads)
    assert [row[1:] for row in columns.rows()] == wanted
    assert in_order


@pytest.mark.parametrize("decode", BATCHES)
def test_damage_in_any_of_several_batches_is_refused(decode: Any) -> None:
    good = bytes(build_batch([(5, b"key", b"value", ())] * 3)[61:])
    for index in range(3):
        for bad, count in ((good[:-1], 3), (good + b"\0", 3), (good, 2), (good, 4), (good, 1 << 40)):
            parts = [(good, 3)] * 3
            parts[index] = (bad, count)
            with pytest.raises(RecordError):
                decode(*side_by_side(parts))
    out_of_order = bytearray(good)
    out_of_order[3] = 8
    assert decode(*side_by_side([(good, 3), (bytes(out_of_order), 3)]))[4] is False
    assert decode(*side_by_side([(good, 3), (good, 3)]))[:1] == ([b"key"] * 6,)
