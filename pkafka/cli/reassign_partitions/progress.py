"""What pk-reassign-partitions says of bytes: how many a dry run would copy, and how many have come while one waits."""

import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.output import live_notes
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.reassignment.disk import Copies
    from pkafka.tools.reassignment.plan import Wanted
    from pkafka.tools.reassignment.run import Foreseen, Prepared, Verified

_TOLD_EVERY_S: Final = 5.0
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


class Forecast:
    """What ``--execute --dry-run`` has to say.

    Args:
        bytes_per_s: the throttle that would be set, if one.
    """

    def __init__(self, prepared: "Prepared", foreseen: "Foreseen", bytes_per_s: int | None) -> None:
        from pkafka.tools.reassignment.disk import traffic

        self.foreseen = foreseen
        self._prepared = prepared
        self._rate = bytes_per_s
        self._traffic = traffic(foreseen.partitions)

    @property
    def total_bytes(self) -> int | None:
        """What would be copied between brokers; None where that is not known of every partition."""
        return None if self._traffic.unknown else self._traffic.total

    @property
    def seconds(self) -> int | None:
        """How long that would take at least, with the throttle; None without one, or where the total is unknown."""
        if self._rate is None or self._traffic.unknown:
            return None
        seconds = self._traffic.seconds(self._rate)
        return None if seconds is None else math.ceil(seconds)

    def bytes_of(self, partition: TopicPartition) -> int | None:
        """What would be copied of a partition."""
        left = self.foreseen.partitions[partition].bytes_left
        return None if left is None else sum(left.values())

    def broker_rows(self) -> list[dict[str, object]]:
        """What each broker would receive and send, in JSON."""
        found = self._traffic
        return [
            {
                "broker": broker,
                "bytes_in": found.bytes_in.get(broker, 0),
                "bytes_out": found.bytes_out.get(broker, 0),
            }
            for broker in sorted(found.bytes_in.keys() | found.bytes_out.keys())
        ]

    def lines(self, log_dir_rate: int | None) -> Iterator[str]:
        """All of it as text.

        Args:
            log_dir_rate: the throttle of moves between directories that would be set, if one.
        """
        if self._rate is not None:
            yield f"Would set the inter-broker throttle limit to {self._rate} B/s."
        if log_dir_rate is not None:
            yield f"Would set the replica-alter-dir throttle limit to {log_dir_rate} B/s."
        prepared = self._prepared
        for each in sorted(prepared.proposed):
            way = f"from {_joined(prepared.current[each])} to {_joined(prepared.proposed[each])}"
            yield f"Would move {each} {way}. {_to_copy(self.bytes_of(each))}"
        for replica, path in sorted(prepared.log_dirs.items()):
            yield f"Would move replica {replica} to {path}. {_to_copy(self.foreseen.replicas[replica])}"
        for broker, size in sorted(self._traffic.bytes_in.items()):
            yield f"Would copy {size_text(size)} to broker {broker}."
        least = "at least " if self._traffic.unknown else ""
        yield f"Would copy {least}{size_text(self._traffic.total)} between brokers in all."
        if self._rate is not None and self._traffic.total:
            seconds = self._traffic.seconds(self._rate)
            if seconds is None:
                yield f"At {self._rate} B/s nothing would ever be copied."
            else:
                least = duration_text(math.ceil(seconds))
                yield f"At {self._rate} B/s in and out of a broker that takes {least} or longer."


def bytes_row(copies: "Copies | None") -> dict[str, object]:
    """How far a partition is, as keys of its row; null of one that does not move."""
    return {
        "bytes_done": None if copies is None else copies.bytes_done,
        "bytes_total": None if copies is None else copies.bytes_total,
    }


def copies_of(admin: "Admin", found: "Verified", *, timeout_ms: int) -> "Mapping[TopicPartition, Copies]":
    """How far those partitions are that were asked about and move."""
    from pkafka.tools.reassignment import run

    asked = {each.partition for each in found.partitions}
    moving = {each: move for each, move in found.moving.items() if each in asked}
    return run.progress(admin, moving, timeout_ms=timeout_ms) if moving else {}


def wait_for_all(admin: "Admin", wanted: "Wanted", seconds: float, *, timeout_ms: int) -> "Verified":
    """Look how far a reassignment is until all is where it is to be, and tell the person now and then.

    Args:
        seconds: how long; with 0 look once, and tell nothing.

    Raises:
        PkafkaError: nobody answered at the end.
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
    """How far all is.

    Args:
        totals: what was measured before; what is not any more has arrived, and still counts.
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


def size_text(size: int) -> str:
    """Bytes, and beside many of them the same in a unit that a person compares."""
    if size < 1_024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size} bytes ({size / 1_024**power:.1f} {_UNITS[power - 1]})"


def duration_text(seconds: int) -> str:
    """Seconds as a person says them, in at most two units."""
    for unit, name, inner, inner_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= unit:
            rest = seconds % unit // inner
            return f"{seconds // unit} {name}" + (f" {rest} {inner_name}" if rest else "")
    return f"{seconds} s"


def _to_copy(size: int | None) -> str:
    if size is None:
        return "How many bytes that is nobody says: no broker that has it answers."
    return f"{size_text(size)} to copy."


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
