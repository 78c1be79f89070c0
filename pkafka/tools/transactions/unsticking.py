"""Ends the transactions that hold partitions back: what is done about each is decided here and carried out apart."""

import time
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.tools.transactions.holders import HeldPartition, held_ends

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

_LOOK_AGAIN_S: Final = 0.1


class Remedy(Enum):
    """What ends the transaction that holds a partition back; the values are those in JSON."""

    FENCE = "fence"
    """Its coordinator aborts it in all its partitions and shuts its producer out."""

    MARKER = "marker"
    """No coordinator knows it: the leader of the partition writes a marker."""

    WAIT = "wait"
    """Its end is decided and the coordinator writes the markers, or nothing is open any more; nothing is done."""

    YOUNG = "young"
    """It began only just now, so it is left alone."""


class Step(NamedTuple):
    """What is to be done about one partition."""

    held: HeldPartition
    remedy: Remedy


def plan(held: Iterable[HeldPartition], *, older_than_ms: int) -> list[Step]:
    """What to do about each partition.

    Args:
        older_than_ms: transactions that are not older than this are left alone.
    """
    return [Step(each, _remedy(each, older_than_ms)) for each in held]


def _remedy(held: HeldPartition, older_than_ms: int) -> Remedy:
    if held.holder is None:
        return Remedy.WAIT
    if held.age_ms is not None and held.age_ms < older_than_ms:
        return Remedy.YOUNG
    if held.is_hanging:
        return Remedy.MARKER
    assert held.known is not None
    return Remedy.WAIT if held.known.description.state.is_decided else Remedy.FENCE


def carry_out(admin: "Admin", steps: Iterable[Step]) -> dict[TopicPartition, ApiError | None]:
    """End the transactions; each transactional id is fenced once, however many partitions it holds back.

    Returns:
        Why a partition's transaction could not be ended; None where it was, or nothing was to be done.
    """
    outcomes: dict[TopicPartition, ApiError | None] = {}
    fenced: dict[str, ApiError | None] = {}
    for held, remedy in steps:
        outcome: ApiError | None = None
        if remedy is Remedy.FENCE:
            assert held.known is not None
            transactional_id = held.known.transactional_id
            if transactional_id not in fenced:
                fenced[transactional_id] = _fence(admin, transactional_id)
            outcome = fenced[transactional_id]
        elif remedy is Remedy.MARKER:
            outcome = _mark(admin, held)
        outcomes[held.partition] = outcome
    return outcomes


def wait_until_moved(
    admin: "Admin", before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> set[TopicPartition]:
    """Wait until the last stable offset of each partition has moved, or time is up.

    Args:
        before: the last stable offsets as they were.

    Returns:
        The partitions that are held where they were.

    Raises:
        ApiError: a leader does not say.
    """
    deadline_s = time.monotonic() + timeout_ms / 1_000
    left = dict(before)
    while left:
        ends = held_ends(admin, left)
        left = {each: left[each] for each, (stable, _) in ends.items() if stable <= left[each]}
        if not left or time.monotonic() >= deadline_s:
            break
        time.sleep(_LOOK_AGAIN_S)
    return set(left)


def _fence(admin: "Admin", transactional_id: str) -> ApiError | None:
    outcome = admin.fence_producers([transactional_id])[transactional_id]
    return outcome if isinstance(outcome, ApiError) else None


def _mark(admin: "Admin", held: HeldPartition) -> ApiError | None:
    from pkafka.clients.admin.transaction_results import AbortSpec

    assert held.holder is not None
    producer = held.holder.producer
    spec = AbortSpec(
        held.partition, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0
    )
    return admin.abort_transaction(spec)
