"""A record as it is handed to a producer."""

from collections.abc import Sequence
from typing import Any, Final

from pkafka.clients.errors import IllegalArgumentError

_TIMESTAMP_MAX: Final = 2**63 - 1


class ProducerRecord:
    """What ``send()`` takes, and what interceptors see and may replace.

    Args:
        topic: where it goes.
        value, key: what the serializers know.
        partition: overrides the choice by key.
        timestamp_ms: since the epoch; the time of sending when left out.
        headers: names and bytes.

    Raises:
        IllegalArgumentError: no topic, a negative partition, or a timestamp that is negative or no number of 64 bits.
    """

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 - what the application sends
        key: Any = None,  # noqa: ANN401 - as above
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        check_place(topic, partition, timestamp_ms)
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.headers = headers

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"ProducerRecord({values})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerRecord):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment] # headers may be a list


def check_place(topic: str | None, partition: int | None, timestamp_ms: int | None) -> None:
    """Refuse what Kafka's ProducerRecord refuses.

    Raises:
        IllegalArgumentError: see :class:`ProducerRecord`.
    """
    if topic is None:
        raise IllegalArgumentError("Topic cannot be null.")
    if timestamp_ms is not None and timestamp_ms < 0:
        raise IllegalArgumentError(
            f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative or null."
        )
    if timestamp_ms is not None and timestamp_ms > _TIMESTAMP_MAX:
        raise IllegalArgumentError(f"Invalid timestamp: {timestamp_ms}. It does not fit 64 bits.")
    if partition is not None and partition < 0:
        raise IllegalArgumentError(
            f"Invalid partition: {partition}. Partition number should always be non-negative or null."
        )
