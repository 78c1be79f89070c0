"""pk-console-consumer: print records, as kafka-console-consumer.sh.

Without a group the partitions of ``--topic`` are assigned; Kafka's tool joins a group of a random name, which waits for
the coordinator and is left behind. Topics of ``--include`` come and go, so such a group is joined for them here too.
"""

import sys

import click

from pkafka.cli.console_consumer.flags import check, consumer_properties
from pkafka.cli.console_consumer.printer import Printer
from pkafka.cli.console_consumer.reading import read
from pkafka.cli.kit import output
from pkafka.cli.kit.client_options import ConsumerStop, config_option, property_option
from pkafka.cli.kit.options import bootstrap_option, command, stream_output_option


@command("pk-console-consumer", kafka_failure=0)
@bootstrap_option
@click.option("--topic", metavar="NAME", help="The topic to read.")
@click.option("--include", "--whitelist", "include", metavar="REGEX", help="Read all topics that match.")
@click.option("--partition", type=int, metavar="N", help="Read only this partition.")
@click.option("--offset", metavar="N|earliest|latest", help="Where to begin in --partition (latest).")
@click.option("--from-beginning", is_flag=True, help="Begin with the first record.")
@click.option("--group", metavar="ID", help="Join this group: start where it left off, and commit.")
@click.option("--max-messages", type=int, metavar="N", help="Stop after this many records.")
@click.option("--timeout-ms", type=int, metavar="MS", help="Stop when no record has come for so long.")
@click.option("--until-end", is_flag=True, help="Stop at the end that the partitions have now.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="Begin N records before the end of each partition."
)
@click.option(
    "--from-time", metavar="TIME", help="Begin with the first record of this time: ISO, ms, or -10m."
)
@click.option("--to-time", metavar="TIME", help="Stop before the first record of this time.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="CONDITION",
    help="Only records with key=TEXT, value~REGEX, header.NAME=TEXT or value.FIELD=TEXT (of JSON); all that are given.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Default read_uncommitted.",
)
@config_option("consumer")
@property_option("consumer")
@click.option(
    "--formatter",
    default="DefaultMessageFormatter",
    metavar="CLASS",
    help="Default, Logging or NoOp formatter; Kafka's for its internal topics; module.Class of Python.",
)
@click.option("--formatter-config", metavar="FILE", help="Properties file for the formatter.")
@click.option(
    "--property",
    "--formatter-property",
    "formatter_property",
    multiple=True,
    metavar="KEY=VALUE",
    help="For the formatter: print.key, print.timestamp, key.separator, ...",
)
@click.option("--key-deserializer", metavar="CLASS", help="How to show keys.")
@click.option("--value-deserializer", metavar="CLASS", help="How to show values.")
@click.option("--skip-message-on-error", is_flag=True, help="Go on after a record that cannot be shown.")
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@stream_output_option
def main(**flags: object) -> int:
    """Print the records of a topic."""
    check(flags)
    printer = Printer(flags)
    from pkafka.clients.consumer import Consumer

    properties = consumer_properties(flags)
    with Consumer(properties, fail_fast=True) as consumer:
        stopper = ConsumerStop(consumer)
        try:
            read(consumer, flags, printer, stopper)
            printer.end()
        finally:
            printer.close()
            sys.stdout.flush()
            output.note(f"Processed a total of {printer.count} messages")
    if flags["enable_systest_events"]:
        output.line("shutdown_complete")
    return stopper.status
