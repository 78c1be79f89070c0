"""pk-transactions: look at transactions and end those that do not end themselves, as kafka-transactions.sh."""

import click

from pkafka.cli.kit.kafka_command import HELP_FLAGS
from pkafka.cli.kit.options import (
    Common,
    bootstrap_option,
    debug_option,
    parse_duration_ms,
    short_version_option,
    text_output_option,
    timeout_option,
)
from pkafka.cli.kit.output import OutputFormat
from pkafka.cli.kit.subcommands import PrefixGroup
from pkafka.cli.transactions.abort import abort
from pkafka.cli.transactions.describe import describe
from pkafka.cli.transactions.find_hanging import find_hanging
from pkafka.cli.transactions.holders import holders
from pkafka.cli.transactions.listing import list_transactions
from pkafka.cli.transactions.producers import describe_producers
from pkafka.cli.transactions.unstick import unstick


@click.group("pk-transactions", cls=PrefixGroup, context_settings={"help_option_names": HELP_FLAGS})
@bootstrap_option
@click.option("--command-config", metavar="FILE", help="Properties file for the client.")
@timeout_option
@text_output_option
@debug_option
@short_version_option
@click.pass_context
def main(
    ctx: click.Context,
    bootstrap_server: str | None,
    command_config: str | None,
    timeout: str,
    output: str | None,
) -> None:
    """Look at transactions, find those that hang or hold readers back, and end them.

    Flags of the cluster stand before the verb: pk-transactions --bootstrap-server HOST:PORT list.
    """
    form = OutputFormat(output) if output else OutputFormat.TEXT
    ctx.obj = Common(bootstrap_server, command_config, form, parse_duration_ms(timeout))


for _verb in (list_transactions, describe, describe_producers, abort, find_hanging, holders, unstick):
    main.add_command(_verb)

if __name__ == "__main__":
    main()
