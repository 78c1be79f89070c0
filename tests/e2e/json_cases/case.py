"""Where a case of the tests of JSON output runs, and what it compares with its schema."""

import csv
import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import Broker
from scripts.regenerate import commands
from tests.json_schemas import check, check_cells
from tests.talk import Talk

COMMANDS: dict[str, Any] = dict(commands())
Words: TypeAlias = list[str]


class At(NamedTuple):
    """Where a case runs, and what it compares with its schema."""

    name: str
    broker: Broker
    talk: Talk
    tmp_path: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def command(self) -> str:
        """The command that the schema belongs to."""
        return self.name.partition(".")[0]

    def new(self, prefix: str = "schema") -> str:
        """A name that nothing has."""
        return f"{prefix}-{uuid.uuid4().hex[:8]}"

    def topic(self, *values: bytes, partitions: int = 1, **configs: object) -> str:
        """A topic that has these values in its first partition."""
        name = self.new()
        self.talk.create(name, partitions, **configs)
        if values:
            self.talk.send(name, *values)
        return name

    def file(self, content: object) -> str:
        """A JSON file."""
        path = self.tmp_path / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def run(self, *words: str, status: int = ExitStatus.OK, command: str | None = None) -> str:
        """What a command prints to standard output."""
        self.capsys.readouterr()
        found = COMMANDS[command or self.command].run(list(words))
        printed = self.capsys.readouterr()
        assert found == status, printed.err
        return printed.out

    def document(self, *words: str, status: int = ExitStatus.OK) -> Any:
        """The one document of ``--output json``."""
        found = json.loads(self.run(*asked(words, "json"), status=status))
        check(found, self.name)
        return found

    def error(self, *words: str, status: int = ExitStatus.FAILURE) -> Any:
        """The document of a run that fails as a whole, and that it is the last line of JSON lines too."""
        found = json.loads(self.run(*asked(words, "json"), status=status))
        check(found, "error")
        last = self.run(*asked(words, "jsonl"), status=status).splitlines()[-1]
        check(json.loads(last), "error")
        return found["error"]

    def rows(self, *words: str, status: int = ExitStatus.OK) -> list[Any]:
        """The rows of ``--output jsonl``."""
        found = [json.loads(each) for each in self.run(*asked(words, "jsonl"), status=status).splitlines()]
        for row in found:
            check(row, self.name, "row")
        return found

    def cells(self, *words: str, status: int = ExitStatus.OK) -> list[list[str]]:
        """The rows of ``--output csv``."""
        header, *found = csv.reader(io.StringIO(self.run(*asked(words, "csv"), status=status)))
        for cells in found:
            check_cells(header, cells, self.name)
        return found

    def every_form(self, make: Callable[[], Words] | Words, status: int = ExitStatus.OK) -> Any:
        """The document; the rows of the other forms are as many as promised, and there are some.

        Args:
            make: the command line, or what gives a new one for each form.
        """
        words = make if callable(make) else lambda: make
        document = self.document(*words(), status=status)
        assert self.rows(*words(), status=status), "no rows, nothing was compared"
        assert self.cells(*words(), status=status)
        return document


def asked(words: tuple[str, ...], form: str) -> Words:
    """The command line with ``--output``: where the word OUTPUT stands, else at the end."""
    if "OUTPUT" not in words:
        return [*words, "--output", form]
    at = words.index("OUTPUT")
    return [*words[:at], "--output", form, *words[at + 1 :]]


Case: TypeAlias = Callable[[At], None]


class Cases:
    """The cases of a module, by the names of their schemas."""

    def __init__(self) -> None:
        self.by_name: dict[str, Case] = {}

    def of(self, *names: str) -> Callable[[Case], Case]:
        """Marks what shows that a command keeps the promises of these schemas."""

        def keep(case: Case) -> Case:
            self.by_name.update(dict.fromkeys(names, case))
            return case

        return keep
