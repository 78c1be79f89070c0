"""What is in memory is told from what is not, and is there after it was read ahead."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pkafka.net.page_cache import PageCache

SIZE = 1_000_000


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


def test_evicted_bytes_are_not_in_memory_until_they_are_read_ahead(fd: int) -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            page_cache = PageCache(threads)
            assert page_cache.bytes_in_memory(fd, 10, 500_000) == 500_000
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            # A file system in memory (tmpfs) has nowhere to put them.
            assert page_cache.bytes_in_memory(fd, 10, 500_000) in (0, 500_000)
            done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            page_cache.read_ahead(fd, 10, 500_000, done.set_result)
            assert await asyncio.wait_for(done, 60) == 500_000
            assert page_cache.bytes_in_memory(fd, 10, 500_000) == 500_000

    asyncio.run(test())


def test_the_end_of_the_file_is_the_senders_to_notice(fd: int) -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            page_cache = PageCache(threads)
            assert page_cache.bytes_in_memory(fd, SIZE - 10, 500_000) == 500_000
            done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            page_cache.read_ahead(fd, SIZE - 10, 500_000, done.set_result)
            assert await asyncio.wait_for(done, 60) == 500_000

    asyncio.run(test())


def test_little_is_not_asked_for() -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            assert PageCache(threads).bytes_in_memory(-1, 0, 60_000) == 60_000

    asyncio.run(test())


def test_where_the_system_cannot_tell_everything_counts_as_in_memory() -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as threads:
            page_cache = PageCache(threads)
            read_end, write_end = os.pipe()  # a pipe has no positions: the call fails
            try:
                assert page_cache.bytes_in_memory(read_end, 0, 100_000) == 100_000
            finally:
                os.close(read_end)
                os.close(write_end)

    asyncio.run(test())
