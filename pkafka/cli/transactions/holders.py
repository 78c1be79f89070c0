"""pk-transactions holders: what holds readers of committed records back. Kafka's tool has nothing like it."""

import time

import click

from pkafka.cli.kit.columns import columns
from pkafka.cli.kit.held_partitions import COLUMNS, row
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import Table, View
from pkafka.cli.transactions.text import failed
from pkafka.errors import ApiError


@click.command("holders")
@click.option("--topic", metavar="NAME", help="Look at this topic; default: at all of them.")
@click.option("--broker-id", type=int, metavar="ID", help="Look at partitions with a replica on this broker.")
@click.pass_obj
def holders(common: Common, topic: str | None, broker_id: int | None) -> None:
    """Show the partitions that an open transaction holds back, and which transaction that is.

    Readers of committed records end at the last stable offset, which is where the first open transaction of a
    partition begins. The lag is how far that is behind the high watermark.
    """
    from pkafka.tools.transactions.holders import held_partitions
    from pkafka.tools.transactions.open_transactions import partitions_of

    with common.admin() as admin:
        names = [each.name for each in admin.list_topics()] if topic is None else [topic]
        try:
            where = partitions_of(admin, names, broker=broker_id, led=True)
            found = held_partitions(admin, where, now_ms=int(time.time() * 1_000))
        except ApiError as error:
            raise failed("Failed to look for transactions that hold partitions back", error) from error
    rows = [row(each) for each in found]
    common.show(View("partitions", columns(Table(rows, COLUMNS)), rows))
