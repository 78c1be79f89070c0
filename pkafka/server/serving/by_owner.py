"""Requests about partitions of several workers: ask each owner for its part, and put the answers back in order.

For APIs that are not hot paths: a row goes to the owner of its partition, and one row comes back for it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pkafka.errors import ApiError, ErrorCode
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.replicas.disks import LOG_ERRORS

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker

Row: TypeAlias = list[Any]
"""Topic, partition, and what the API asks of it; msgpack values only."""
LocalAnswer: TypeAlias = "Callable[[Worker, Row], Row]"
"""The answer of the owner: a list that begins with the error code."""


async def ask_owners(
    worker: "Worker",
    operation: str,
    rows: Sequence[Row],
    local: LocalAnswer,
    *,
    led_only: bool = True,
    away: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
) -> list[Row]:
    """One answer for each row, in order.

    Args:
        operation: how other workers call ``local`` (registered with :func:`serve_rows`).
        led_only: refuse partitions that this broker does not lead.
        away: the code for the partitions of an owner that has died and has no successor yet.
    """
    answers: list[Row] = [[int(away)]] * len(rows)
    elsewhere: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        owner = worker.partitions.owner(row[0], row[1])
        if owner == worker.index:
            answers[place] = answer_here(worker, row, local, led_only=led_only)
        else:
            elsewhere.setdefault(owner, []).append(place)
    calls = [
        (places, worker.peers.ask(owner, operation, [rows[place] for place in places]))
        for owner, places in elsewhere.items()
    ]
    for places, call in calls:
        try:
            results = (await call)[0]
        except (PeerGone, ApiError):
            continue
        for place, result in zip(places, results, strict=True):
            answers[place] = result
    return answers


def answer_here(worker: "Worker", row: Row, local: LocalAnswer, *, led_only: bool = True) -> Row:
    """Return the owner's answer, or the code that says why there is none."""
    try:
        if led_only and (row[0], row[1]) not in worker.partitions.led:
            raise worker.lookup.missing_partition(row[0], row[1])
        return local(worker, row)
    except LOG_ERRORS as error:
        return [int(worker.disks.refused(row[0], row[1], error))]


def serve_rows(
    worker: "Worker", rows: Sequence[Row], local: LocalAnswer, *, led_only: bool = True
) -> list[Row]:
    """Answer rows that another worker sent here."""
    return [answer_here(worker, row, local, led_only=led_only) for row in rows]
