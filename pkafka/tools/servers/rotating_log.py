"""A log file that several processes write: the family of one broker, forked after the handler was made.

Every line is one write to a file opened for appending, so lines of different processes never mix. The process that
finds the file full shifts ``name``, ``name.1``, ``name.2`` ... under a lock. The others notice that the file at the
path is another one now and open that.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 10 * 1024 * 1024
FILES_KEPT: Final = 10


_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


class OneLineFormatter(logging.Formatter):
    """Keeps a message in one line: it may quote a client, which must neither begin lines nor control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, control characters written out."""
        record.message = record.message.translate(_CONTROL)
        return super().formatMessage(record)


class SharedRotatingHandler(logging.Handler):
    """Appends to a file that stays below a size.

    Args:
        path: the file; its folder must exist.
        bytes_max: a file that reached this is put aside.
        kept: how many files put aside are kept.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX, kept: int = FILES_KEPT) -> None:
        super().__init__()
        self._path = path.absolute()
        self._bytes_max = bytes_max
        self._kept = kept
        self._fd = self._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; what fails goes the way of the standard library, to standard error."""
        try:
            line = (self.format(record) + "\n").encode(errors="backslashreplace")
            if not self._is_current():
                self._reopen()
            if os.fstat(self._fd).st_size + len(line) > self._bytes_max:
                self._rotate()
            os.write(self._fd, line)
        except Exception:  # noqa: BLE001 - the contract of logging.Handler
            self.handleError(record)

    def close(self) -> None:
        """Close the file of this process."""
        self.acquire()
        try:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
        finally:
            self.release()
        super().close()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _reopen(self) -> None:
        old, self._fd = self._fd, self._open()
        os.close(old)

    def _is_current(self) -> bool:
        """Whether the file at the path is still the one that is open."""
        try:
            there, here = os.stat(self._path), os.fstat(self._fd)
        except FileNotFoundError:
            return False
        return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)

    def _rotate(self) -> None:
        # Opened anew each time: processes that share a descriptor across a fork would share its lock too.
        lock = os.open(self._beside("lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current():  # no other process was faster
                for number in range(self._kept - 1, 0, -1):
                    older = self._beside(str(number))
                    if older.exists():
                        older.replace(self._beside(str(number + 1)))
                self._path.replace(self._beside("1"))
            self._reopen()
        finally:
            os.close(lock)

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{suffix}")
