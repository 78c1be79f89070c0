"""pk-verifiable-consumer: read as a member of a group and print each event, as kafka-verifiable-consumer.sh."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.client_options import (
    ConsumerStop,
    broker_list_option,
    config_option,
    one_server_flag,
    settle_consumer,
)
from pkafka.cli.kit.exit_status import ExitStatus, effective
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import bootstrap_option, client_properties, command, require_brokers

if TYPE_CHECKING:
    pass


@command("pk-verifiable-consumer", kafka_failure=0, argparse4j=True)
@click.option("--topic", metavar="NAME", required=True, help="What to read.")
@click.option("--group-id", metavar="ID", required=True, help="The group to join.")
@bootstrap_option
@broker_list_option
@click.option("--group-protocol", default="classic", metavar="PROTOCOL", help="Only classic.")
@click.option("--group-remote-assignor", metavar="NAME", help="A flag of the other protocol; not supported.")
@click.option("--group-instance-id", metavar="ID", help="Be a static member.")
@click.option(
    "--max-messages",
    type=int,
    default=-1,
    metavar="N",
    help="How many records to read; -1: until a signal ends the command.",
)
@click.option(
    "--session-timeout",
    type=int,
    default=30_000,
    metavar="MS",
    help="The member's session time-out in ms (30000).",
)
@click.option("--verbose", is_flag=True, help="Print every record.")
@click.option("--enable-autocommit", is_flag=True, help="Let the consumer commit by itself.")
@click.option(
    "--reset-policy",
    type=click.Choice(["earliest", "latest", "none"]),
    default="earliest",
    help="Where to begin without an offset (earliest).",
)
@click.option(
    "--assignment-strategy",
    default="org.apache.kafka.clients.consumer.RangeAssignor",
    metavar="CLASS",
    help="The class that decides which member reads what (RangeAssignor).",
)
@config_option("consumer")
def main(**flags: object) -> int:
    """Read a topic in a group, and print what was read, committed, assigned and revoked as JSON."""
    if str(flags["group_protocol"]).lower() != "classic":
        raise CommandError(f"--group-protocol {flags['group_protocol']}: only classic is supported")
    records = flags["max_messages"]
    assert isinstance(records, int)
    properties = _properties(flags)
    from pkafka.cli.kit.verifiable_events import emit
    from pkafka.clients.consumer import Consumer
    from pkafka.tools.verifiable import VerifiableConsumer

    consumer = Consumer(properties)
    stop = ConsumerStop(consumer)
    tool = VerifiableConsumer(
        consumer,
        emit,
        records=records,
        commits=not flags["enable_autocommit"],
        verbose=bool(flags["verbose"]),
    )
    tool.run(str(flags["topic"]))
    if tool.failed_commits:
        return effective(ExitStatus.FAILURE, kafka_says=0)
    return stop.status


def _properties(flags: Mapping[str, object]) -> dict[str, object]:
    values = client_properties(flags["consumer_config"], one_server_flag(flags))
    require_brokers(values)
    values["group.id"] = flags["group_id"]
    values["session.timeout.ms"] = flags["session_timeout"]
    values["enable.auto.commit"] = bool(flags["enable_autocommit"])
    values["auto.offset.reset"] = flags["reset_policy"]
    values["partition.assignment.strategy"] = flags["assignment_strategy"]
    if flags["group_instance_id"]:
        values["group.instance.id"] = flags["group_instance_id"]
    settle_consumer(values)
    return values
