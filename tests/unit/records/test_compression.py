import gzip
import os
import random
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ErrorCode
from pkafka.records import lz4, snappy
from pkafka.records.compression import Codec, codec_of, compress, decompress
from pkafka.records.errors import RecordError

REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20


def refused(codec: Codec, data: bytes, bytes_max: int = MIB) -> RecordError:
    with pytest.raises(RecordError) as caught:
        decompress(codec, data, bytes_max=bytes_max)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    return caught.value


def outcome(codec: Codec, data: bytes | bytearray) -> str | ErrorCode:
    try:
        decompress(codec, data, bytes_max=MIB)
    except RecordError as problem:
        return problem.code
    return "inflated"


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=500), repeat=st.sampled_from([1, 300]), magic=st.sampled_from([0, 1, 2]))
def test_what_goes_in_comes_out_within_exactly_its_size(
    codec: Codec, data: bytes, repeat: int, magic: int
) -> None:
    whole = data * repeat
    packed = compress(codec, memoryview(whole), magic=magic)
    assert decompress(codec, bytearray(packed), bytes_max=len(whole), magic=magic) == whole
    if whole:
        with pytest.raises(RecordError):
            decompress(codec, packed, bytes_max=len(whole) - 1, magic=magic)


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 17), (Codec.ZSTD, 19)]
)
def test_levels_are_taken(codec: Codec, level: int) -> None:
    data = bytes(range(256)) * 40
    assert decompress(codec, compress(codec, data, level), bytes_max=MIB) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 6, 9)), (Codec.LZ4, (9, 1, 10, 12)), (Codec.ZSTD, (-50, 3, 19))]
)
def test_levels_differ(codec: Codec, levels: tuple[int, ...]) -> None:
    data = b" ".join(b"%d potatoes, %d tomatoes" % (n * n, n % 17) for n in range(4_000))
    packed = [compress(codec, data, level) for level in levels]
    sizes = [len(each) for each in packed]
    assert sizes == sorted(set(sizes), reverse=True)
    assert [decompress(codec, each, bytes_max=MIB) for each in packed] == [data] * len(levels)


def test_the_default_level_of_lz4_is_the_fast_compressor_as_in_java() -> None:
    data = b" ".join(b"%d potatoes" % (n * n) for n in range(10_000))
    assert compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data)


@pytest.mark.parametrize("level", [1, 12, 17])
def test_lz4_blocks_that_do_not_shrink_are_stored_at_every_level(level: int) -> None:
    data = random.Random(7).randbytes(150_000)
    packed = compress(Codec.LZ4, data, level)
    assert len(packed) == len(data) + 7 + 3 * 4 + 4
    assert bytes(cramjam.lz4.decompress(packed)) == data


@pytest.mark.parametrize("codec", REAL)
def test_a_stream_cut_anywhere_is_refused(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 3 + b"abc" * 50)
    for end in range(len(packed)):
        if codec is Codec.SNAPPY and end == 16:
            continue  # a stream of no blocks is a whole one of nothing
        refused(codec, packed[:end])


@pytest.mark.parametrize("codec", REAL)
def test_no_flipped_byte_escapes_as_another_exception(codec: Codec) -> None:
    data = b"some words, some words" * 20
    packed = bytearray(compress(codec, data))
    for place in range(len(packed)):
        packed[place] ^= 0x55
        assert outcome(codec, packed) in ("inflated", ErrorCode.CORRUPT_MESSAGE)
        packed[place] ^= 0x55


@pytest.mark.parametrize("codec", REAL)
@given(data=st.binary(max_size=200))
def test_rubbish_is_refused_or_inflates(codec: Codec, data: bytes) -> None:
    assert outcome(codec, data) in ("inflated", ErrorCode.CORRUPT_MESSAGE)


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([packer.compress(bytes(MIB)) for _ in range(256)]) + packer.flush()


def snappy_bomb() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    return snappy.compress(memoryview(b"")) + (len(block).to_bytes(4, "big") + block) * 64


def lz4_bomb() -> bytes:
    whole = lz4.compress(memoryview(bytes(MIB)), None)
    return whole[:7] + whole[7:-4] * 64 + whole[-4:]


def zstd_bomb() -> bytes:
    # Frame of unknown size with a window of 1 MiB; then 8000 RLE blocks of 128 KiB zeros, the last marked so: 1 GiB.
    block = (128 << 10 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (128 << 10 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return b"\x28\xb5\x2f\xfd\x00\x50" + block * 8000 + last


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [(Codec.GZIP, gzip_bomb), (Codec.SNAPPY, snappy_bomb), (Codec.LZ4, lz4_bomb), (Codec.ZSTD, zstd_bomb)],
)
def test_a_bomb_is_stopped_at_the_cap(codec: Codec, bomb: Callable[[], bytes]) -> None:
    data = bomb()
    cap = 4 * MIB
    tracemalloc.start()
    try:
        refused(codec, data, cap)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * cap


def test_the_zstd_bomb_is_one() -> None:
    assert len(decompress(Codec.ZSTD, zstd_bomb()[:10] + zstd_bomb()[-4:], bytes_max=MIB)) == 256 << 10


def test_declared_sizes_are_believed_before_anything_is_allocated() -> None:
    refused(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00" * 20)
    refused(Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00")


def test_a_zstd_window_that_no_client_reads_is_refused() -> None:
    assert (
        "window" in refused(Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00" + bytes((21 << 3,)) + b"\x01\x00\x00").message
    )


def skippable(nibble: int, data: bytes) -> bytes:
    return (0x184D2A50 + nibble).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data


def test_skippable_zstd_frames_are_passed_over_wherever_they_are() -> None:
    packed = bytes(cramjam.zstd.compress(b"a" * 99_000))
    for stream in (
        skippable(0, b"about") + packed,
        skippable(1, b"") + skippable(15, b"x" * 70_000) + packed,
        packed + skippable(3, b"about"),
    ):
        assert decompress(Codec.ZSTD, stream, bytes_max=MIB) == b"a" * 99_000
        refused(Codec.ZSTD, stream, 98_999)
        refused(Codec.ZSTD, stream[:-1])
    assert decompress(Codec.ZSTD, skippable(0, b"nothing else"), bytes_max=MIB) == b""
    refused(Codec.ZSTD, skippable(0, b"about") + zstd_bomb(), 4 * MIB)
    refused(Codec.ZSTD, skippable(0, b"about") + b"rubbish")
    refused(Codec.ZSTD, skippable(0, b"about")[:6])


def test_zstd_frames_and_gzip_members_in_a_row_are_one_stream() -> None:
    two = bytes(cramjam.zstd.compress(b"a" * 99)) + bytes(cramjam.zstd.compress(b"b" * 200_000))
    assert decompress(Codec.ZSTD, two, bytes_max=MIB) == b"a" * 99 + b"b" * 200_000
    assert decompress(Codec.GZIP, gzip.compress(b"a") + gzip.compress(b"b"), bytes_max=2) == b"ab"
    refused(Codec.GZIP, gzip.compress(b"a") + b"more")


def test_raw_snappy_and_xerial_streams_are_both_read() -> None:
    data = b"word " * 20_000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), bytes_max=MIB) == data
    twice = snappy.compress(memoryview(data)) * 2
    assert decompress(Codec.SNAPPY, twice, bytes_max=MIB) == data * 2
    assert twice.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")


def test_a_negative_xerial_block_is_refused() -> None:
    refused(Codec.SNAPPY, snappy.compress(memoryview(b"")) + b"\xff\xff\xff\xfe" + b"\x00" * 9)


def test_lz4_blocks_are_independent_and_every_library_reads_them() -> None:
    data = b"word " * 60_000
    packed = compress(Codec.LZ4, data)
    assert packed[4] & 0x20
    assert bytes(cramjam.lz4.decompress(packed)) == data


def test_linked_lz4_blocks_are_refused_as_java_would() -> None:
    linked = bytes(cramjam.lz4.compress(b"word " * 60_000))
    assert not linked[4] & 0x20
    assert "linked" in refused(Codec.LZ4, linked).message


def test_the_header_checksum_of_magic_0_is_broken_on_purpose() -> None:
    old, new = compress(Codec.LZ4, b"x" * 50, magic=0), compress(Codec.LZ4, b"x" * 50, magic=1)
    assert old[6] != new[6]
    assert old[:6] + old[7:] == new[:6] + new[7:]
    refused(Codec.LZ4, old)
    assert decompress(Codec.LZ4, new, bytes_max=50, magic=0) == b"x" * 50


def test_lz4_block_and_content_checksums_are_read() -> None:
    data = bytes(range(256)) * 4
    block = (len(data) | 1 << 31).to_bytes(4, "little") + data
    descriptor = bytes((0x40 | 0x20 | 0x10 | 0x08 | 0x04, 0x40)) + len(data).to_bytes(8, "little")
    frame = b"\x04\x22\x4d\x18" + descriptor + bytes((lz4.xxh32(descriptor) >> 8 & 0xFF,))
    frame += block + lz4.xxh32(data).to_bytes(4, "little") + bytes(4) + lz4.xxh32(data).to_bytes(4, "little")
    assert bytes(cramjam.lz4.decompress(frame)) == data
    assert decompress(Codec.LZ4, frame, bytes_max=len(data)) == data
    wrong = bytearray(frame)
    wrong[40] ^= 1
    assert "checksum" in refused(Codec.LZ4, bytes(wrong)).message


@pytest.mark.parametrize("with_size", [False, True])
def test_no_lz4_header_but_the_right_one_is_read(with_size: bool) -> None:
    descriptor = bytes((0x40 | 0x20 | with_size << 3, 0x40)) + (50).to_bytes(8, "little") * with_size
    header = b"\x04\x22\x4d\x18" + descriptor + bytes((lz4.xxh32(descriptor) >> 8 & 0xFF,))
    rest = (50 | 1 << 31).to_bytes(4, "little") + bytes(range(50)) + bytes(4)
    for _ in range(2):  # what was read once is kept, and only that
        assert decompress(Codec.LZ4, header + rest, bytes_max=50) == bytes(range(50))
        for place in range(len(header)):
            for bit in range(8):
                wrong = bytearray(header)
                wrong[place] ^= 1 << bit
                refused(Codec.LZ4, bytes(wrong) + rest)
            assert "cut off" in refused(Codec.LZ4, header[:place]).message


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_check_values(data: bytes, digest: int) -> None:
    assert lz4.xxh32(data) == digest


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codecs_are_corrupt(number: int) -> None:
    with pytest.raises(RecordError) as caught:
        codec_of(number | 0x10)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


# -- small zstd frames, which a decoder inflates that is kept ------------------------------------------------


def zstd_frame(content: bytes, *, declares: bool = True, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=declares, write_checksum=checksum).compress(content)


@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 4_000, 65_792, 131_072, 131_073, 400_000])
def test_zstd_frames_of_one_block_and_of_more_inflate_to_what_they_hold(
    size: int, checksum: bool, declares: bool
) -> None:
    for content in (bytes(size), bytes(index * index % 251 for index in range(size))):
        frame = zstd_frame(content, declares=declares, checksum=checksum)
        assert decompress(Codec.ZSTD, frame, bytes_max=size) == content
        assert decompress(Codec.ZSTD, frame + frame, bytes_max=2 * size) == content * 2
        if size:
            with pytest.raises(RecordError):
                decompress(Codec.ZSTD, frame, bytes_max=size - 1)


@pytest.mark.parametrize("declares", [True, False])
def test_a_small_zstd_frame_that_is_cut_off_changed_or_followed_by_bytes_is_refused(declares: bool) -> None:
    content = bytes(index * index % 251 for index in range(3_000))
    frame = zstd_frame(content, declares=declares, checksum=True)
    for end in range(len(frame)):
        with pytest.raises(RecordError):
            decompress(Codec.ZSTD, frame[:end], bytes_max=10_000)
    for place in range(len(frame)):
        changed = bytearray(frame)
        changed[place] ^= 0x10
        try:
            found = decompress(Codec.ZSTD, changed, bytes_max=10_000)
        except RecordError:
            continue
        assert found == content  # a bit without a meaning
    for more in (b"\0", b"\x28\xb5\x2f\xfd"):
        with pytest.raises(RecordError):
            decompress(Codec.ZSTD, frame + more, bytes_max=10_000)


def test_threads_inflate_zstd_beside_each_other() -> None:
    contents = [os.urandom(2_000) * 10 for _ in range(8)]
    frames = [zstd_frame(content) for content in contents]

    def again(number: int) -> bool:
        return all(
            decompress(Codec.ZSTD, frames[number], bytes_max=20_000) == contents[number] for _ in range(200)
        )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(again, range(8)))
