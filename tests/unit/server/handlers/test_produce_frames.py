"""What workers send each other for Produce comes out as it went in."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pkafka.protocol.hot import CurrentLeader
from pkafka.server.handlers.produce_append import Row
from pkafka.server.handlers.produce_frames import Order, pack_order, pack_rows, unpack_order, unpack_rows

NAMES = st.text(max_size=300)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTS = st.lists(st.tuples(NAMES, INT32, st.integers(0, 2**40), st.integers(0, 2**31)), max_size=5)
WORDS = st.tuples(INT32, INT32, st.binary(min_size=16, max_size=16))
MORE_THAN_NUMBERS = st.tuples(
    st.lists(st.tuples(INT32, NAMES).map(list), max_size=2),
    st.none() | NAMES,
    st.none() | st.builds(CurrentLeader, INT32, INT32).map(list),
)


@given(st.data(), INT16, INT16, INT32, st.none() | NAMES, st.none() | NAMES, st.booleans(), PARTS)
def test_an_order_comes_out_as_it_went_in(
    data: st.DataObject,
    version: int,
    acks: int,
    timeout_ms: int,
    client_id: str | None,
    transactional_id: str | None,
    in_arena: bool,
    parts: list[tuple[str, int, int, int]],
) -> None:
    words = data.draw(st.none() | st.lists(WORDS, min_size=len(parts), max_size=len(parts)))
    order = Order(version, acks, timeout_ms, client_id, transactional_id, words, in_arena, parts)
    assert unpack_order(memoryview(pack_order(order))) == order


@given(
    st.lists(
        st.tuples(NAMES, INT32, INT16, INT64, INT64, INT64),
        max_size=5,
    ),
    st.data(),
)
def test_rows_come_out_as_they_went_in(
    numbers: list[tuple[str, int, int, int, int, int]], data: st.DataObject
) -> None:
    rows: list[Row] = [(*row, [], None, None) for row in numbers]
    keys = [row[:2] for row in numbers]
    assert unpack_rows(memoryview(pack_rows(rows)), keys) == rows
    told: Any = [(*row, *data.draw(MORE_THAN_NUMBERS)) for row in numbers]
    assert unpack_rows(memoryview(pack_rows(told)), keys) == told
