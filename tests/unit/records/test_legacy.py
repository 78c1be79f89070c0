import struct
import zlib

import pytest

from pkafka.errors import ErrorCode
from pkafka.records import ancient, legacy
from pkafka.records.compression import Codec, compress
from pkafka.records.errors import RecordError


def wrapped(
    inner: bytes, *, magic: int = 1, codec: Codec = Codec.GZIP, value: bytes | None = b"?"
) -> memoryview:
    value = compress(codec, inner, magic=magic) if value else None
    return memoryview(legacy.encode_message(9, 5, None, value, magic=magic, attributes=codec))


@pytest.mark.parametrize(
    ("view", "code"),
    [
        (wrapped(b""), ErrorCode.INVALID_RECORD),
        (wrapped(b"", value=None), ErrorCode.INVALID_RECORD),
        (wrapped(legacy.encode_message(0, 5, None, b"v", magic=0)), ErrorCode.INVALID_RECORD),
        (wrapped(bytes(wrapped(legacy.encode_message(0, 5, None, b"v", magic=1)))), ErrorCode.INVALID_RECORD),
        (wrapped(legacy.encode_message(0, 5, None, b"v", magic=1)[:-1]), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_impossible_wrappers_are_refused(view: memoryview, code: ErrorCode) -> None:
    with pytest.raises(RecordError) as caught:
        list(legacy.deep_messages(view, bytes_max=1 << 20))
    assert caught.value.code is code


def test_relative_and_absolute_inner_offsets() -> None:
    rows = [(10, 1, None, b"a"), (12, 2, None, b"b")]
    for magic in (0, 1):
        view = memoryview(legacy.build_message_set(rows, magic=magic, codec=Codec.SNAPPY))
        assert legacy.read_message(view).offset == 12
        assert [each.offset for each in legacy.deep_messages(view, bytes_max=1000)] == [10, 12]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_cut_or_flipped_anywhere_is_corrupt(magic: int) -> None:
    data = legacy.encode_message(3, 5, b"key", b"value", magic=magic)
    for end in range(len(data)):
        with pytest.raises(RecordError) as caught:
            legacy.read_message(memoryview(data[:end]))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    for place in range(8, len(data)):
        bad = bytearray(data)
        bad[place] ^= 2
        with pytest.raises(RecordError):
            legacy.read_message(memoryview(bad))


def test_a_length_that_lies_under_a_right_checksum_is_corrupt() -> None:
    data = bytearray(legacy.encode_message(3, 5, b"key", b"value", magic=0))
    data[18:22] = struct.pack(">i", 1 << 30)
    data[12:16] = struct.pack(">I", zlib.crc32(data[16:]))
    with pytest.raises(RecordError):
        legacy.read_message(memoryview(data))


def test_what_the_old_formats_do_not_have_is_not_written() -> None:
    with pytest.raises(ValueError, match="zstd"):
        legacy.build_message_set([(0, 0, None, b"v")], magic=1, codec=Codec.ZSTD)
    with pytest.raises(ValueError, match="magic 2"):
        legacy.encode_message(0, 0, None, b"v", magic=2)
    assert legacy.build_message_set([], magic=1, codec=Codec.GZIP) == b""


def test_records_from_before_0_8() -> None:
    data = ancient.encode_record(b"hello") + ancient.encode_record(b"")
    first, second = ancient.iter_records(data + b"\x00\x00\x00\x09\x00")
    assert first == (0, 0, zlib.crc32(b"hello"), True, b"hello")
    assert (second.position, second.payload) == (14, b"")
    assert data[:4] == struct.pack(">i", 1 + 4 + 5)
    assert list(ancient.iter_records(b"\xff" * 30)) == []
    damaged = bytearray(data)
    damaged[9] ^= 1
    assert not next(ancient.iter_records(damaged)).crc_is_valid
