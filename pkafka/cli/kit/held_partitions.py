"""How partitions are shown that a transaction holds back."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pkafka.tools.transactions.holders import HeldPartition

COLUMNS: Final = (
    *("topic", "partition", "last_stable_offset", "high_watermark", "lag", "age_ms"),
    *("producer_id", "producer_epoch", "transactional_id", "state", "hanging"),
)
"""The keys of :func:`row`, in the order of a table."""


def row(held: "HeldPartition") -> dict[str, object]:
    """One partition with the transaction that holds it back; None where it has no such value."""
    producer = None if held.holder is None else held.holder.producer
    known = held.known
    return {
        "topic": held.partition.topic,
        "partition": held.partition.partition,
        "last_stable_offset": held.last_stable_offset,
        "high_watermark": held.high_watermark,
        "lag": held.lag,
        "age_ms": held.age_ms,
        "producer_id": None if producer is None else producer.producer_id,
        "producer_epoch": None if producer is None else producer.producer_epoch,
        "transactional_id": None if known is None else known.transactional_id,
        "state": None if known is None else known.description.state.value,
        "hanging": held.is_hanging,
    }
