"""pk-reassign-partitions --list."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, View, choose_format
from pkafka.cli.reassign_partitions.progress import bytes_row
from pkafka.cli.reassign_partitions.text import joined
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Reassignment
    from pkafka.tools.reassignment.disk import Copies

_COLUMNS: Final = ("topic", "partition", "replicas", "adding", "removing", "bytes_done", "bytes_total")


def list_moves(admin: "Admin", common: Common) -> None:
    """Show the partitions that move."""
    moving = admin.list_partition_reassignments(timeout_ms=common.timeout_ms)
    copies: Mapping[TopicPartition, Copies] = {}
    if moving and choose_format(common.output) is not OutputFormat.TEXT:
        from pkafka.tools.reassignment import run

        copies = run.progress(admin, moving, timeout_ms=common.timeout_ms)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": move.replicas,
            "adding": move.adding,
            "removing": move.removing,
            **bytes_row(copies.get(each)),
        }
        for each, move in sorted(moving.items())
    ]
    common.show(View("partitions", _lines(moving), rows, {}, _COLUMNS))


def _lines(moving: "Mapping[TopicPartition, Reassignment]") -> list[str]:
    if not moving:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for partition, move in sorted(moving.items()):
        text = f"{partition}: replicas: {joined(move.replicas)}."
        text += f" adding: {joined(move.adding)}." if move.adding else ""
        text += f" removing: {joined(move.removing)}." if move.removing else ""
        lines.append(text)
    return lines
