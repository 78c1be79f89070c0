"""What goes wrong in a consumer beside what every client meets; each names Kafka's exception it stands for."""

from collections.abc import Mapping

from pkafka.clients.errors import ClientError, NoOffsetError
from pkafka.clients.errors import CommitFailedError as CommitFailedError
from pkafka.clients.errors import IllegalStateError as IllegalStateError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition


class ConcurrentModificationError(ClientError, RuntimeError):
    """A second thread called while a call was under way; only ``wakeup`` may (ConcurrentModificationException)."""


class InvalidGroupIdError(ApiError):
    """Groups and commits need ``group.id`` (InvalidGroupIdException)."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.INVALID_GROUP_ID,
            "To use the group management or offset commit APIs, you must provide a valid group.id in the "
            "consumer configuration.",
        )


class RetriableCommitFailedError(ClientError):
    """An asynchronous commit failed with what may pass; it is not tried again, for order (same name in Kafka)."""

    retriable = True

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Offset commit failed with a retriable exception: {cause}")
        self.__cause__ = cause


class OffsetOutOfRangeError(NoOffsetError):
    """Positions lie outside the logs, and ``auto.offset.reset=none`` (OffsetOutOfRangeException).

    Args:
        positions: partition to the position that its leader does not have.
    """

    def __init__(self, positions: Mapping[TopicPartition, int], message: str | None = None) -> None:
        at = ", ".join(f"{partition}: {offset}" for partition, offset in positions.items())
        super().__init__(
            message or f"Fetch position out of range and there is no reset policy for partitions: {at}"
        )
        self.positions = dict(positions)


class LogTruncationError(OffsetOutOfRangeError):
    """A log was truncated below what was read of it, and ``auto.offset.reset=none`` (LogTruncationException).

    Args:
        positions: partition to the position that is not there any more.
        divergent: partition to the first offset that differs, where the leader knows it.
    """

    def __init__(
        self,
        positions: Mapping[TopicPartition, int],
        divergent: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        at = ", ".join(f"{partition}: {offset}" for partition, offset in positions.items())
        super().__init__(positions, f"Detected log truncation with diverging offsets of partitions {at}")
        self.divergent = dict(divergent)


class RecordDeserializationError(ClientError):
    """A key or value cannot be read; seek behind ``offset`` to go on (RecordDeserializationException).

    Args:
        partition, offset: of the record.
        part: ``key`` or ``value``.
    """

    def __init__(self, partition: TopicPartition, offset: int, part: str, cause: Exception) -> None:
        super().__init__(
            f"Error deserializing {part.upper()} for partition {partition} at offset {offset}. If needed, please "
            f"seek past the record to continue consumption. {cause}"
        )
        self.partition = partition
        self.offset = offset
        self.part = part
        self.__cause__ = cause
