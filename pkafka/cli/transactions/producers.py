"""pk-transactions describe-producers: the producers that a partition remembers."""

from typing import Final

import click

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import View
from pkafka.cli.transactions.text import NONE, failed, table
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

_HEADERS: Final = (
    *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
    "CurrentTransactionStartOffset",
)
_NO_EPOCH: Final = -1


@click.command("describe-producers")
@click.option("--topic", required=True, metavar="NAME", help="The topic.")
@click.option("--partition", type=int, required=True, metavar="N", help="The partition.")
@click.option("--broker-id", type=int, metavar="ID", help="Ask this replica in place of the leader.")
@click.pass_obj
def describe_producers(common: Common, topic: str, partition: int, broker_id: int | None) -> None:
    """Describe the producers of a partition: their epochs, sequences, and open transactions."""
    where = TopicPartition(topic, partition)
    with common.admin() as admin:
        found = admin.describe_producers([where], broker=broker_id)[where]
    if isinstance(found, ApiError):
        at = "leader" if broker_id is None else f"broker {broker_id}"
        raise failed(f"Failed to describe producers for partition {where} on {at}", found)
    lines = table(
        _HEADERS,
        [
            (
                each.producer_id,
                each.producer_epoch,
                _NO_EPOCH if each.coordinator_epoch is None else each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp,
                NONE if each.transaction_start_offset is None else each.transaction_start_offset,
            )
            for each in found
        ],
    )
    rows = [
        {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp,
            "transaction_start_offset": each.transaction_start_offset,
        }
        for each in found
    ]
    common.show(View("producers", lines, rows))
