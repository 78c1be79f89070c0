"""Marks say what was written, and nothing that does not fit them is written, or passed over, in silence."""

import pytest

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from pkafka.pipeline.topics.exactly_once import (
    ExactlyOnceError,
    Mark,
    Share,
    TaskOutcome,
    Transactions,
    TransactionScope,
    WriteNames,
    check_is_alone,
    check_outcomes,
    is_written,
    names_of,
    read_mark,
)

SHARE, OTHER = Share(3, 30), Share(3, 31)


def names(
    prefix: str | None = None, *, batch: int = 5, scope: TransactionScope = TransactionScope.TASK
) -> WriteNames:
    return names_of(Transactions(prefix, scope, None), "t", "q1", batch)


def mark(batch: int = 5, share: Share = SHARE, *, is_whole: bool = False) -> Mark:
    return Mark(batch, share, is_whole)


def test_a_query_has_names_of_its_own() -> None:
    own = names()
    assert (own.transactional_id(3), own.group(3)) == ("pkafka-q1-3", "pkafka-q1-3")
    assert own.marked == TopicPartition("t", 0)


def test_queries_with_one_prefix_fence_each_other_and_keep_their_own_marks() -> None:
    given = Transactions("load", TransactionScope.TASK, None)
    one, two = names_of(given, None, "q1", 5), names_of(given, None, "q2", 5)
    assert one.transactional_id(3) == two.transactional_id(3) == "load-3"
    assert (one.group(3), two.group(3)) == ("load-q1-3", "load-q2-3")
    assert one.marked == TopicPartition("__consumer_offsets", 0)


def test_jobs_that_write_a_numbered_batch_share_its_marks() -> None:
    given = Transactions("load", TransactionScope.TASK, 7)
    assert {names_of(given, "t", run, 7).group(0) for run in ("q1", "q2")} == {"load-0"}


@pytest.mark.parametrize(
    ("group", "task"),
    [("pkafka-q1-12", 12), ("pkafka-q1-", None), ("pkafka-q1-01", None), ("pkafka-q1-x", None), ("12", None),
     ("pkafka-q1-1-2", None), ("pkafka-q12-1", None), ("pkafka-q1-²", None), ("pkafka-q1-0", 0)],
)  # fmt: skip
def test_the_groups_and_ids_of_a_write(group: str, task: int | None) -> None:
    assert names().task_of_group(group) == task
    assert names().task_of_id(group) == task


def test_the_ids_of_queries_with_one_prefix() -> None:
    given = names("load")
    assert (given.task_of_id("load-3"), given.task_of_id("load-q1-3")) == (3, None)
    assert (given.task_of_group("load-q1-3"), given.task_of_group("load-3")) == (3, None)


def test_a_share_does_not_depend_on_the_order_of_rows() -> None:
    def share(*rows: tuple[bytes | None, bytes | None]) -> Share:
        found = Share()
        for value, key in rows:
            found = found.with_rows(1, [value], [key])
        return found

    rows = ((b"a", b"1"), (None, b"2"), (b"b", None))
    assert share(*rows) == share(*rows[::-1])
    assert share(*rows) == Share().with_rows(3, [b"a", None, b"b"], [b"1", b"2", None])
    assert share((b"a", b"b")) != share((b"b", b"a"))
    assert share((b"a", None)).rows == 1
    assert share((b"a", None)) == Share().with_rows(1, [b"a"], None)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_mark_is_read_as_it_was_stored(is_whole: bool) -> None:
    stored = mark(is_whole=is_whole)
    assert read_mark("g", stored.as_offset()) == stored


def test_an_offset_of_a_consumer_is_no_mark() -> None:
    with pytest.raises(ExactlyOnceError, match="group g has an offset that no exactly-once write has stored"):
        read_mark("g", OffsetAndMetadata(5))


def test_what_a_mark_says_of_a_batch() -> None:
    assert not is_written(names(), 0, None)
    assert not is_written(names(), 0, mark(4))
    assert is_written(names(), 0, mark(5))
    with pytest.raises(
        ExactlyOnceError, match=r"batch 5 comes after batch 6, .* pkafka-q1-2: .* was set back"
    ):
        is_written(names(), 2, mark(6))


def test_an_attempt_that_has_the_same_rows_passes() -> None:
    check_outcomes(names(), {0: TaskOutcome(SHARE, mark()), 1: TaskOutcome(OTHER, None)}, {7: mark(4)})


@pytest.mark.parametrize(
    ("outcomes", "left"),
    [
        ({0: TaskOutcome(OTHER, mark())}, {}),  # other rows in the same task
        ({0: TaskOutcome(SHARE, None)}, {1: mark()}),  # a task that is not there any more, or has nothing
        ({0: TaskOutcome(OTHER, mark(is_whole=True))}, {}),  # the scope changed
    ],
)
def test_an_attempt_that_has_other_rows_is_refused(
    outcomes: dict[int, TaskOutcome], left: dict[int, Mark]
) -> None:
    with pytest.raises(ExactlyOnceError, match=r"has written other rows as task [01] than this one has"):
        check_outcomes(names(), outcomes, left)


def test_rows_of_a_batch_that_was_one_transaction_may_differ() -> None:
    whole = names(scope=TransactionScope.BATCH)
    check_outcomes(whole, {0: TaskOutcome(OTHER, mark(is_whole=True))}, {})
    with pytest.raises(ExactlyOnceError):
        check_outcomes(whole, {0: TaskOutcome(OTHER, mark())}, {})
    check_is_alone(0)
    with pytest.raises(ExactlyOnceError, match="needs all rows in one task"):
        check_is_alone(1)
