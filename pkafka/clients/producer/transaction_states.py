"""What the machine of transactions (``transactions.py``) keeps: its state, outcomes, offsets of groups."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from pkafka.clients.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pkafka.model import TopicPartition


class State(Enum):
    """Kafka's states of a transactional producer."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


# What calls may lead to, from where; errors come from everywhere.
SOURCES: Final[Mapping[State, frozenset[State]]] = {
    State.INITIALIZING: frozenset({State.UNINITIALIZED}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.COMMITTING_TRANSACTION: frozenset({State.IN_TRANSACTION}),
    State.ABORTING_TRANSACTION: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR}),
}
COMPLETING: Final = frozenset({State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION})
CAN_BE_ABORTED: Final = frozenset(
    {State.IN_TRANSACTION, State.COMMITTING_TRANSACTION, State.ABORTABLE_ERROR, State.INITIALIZING}
)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


class Outcome:
    """What became of a call, once ``done``. ``taken`` when the caller has heard of it."""

    __slots__ = ("done", "error", "operation", "taken")

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.done = False
        self.error: Exception | None = None
        self.taken = False

    def settle(self, error: Exception | None = None) -> None:
        """Set it, once."""
        if not self.done:
            self.done = True
            self.error = error


class GroupOffsets:
    """Offsets of a group on their way into the transaction: first the group is added to it, then they are stored."""

    def __init__(self, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
        self.all = dict(offsets)
        self.left = dict(offsets)
        self.group = group
        self.outcome = Outcome("send_offsets_to_transaction")
        self.was_asked = False
        """Whether the coordinator may have added the group."""
        self.is_added = False
