"""pk-connect: look at connectors and change them, at any worker of Kafka Connect."""

import click

from pkafka.cli.connect.applying import apply
from pkafka.cli.connect.asking import Worker
from pkafka.cli.connect.changes import pause, restart, resume, stop
from pkafka.cli.connect.dlq import dlq
from pkafka.cli.connect.looks import list_connectors, status
from pkafka.cli.connect.offsets import offsets
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandGroup
from pkafka.cli.kit.options import (
    debug_option,
    output_option,
    parse_duration_ms,
    timeout_option,
    version_option,
)
from pkafka.cli.kit.output import OutputFormat


@click.group("pk-connect", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@click.option(
    "--url",
    envvar="PK_CONNECT_URL",
    default="http://localhost:8083",
    show_default=True,
    metavar="URL",
    help="The REST API of a worker.",
)
@timeout_option
@output_option
@debug_option
@version_option
@click.pass_context
def main(ctx: click.Context, url: str, timeout: str, output: str | None) -> None:
    """Look at the connectors of Kafka Connect's workers, Java's or pkafka's, and change them.

    Flags of the worker stand before the verb: pk-connect --url http://HOST:8083 list. $PK_CONNECT_URL stands for --url.
    """
    ctx.obj = Worker(url, parse_duration_ms(timeout) / 1000, OutputFormat(output) if output else None)


for _verb in (list_connectors, status, apply, pause, resume, stop, restart, offsets, dlq):
    main.add_command(_verb)

if __name__ == "__main__":
    main()
