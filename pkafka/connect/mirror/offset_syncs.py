"""Translates offsets of a source to offsets of its copy, by what offset syncs say: ``OffsetSyncStore``.

Of each partition 64 syncs are kept, more of its end than of its beginning (KAFKA-12468, KAFKA-15906). Let ``syncs`` be
these, the latest first:

* ``syncs[0]`` is the latest that was read;
* for i < j: ``syncs[i].upstream <= syncs[j].upstream + 2^j - 2^i``: the further back, the older they may be;
* neighbours are the same sync, or at least ``2^max(i - 2, 0)`` apart: none is wasted on nearly the same place;
* ``syncs[63]`` is the earliest that may be used.

Pure: who reads the topic hands in the records.
"""

from collections.abc import Sequence
from typing import Final

from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition

SYNCS_PER_PARTITION: Final = 64
TOO_OLD: Final = -1
"""The translation of an offset before the earliest sync."""
_TWO_63: Final = 1 << 63


class OffsetSyncStore:
    """Keeps offset syncs, and translates.

    Args:
        needs_end: whether only the last sync of a partition counts among those that were there at the start. So it is
            without earlier checkpoints: a translation by older syncs might go behind one that was given before.
    """

    def __init__(self, *, needs_end: bool = True) -> None:
        self.needs_end = needs_end
        self.is_at_end = False
        """Whether all syncs were read that were there at the start; nothing is translated before."""
        self._partitions: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, sync: OffsetSync) -> None:
        """Take the next sync of the topic."""
        known = self._partitions.get(sync.partition)
        keeps_one = (
            known is None or (self.needs_end and not self.is_at_end) or sync.upstream < known[0].upstream
        )
        # A new list, so that a thread that translates meanwhile sees the old one or the new one.
        self._partitions[sync.partition] = (
            [sync] * SYNCS_PER_PARTITION if known is None or keeps_one else _with(known, sync)
        )

    def syncs(self, partition: TopicPartition) -> Sequence[OffsetSync]:
        """What is kept of a partition of the source, the latest first."""
        return self._partitions.get(partition, ())

    def translate(self, partition: TopicPartition, upstream: int) -> int | None:
        """Where a group goes on in the copy that is at ``upstream`` in a partition of the source.

        Not further than one behind the record of the nearest earlier sync: of what lies between, nobody knows how much
        was copied. So a group may read some records again, and misses none.

        Returns:
            The offset; :data:`TOO_OLD` before the earliest sync; None when there are no syncs, or not all were read.
        """
        known = self._partitions.get(partition)
        if known is None or not self.is_at_end:
            return None
        sync = next((each for each in known if each.upstream <= upstream), None)
        if sync is None:
            return TOO_OLD
        return sync.downstream + (upstream != sync.upstream)


def _with(known: list[OffsetSync], latest: OffsetSync) -> list[OffsetSync]:
    """The syncs that are kept when another comes."""
    syncs = list(known)
    syncs[0] = candidate = latest
    offered = 0
    for index in range(1, SYNCS_PER_PARTITION):
        candidate, offered = _candidate(syncs, known, index, candidate, offered)
        if _is_recent(syncs[index - 1], syncs[index], index - 1, index):
            break  # and so are all behind it
        syncs[index] = candidate
    return syncs


def _candidate(
    syncs: list[OffsetSync], known: list[OffsetSync], index: int, candidate: OffsetSync, offered: int
) -> tuple[OffsetSync, int]:
    """The sync to put at an index: rather an old one that fits than the latest again, so that more different ones stay.

    Args:
        syncs: as they become; all before ``index`` are settled.
        known: as they were.
        candidate: for the index before.
        offered: which of the old ones is next.

    Returns:
        The candidate, and which of the old ones is next.
    """
    before = syncs[index - 1]
    while True:
        old = known[offered]
        is_apart = _is_apart(before, old, index - 1)
        fits = (
            is_apart
            and _is_recent(before, old, index - 1, index)
            and (index + 1 == SYNCS_PER_PARTITION or _is_apart(old, syncs[index + 1], index))
        )
        if fits:
            candidate = old
        is_repeated = offered + 1 < SYNCS_PER_PARTITION and known[offered + 1] is old
        is_over = is_repeated or not is_apart
        if fits or is_over:
            offered += 1
        if not is_over or offered >= index:
            return candidate, offered


def _is_recent(nearer: OffsetSync, further: OffsetSync, i: int, j: int) -> bool:
    bound = _signed(further.upstream + (1 << j) - (1 << i))
    return nearer is further or bound < 0 or nearer.upstream <= bound


def _is_apart(nearer: OffsetSync, further: OffsetSync, i: int) -> bool:
    bound = _signed(further.upstream + (1 << max(i - 2, 0)))
    return nearer is further or 0 <= bound <= nearer.upstream


def _signed(number: int) -> int:
    """A number in 64 bits, as Java's sums have them."""
    return number if number < _TWO_63 else number - 2 * _TWO_63
