"""pk-transactions list: the transactional ids of all coordinators."""

from typing import Final

import click

from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import View
from pkafka.cli.transactions.text import failed, table

_HEADERS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")


@click.command("list")
@click.option(
    "--duration-filter",
    type=LONG,
    metavar="MS",
    help="Only ids whose transaction began so many milliseconds ago or earlier. Ids without a transaction stay, "
    "as Kafka's coordinators see it.",
)
@click.pass_obj
def list_transactions(common: Common, duration_filter: int | None) -> None:
    """List the transactional ids of the cluster and what they are in."""
    is_any = duration_filter is None or duration_filter < 0
    with common.admin() as admin:
        found = admin.list_transactions(duration_ms=None if is_any else duration_filter)
    for error in found.errors.values():
        raise failed("Failed to list transactions", error)
    lines = table(
        _HEADERS,
        [
            (each.transactional_id, each.coordinator, each.producer_id, each.state.value)
            for each in found.transactions
        ],
    )
    rows = [{**each._asdict(), "state": each.state.value} for each in found.transactions]
    common.show(View("transactions", lines, rows))
