"""Compares and copies partitions by tasks of Spark's, one for each; what a task does is ``tools/mirroring``'s."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pkafka.pipeline.session import one_line_errors
from pkafka.tools.mirroring.back_fill.copying import Job, Outcome, attempt
from pkafka.tools.mirroring.verify import PairWork, Rules, Verified, verify_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def verified(
    session: "SparkSession",
    source: Mapping[str, object],
    target: Mapping[str, object],
    rules: Rules,
    pairs: Sequence[PairWork],
) -> list[Verified]:
    """Compare partitions with their copies.

    Args:
        source, target: settings of clients of both clusters, which tasks get as they are: files that they name have to
            be on the machines of Spark's executors.

    Returns:
        In the order of ``pairs``.

    Raises:
        SparkJobError: a partition cannot be read.
    """
    return _each(session, pairs, partial(verify_alone, dict(source), dict(target), rules))


def copied(session: "SparkSession", jobs: Sequence[Job]) -> list[Outcome]:
    """Copy partitions.

    A copy that fails says so in its outcome, and is not tried again. Where Spark begins one again all the same, as when
    it loses an executor, the copy ends with an error: its partition has records that the plan does not know.

    Returns:
        In the order of ``jobs``.

    Raises:
        SparkJobError: a task ended without an outcome.
    """
    return _each(session, jobs, attempt)


def _each(session: "SparkSession", items: Sequence[T], work: Callable[[T], R]) -> list[R]:
    if not items:
        return []
    with one_line_errors():
        found: list[R] = session.sparkContext.parallelize(items, len(items)).map(work).collect()
    return found
