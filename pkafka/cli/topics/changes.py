"""What --create, --alter and --delete share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, View, line
from pkafka.errors import ApiError
from pkafka.java.numbers import parse_int
from pkafka.java.text import split, trim

TEXT_FORMS: Final = (None, OutputFormat.TEXT, OutputFormat.TABLE)
"""Formats in which a change is told line by line."""


def show_change(
    common: Common, lines: Sequence[str], rows: Sequence[Mapping[str, object]], *, dry_run: bool
) -> None:
    """Say what was done, or with a dry run what would be done."""
    if common.output in TEXT_FORMS:
        for each in lines:
            line(each)
    else:
        common.show(View("topics", lines, rows, {"dry_run": dry_run}))


def raise_first(outcomes: Iterable[object]) -> None:
    """Raise the first error among outcomes, if there is one."""
    for outcome in outcomes:
        if isinstance(outcome, ApiError):
            raise outcome


def parse_replica_assignment(text: str) -> list[tuple[int, ...]]:
    """Read ``1:2,2:3``: the brokers per partition, all of one length and none twice.

    Raises:
        CommandError: it breaks one of these rules.
    """
    partitions: list[tuple[int, ...]] = []
    for index, part in enumerate(split(text, ",")):
        try:
            brokers = tuple(parse_int(trim(broker)) for broker in split(part, ":"))
        except ValueError as error:
            raise CommandError(str(error), hint="like 0:1,1:0", status=ExitStatus.USAGE) from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise CommandError(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}"
            )
        if index and len(brokers) != len(partitions[0]):
            raise CommandError(f"Partition {index} has different replication factor: {list(brokers)}")
        partitions.append(brokers)
    return partitions
