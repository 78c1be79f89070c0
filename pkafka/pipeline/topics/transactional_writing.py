"""Writes the rows of a task in a transaction, or not at all where an earlier attempt has committed them already.

What names and marks mean is decided in :mod:`pkafka.pipeline.topics.exactly_once`.
"""

import itertools
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from pkafka.clients.admin import Admin
from pkafka.clients.admin.outcomes import raise_first
from pkafka.clients.admin.transaction_results import TransactionState
from pkafka.clients.errors import UnsupportedApiError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.pipeline.topics.exactly_once import (
    Mark,
    Share,
    TaskOutcome,
    TransactionScope,
    WriteNames,
    check_is_alone,
    check_outcomes,
    is_written,
    read_mark,
)
from pkafka.pipeline.topics.options import WriteOptions
from pkafka.pipeline.topics.sending import Rows, UnderWay, rows_of, send_rows

_PRODUCER_DEFAULTS: Final[Mapping[str, object]] = {
    # What brokers allow at the most by default: a task takes as long as it takes to compute its rows.
    "transaction.timeout.ms": "900000",
}
_PAUSE_S: Final = 0.02


@dataclass(frozen=True)
class WrittenOnce(WriterCommitMessage):
    """What one task has of a batch, written by it or by an earlier attempt."""

    names: WriteNames
    task: int
    outcome: TaskOutcome


def write_once(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, names: WriteNames, task: int
) -> WrittenOnce:
    """Write rows in one transaction, with the mark of the batch, unless they are written.

    Args:
        task: its number, which every attempt at these rows has.

    Raises:
        ExactlyOnceError: a later batch was written, or another task has rows where one is to have all.
        ProducerFencedError: another attempt, or another run, has the transactional id now.
        ValueError, ApiError, ClientError: see :func:`pkafka.pipeline.topics.sending.send_rows`.
    """
    rows = (rows_of(batch, options.topic) for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return WrittenOnce(names, task, TaskOutcome(Share(), None))
    if names.scope is TransactionScope.BATCH:
        check_is_alone(task)
    keys = {**_PRODUCER_DEFAULTS, **options.producer, "transactional.id": names.transactional_id(task)}
    with Producer(keys) as producer:
        # From here on no earlier attempt commits, and what one has committed is seen.
        producer.init_transactions()
        with Admin(options.producer) as admin:
            mark = _marks(admin, names, [task]).get(task)
        outcome = _write(producer, itertools.chain([first], rows), names, task, mark)
    return WrittenOnce(names, task, outcome)


def _write(
    producer: Producer, rows: Iterable[Rows], names: WriteNames, task: int, mark: Mark | None
) -> TaskOutcome:
    share = Share()
    if is_written(names, task, mark):
        for each in rows:
            share = share.with_rows(len(each.values), each.values, each.keys)
        return TaskOutcome(share, mark)
    under_way = UnderWay()
    with producer.transaction():
        for each in rows:
            share = share.with_rows(len(each.values), each.values, each.keys)
            send_rows(producer, each, under_way)
        producer.flush()
        under_way.check()
        done = Mark(names.batch, share, is_whole=names.scope is TransactionScope.BATCH)
        producer.send_offsets_to_transaction({names.marked: done.as_offset()}, names.group(task))
    return TaskOutcome(share, None)


def check_batch(messages: Iterable[WriterCommitMessage | None], options: WriteOptions) -> None:
    """Look, when all tasks of a batch are done, whether earlier attempts have written the same.

    An attempt before this one may have had more tasks with rows. What those have open is aborted here, so that it is
    neither committed later nor keeps readers waiting.

    Raises:
        ExactlyOnceError: they have written something else.
        ApiError, ClientError: the cluster cannot be asked.
    """
    written = [each for each in messages if isinstance(each, WrittenOnce)]
    if not written:
        return
    names = written[0].names
    outcomes = {each.task: each.outcome for each in written if each.outcome.share.rows}
    with Admin(options.producer) as admin:
        _abort_others(admin, names, outcomes)
        listed = admin.list_groups()
        raise_first(listed.errors)
        known = {names.task_of_group(each.group_id) for each in listed.groups}
        left = _marks(admin, names, [each for each in known if each is not None and each not in outcomes])
    check_outcomes(names, outcomes, left)


def _abort_others(admin: Admin, names: WriteNames, done: Container[int]) -> None:
    """Fence the tasks of earlier attempts that have a transaction open, and abort that.

    Args:
        done: the tasks of this attempt, which did so themselves.

    Raises:
        ApiError, ClientError: the cluster cannot be asked.
    """
    try:
        listed = admin.list_transactions(states=[TransactionState.ONGOING])
    except UnsupportedApiError:  # before Kafka 3.0: such a transaction times out
        return
    raise_first(listed.errors)
    tasks = {each.transactional_id: names.task_of_id(each.transactional_id) for each in listed.transactions}
    others = [each for each, task in tasks.items() if task is not None and task not in done]
    if others:
        raise_first(admin.fence_producers(others))


def _marks(admin: Admin, names: WriteNames, tasks: Iterable[int]) -> dict[int, Mark]:
    """The marks of tasks that have one.

    Raises:
        ApiError, ClientError: the cluster cannot be asked.
    """
    groups = {names.group(task): task for task in tasks}
    stored = _stable_offsets(admin, groups, names.marked) if groups else {}
    return {groups[group]: read_mark(group, offset) for group, offset in stored.items()}


def _stable_offsets(
    admin: Admin, groups: Iterable[str], partition: TopicPartition
) -> dict[str, OffsetAndMetadata]:
    """What groups have stored for a partition, waiting for the transactions that are about to store something.

    Raises:
        ApiError, ClientError: the cluster cannot be asked, or a transaction does not end.
    """
    left, found = set(groups), {}
    ends_s = time.monotonic() + admin.cluster.config.default_api_timeout_ms / 1_000
    while left:
        answers = admin.list_group_offsets({group: [partition] for group in left}, require_stable=True)
        for group, answer in answers.items():
            offset = answer if isinstance(answer, ApiError) else answer[partition]
            if not isinstance(offset, ApiError):
                left.discard(group)
                if offset is not None:
                    found[group] = offset
            elif offset.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT or time.monotonic() > ends_s:
                raise offset
        if left:
            time.sleep(_PAUSE_S)
    return found
