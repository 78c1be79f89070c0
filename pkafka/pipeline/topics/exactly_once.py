"""Decides how the tasks of a write name their transactions, and what it means that one has written before. Pure.

A task writes its rows in one transaction, under a transactional id made of the write's prefix and the number of the
task. The same transaction stores a mark: an offset of a group with the task's name, which is the number of the batch.
A task that is done again finds the mark, if the transaction was committed, and writes nothing. docs/topics-in-spark.md
says what that guarantees, and why it is not one transaction of all tasks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple
from zlib import crc32

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

GROUPS_TOPIC: Final = "__consumer_offsets"
"""Where marks point to when rows name their topics themselves: it exists wherever a group has stored an offset."""

_NOTE: Final = re.compile(r"([0-9]+) rows, checksum ([0-9]+)(, all of the batch)?")
_CHECKSUMS: Final = 1 << 64


class ExactlyOnceError(PkafkaError):
    """Rows were written before in a way that does not fit; to go on would lose some or write some twice."""


class TransactionScope(Enum):
    """What one transaction holds: the rows of a task, or those of a batch, which has one task then."""

    TASK = "task"
    BATCH = "batch"


class Transactions(NamedTuple):
    """What the options say about the transactions of a write.

    Args:
        prefix: of all transactional ids; None for one that the query's id makes.
        batch_id: the number of a batch that is no micro-batch; None where it will not be written again.
    """

    prefix: str | None
    scope: TransactionScope
    batch_id: int | None


class Share(NamedTuple):
    """What a task has of a batch: how many rows, and a checksum that does not depend on their order."""

    rows: int = 0
    checksum: int = 0

    def with_rows(self, count: int, *columns: Iterable[bytes | None] | None) -> "Share":
        """The share with more rows, of which these are the columns that count."""
        total = self.checksum
        for number, column in enumerate(columns, 1):
            total += number * sum(map(crc32, filter(None, column or ())))
        return Share(self.rows + count, total % _CHECKSUMS)


class Mark(NamedTuple):
    """What a task's last transaction left behind.

    Args:
        is_whole: whether it held all rows of the batch.
    """

    batch: int
    share: Share
    is_whole: bool

    def as_offset(self) -> OffsetAndMetadata:
        """As it is stored."""
        note = f"{self.share.rows} rows, checksum {self.share.checksum}"
        return OffsetAndMetadata(self.batch, f"{note}, all of the batch" if self.is_whole else note)


class WriteNames(NamedTuple):
    """Under which names the tasks of a batch write.

    Args:
        ids: the prefix of transactional ids. Writes that share it fence each other.
        groups: the prefix of groups. Each query has its own, so no mark is taken for that of another query.
        marked: the partition to which marks belong.
    """

    ids: str
    groups: str
    batch: int
    scope: TransactionScope
    marked: TopicPartition

    def transactional_id(self, task: int) -> str:
        """Of a task."""
        return f"{self.ids}-{task}"

    def group(self, task: int) -> str:
        """That stores the mark of a task."""
        return f"{self.groups}-{task}"

    def task_of_group(self, group: str) -> int | None:
        """The task whose marks a group stores; None of any other group."""
        return _number_behind(self.groups, group)

    def task_of_id(self, transactional_id: str) -> int | None:
        """The task that has a transactional id; None of any other id."""
        return _number_behind(self.ids, transactional_id)


def _number_behind(prefix: str, name: str) -> int | None:
    found = re.fullmatch(rf"{re.escape(prefix)}-(0|[1-9][0-9]*)", name)
    return None if found is None else int(found[1])


def names_of(given: Transactions, topic: str | None, run: str, batch: int) -> WriteNames:
    """Under which names a batch is written.

    Args:
        topic: of all rows; None where they name it.
        run: what is written again as a whole: the id of a query, or of a job.
        batch: its number within that.
    """
    own = f"pkafka-{run}" if given.prefix is None else given.prefix
    of_all_runs = given.batch_id is not None
    groups = own if given.prefix is None or of_all_runs else f"{own}-{run}"
    return WriteNames(own, groups, batch, given.scope, TopicPartition(topic or GROUPS_TOPIC, 0))


def read_mark(group: str, stored: OffsetAndMetadata) -> Mark:
    """A mark as it is stored.

    Raises:
        ExactlyOnceError: the offset is none.
    """
    found = _NOTE.fullmatch(stored.metadata)
    if found is None:
        raise ExactlyOnceError(
            f"group {group} has an offset that no exactly-once write has stored; "
            "give this write another transactionalIdPrefix"
        )
    return Mark(stored.offset, Share(int(found[1]), int(found[2])), found[3] is not None)


def is_written(names: WriteNames, task: int, mark: Mark | None) -> bool:
    """Whether a task has written its rows of the batch already.

    Raises:
        ExactlyOnceError: it has written a later batch.
    """
    if mark is None or mark.batch < names.batch:
        return False
    if mark.batch > names.batch:
        raise ExactlyOnceError(
            f"batch {names.batch} comes after batch {mark.batch}, which was written under the transactional id "
            f"{names.transactional_id(task)}: its number, or the checkpoint, was set back"
        )
    return True


class TaskOutcome(NamedTuple):
    """What a task found to write, and the mark by which it knew that this was written before."""

    share: Share
    earlier: Mark | None


def check_outcomes(names: WriteNames, outcomes: Mapping[int, TaskOutcome], left: Mapping[int, Mark]) -> None:
    """Refuse a batch of which an earlier attempt has written a part as other tasks.

    Args:
        outcomes: of all tasks that have rows, by their numbers.
        left: the marks of other numbers.

    Raises:
        ExactlyOnceError: some of its rows may be lost or be there twice.
    """
    whole = names.scope is TransactionScope.BATCH
    differing = [
        task
        for task, each in outcomes.items()
        if each.earlier is not None
        and not (whole and each.earlier.is_whole)
        and each.earlier.share != each.share
    ]
    differing += [task for task, mark in left.items() if mark.batch == names.batch]
    if differing:
        raise ExactlyOnceError(_told(names, sorted(differing)))


def _told(names: WriteNames, tasks: Sequence[int]) -> str:
    which = ", ".join(map(str, tasks))
    return (
        f"an attempt at batch {names.batch} that did not finish has written other rows as task {which} than this one "
        "has, so rows of it may be lost or be there twice: between the two the query, its options or its input were "
        "changed, or its rows are not the same each time (transactionScope=batch allows that). With another "
        "transactionalIdPrefix the whole batch is written again"
    )


def check_is_alone(task: int) -> None:
    """Refuse rows of a second task in a batch that is one transaction.

    Raises:
        ExactlyOnceError: this is not the first one.
    """
    if task:
        raise ExactlyOnceError(
            "transactionScope=batch needs all rows in one task: call repartition(1) or coalesce(1) before the write"
        )
