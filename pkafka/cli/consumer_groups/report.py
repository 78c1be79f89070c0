"""The result of a run of pk-consumer-groups, and the groups that it is about."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pkafka.cli.consumer_groups.flags import Flags
from pkafka.cli.kit.exit_status import ExitStatus, effective
from pkafka.cli.kit.kafka_command import status_of
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import Failure, Gauge, OutputFormat, Table, View, choose_format, hint, note
from pkafka.errors import ErrorCode

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


class Report:
    """The result of a run, gathered so that it is one document: Kafka's text line by line, rows, and failures."""

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
        self._causes: list[Exception] = []
        self._is_line_open = False

    def error(self, message: str, causes: Sequence[Exception] = ()) -> None:
        """Add Kafka's error line, and let the run fail.

        Args:
            message: without ``Error:``.
            causes: what brokers answered; where all of them denied it, the exit status says so.
        """
        self._causes += causes
        self.lines += [*([] if self._is_line_open else [""]), f"Error: {message}"]
        self._is_line_open = False
        self.failures.append(message)

    def table(self, lines: Sequence[str]) -> None:
        """Add a table, after which Kafka writes no line end: the next lines have no blank line before them."""
        self.lines += [*([] if self._is_line_open else [""]), *lines]
        self._is_line_open = True

    def missing(self) -> list[str]:
        """The groups that do not exist."""
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
        """The exit status: Kafka's tool ends with 0 after every one of these failures."""
        return effective(status_of(self._causes), kafka_says=0) if self.failures else ExitStatus.OK


def chosen_groups(admin: "Admin", common: Common, flags: Flags) -> Sequence[str]:
    """The groups that flags name, or all."""
    from pkafka.tools.groups.description import list_consumer_groups

    if not flags.all_groups:
        return flags.group
    return [each.group_id for each in list_consumer_groups(admin, timeout_ms=common.timeout_ms)]
