"""A lock between the processes of one broker, which the kernel releases when its holder dies."""

import fcntl
import os
import tempfile
from types import TracebackType


class SharedLock:
    """Keeps the other processes out while one is inside, for microseconds only. Made before they are forked.

    Args:
        name: under which the kernel shows it.
    """

    def __init__(self, name: str) -> None:
        self._fd = lock_file(name)

    def __enter__(self) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_EX)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN)


def lock_file(name: str) -> int:
    """Make a file that nothing but locks is for; its number stays valid in forked processes."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
