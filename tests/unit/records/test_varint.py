import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ErrorCode
from pkafka.records import varint
from pkafka.records.errors import RecordError


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_long_comes_back_and_its_size_is_right(value: int) -> None:
    encoded = varint.encode(value)
    assert varint.decode_long(encoded) == (value, len(encoded))
    assert varint.size(value) == len(encoded)


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=3))
def test_an_int_comes_back_from_any_position(value: int, before: bytes) -> None:
    encoded = varint.encode(value)
    assert varint.decode(before + encoded + b"\xff", len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), ((1 << 31) - 1, "feffffff0f")],
)
def test_known_forms(value: int, encoded: str) -> None:
    assert varint.encode(value).hex() == encoded


@pytest.mark.parametrize("damaged", [b"", b"\x80", b"\xff" * 4, b"\xff" * 5, b"\xff\xff\xff\xff\x1f"])
def test_damage_is_an_invalid_record(damaged: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        varint.decode(damaged)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_long_of_65_bits_is_refused() -> None:
    with pytest.raises(RecordError):
        varint.decode_long(b"\xff" * 9 + b"\x02")


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63) - 1])
def test_more_than_64_bits_are_not_written(value: int) -> None:
    with pytest.raises(OverflowError):
        varint.encode(value)
