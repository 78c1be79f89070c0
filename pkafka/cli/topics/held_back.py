"""pk-topics --describe --held-back-partitions: which transactions hold readers of committed records back."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pkafka.cli.kit.held_partitions import COLUMNS, row
from pkafka.cli.kit.output import Table
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import TopicDescription
    from pkafka.tools.transactions.holders import HeldPartition


def held_back(admin: "Admin", topics: "Iterable[TopicDescription]") -> "dict[TopicPartition, HeldPartition]":
    """The partitions that are held back, with what holds them.

    Raises:
        ApiError: a leader or a coordinator does not say.
    """
    from pkafka.tools.transactions.holders import held_partitions

    where = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    ]
    found = held_partitions(admin, where, now_ms=int(time.time() * 1_000))
    return {each.partition: each for each in found}


def cells(held: "HeldPartition") -> list[str]:
    """What the line of a partition has in addition."""
    found = row(held)
    return [
        f"LastStableOffset: {held.last_stable_offset}",
        f"HighWatermark: {held.high_watermark}",
        f"Lag: {held.lag}",
        f"AgeMs: {_text(found['age_ms'])}",
        f"ProducerId: {_text(found['producer_id'])}",
        f"TransactionalId: {_text(found['transactional_id'])}",
        f"Hanging: {str(held.is_hanging).lower()}",
    ]


def table(held: "Mapping[TopicPartition, HeldPartition]") -> Table:
    """The same for a terminal."""
    return Table([row(each) for each in held.values()], COLUMNS)


def _text(value: object) -> str:
    return "none" if value is None else str(value)
