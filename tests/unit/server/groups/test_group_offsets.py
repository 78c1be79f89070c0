"""Committed offsets of a group: which commit counts, and when it expires (KIP-211)."""

import pytest

from pkafka.server.groups.offsets import GroupOffsets, Holder, Removed, StoredOffset
from pkafka.server.groups.records import CommittedOffset

A, B = ("a", 0), ("b", 1)
RETENTION_MS = 1000

EMPTY = Holder(
    protocol_type="consumer", is_empty=True, is_stable=False, state_since_ms=5_000, subscribed_topics=None
)
STABLE = Holder(
    protocol_type="consumer",
    is_empty=False,
    is_stable=True,
    state_since_ms=5_000,
    subscribed_topics=frozenset({"a"}),
)
SIMPLE = EMPTY._replace(protocol_type=None)


def committed(offset: int, at_ms: int = 0, expires_ms: int = -1) -> CommittedOffset:
    return CommittedOffset(offset, at_ms, expire_timestamp=expires_ms)


def with_offsets(*commits: tuple[tuple[str, int], CommittedOffset]) -> GroupOffsets:
    offsets = GroupOffsets()
    offsets.load({key: StoredOffset(number, one) for number, (key, one) in enumerate(commits)}, {})
    return offsets


def test_a_commit_counts_when_it_is_stored() -> None:
    offsets = GroupOffsets()
    assert not offsets
    offsets.stage({A: committed(1)})
    assert offsets
    assert offsets.get(A) is None
    offsets.stored({A: committed(1)}, 7)
    assert offsets.get(A) == committed(1)
    assert offsets.partitions() == [A]


def test_a_commit_that_failed_leaves_the_one_before() -> None:
    offsets = with_offsets((A, committed(1)))
    offsets.stage({A: committed(2)})
    offsets.failed({A: committed(2)})
    assert offsets.get(A) == committed(1)
    offsets.remove([A])
    assert not offsets


def test_the_latest_record_wins_whichever_is_heard_of_last() -> None:
    offsets = GroupOffsets()
    offsets.stage({A: committed(1)})
    offsets.stage({A: committed(2)})
    offsets.stored({A: committed(2)}, 8)
    offsets.load({A: StoredOffset(8, committed(2))}, {5: {A: StoredOffset(6, committed(1))}})
    offsets.complete_transaction(5, is_commit=True)
    assert offsets.get(A) == committed(2)


def test_a_commit_on_its_way_dies_with_its_topic() -> None:
    offsets = GroupOffsets()
    offsets.stage({A: committed(1)})
    assert offsets.among(frozenset({A, B})) == {A}
    assert offsets.remove([A]) == Removed([], {})
    offsets.stored({A: committed(1)}, 3)
    assert not offsets


def test_offsets_of_an_open_transaction_are_unstable() -> None:
    offsets = GroupOffsets()
    offsets.load({A: StoredOffset(0, committed(1))}, {9: {A: StoredOffset(4, committed(5))}})
    assert offsets.is_unstable(A)
    assert not offsets.is_unstable(B)
    assert offsets.get(A) == committed(1)
    offsets.complete_transaction(9, is_commit=False)
    assert not offsets.is_unstable(A)
    assert offsets.get(A) == committed(1)


def test_a_transaction_that_commits_is_seen() -> None:
    offsets = GroupOffsets()
    offsets.load({A: StoredOffset(0, committed(1))}, {9: {A: StoredOffset(4, committed(5))}})
    offsets.complete_transaction(9, is_commit=True)
    assert offsets.get(A) == committed(5)


def test_a_partition_is_unstable_until_the_last_of_its_transactions_ends() -> None:
    offsets = GroupOffsets()
    offsets.add_pending(5, {A: committed(1), B: committed(1)}, 3)
    offsets.add_pending(6, {A: committed(2)}, 4)
    offsets.add_pending(5, {A: committed(3)}, 5)
    assert offsets.open_transactions == {5, 6}
    assert offsets.among(frozenset({A})) == {A}
    assert offsets.get(A) is None
    offsets.complete_transaction(5, is_commit=True)
    assert (offsets.is_unstable(A), offsets.is_unstable(B)) == (True, False)
    assert offsets.get(A) == committed(3)
    offsets.complete_transaction(6, is_commit=True)
    assert not offsets.is_unstable(A)
    # Its record is the older one, though its transaction ended last.
    assert (offsets.get(A), offsets.get(B)) == (committed(3), committed(1))
    assert not offsets.open_transactions


def test_a_plain_commit_between_the_records_of_a_transaction_and_its_marker_wins() -> None:
    offsets = GroupOffsets()
    offsets.add_pending(5, {A: committed(1)}, 3)
    offsets.stage({A: committed(2)})
    offsets.stored({A: committed(2)}, 4)
    offsets.complete_transaction(5, is_commit=True)
    assert offsets.get(A) == committed(2)


def test_a_transaction_without_offsets_ends_without_a_trace() -> None:
    offsets = with_offsets((A, committed(1)))
    offsets.complete_transaction(5, is_commit=True)
    assert offsets.get(A) == committed(1)


def test_what_is_removed_does_not_come_back_with_the_marker() -> None:
    offsets = with_offsets((A, committed(1)))
    offsets.add_pending(5, {A: committed(2), B: committed(2)}, 3)
    offsets.add_pending(6, {A: committed(3)}, 4)
    assert offsets.remove([A]) == Removed([A], {5: [A], 6: [A]})
    assert not offsets.is_unstable(A)
    assert offsets.remove_all() == Removed([], {5: [B]})
    assert offsets.open_transactions == {5, 6}
    assert offsets, "the group stays until the transactions have ended"
    for producer in (5, 6):
        offsets.complete_transaction(producer, is_commit=True)
    assert not offsets


def test_an_offset_that_a_transaction_may_change_does_not_expire() -> None:
    """A tombstone would lie behind the record of the transaction, and before its marker (KAFKA-19163)."""
    offsets = with_offsets((A, committed(1)), (B, committed(1)))
    offsets.add_pending(5, {A: committed(2)}, 3)
    assert offsets.remove_expired(SIMPLE, now_ms=9_000, retention_ms=RETENTION_MS).committed == [B]
    assert offsets
    offsets.complete_transaction(5, is_commit=False)
    assert offsets.remove_expired(SIMPLE, now_ms=9_000, retention_ms=RETENTION_MS).committed == [A]


@pytest.mark.parametrize(
    ("holder", "now_ms", "left"),
    [
        pytest.param(SIMPLE, 999, [A, B], id="stored-only-young"),
        pytest.param(SIMPLE, 1000, [B], id="stored-only-since-commit"),
        pytest.param(EMPTY, 5_999, [A, B], id="empty-young"),
        pytest.param(EMPTY, 6_000, [], id="empty-since-it-is-empty"),
        pytest.param(EMPTY._replace(state_since_ms=None), 1_000, [B], id="empty-since-nobody-knows-when"),
        pytest.param(STABLE, 10_000, [A], id="stable-keeps-what-it-subscribes"),
        pytest.param(STABLE._replace(subscribed_topics=None), 10_000, [A, B], id="stable-unknown-topics"),
        pytest.param(STABLE._replace(is_stable=False), 10_000, [A, B], id="rebalancing"),
        pytest.param(STABLE._replace(protocol_type="connect"), 10_000, [A, B], id="no-consumers"),
    ],
)
def test_expiry(holder: Holder, now_ms: int, left: list[tuple[str, int]]) -> None:
    offsets = with_offsets((A, committed(1, at_ms=0)), (B, committed(2, at_ms=4_500)))
    removed = offsets.remove_expired(holder, now_ms=now_ms, retention_ms=RETENTION_MS)
    assert offsets.partitions() == left
    assert sorted(removed.committed) == sorted({A, B} - {*left})
    assert removed.pending == {}


def test_a_client_that_gave_a_retention_time_has_it() -> None:
    offsets = with_offsets(
        (A, committed(1, at_ms=0, expires_ms=700)), (B, committed(1, at_ms=0, expires_ms=9_000))
    )
    assert offsets.remove_expired(SIMPLE, now_ms=699, retention_ms=RETENTION_MS).committed == []
    assert offsets.remove_expired(SIMPLE, now_ms=5_000, retention_ms=RETENTION_MS).committed == [A]


def test_what_is_being_committed_anew_does_not_expire() -> None:
    offsets = with_offsets((A, committed(1)))
    offsets.stage({A: committed(2, at_ms=9_999)})
    assert offsets.remove_expired(SIMPLE, now_ms=10_000, retention_ms=RETENTION_MS).committed == []
