"""What an answer is made of: bytes, and ranges of files that the kernel copies."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

ANSWER_BYTES_PER_WRITE_MAX: Final = 256 * 1024
"""Answers are gathered into one write up to about this size."""


class FileRange(NamedTuple):
    """Bytes of an open file that the kernel copies to the socket (sendfile)."""

    fd: int
    position: int
    length: int


Part: TypeAlias = bytes | bytearray | memoryview | FileRange
Answer: TypeAlias = Sequence[Part]
NO_ANSWER: Final[Answer] = ()
