from hypothesis import given
from hypothesis import strategies as st

from pkafka.records.checksum import crc32c, crcmod_checksum


def test_the_check_value_of_the_algorithm() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=300), st.integers(0, 300))
def test_the_fallback_agrees_whole_and_in_parts(data: bytes, cut: int) -> None:
    fallback = crcmod_checksum()
    view = memoryview(data)
    assert crc32c(view) == fallback(view, 0) == crc32c(view[cut:], crc32c(view[:cut]))
    assert fallback(view[cut:], fallback(view[:cut], 0)) == crc32c(data)
