"""pk-preferred-replica-election: kafka-preferred-replica-election.sh, which Kafka 3.0 removed.

Its text is that of Kafka 2.8. What it does is ``pk-leader-election --election-type preferred``; with ``--zookeeper`` it
asks the controller without a broker, by a node.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.elections import kafka_text, partition_row, planned_lines
from pkafka.cli.kit.java_text import java_exception
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.kit.output import OutputFormat, View, choose_format, line
from pkafka.cli.kit.zookeeper_option import DEPRECATED, opened_store, zookeeper_option

if TYPE_CHECKING:
    from pkafka.model import TopicPartition
    from pkafka.tools.elections.leader import Elected

_DEPRECATED = "This tool is deprecated. Please use kafka-leader-election tool. Tracking issue: KAFKA-8405"


@command("pk-preferred-replica-election", error_text=kafka_text)
@connection_options
@click.option("--admin.config", "admin_config", metavar="FILE", help="Other name of --command-config.")
@click.option(
    "--path-to-json-file", metavar="FILE", help="Partitions, as JSON; every partition when left out."
)
@zookeeper_option("Ask the controller by a node of ZooKeeper; the command asks no broker then.")
@click.option("--dry-run", is_flag=True, help="Say where a leader would be elected, and elect none.")
def main(
    common: Common,
    admin_config: str | None,
    path_to_json_file: str | None,
    zookeeper: str | None,
    dry_run: bool,
) -> None:
    """Let the preferred replicas lead again (the old name of pk-leader-election --election-type preferred)."""
    if admin_config is not None and common.command_config is not None:
        raise click.UsageError('Option "[admin.config]" can\'t be used with option "[command-config]"')
    common = common._replace(command_config=common.command_config or admin_config)
    if zookeeper is not None and common.bootstrap_server is not None:
        raise click.UsageError("Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided")
    if zookeeper is not None and admin_config is not None:
        raise click.UsageError(
            "Option(s) [admin.config] are unavailable given other options on the command line"
        )
    if choose_format(common.output) is OutputFormat.TEXT:
        for each in (_DEPRECATED, *(() if zookeeper is None else DEPRECATED)):
            line(each)
    partitions = None
    if path_to_json_file is not None:
        from pkafka.tools.elections.leader import parse_partitions

        partitions = parse_partitions(Path(path_to_json_file).read_bytes())
    if zookeeper is None:
        found, lines = _by_broker(common, partitions, dry_run=dry_run)
    else:
        found, lines = _by_node(common, zookeeper, partitions, dry_run=dry_run)
    rows = [partition_row(each) for each in found]
    common.show(View("partitions", lines, rows, {"dry_run": dry_run}))
    failures = sum(1 for each in found if each.error is not None)
    if failures:
        # Through ZooKeeper, Kafka's tool only says which it passes over.
        raise CommandError(
            f"{failures} preferred replica(s) could not be elected",
            kafka_status=None if zookeeper is None else 0,
        )


def _by_broker(
    common: Common, partitions: "Sequence[TopicPartition] | None", *, dry_run: bool
) -> "tuple[list[Elected], list[str]]":
    from pkafka.clients.admin.results import ElectionType
    from pkafka.tools.elections.leader import Result, elect, foresee

    kind = ElectionType.PREFERRED
    with common.admin() as admin:
        if dry_run:
            found = foresee(admin, kind, partitions)
            return found, planned_lines(found, kind.name)
        found = elect(admin, kind, partitions, timeout_ms=common.timeout_ms)
    lines = []
    for result, words in (
        (Result.ELECTED, "Successfully completed preferred leader election for partitions"),
        (Result.NOT_NEEDED, "Preferred replica already elected for partitions"),
    ):
        names = [str(each.partition) for each in found if each.result is result]
        if names:
            lines.append(f"{words} {', '.join(names)}")
    lines += [
        f"Error completing preferred leader election for partition: {each.partition}: {java_exception(each.error)}"
        for each in found
        if each.error is not None
    ]
    return found, lines


def _by_node(
    common: Common, zookeeper: str, partitions: "Sequence[TopicPartition] | None", *, dry_run: bool
) -> "tuple[list[Elected], list[str]]":
    from pkafka.tools.elections.leader import Result
    from pkafka.tools.elections.preferred_replica import ask, foresee, plan

    with opened_store(zookeeper, common.timeout_ms) as store:
        if dry_run:
            found = foresee(store, partitions)
            return found, planned_lines(found, "PREFERRED")
        found = plan(store, partitions)
        wanted = [each.partition for each in found if each.result is Result.ASKED]
        lines = [
            f"Created preferred replica election path with {','.join(map(str, batch))}"
            for batch in ask(store, wanted, timeout_s=common.timeout_ms / 1_000)
        ]
    lines.append(
        f"Successfully started preferred replica election for partitions Set({', '.join(map(str, wanted))})"
    )
    lines += [
        f"Skipping preferred replica leader election for partition {each.partition} since it doesn't exist."
        for each in found
        if each.error is not None
    ]
    return found, lines


if __name__ == "__main__":
    main()
