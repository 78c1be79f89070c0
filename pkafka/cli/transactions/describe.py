"""pk-transactions describe: one transactional id with its producer and its partitions."""

import time
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import Table, View
from pkafka.cli.transactions.text import NONE, failed, table
from pkafka.errors import ApiError

if TYPE_CHECKING:
    from pkafka.clients.admin.transaction_results import TransactionDescription

_HEADERS: Final = (
    *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
    *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
)


@click.command("describe")
@click.option("--transactional-id", required=True, metavar="ID", help="The id.")
@click.pass_obj
def describe(common: Common, transactional_id: str) -> None:
    """Describe a transactional id: its state, its producer, and the partitions of its transaction."""
    with common.admin() as admin:
        found = admin.describe_transactions([transactional_id])[transactional_id]
    if isinstance(found, ApiError):
        raise failed(f"Failed to describe transaction state of transactional-id `{transactional_id}`", found)
    now_ms = int(time.time() * 1_000)
    duration_ms = None if found.start_time_ms is None else now_ms - found.start_time_ms
    lines = table(_HEADERS, [_cells(transactional_id, found, duration_ms)])
    row = _row(transactional_id, found, duration_ms)
    flat = {**row, "partitions": [str(each) for each in sorted(found.partitions)]}
    common.show(View("transactions", lines, [row], tables=[Table([flat])]))


def _cells(
    transactional_id: str, found: "TransactionDescription", duration_ms: int | None
) -> tuple[object, ...]:
    from pkafka.tools.java_values import in_grown_hash_order, topic_partition_hash

    partitions = in_grown_hash_order(found.partitions, topic_partition_hash)
    return (
        found.coordinator,
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state.value,
        found.timeout_ms,
        NONE if found.start_time_ms is None else found.start_time_ms,
        NONE if duration_ms is None else duration_ms,
        ",".join(map(str, partitions)),
    )


def _row(
    transactional_id: str, found: "TransactionDescription", duration_ms: int | None
) -> dict[str, object]:
    return {
        "transactional_id": transactional_id,
        "coordinator": found.coordinator,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state.value,
        "timeout_ms": found.timeout_ms,
        "start_time_ms": found.start_time_ms,
        "duration_ms": duration_ms,
        "partitions": [each._asdict() for each in sorted(found.partitions)],
    }
