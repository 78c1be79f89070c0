import contextlib
import gc
import random
import threading
import weakref
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.records import compression, room
from pkafka.records.compression import Codec, compress, decompress, inflate
from pkafka.records.errors import RecordError
from pkafka.records.room import KEPT_BYTES
from tests.unit.records.test_compression import gzip_bomb, lz4_bomb, snappy_bomb, zstd_bomb

REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20
MUCH = 1 << 30


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the memory that is asked of the system, from a thread's first batch on."""
    sizes: list[int] = []
    plain = room._map

    def noted(size_bytes: int) -> memoryview:
        sizes.append(size_bytes)
        return plain(size_bytes)

    monkeypatch.setattr(room, "_map", noted)
    monkeypatch.setattr(room, "_kept", threading.local())
    return sizes


def words(size_bytes: int) -> bytes:
    """Shrinks by about a half."""
    dice = random.Random(size_bytes)
    return dice.randbytes(size_bytes // 2).hex().encode()[:size_bytes]


@pytest.mark.parametrize("codec", REAL)
def test_a_thread_asks_the_system_for_memory_once(codec: Codec, mapped: list[int]) -> None:
    for size in (10, 70_000, 3 * MIB, 2_000, KEPT_BYTES):
        data = words(size)
        assert bytes(inflate(codec, compress(codec, data), bytes_max=MUCH)) == data
    assert mapped == [KEPT_BYTES]


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_a_larger_batch_needs_is_given_back_with_it(codec: Codec, mapped: list[int]) -> None:
    data = words(MIB) * 21
    view = inflate(codec, compress(codec, data), bytes_max=MUCH)
    assert view == data
    memory = weakref.ref(view.obj)
    del view
    assert memory() is None
    assert decompress(codec, compress(codec, b"small"), bytes_max=MUCH) == b"small"


@pytest.mark.parametrize("codec", REAL)
def test_a_batch_is_not_mixed_with_that_of_another_thread(codec: Codec) -> None:
    here, there = words(90_000), words(100_000)
    view = inflate(codec, compress(codec, here), bytes_max=MIB)
    other = threading.Thread(
        target=decompress, args=(codec, compress(codec, there)), kwargs={"bytes_max": MIB}
    )
    other.start()
    other.join()
    assert view == here


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [(Codec.GZIP, gzip_bomb), (Codec.SNAPPY, snappy_bomb), (Codec.LZ4, lz4_bomb), (Codec.ZSTD, zstd_bomb)],
)
def test_a_bomb_gets_no_more_memory_than_a_batch_may_have(
    codec: Codec, bomb: Callable[[], bytes], mapped: list[int]
) -> None:
    cap = 40 * MIB
    with pytest.raises(RecordError):
        inflate(codec, bomb(), bytes_max=cap)
    assert max(mapped) <= cap + 4 * MIB
    at_a_time = KEPT_BYTES + sum(sorted(mapped)[-2:])  # while the smaller is copied to the larger
    assert at_a_time <= 2 * cap + KEPT_BYTES + 4 * MIB


@pytest.mark.parametrize(
    "bomb", [(Codec.SNAPPY, snappy_bomb), (Codec.LZ4, lz4_bomb), (Codec.ZSTD, zstd_bomb)]
)
def test_what_was_refused_keeps_no_memory(
    bomb: tuple[Codec, Callable[[], bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    memories: list[weakref.ref[object]] = []
    plain = room._map

    def noted(size_bytes: int) -> memoryview:
        memory = plain(size_bytes)
        memories.append(weakref.ref(memory.obj))
        return memory

    inflate(
        bomb[0], compress(bomb[0], b"small"), bytes_max=MIB
    )  # so that what the thread keeps is not among them
    monkeypatch.setattr(room, "_map", noted)
    gc.disable()
    try:
        with contextlib.suppress(RecordError):
            inflate(bomb[0], bomb[1](), bytes_max=20 * MIB)
        assert memories
        assert [memory() for memory in memories] == [None] * len(memories)
    finally:
        gc.enable()


@given(data=st.binary(min_size=1, max_size=300), place=st.integers(0), change=st.integers(0, 255))
def test_gzip_data_is_judged_as_the_standard_library_does(data: bytes, place: int, change: int) -> None:
    packed = bytearray(zlib.compress(data, wbits=31) + zlib.compress(data[:9], wbits=31))
    packed[place % len(packed)] ^= change
    try:
        slowly: bytes | None = compression._inflate_odd_gzip(memoryview(packed), MIB)
    except RecordError:
        slowly = None
    try:
        fast: bytes | None = decompress(Codec.GZIP, packed, bytes_max=MIB)
    except RecordError:
        fast = None
    assert fast == slowly
