"""The committed offsets of one group: staged, stored, pending in transactions, expiring.

Pure. A commit is staged before it is written, and counts when its record is in the log. A commit of a transaction is
pending from its record on until the transaction's marker. The record with the highest offset wins, however late a
transaction ends. The group decides which members may commit (group.py).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from pkafka.model import ProducerId
from pkafka.server.groups.records import NO_EXPIRY, CommittedOffset

PartitionKey: TypeAlias = tuple[str, int]

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers: the broker can read the topics to which their members subscribe."""


class StoredOffset(NamedTuple):
    """Holds a commit, and the offset of its batch in __consumer_offsets."""

    batch_offset: int
    committed: CommittedOffset


class Removed(NamedTuple):
    """Tells what was forgotten, and needs tombstones.

    Attributes:
        committed: the partitions that had an offset.
        pending: those that had one in an open transaction, by producer id.
    """

    committed: Sequence[PartitionKey]
    pending: Mapping[ProducerId, Sequence[PartitionKey]]


class Holder(NamedTuple):
    """Holds the facts about a group on which the expiry of its offsets depends (KIP-211).

    Attributes:
        protocol_type: None for a group that never had members.
        is_empty: whether it has no members.
        is_stable: whether all its members know their generation.
        state_since_ms: since when it has been in this state; None when no record says.
        subscribed_topics: of all members; None when unknown.
    """

    protocol_type: str | None
    is_empty: bool
    is_stable: bool
    state_since_ms: int | None
    subscribed_topics: frozenset[str] | None


class GroupOffsets:
    """Keeps the offsets of one group, by topic and partition."""

    __slots__ = ("_pending", "_stored", "_transactional", "_unstable")

    def __init__(self) -> None:
        self._stored: dict[PartitionKey, StoredOffset] = {}
        self._pending: dict[PartitionKey, CommittedOffset] = {}
        self._transactional: dict[ProducerId, dict[PartitionKey, StoredOffset]] = {}
        self._unstable: dict[PartitionKey, int] = {}
        """How many open transactions may change what is committed for a partition; only those that some may."""

    def __bool__(self) -> bool:
        """Whether there is any offset, or a staged commit."""
        return bool(self._stored or self._pending or self._transactional)

    def __len__(self) -> int:
        return len(self._stored)

    def get(self, key: PartitionKey) -> CommittedOffset | None:
        """Return what is committed for a partition."""
        stored = self._stored.get(key)
        return stored.committed if stored is not None else None

    def partitions(self) -> list[PartitionKey]:
        """Return the partitions that have an offset."""
        return list(self._stored)

    def among(self, keys: frozenset[PartitionKey]) -> frozenset[PartitionKey]:
        """Return which of these partitions have an offset, a staged commit, or one in an open transaction."""
        return frozenset(
            keys.intersection(self._stored)
            | keys.intersection(self._pending)
            | keys.intersection(self._unstable)
        )

    def is_unstable(self, key: PartitionKey) -> bool:
        """Whether an open transaction may yet change what is committed (KIP-447)."""
        return key in self._unstable

    @property
    def open_transactions(self) -> Collection[ProducerId]:
        """The producers whose open transactions have commits of this group."""
        return self._transactional.keys()

    # -- commits --

    def stage(self, commits: Mapping[PartitionKey, CommittedOffset]) -> None:
        """Note commits that are about to be written."""
        self._pending.update(commits)

    def stored(self, commits: Mapping[PartitionKey, CommittedOffset], batch_offset: int) -> None:
        """Take staged commits over: they are in the log, in the batch at that offset."""
        for key, committed in commits.items():
            # A deleted topic's commits are not staged any more.
            if key in self._pending:
                self._take(key, StoredOffset(batch_offset, committed))
                if self._pending[key] == committed:
                    del self._pending[key]
        if not self._pending:
            # What was deleted from a dictionary keeps its place, and there may be many groups.
            self._pending.clear()

    def failed(self, commits: Mapping[PartitionKey, CommittedOffset]) -> None:
        """Forget staged commits that could not be written."""
        for key, committed in commits.items():
            if self._pending.get(key) == committed:
                del self._pending[key]

    def load(
        self,
        stored: Mapping[PartitionKey, StoredOffset],
        transactional: Mapping[int, Mapping[PartitionKey, StoredOffset]],
    ) -> None:
        """Begin with the commits in the log, and by producer id with those of transactions that were open at its
        end."""
        self._stored = dict(stored)
        for producer_id, pending in transactional.items():
            for key, one in pending.items():
                self._add_pending(producer_id, key, one)

    def add_pending(
        self, producer_id: ProducerId, commits: Mapping[PartitionKey, CommittedOffset], batch_offset: int
    ) -> None:
        """Note commits of an open transaction, which are in the log, in the batch at that offset."""
        for key, committed in commits.items():
            self._add_pending(producer_id, key, StoredOffset(batch_offset, committed))

    def _add_pending(self, producer_id: ProducerId, key: PartitionKey, stored: StoredOffset) -> None:
        pending = self._transactional.setdefault(producer_id, {})
        if key not in pending:
            self._unstable[key] = self._unstable.get(key, 0) + 1
        pending[key] = stored

    def complete_transaction(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """End a producer's transaction, whose marker is in the log."""
        for key, stored in self._transactional.pop(producer_id, {}).items():
            self._settle(key)
            if is_commit:
                self._take(key, stored)

    def _settle(self, key: PartitionKey) -> None:
        """One transaction less may change what is committed for a partition."""
        left = self._unstable[key] - 1
        if left:
            self._unstable[key] = left
        else:
            del self._unstable[key]

    def _take(self, key: PartitionKey, stored: StoredOffset) -> None:
        known = self._stored.get(key)
        if known is None or known.batch_offset < stored.batch_offset:
            self._stored[key] = stored

    # -- removal --

    def remove(self, keys: Iterable[PartitionKey]) -> Removed:
        """Forget the offsets of these partitions, also those in open transactions."""
        committed: list[PartitionKey] = []
        pending: dict[ProducerId, list[PartitionKey]] = {}
        for key in keys:
            self._pending.pop(key, None)
            if key in self._unstable:
                for producer_id in self._remove_pending(key):
                    pending.setdefault(producer_id, []).append(key)
            if self._stored.pop(key, None) is not None:
                committed.append(key)
        return Removed(committed, pending)

    def remove_all(self) -> Removed:
        """Forget the offsets of all partitions."""
        return self.remove({**self._stored, **self._unstable})

    def _remove_pending(self, key: PartitionKey) -> list[ProducerId]:
        """Take a partition out of all open transactions; returns those that had it.

        A transaction stays, also when nothing is left of it: as in Kafka the group goes with its end at the earliest.
        """
        found = [producer_id for producer_id, pending in self._transactional.items() if key in pending]
        for producer_id in found:
            del self._transactional[producer_id][key]
        del self._unstable[key]
        return found

    def remove_expired(self, holder: Holder, *, now_ms: int, retention_ms: int) -> Removed:
        """Forget offsets that have been unused for ``offsets.retention.minutes``.

        An offset that is being committed anew stays, also when the commit is part of an open transaction.
        """
        since = _clock_start(holder)
        if since is None:
            return Removed([], {})
        subscribed = holder.subscribed_topics if not holder.is_empty else None
        expired = [
            key
            for key, stored in self._stored.items()
            if key not in self._pending
            and key not in self._unstable
            and (subscribed is None or key[0] not in subscribed)
            and _is_expired(stored.committed, since(stored.committed), now_ms, retention_ms)
        ]
        for key in expired:
            del self._stored[key]
        return Removed(expired, {})


def _clock_start(holder: Holder) -> Callable[[CommittedOffset], int] | None:
    """Return what gives a commit's start of retention; None while no offset expires (removeExpiredOffsets in Kafka)."""
    if holder.protocol_type is None:
        return _committed_at
    if holder.is_empty:
        since_ms = holder.state_since_ms
        return _committed_at if since_ms is None else lambda _committed: since_ms
    if (
        holder.protocol_type == CONSUMER_PROTOCOL
        and holder.is_stable
        and holder.subscribed_topics is not None
    ):
        return _committed_at
    return None


def _committed_at(committed: CommittedOffset) -> int:
    return committed.commit_timestamp


def _is_expired(committed: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp != NO_EXPIRY:
        return now_ms >= committed.expire_timestamp
    return now_ms - since_ms >= retention_ms
