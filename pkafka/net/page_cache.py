"""Whether bytes of a file are in memory, and reading them ahead on a thread that may wait.

sendfile of pages that are not in the page cache waits for the disk, and with it the event loop and all of its clients.
So a reader of old data is held back until a thread has read what it wants next; others go on meanwhile.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from mypy_extensions import mypyc_attr

_STRIDE_BYTES: Final = 512 * 1024
"""Pages come and go in long runs, so one byte of each stride stands for it: a probe costs 2 to 3 µs, sending a stride
60. Where a run ends within a stride, the loop waits for the disk once, for less than that."""
_UNASKED_BYTES_MAX: Final = 64 * 1024
"""Less than this is not asked for: a client that reads old records reads much at once."""
_READ_BYTES: Final = 1024 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class PageCache:
    """The page cache as one event loop sees it.

    Args:
        threads: where reads that wait for the disk happen.
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._can_ask = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
        self._probe = [bytearray(1)]

    def bytes_in_memory(self, fd: int, position: int, length: int) -> int:
        """How many of the bytes at ``position`` can be read without waiting for the disk; 0 when the first cannot.

        Everything where the system cannot tell, for small reads and for reads past the end of the file.
        """
        if length < _UNASKED_BYTES_MAX or not self._can_ask:
            return length
        done = 0
        try:
            while done < length:
                step = min(_STRIDE_BYTES, length - done)
                if not os.preadv(fd, self._probe, position + done + step - 1, os.RWF_NOWAIT):
                    return length
                done += step
        except BlockingIOError:
            return done
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                self._can_ask = False
            return length
        return done

    def read_ahead(self, fd: int, position: int, length: int, done: Callable[[int], None]) -> None:
        """Bring bytes into memory, then call ``done`` with ``length`` on the event loop, whatever came of it.

        An error of the disk is not told: the read that follows meets it too.

        Raises:
            OSError: no descriptor is left to keep the file open meanwhile.
        """
        own = os.dup(fd)
        try:
            future = self._loop.run_in_executor(self._threads, _read, own, position, length)
        except RuntimeError:  # the threads were stopped; the loop is about to end
            os.close(own)
            return

        def finished(_future: "asyncio.Future[None]") -> None:
            os.close(own)
            if not _future.cancelled():
                _future.exception()
            done(length)

        future.add_done_callback(finished)


def _read(fd: int, position: int, length: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, length, os.POSIX_FADV_WILLNEED)
    buffer = bytearray(min(length, _READ_BYTES))
    end = position + length
    while position < end:
        count = os.preadv(fd, [memoryview(buffer)[: end - position]], position)
        if not count:
            return
        position += count
