"""What a commit of offsets comes to: refusals, the records of what is accepted, the outcome for the client."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import Millis
from pkafka.records.builder import RecordFields
from pkafka.server.groups.offsets import PartitionKey
from pkafka.server.groups.records import CommittedOffset, encode_offset_key, encode_offset_value

Outcomes: TypeAlias = dict[PartitionKey, ErrorCode]
Commits: TypeAlias = Mapping[PartitionKey, CommittedOffset]

_COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_COORDINATOR_NOT_AVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)


class Waiting:
    """Holds the outcomes of one commit, some of which may come later.

    Args:
        outcomes: those that are known.
    """

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._is_over = False
        self._waiter: asyncio.Future[Outcomes] | None = None

    def end(self, outcomes: Outcomes) -> None:
        """Note the outcomes of all others."""
        self._is_over = True
        self._outcomes.update(outcomes)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(self._outcomes)

    def outcomes(self) -> "Outcomes | asyncio.Future[Outcomes]":
        """All outcomes, or what gives them later."""
        if self._is_over:
            return self._outcomes
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter


def accepted(
    commits: Commits, metadata_chars_max: int
) -> tuple[Outcomes, dict[PartitionKey, CommittedOffset]]:
    """Refuse commits with too much metadata.

    Returns:
        The refusals, and the other commits.
    """
    good = {key: one for key, one in commits.items() if java_length(one.metadata) <= metadata_chars_max}
    refused = {key: ErrorCode.OFFSET_METADATA_TOO_LARGE for key in commits if key not in good}
    return refused, good


def java_length(text: str) -> int:
    """The length of a string in Java: its UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def records_of(group_id: str, commits: Commits, now_ms: Millis) -> list[RecordFields]:
    """Make the records of a group's commits."""
    return [
        (now_ms, encode_offset_key(group_id, *key), encode_offset_value(one), ())
        for key, one in commits.items()
    ]


def tombstones_of(group_id: str, keys: Iterable[PartitionKey], now_ms: Millis) -> list[RecordFields]:
    """Make the records that remove a group's offsets."""
    return [(now_ms, encode_offset_key(group_id, *key), None, ()) for key in keys]


def told_of(error: ErrorCode) -> ErrorCode:
    """Return the error that a client hears when its commit was not appended or its transaction not verified.

    NONE for NONE. As Kafka's GroupMetadataManager.maybeConvertOffsetCommitError: old producers do not know that they
    may repeat a request after NETWORK_EXCEPTION (KAFKA-16386).
    """
    if not error:
        return error
    if error in _COORDINATOR_MOVED:
        return ErrorCode.NOT_COORDINATOR
    if error in _COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else error
