"""The sending half of a client's connection: parts of answers into the socket, as far as it has room."""

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pkafka.net.answers import ANSWER_BYTES_PER_WRITE_MAX, Answer, FileRange, Part
from pkafka.net.page_cache import PageCache
from pkafka.net.tls import TlsStream

_SENDFILE_CHUNK_BYTES: Final = 2 * 1024 * 1024
"""A file range goes out in chunks of this size, so that one fast reader does not keep the loop for itself."""
_COPIED_RANGE_BYTES_MAX: Final = 64 * 1024
"""A range of a file below this size, for which the page cache is not asked either, is read and sent with what surrounds
it: one call that wakes the client once costs less than three, also with the copy. Larger ones go by sendfile."""
_PARTS_PER_CALL_MAX: Final = 512
"""Half of what sendmsg takes on Linux (IOV_MAX)."""


class Outgoing:
    """What goes out on a socket, and what waits until the socket has room.

    Args:
        sock: of the connection, which closes it.
        page_cache: asked before a file range is sent, so that the loop does not wait for the disk; None sends at once.
        tls: encrypts what goes out; None: the bytes go out as they are.
    """

    __slots__ = ("_page_cache", "_sink", "_sock", "_tls", "in_memory", "waiting")

    def __init__(
        self, sock: socket.socket, page_cache: PageCache | None, tls: TlsStream | None = None
    ) -> None:
        self._sock = sock
        self._sink = sock if tls is None else tls
        self._tls = tls
        self._page_cache = page_cache
        self.waiting: deque[Part] = deque()
        self.in_memory = 0
        """So many bytes of the first part that waits are known to be in the page cache."""

    def write(self, parts: Answer) -> bool:
        """Write as much as the socket takes; the rest waits. Only when nothing waits.

        Returns:
            Whether all went out.

        Raises:
            OSError: the connection is lost, or a file is shorter than promised.
        """
        index, count = 0, len(parts)
        has_copies = False
        if count > 1:
            copied = _with_small_ranges_read(parts)
            has_copies = copied is not parts
            parts = copied
        while index < count:
            part = parts[index]
            if type(part) is FileRange:
                done = self._write_range(part)
                if done < part.length:
                    self.queue(
                        [FileRange(part.fd, part.position + done, part.length - done), *parts[index + 1 :]]
                    )
                    return False
                index += 1
                continue
            last = index + 1
            while last < count and type(parts[last]) is not FileRange:
                last += 1
            run: Sequence[bytes | bytearray | memoryview] = parts[index:last]  # type: ignore[assignment]
            if len(run) > 1 and not (has_copies and len(run) <= _PARTS_PER_CALL_MAX):
                run = [b"".join(run)]  # small things all of them
            # More follows from a file: let the kernel put both into the same packets.
            flags = socket.MSG_MORE if last < count else 0
            try:
                sent = self._sink.send(run[0], flags) if len(run) == 1 else self._sink.sendmsg(run, (), flags)
            except (BlockingIOError, InterruptedError):
                sent = 0
            if sent < (len(run[0]) if len(run) == 1 else sum(map(len, run))):
                self.queue([memoryview(b"".join(run))[sent:], *parts[last:]])
                return False
            index = last
        return True

    def _write_range(self, part: FileRange) -> int:
        """Send from the file until the socket is full, a chunk is out, or what follows is not in memory."""
        done = 0
        known = self.in_memory
        while done < part.length:
            wanted = min(part.length - done, _SENDFILE_CHUNK_BYTES)
            if self._page_cache is not None:
                if not known:
                    known = self._page_cache.bytes_in_memory(part.fd, part.position + done, wanted)
                    if not known:
                        break
                wanted = min(wanted, known)
            try:
                if self._tls is None:
                    sent = os.sendfile(self._sock.fileno(), part.fd, part.position + done, wanted)
                else:
                    sent = self._tls.send_range(part.fd, part.position + done, wanted)
            except (BlockingIOError, InterruptedError):
                break
            if sent == 0:
                # The file is shorter than promised (truncated meanwhile): the frame cannot be completed.
                raise ConnectionAbortedError("file range ended early")
            done += sent
            known = max(known - sent, 0)
            if done >= _SENDFILE_CHUNK_BYTES or (self._tls is None and sent < wanted):
                break  # the second is a full socket, which need not be asked
        self.in_memory = known if done < part.length else 0
        return done

    def queue(self, parts: Answer) -> None:
        """Write parts behind those that wait."""
        for part in parts:
            if type(part) is FileRange:
                # The log may close its descriptor before the client reads on.
                self.waiting.append(FileRange(os.dup(part.fd), part.position, part.length))
            else:
                self.waiting.append(bytes(part))

    def drain(self) -> None:
        """Write what waits, as much as the socket takes.

        Raises:
            OSError: the connection is lost, or a file is shorter than promised.
        """
        out = self.waiting
        while out:
            part = out[0]
            if type(part) is FileRange:
                done = self._write_range(part)
                if done < part.length:
                    out[0] = FileRange(part.fd, part.position + done, part.length - done)
                    return
                os.close(part.fd)
            else:
                try:
                    sent = self._sink.send(part, socket.MSG_MORE if len(out) > 1 else 0)  # type: ignore[arg-type]
                except (BlockingIOError, InterruptedError):
                    return
                if sent < len(part):
                    out[0] = memoryview(part)[sent:]  # type: ignore[arg-type]
                    return
            out.popleft()

    def unread_range(self) -> FileRange | None:
        """What has to be read from the disk before the socket can take more; None where nothing has to be."""
        part = self.waiting[0]
        if type(part) is FileRange and self._page_cache is not None and not self.in_memory:
            wanted = min(part.length, _SENDFILE_CHUNK_BYTES)
            if not self._page_cache.bytes_in_memory(part.fd, part.position, wanted):
                return FileRange(part.fd, part.position, wanted)
        return None

    def read_ahead(self, unread: FileRange, done: Callable[[int], None]) -> None:
        """Have a thread read a range; ``done`` is told how much of it is in memory then."""
        assert self._page_cache is not None
        self._page_cache.read_ahead(unread.fd, unread.position, unread.length, done)

    def give_up(self) -> None:
        """Forget what waits: the connection ends."""
        for part in self.waiting:
            if type(part) is FileRange:
                os.close(part.fd)
        self.waiting.clear()


def _with_small_ranges_read(parts: Answer) -> Answer:
    """The parts with the bytes of small ranges in their place, up to about a write's worth; themselves without any."""
    copied: list[Part] | None = None
    room = ANSWER_BYTES_PER_WRITE_MAX
    for place, part in enumerate(parts):
        if type(part) is FileRange and 0 < part.length < _COPIED_RANGE_BYTES_MAX and part.length <= room:
            data = os.pread(part.fd, part.length, part.position)
            if len(data) < part.length:
                break  # the file is shorter than promised; that is noticed where it is sent
            if copied is None:
                copied = list(parts)
            copied[place] = data
            room -= part.length
    return parts if copied is None else copied
