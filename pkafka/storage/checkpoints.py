"""Offset checkpoints: one small text file per data directory and purpose.

Format, the same for all four files, each line ended by a newline:
    0                          version
    2                          number of entries
    topic partition offset     once per entry

This module does not say which process may write them: one per broker does, the others only read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pkafka.errors import StorageError
from pkafka.java.numbers import parse_int, parse_long
from pkafka.java.text import lines as lines_of
from pkafka.java.text import split_blanks
from pkafka.model import Offset, TopicPartition
from pkafka.storage.files import Files, disk_failure, read_file, replace_file

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"

_VERSION: Final = "0"


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """The text of a checkpoint file."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes, origin: str) -> dict[TopicPartition, Offset]:
    """Read the text of a checkpoint file.

    Raises:
        StorageError: it is not one, with the line that is wrong; ``origin`` names the file.
    """
    lines = lines_of(data.decode("utf-8", errors="replace"))
    if not lines:
        return {}
    if lines[0] != _VERSION:
        raise StorageError(f"{origin}: version {lines[0]!r} where {_VERSION} is known")
    offsets: dict[TopicPartition, Offset] = {}
    for number, line in enumerate(lines[2:], start=3):
        try:
            topic, partition, offset = split_blanks(line)
            offsets[TopicPartition(topic, parse_int(partition))] = parse_long(offset)
        except ValueError:
            raise StorageError(f"{origin}: line {number} is not 'topic partition offset': {line!r}") from None
    if len(lines) < 2 or lines[1] != str(len(offsets)):
        raise StorageError(f"{origin}: the file does not hold the number of entries that it promises")
    return offsets


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, Offset]:
    """The offsets in a checkpoint file; none when there is no file.

    Raises:
        StorageError: the file cannot be read or is damaged.
    """
    try:
        data = read_file(files, path)
    except OSError as error:
        raise disk_failure(path, "read", error) from error
    return {} if data is None else decode_offsets(data, str(path))


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replace a checkpoint file, on the disk when this returns.

    Raises:
        StorageError: the disk refused; the old file is still whole.
    """
    try:
        replace_file(files, path, encode_offsets(offsets))
    except OSError as error:
        raise disk_failure(path, "write", error) from error
