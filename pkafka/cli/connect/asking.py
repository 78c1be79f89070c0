"""What all verbs of pk-connect share: the worker that is asked, and the table that is printed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import OutputFormat, View

if TYPE_CHECKING:
    from pkafka.connect.rest_client import ConnectClient


class Worker(NamedTuple):
    """The worker that is asked, and how its answers are printed."""

    url: str
    timeout_s: float
    form: OutputFormat | None

    @contextmanager
    def asked(self) -> "Iterator[ConnectClient]":
        """A client; what goes wrong becomes a sentence.

        Raises:
            CommandError: the worker refuses, or none answers.
        """
        from pkafka.connect.rest_client import ConnectClient, RefusedError, UnreachableError

        try:
            yield ConnectClient(self.url, self.timeout_s)
        except UnreachableError as error:
            raise CommandError(
                str(error),
                hint="--url or $PK_CONNECT_URL names the REST API of a worker.",
                status=ExitStatus.UNREACHABLE,
            ) from error
        except RefusedError as error:
            raise CommandError(str(error)) from error

    def show(
        self,
        name: str,
        rows: Sequence[Mapping[str, object]],
        columns: Sequence[str],
        *,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Print rows.

        Args:
            name: of the rows in JSON.
            columns: of the table.
            extra: more keys of the JSON document.
        """
        cells = [
            [column.upper() for column in columns],
            *([_cell(row[each]) for each in columns] for row in rows),
        ]
        widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
        lines = [
            " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        output.show(View(name, lines, rows, extra or {}, columns=columns), self.form)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return str(value)
