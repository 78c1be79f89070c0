"""The file of offsets: Java's serialised map of bytes to bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.errors import ConnectError
from pkafka.connect.storage.java_map import dump_map, load_map

# As Java's FileOffsetBackingStore has written it.
WRITTEN_BY_JAVA = (
    b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1\x03\x00\x02F\x00\nloadFactorI\x00"
    b"\tthresholdxp?@\x00\x00\x00\x00\x00\x0cw\x08\x00\x00\x00\x10\x00\x00\x00\x01ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T"
    b'\xe0\x02\x00\x00xp\x00\x00\x00\x22["src",{"filename":"/tmp/in.txt"}]uq\x00~\x00\x02\x00\x00\x00\x0e{"position":6}x'
)
ENTRIES = {b'["src",{"filename":"/tmp/in.txt"}]': b'{"position":6}'}


def test_the_bytes_are_those_of_java() -> None:
    assert load_map(WRITTEN_BY_JAVA) == ENTRIES
    assert dump_map(ENTRIES) == WRITTEN_BY_JAVA


@given(st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=40), max_size=40))
def test_what_is_written_is_read(entries: dict[bytes, bytes | None]) -> None:
    assert load_map(dump_map(entries)) == entries


@given(st.integers(0, len(WRITTEN_BY_JAVA) - 1))
def test_a_file_that_ends_early_is_refused(size: int) -> None:
    with pytest.raises(ConnectError, match="Expected HashMap but found something else"):
        load_map(WRITTEN_BY_JAVA[:size])


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ConnectError):
        load_map(data)


def test_the_same_array_twice_is_one_that_is_referred_to() -> None:
    begin, end = WRITTEN_BY_JAVA[:-1].split(b"uq\x00~\x00\x02\x00\x00\x00\x0e")[0], b"x"
    assert load_map(begin + b"\x71\x00\x7e\x00\x03" + end) == {next(iter(ENTRIES)): next(iter(ENTRIES))}
