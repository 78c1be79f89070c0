"""The loops of compaction, plain and compiled, against a dictionary of whole keys."""

import contextlib
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.records import _keys
from pkafka.records.builder import build_batch, encode_records
from pkafka.records.checksum import crc32c
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.errors import RecordError
from pkafka.records.loops import decode_records
from pkafka.records.reading import Record
from tests.unit.records.sources import plain_loops

SOURCE = plain_loops("_keys")
VARIANTS = pytest.mark.parametrize("variant", [SOURCE, _keys], ids=["source", "in use"])
SLOTS = 64
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=14, max_size=40))
RECORDS = st.lists(
    st.tuples(st.integers(-(2**40), 2**40), KEYS, st.one_of(st.none(), st.binary(max_size=200)), st.just(())),
    min_size=1,
    max_size=30,
)


class Table:
    """The memory of a map, as its user lays it out."""

    def __init__(self, slots: int = SLOTS) -> None:
        self.slots = slots
        self.table = memoryview(bytearray(slots * 24)).cast("Q")
        self.digest = memoryview(bytearray(16)).cast("Q")
        self.entries = 0

    def put(self, variant: ModuleType, data: bytes, count: int, base: int, *, most: int = SLOTS - 1) -> bool:
        self.entries, is_full = variant.map_keys(
            data, count, base, 0, self.table, self.digest, self.slots, 7, self.entries, most
        )
        return bool(is_full)

    def select(
        self, variant: ModuleType, data: bytes, count: int, base: int, latest: int, *, drop: bool
    ) -> Any:
        return variant.select_records(data, count, base, latest, self.table, self.digest, self.slots, 7, drop)


@VARIANTS
@given(records=RECORDS, base=st.integers(0, 2**40), latest=st.integers(0, 40), drop=st.booleans())
def test_the_last_record_of_each_key_stays(
    variant: ModuleType, records: list[Any], base: int, latest: int, drop: bool
) -> None:
    body, count, base_timestamp, _ = encode_records(records)
    data = bytes(body)
    table = Table()
    assert not table.put(variant, data, count, base)
    last = {key: place for place, (_, key, _, _) in enumerate(records) if key is not None}
    assert table.entries == len(last)
    wanted = [
        place
        for place, (_, key, value, _) in enumerate(records)
        if place > latest or (key is not None and last[key] == place and (value is not None or not drop))
    ]
    kept, number, tombstones, delta_max, keyless = table.select(
        variant, data, count, base, base + latest, drop=drop
    )
    found = decode_records(bytes(kept), number, base, base_timestamp, None, Record)
    assert [record.offset - base for record in found] == wanted
    assert [(one.timestamp, one.key, one.value) for one in found] == [records[place][:3] for place in wanted]
    assert tombstones == sum(records[place][2] is None for place in wanted)
    assert keyless == sum(key is None for place, (_, key, _, _) in enumerate(records) if place <= latest)
    if wanted:
        assert delta_max == max(records[place][0] for place in wanted) - base_timestamp


@given(records=RECORDS)
def test_both_variants_make_the_same_table(records: list[Any]) -> None:
    body, count, _, _ = encode_records(records)
    tables = []
    for variant in (SOURCE, _keys):
        table = Table()
        table.put(variant, bytes(body), count, 5)
        larger = Table(3 * SLOTS)
        variant.move_slots(table.table, larger.table, larger.slots)
        tables.append((table.table.tolist(), larger.table.tolist()))
    assert tables[0] == tables[1]


@VARIANTS
def test_a_larger_table_knows_what_the_smaller_one_did(variant: ModuleType) -> None:
    body, count, _, _ = encode_records([(0, b"k%d" % number, b"", ()) for number in range(50)])
    small, large = Table(), Table(200)
    small.put(variant, bytes(body), count, 0)
    variant.move_slots(small.table, large.table, large.slots)
    assert large.select(variant, bytes(body), count, 0, 100, drop=False)[1] == count
    assert large.select(variant, bytes(body), count - 1, -1, 100, drop=False)[1] == 0


@VARIANTS
def test_a_full_table_says_so_before_the_next_key(variant: ModuleType) -> None:
    body, count, _, _ = encode_records([(0, b"k%d" % (number % 4), b"", ()) for number in range(8)])
    table = Table()
    assert table.put(variant, bytes(body), count, 0, most=3)
    assert table.entries == 3
    assert table.put(variant, bytes(body), 3, 0, most=3), "Kafka does not look whether the key is known"


@VARIANTS
def test_records_before_the_dirty_part_are_not_mapped(variant: ModuleType) -> None:
    body, count, _, _ = encode_records([(0, b"k%d" % number, b"", ()) for number in range(10)])
    table = Table()
    entries, _ = variant.map_keys(
        bytes(body), count, 100, 104, table.table, table.digest, SLOTS, 7, 0, SLOTS - 1
    )
    assert entries == 6


@VARIANTS
@given(records=RECORDS, shift=st.integers(-(2**62), 2**62))
def test_retimed_records_have_other_deltas_and_nothing_else(
    variant: ModuleType, records: list[Any], shift: int
) -> None:
    body, count, base_timestamp, _ = encode_records(records)
    moved = variant.retime(bytes(body), count, shift)
    before = decode_records(bytes(body), count, 0, base_timestamp, None, Record)
    assert decode_records(bytes(moved), count, 0, base_timestamp - shift, None, Record) == before


@VARIANTS
@given(records=RECORDS, cut=st.data())
def test_damaged_records_are_an_error_and_never_a_crash(
    variant: ModuleType, records: list[Any], cut: st.DataObject
) -> None:
    body, count, _, _ = encode_records(records)
    place = cut.draw(st.integers(0, len(body) - 1))
    damaged = bytearray(body[:place]) if cut.draw(st.booleans()) else bytearray(body)
    if len(damaged) > place:
        damaged[place] ^= cut.draw(st.integers(1, 255))
    data = bytes(damaged)
    for call in (
        lambda: Table().put(variant, data, count, 0),
        lambda: Table().select(variant, data, count, 0, 5, drop=True),
        lambda: variant.retime(data, count, 1),
    ):
        with contextlib.suppress(RecordError):
            call()


BATCHES = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.just(5), st.binary(max_size=3), st.none() | st.binary(max_size=200), st.just(())),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP]),
    ),
    min_size=1,
    max_size=8,
)


@VARIANTS
@given(batches=BATCHES)
def test_the_last_value_of_each_key_is_noted_up_to_a_special_batch(
    variant: ModuleType, batches: list[Any]
) -> None:
    data = bytearray()
    wanted: dict[bytes, bytes] = {}
    offset = 7
    plain_end = plain_offset = None
    for records, codec in batches:
        if codec is not Codec.NONE and plain_end is None:
            plain_end, plain_offset = len(data), offset
        batch = bytearray(build_batch(records, codec=codec))
        batch[:8] = offset.to_bytes(8, "big")
        data += batch
        offset += len(records)
        if plain_end is None:
            for _time, key, value, _headers in records:
                wanted.pop(key, None)
                if value is not None:
                    wanted[key] = value
    values: dict[bytes, bytes] = {}
    found = variant.last_values(bytes(data), 0, len(data), values, crc32c)
    assert values == wanted
    assert found == (
        (len(data), offset) if plain_end is None else (plain_end, plain_offset if plain_end else -1)
    )


@VARIANTS
def test_values_are_noted_batch_by_batch(variant: ModuleType) -> None:
    data = b"".join(bytes(build_batch([(1, b"k%d" % number, b"v", ())])) for number in range(3))
    values: dict[bytes, bytes] = {}
    position, _offset = variant.last_values(data, 0, 1, values, crc32c)
    assert (position, list(values)) == (len(data) // 3, [b"k0"])
    assert variant.last_values(data + data[:70], position, 1000, values, crc32c)[0] == len(data)
    assert list(values) == [b"k0", b"k1", b"k2"]


@VARIANTS
@given(place=st.integers(8, 99), bits=st.integers(1, 255))
def test_a_damaged_batch_is_left_to_others(variant: ModuleType, place: int, bits: int) -> None:
    data = bytearray(build_batch([(1, b"key", b"value" * 9, ())]))
    data[place % len(data)] ^= bits
    if not 12 <= place % len(data) < 16:  # the leader's epoch is not part of the checksum
        assert variant.last_values(bytes(data), 0, len(data), {}, crc32c) == (0, -1)


@VARIANTS
def test_records_without_a_key_markers_and_transactions_are_left_to_others(variant: ModuleType) -> None:
    keyless = build_batch([(1, b"k", b"v", ()), (1, None, b"v", ())])
    marker = build_end_marker(
        committed=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
    )
    transactional = build_batch(
        [(1, b"k", b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    for special in map(bytes, (keyless, marker, transactional)):
        assert variant.last_values(special, 0, len(special), {}, crc32c) == (0, -1)


@VARIANTS
@given(
    text=st.text(max_size=5),
    cut=st.integers(0, 3),
    value=st.binary(max_size=6),
    allowed=st.binary(max_size=3),
)
def test_items_of_another_form_are_told(
    variant: ModuleType, text: str, cut: int, value: bytes, allowed: bytes
) -> None:
    key = (b"\0\0" + len(text.encode()).to_bytes(2, "big") + text.encode())[cut:]
    value = b"\0\0" + value
    has_form = cut == 0 and text.isascii() and len(value) == 5 and value[3] in allowed
    assert variant.others_than([(key, value)], 5, 3, allowed) == ([] if has_form else [key])
    plain = b"\0\0\0\x01a", b"\0\0\0\x07\0"
    assert variant.others_than([plain, plain], 5, 3, b"\x06\x07") == []
    for damaged in (b"", b"\0", b"\0\0\0", b"\0\1\0\x01a"):
        assert variant.others_than([(damaged, plain[1])], 5, 3, b"\x07") == [damaged]
        assert variant.others_than([(plain[0], damaged)], 5, 3, b"\x07") == [plain[0]]
