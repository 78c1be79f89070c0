"""The states of a transactional id, their numbers in the log, and which may follow which."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """Names the states; the numbers are those of the records in __transaction_state."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """The name that Kafka's requests and tools use."""
        return self.name.title().replace("_", "")

    @property
    def is_decided(self) -> bool:
        """Whether the end of the transaction is decided, and markers are still to be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether there is no transaction: the id may begin one, or expire."""
        return self in _IDLE

    @property
    def completed(self) -> "TransactionState":
        """The state after a decided one, once all markers are written."""
        return _COMPLETED[self]


BY_TEXT: Final[Mapping[str, TransactionState]] = {each.text: each for each in TransactionState}

_IDLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
_COMPLETED: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}

MAY_FOLLOW: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.ONGOING}),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""For each state that is written, the states it may come after. Kafka keeps a fence (PrepareEpochFence) in memory only,
and never leaves an id in Dead; here both are no states that an id can be in."""
