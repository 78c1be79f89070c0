"""The replicas of one worker that are to be in another log directory of the broker, and how far each of them is."""

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pkafka.model import Millis, Offset, TopicPartition
from pkafka.server.replicas.partition import PartitionKey
from pkafka.storage.log import Log


class Move:
    """Holds the state of one move.

    Attributes:
        future: the copy.
        truncations_seen: of the current replica, see :func:`.future_replica.next_step`.
        is_flushed: see :func:`.future_replica.next_step`.
        rests_until_ms: the end of its pause after a failure that may pass.
        is_failing: whether the last step failed.
        told: the last failure that was logged.
        read_ahead: the offset up to which the source was read into memory, or found there.
    """

    __slots__ = (
        "future",
        "is_failing",
        "is_flushed",
        "read_ahead",
        "rests_until_ms",
        "told",
        "truncations_seen",
    )

    def __init__(self, future: Log) -> None:
        self.future = future
        self.truncations_seen: int | None = None
        self.is_flushed = False
        self.rests_until_ms: Millis = 0
        self.is_failing = False
        self.told = ""
        self.read_ahead: Offset = -1


class Moving:
    """Holds the moves of one worker's replicas; :mod:`pkafka.server.replication.directory_moves` advances them."""

    def __init__(self) -> None:
        self.moves: dict[PartitionKey, Move] = {}
        self.wishes: dict[PartitionKey, Path] = {}
        """The directories that were asked for replicas that do not exist yet."""

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self.moves

    def logs(self) -> Iterator[Log]:
        """The future replicas."""
        yield from (move.future for move in self.moves.values())

    def future_of(self, key: PartitionKey) -> Log | None:
        """The future replica of a partition, when it moves."""
        move = self.moves.get(key)
        return None if move is None else move.future

    def found_on_disk(self, futures: Mapping[TopicPartition, Log]) -> None:
        """Go on with the moves that the last run of the broker, or this worker's predecessor, left."""
        self.moves.update({(key.topic, key.partition): Move(future) for key, future in futures.items()})

    def directory_failed(self, path: Path) -> None:
        """Forget the copies in a log directory that is offline; a start that finds them goes on with them."""
        for key, move in list(self.moves.items()):
            if move.future.directory.parent == path:
                del self.moves[key]
                move.future.fence(OSError(errno.EIO, os.strerror(errno.EIO)), "use")
                move.future.close()
