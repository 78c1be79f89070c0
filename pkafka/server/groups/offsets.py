"""The committed offsets of one group: staged, stored, pending in transactions, expiring.

Pure. A commit is staged before it is written, and counts when its record is in the log. The record with the highest
offset wins, however late a transaction ends. The group decides which members may commit (group.py).
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from pkafka.server.groups.records import NO_EXPIRY, CommittedOffset

PartitionKey: TypeAlias = tuple[str, int]

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers: the broker can read the topics to which their members subscribe."""


class StoredOffset(NamedTuple):
    """Holds a commit, and the offset of its batch in __consumer_offsets."""

    batch_offset: int
    committed: CommittedOffset


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

    __slots__ = ("_pending", "_stored", "_transactional")

    def __init__(self) -> None:
        self._stored: dict[PartitionKey, StoredOffset] = {}
        self._pending: dict[PartitionKey, CommittedOffset] = {}
        self._transactional: dict[int, dict[PartitionKey, StoredOffset]] = {}

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
        """Return which of these partitions have an offset or a staged commit."""
        return frozenset(
            keys.intersection(self._stored)
            | keys.intersection(self._pending)
            | keys.intersection(chain.from_iterable(self._transactional.values()))
        )

    def is_unstable(self, key: PartitionKey) -> bool:
        """Whether an open transaction may yet change what is committed (KIP-447)."""
        return any(key in pending for pending in self._transactional.values())

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
        self._transactional = {producer: dict(pending) for producer, pending in transactional.items()}

    def complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """End a producer's transaction, whose marker is in the log."""
        pending = self._transactional.pop(producer_id, {})
        if is_commit:
            for key, stored in pending.items():
                self._take(key, stored)

    def _take(self, key: PartitionKey, stored: StoredOffset) -> None:
        known = self._stored.get(key)
        if known is None or known.batch_offset < stored.batch_offset:
            self._stored[key] = stored

    # -- removal --

    def remove(self, keys: Iterable[PartitionKey]) -> list[PartitionKey]:
        """Forget the offsets of these partitions; returns those that had one, whose records need tombstones."""
        removed = []
        for key in keys:
            self._pending.pop(key, None)
            for pending in self._transactional.values():
                pending.pop(key, None)
            if self._stored.pop(key, None) is not None:
                removed.append(key)
        return removed

    def remove_expired(self, holder: Holder, *, now_ms: int, retention_ms: int) -> list[PartitionKey]:
        """Forget offsets that have been unused for ``offsets.retention.minutes``; returns their partitions."""
        since = _clock_start(holder)
        if since is None:
            return []
        subscribed = holder.subscribed_topics if not holder.is_empty else None
        expired = [
            key
            for key, stored in self._stored.items()
            if key not in self._pending
            and (subscribed is None or key[0] not in subscribed)
            and _is_expired(stored.committed, since(stored.committed), now_ms, retention_ms)
        ]
        for key in expired:
            del self._stored[key]
        return expired


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
