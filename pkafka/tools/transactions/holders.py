"""What holds the last stable offset of partitions back, where readers of committed records end. Does not print."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pkafka.errors import ApiError
from pkafka.model import LATEST, TopicPartition
from pkafka.tools.transactions.open_transactions import (
    KnownTransaction,
    OpenTransaction,
    known_transactions,
    open_transactions,
    will_end,
)

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


class HeldPartition(NamedTuple):
    """A partition whose last stable offset is behind its high watermark.

    Args:
        holder: the transaction that begins there; None where none is open any more, as when the marker that ended it
            is not replicated yet.
        known: what the coordinator of the holder says; None where no coordinator knows its producer.
        age_ms: for how long the holder has been open by its coordinator, or else since its producer wrote last.
    """

    partition: TopicPartition
    last_stable_offset: int
    high_watermark: int
    holder: OpenTransaction | None
    known: KnownTransaction | None
    age_ms: int | None

    @property
    def lag(self) -> int:
        """How many offsets readers of committed records cannot see yet."""
        return self.high_watermark - self.last_stable_offset

    @property
    def is_hanging(self) -> bool:
        """Whether there is a holder that no coordinator will end."""
        return self.holder is not None and not will_end(self.holder, self.known)


def held_partitions(
    admin: "Admin", partitions: Iterable[TopicPartition], *, now_ms: int
) -> list[HeldPartition]:
    """The partitions among these that a transaction holds back, sorted, with that transaction.

    Args:
        now_ms: milliseconds since the epoch, for ages.

    Raises:
        ApiError: a partition or a transactional id cannot be asked about.
    """
    return held_at(admin, held_ends(admin, partitions), now_ms=now_ms)


def held_at(
    admin: "Admin", ends: Mapping[TopicPartition, tuple[int, int]], *, now_ms: int
) -> list[HeldPartition]:
    """As :func:`held_partitions`, of partitions that are known to be held.

    Args:
        ends: last stable offset and high watermark of each.
    """
    holders = _holders(open_transactions(admin, ends)) if ends else {}
    known = known_transactions(admin, (each.producer.producer_id for each in holders.values()))
    found: list[HeldPartition] = []
    for partition, (stable, end) in sorted(ends.items()):
        holder = holders.get(partition)
        its = None if holder is None else known.get(holder.producer.producer_id)
        age_ms = None if holder is None else max(0, now_ms - _since_ms(holder, its))
        found.append(HeldPartition(partition, stable, end, holder, its, age_ms))
    return found


def held_ends(admin: "Admin", partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Last stable offset and high watermark of those partitions where the former is behind.

    Raises:
        ApiError: a leader does not say.
    """
    wanted = dict.fromkeys(partitions, LATEST)
    # In this order: what becomes stable in between is no longer held, and at worst looks held for a moment.
    stable = admin.list_offsets(wanted, read_committed=True)
    ends = admin.list_offsets(wanted)
    found: dict[TopicPartition, tuple[int, int]] = {}
    for partition, last in stable.items():
        end = ends[partition]
        if isinstance(last, ApiError):
            raise last
        if isinstance(end, ApiError):
            raise end
        if last.offset < end.offset:
            found[partition] = last.offset, end.offset
    return found


def _holders(transactions: Iterable[OpenTransaction]) -> dict[TopicPartition, OpenTransaction]:
    """The first open transaction of each partition."""
    first: dict[TopicPartition, OpenTransaction] = {}
    for each in transactions:
        held = first.get(each.partition)
        if held is None or each.start_offset < held.start_offset:
            first[each.partition] = each
    return first


def _since_ms(holder: OpenTransaction, known: KnownTransaction | None) -> int:
    started_ms = known.description.start_time_ms if known is not None and will_end(holder, known) else None
    return holder.producer.last_timestamp if started_ms is None else started_ms
