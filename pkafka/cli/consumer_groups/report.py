"""What pk-consumer-groups was asked for, and what it has to say: shared by what looks and what changes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from pkafka.cli.kit.exit_status import ExitStatus, effective
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import Failure, Gauge, OutputFormat, Table, View, choose_format, hint, note
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


class Flags(NamedTuple):
    """What was given beside the connection."""

    list: bool
    describe: bool
    delete: bool
    reset_offsets: bool
    delete_offsets: bool
    group: tuple[str, ...]
    all_groups: bool
    topic: tuple[str, ...]
    all_topics: bool
    offsets: bool
    members: bool
    state: str | None
    type: str | None
    verbose: bool
    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    shift_by: int | None
    to_datetime: str | None
    by_duration: str | None
    from_file: str | None
    dry_run: bool
    execute: bool
    export: bool
    watch: str | None
    only_lagging: bool
    max_lag: int | None
    wait: str | None
    isolation_level: str | None
    yes: bool


class Report:
    """What a run has to say, gathered so that it is one document: Kafka's text line by line, rows, and the verdict."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.rows: list[dict[str, object]] = []
        self.notes: list[str] = []
        self.hints: list[str] = []
        self.tables: list[Table] = []
        self.gauges: list[Gauge] = []
        self.extra: dict[str, object] = {}
        self.failures: list[str] = []
        self._is_line_open = False

    def error(self, message: str) -> None:
        """Kafka's error line; the run fails."""
        self.lines += [*([] if self._is_line_open else [""]), f"Error: {message}"]
        self._is_line_open = False
        self.failures.append(message)

    def table(self, lines: Sequence[str]) -> None:
        """Lines that Kafka begins and does not end: what comes next has no blank line before it."""
        self.lines += [*([] if self._is_line_open else [""]), *lines]
        self._is_line_open = True

    def missing(self) -> list[str]:
        """The groups that there are not."""
        rows = ((str(row.get("group")), row.get("error")) for row in self.rows)
        absent = ErrorCode.GROUP_ID_NOT_FOUND.name
        return [group for group, error in rows if isinstance(error, Failure) and error["name"] == absent]

    def show(self, common: Common) -> None:
        """Print all of it, in the format asked for."""
        for each in self.notes:
            note(each)
        common.show(
            View(
                self.name,
                self.lines,
                self.rows,
                {**self.extra, "failures": self.failures},
                tables=self.tables,
                gauges=self.gauges,
            )
        )
        if choose_format(common.output) is not OutputFormat.TEXT:
            for each in self.failures:
                note(f"Error: {each}")
        for each in self.hints:
            hint(each)

    def status(self) -> int:
        """What to end with: Kafka's tool says 0 to every one of these."""
        return effective(ExitStatus.FAILURE, kafka_says=0) if self.failures else ExitStatus.OK


def named_topics(topics: Sequence[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that ``topic:0,1`` names, and the topics that stand for themselves.

    Raises:
        click.UsageError: a partition is no number.
    """
    from pkafka.tools.offset_reset import ResetError, split_topics

    try:
        return split_topics(topics)
    except ResetError as error:
        raise click.UsageError(str(error)) from error


def chosen_groups(admin: "Admin", common: Common, flags: Flags) -> Sequence[str]:
    """The groups that flags name, or all."""
    from pkafka.tools.consumer_groups import list_consumer_groups

    if not flags.all_groups:
        return flags.group
    return [each.group_id for each in list_consumer_groups(admin, timeout_ms=common.timeout_ms)]
