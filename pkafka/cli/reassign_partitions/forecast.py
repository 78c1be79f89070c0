"""How many bytes a move would copy, as --execute --dry-run says it."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pkafka.cli.reassign_partitions.text import joined
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.tools.reassignment.run import Foreseen, Prepared

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
        """How many bytes would be copied between brokers; None where that is not known of every partition."""
        return None if self._traffic.unknown else self._traffic.total

    @property
    def seconds(self) -> int | None:
        """How long that would take at least, with the throttle; None without one, or where the total is unknown."""
        if self._rate is None or self._traffic.unknown:
            return None
        seconds = self._traffic.seconds(self._rate)
        return None if seconds is None else math.ceil(seconds)

    def bytes_of(self, partition: TopicPartition) -> int | None:
        """How many bytes of a partition would be copied; None where that is not known."""
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
        """The forecast as lines of text.

        Args:
            log_dir_rate: the throttle of moves between directories that would be set, if one.
        """
        if self._rate is not None:
            yield f"Would set the inter-broker throttle limit to {self._rate} B/s."
        if log_dir_rate is not None:
            yield f"Would set the replica-alter-dir throttle limit to {log_dir_rate} B/s."
        prepared = self._prepared
        for each in sorted(prepared.proposed):
            way = f"from {joined(prepared.current[each])} to {joined(prepared.proposed[each])}"
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


def size_text(size: int) -> str:
    """A number of bytes; from 1 KiB on with the same in a larger unit."""
    if size < 1_024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size} bytes ({size / 1_024**power:.1f} {_UNITS[power - 1]})"


def duration_text(seconds: int) -> str:
    """A duration in at most two units."""
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
        return "How many bytes that is is not known: no broker that has it answers."
    return f"{size_text(size)} to copy."
