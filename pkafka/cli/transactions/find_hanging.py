"""pk-transactions find-hanging: open transactions that no coordinator will end."""

import time
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import View
from pkafka.cli.transactions.text import failed, table
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.transactions.open_transactions import OpenTransaction

_HEADERS: Final = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
    *("LastTimestamp", "Duration(min)"),
)
_NO_EPOCH: Final = -1
_MINUTE_MS: Final = 60_000
_MINUTES: Final = 15
"""The longest transaction that brokers allow by default (transaction.max.timeout.ms)."""


@click.command("find-hanging")
@click.option("--broker-id", type=int, metavar="ID", help="Look at the replicas of this broker.")
@click.option(
    "--max-transaction-timeout",
    type=int,
    default=_MINUTES,
    metavar="MINUTES",
    help=f"Only transactions whose producer has written nothing for longer than this. Default {_MINUTES}.",
)
@click.option("--topic", metavar="NAME", help="Look at this topic.")
@click.option("--partition", type=int, metavar="N", help="With --topic: at this partition of it.")
@click.pass_obj
def find_hanging(
    common: Common,
    broker_id: int | None,
    max_transaction_timeout: int,
    topic: str | None,
    partition: int | None,
) -> None:
    """Find transactions that hang: open in a partition, and known to no coordinator that would end them."""
    if topic is None and broker_id is None:
        raise click.UsageError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if partition is not None and topic is None:
        raise click.UsageError("The --partition argument requires --topic to be provided")
    now_ms = int(time.time() * 1_000)
    with common.admin() as admin:
        where = _where(admin, topic, partition, broker_id)
        found = _hanging(admin, where, broker_id, now_ms - max_transaction_timeout * _MINUTE_MS)
    lines = table(_HEADERS, [_cells(each, now_ms) for each in found])
    common.show(View("transactions", lines, [_row(each, now_ms) for each in found]))


def _where(
    admin: "Admin", topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    from pkafka.tools.transactions.open_transactions import partitions_of

    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    names = [each.name for each in admin.list_topics()] if topic is None else [topic]
    try:
        return partitions_of(admin, names, broker=broker)
    except ApiError as error:
        raise failed(f"Failed to describe {len(names)} topics", error) from error


def _hanging(
    admin: "Admin", where: list[TopicPartition], broker: int | None, before_ms: int
) -> "list[OpenTransaction]":
    """The transactions that hang and whose producers wrote nothing since a moment.

    Raises:
        ApiError: with what could not be asked.
    """
    from pkafka.tools.transactions.open_transactions import hanging, known_transactions, open_transactions

    try:
        found = open_transactions(admin, where, broker=broker)
    except ApiError as error:
        raise failed(f"Failed to describe producers for {len(where)} partitions", error) from error
    old = [each for each in found if each.producer.last_timestamp < before_ms]
    producers = {each.producer.producer_id for each in old}
    try:
        known = known_transactions(admin, producers)
    except ApiError as error:
        raise failed(f"Failed to list transactions for {len(producers)} producers", error) from error
    return sorted(hanging(old, known), key=lambda each: (each.producer.producer_id, each.partition))


def _cells(each: "OpenTransaction", now_ms: int) -> tuple[object, ...]:
    producer = each.producer
    return (
        each.partition.topic,
        each.partition.partition,
        producer.producer_id,
        producer.producer_epoch,
        _NO_EPOCH if producer.coordinator_epoch is None else producer.coordinator_epoch,
        each.start_offset,
        producer.last_timestamp,
        (now_ms - producer.last_timestamp) // _MINUTE_MS,
    )


def _row(each: "OpenTransaction", now_ms: int) -> dict[str, object]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.producer_epoch,
        "coordinator_epoch": each.producer.coordinator_epoch,
        "start_offset": each.start_offset,
        "last_timestamp_ms": each.producer.last_timestamp,
        "duration_ms": now_ms - each.producer.last_timestamp,
    }
