"""How many bytes of a move have come, while the command waits."""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.output import live_notes
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.reassignment.disk import Copies
    from pkafka.tools.reassignment.plan import Wanted
    from pkafka.tools.reassignment.run import Verified

_TOLD_EVERY_S: Final = 5.0


def bytes_row(copies: "Copies | None") -> dict[str, object]:
    """How far a partition is, as keys of its row; null of one that does not move."""
    return {
        "bytes_done": None if copies is None else copies.bytes_done,
        "bytes_total": None if copies is None else copies.bytes_total,
    }


def copies_of(admin: "Admin", found: "Verified", *, timeout_ms: int) -> "Mapping[TopicPartition, Copies]":
    """How far partitions are: those of the plan that move."""
    from pkafka.tools.reassignment import run

    asked = {each.partition for each in found.partitions}
    moving = {each: move for each, move in found.moving.items() if each in asked}
    return run.progress(admin, moving, timeout_ms=timeout_ms) if moving else {}


def wait_for_all(admin: "Admin", wanted: "Wanted", seconds: float, *, timeout_ms: int) -> "Verified":
    """Wait until every partition is where the plan wants it, and print now and then how far it is.

    Args:
        seconds: how long; with 0 look once, and print nothing.

    Raises:
        PkafkaError: no broker answered at the end.
    """
    from pkafka.tools.reassignment import run

    def look() -> "Verified":
        return run.verify(admin, wanted, timeout_ms=timeout_ms)

    if not seconds:
        return look()
    told_s = -math.inf
    totals: dict[tuple[object, ...], int] = {}
    with live_notes() as show:

        def tell(found: "Verified | None", problem: str) -> None:
            nonlocal told_s
            if time.monotonic() - told_s < _TOLD_EVERY_S:
                return
            told_s = time.monotonic()
            try:
                copies = {} if found is None else copies_of(admin, found, timeout_ms=timeout_ms)
            except PkafkaError as error:
                copies, problem = {}, problem or str(error)
            row = _progress_row(found, None if found is None else _measured(found, copies), totals, problem)
            show(row, _progress_text(row))

        return run.wait_until_complete(look, seconds, tell)


def _measured(
    found: "Verified", copies: "Mapping[TopicPartition, Copies]"
) -> dict[tuple[object, ...], tuple[int | None, int | None]]:
    """Bytes done and in all of every partition and replica that moves."""
    inside = {each.replica: each for each in found.replicas if each.bytes_total is not None}
    return {
        **{each: (one.bytes_done, one.bytes_total) for each, one in copies.items()},
        **{each: (one.bytes_done, one.bytes_total) for each, one in inside.items()},
    }


def _progress_row(
    found: "Verified | None",
    measured: Mapping[tuple[object, ...], tuple[int | None, int | None]] | None,
    totals: dict[tuple[object, ...], int],
    problem: str,
) -> dict[str, object]:
    """How far the whole plan is.

    Args:
        totals: the sizes of all copies seen so far; a copy that is not measured any more has arrived, and still counts.
    """
    row: dict[str, object] = dict.fromkeys(("left", "of", "bytes_done", "bytes_total", "percent", "problem"))
    row["problem"] = problem or None
    if found is None or measured is None:
        return row
    row.update(left=found.left, of=found.asked)
    totals.update({each: total for each, (_, total) in measured.items() if total is not None})
    done = [size for size, total in measured.values() if size is not None and total is not None]
    if measured and len(done) == len(measured):
        arrived = sum(total for each, total in totals.items() if each not in measured)
        known_done, known_total = sum(done) + arrived, sum(totals.values())
        percent = known_done * 100 // known_total if known_total else None
        row.update(bytes_done=known_done, bytes_total=known_total, percent=percent)
    return row


def _progress_text(row: Mapping[str, object]) -> str:
    parts = []
    if row["left"] is not None:
        parts.append(f"{row['left']} of {row['of']} are not where they are to be yet")
    if row["bytes_total"]:
        parts.append(f"{row['bytes_done']} of {row['bytes_total']} bytes copied ({row['percent']} %)")
    if row["problem"] is not None:
        parts.append(f"waiting for an answer: {row['problem']}")
    return "; ".join(parts)
