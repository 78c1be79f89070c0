"""What a broker's files and refusals show, and records of any age for it."""

import time
from collections.abc import Callable

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.batch import read_header
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.testing import Broker

BLOCK = b"x" * 1000
HOUR_MS = 3_600_000


def segments(broker: Broker, topic: str, partition: int = 0) -> list[int]:
    """The base offsets of the segments on disk."""
    return sorted(int(path.stem) for path in (broker.log_dir / f"{topic}-{partition}").glob("*.log"))


def stored(broker: Broker, topic: str) -> list[tuple[Codec, int]]:
    """Codec and size of every batch of the first segment of partition 0."""
    data = (broker.log_dir / f"{topic}-0" / f"{0:020}.log").read_bytes()
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        found.append((Codec(header.codec), header.size_bytes))
        position += header.size_bytes
    return found


def checkpointed(broker: Broker, name: str, topic: str) -> int | None:
    """What ``NAME-offset-checkpoint`` says of partition 0; None as long as it does not name it."""
    try:
        lines = (broker.log_dir / f"{name}-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return None
    rows = [line.split() for line in lines[2:]]
    return {row[0]: int(row[2]) for row in rows if row[1] == "0"}.get(topic)


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.code


def aged(value: bytes = BLOCK, *, hours: float, key: bytes | None = None) -> bytes:
    """A batch of one record that is that old."""
    timestamp = time.time_ns() // 1_000_000 - int(hours * HOUR_MS)
    return bytes(build_batch([(timestamp, key, value, ())]))
