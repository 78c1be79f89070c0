"""pk-leader-election: elect leaders of partitions, as kafka-leader-election.sh."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.confirmation import agrees, can_ask
from pkafka.cli.kit.elections import kafka_text, partition_row, planned_lines
from pkafka.cli.kit.java_text import java_exception
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.numbers import INT_MAX
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.kit.output import View, note
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.tools.elections.leader import Elected

_WAYS = ("topic", "all-topic-partitions", "path-to-json-file")
_ABSENT = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


@command("pk-leader-election", error_text=kafka_text)
@connection_options
@click.option("--admin.config", "admin_config", metavar="FILE", help="Other name of --command-config.")
@click.option(
    "--election-type",
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    help="preferred: let the first replica lead again; unclean: let any replica lead where none in sync is alive.",
)
@click.option("--all-topic-partitions", is_flag=True, help="Elect in every partition that needs it.")
@click.option("--topic", metavar="NAME", help="The topic.")
@click.option("--partition", type=click.IntRange(0, INT_MAX), metavar="N", help="The partition of --topic.")
@click.option("--path-to-json-file", metavar="FILE", help="Partitions, as JSON.")
@click.option("--dry-run", is_flag=True, help="Say where a leader would be elected, and elect none.")
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing. Without it, on a terminal, the command asks before unclean elections in partitions "
    "that no flag names.",
)
def main(
    common: Common,
    admin_config: str | None,
    election_type: str | None,
    all_topic_partitions: bool,
    topic: str | None,
    partition: int | None,
    path_to_json_file: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Elect leaders: the preferred ones, or unclean ones where no replica in sync is left."""
    if admin_config is not None and common.command_config is not None:
        raise click.UsageError('Option "[admin.config]" can\'t be used with option "[command-config]"')
    common = common._replace(command_config=common.command_config or admin_config)
    if election_type is None:
        raise click.UsageError("Missing required option(s): election-type")
    if sum(each is not None for each in (topic, path_to_json_file)) + all_topic_partitions != 1:
        raise click.UsageError(f"One and only one of the following options is required: {', '.join(_WAYS)}")
    if (topic is None) != (partition is None):
        raise click.UsageError(
            "Missing required option(s): partition"
            if partition is None
            else "Option partition is only allowed if topic is used"
        )
    partitions = None
    if topic is not None and partition is not None:
        partitions = [TopicPartition(topic, partition)]
    from pkafka.clients.admin.results import ElectionType
    from pkafka.tools.elections.leader import elect, foresee, parse_partitions

    if path_to_json_file is not None:
        partitions = parse_partitions(Path(path_to_json_file).read_bytes())
    kind = ElectionType[election_type.upper()]
    with common.admin() as admin:
        if all_topic_partitions and kind is ElectionType.UNCLEAN and not (dry_run or yes) and can_ask():
            _ask(foresee(admin, kind, None))
        found = (
            foresee(admin, kind, partitions)
            if dry_run
            else elect(admin, kind, partitions, timeout_ms=common.timeout_ms)
        )
    lines = planned_lines(found, kind.name) if dry_run else _lines(found, kind.name)
    rows = [partition_row(each) for each in found]
    common.show(View("partitions", lines, rows, {"election_type": election_type.lower(), "dry_run": dry_run}))
    failures = sum(1 for each in found if each.error is not None)
    if failures:
        are_missing = any(each.error is not None and each.error.code in _ABSENT for each in found)
        raise CommandError(
            f"{failures} replica(s) could not be elected",
            hint="pk-topics --describe --under-replicated-partitions shows which are missing"
            if are_missing
            else None,
        )


def _ask(found: "list[Elected]") -> None:
    """Ask whether records may be lost in partitions that the command line does not name.

    Raises:
        CommandError: the answer is no.
    """
    from pkafka.tools.elections.leader import Result

    names = [str(each.partition) for each in found if each.result is Result.ELECTED]
    if not names:
        return
    note(f"No replica in sync is left of {', '.join(names)}: what only those had is lost for good")
    if not agrees(f"Elect leaders for {len(names)} partition(s) all the same?"):
        raise CommandError("nothing was elected", hint="--yes asks nothing")


def _lines(found: "list[Elected]", kind: str) -> list[str]:
    from pkafka.tools.elections.leader import Result

    lines = []
    elected = [str(each.partition) for each in found if each.result is Result.ELECTED]
    if elected:
        lines.append(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    right = [str(each.partition) for each in found if each.result is Result.NOT_NEEDED]
    if right:
        lines.append(f"Valid replica already elected for partitions {', '.join(right)}")
    lines += [
        f"Error completing leader election ({kind}) for partition: {each.partition}: {java_exception(each.error)}"
        for each in found
        if each.error is not None
    ]
    return lines
