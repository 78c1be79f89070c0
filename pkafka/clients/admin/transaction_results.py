"""What admin calls about transactions are given and give back."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from pkafka.errors import ApiError
from pkafka.model import TopicPartition


class TransactionState(Enum):
    """Where a transactional id is in its life; the values are what Kafka's tools print."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @classmethod
    def parse(cls, text: str) -> "TransactionState":
        """The state of that name; UNKNOWN for every other text, as of a coordinator that is newer."""
        return _STATES.get(text, cls.UNKNOWN)

    @property
    def is_decided(self) -> bool:
        """Whether the end of the transaction is decided, and the coordinator has markers left to write."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


_STATES = {state.value: state for state in TransactionState}


class TransactionListing(NamedTuple):
    """One transactional id. ``coordinator`` is the id of the broker that answered."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: TransactionState


class TransactionList(NamedTuple):
    """The transactional ids of the brokers that answered, and why the others did not, by broker id."""

    transactions: tuple[TransactionListing, ...]
    errors: Mapping[int, ApiError]


class TransactionDescription(NamedTuple):
    """One transactional id as its coordinator knows it.

    Args:
        coordinator: the id of that broker.
        timeout_ms: after so long the coordinator aborts a transaction that goes on.
        start_time_ms: when its transaction began, in milliseconds since the epoch; None where it has none.
        partitions: those in its transaction. Once the end is decided, those that still wait for their marker.
    """

    coordinator: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerIdAndEpoch(NamedTuple):
    """The identity that a coordinator gives a producer."""

    producer_id: int
    producer_epoch: int


class AbortSpec(NamedTuple):
    """The transaction of a producer in one partition, which a marker is to end (KIP-664).

    Args:
        coordinator_epoch: of the marker. The partition refuses it when a coordinator with a higher epoch has written
            a marker of this producer; 0 where no coordinator has.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
