"""pk-apply with files that are no declaration."""

from pathlib import Path

import pytest

from pkafka.cli import apply
from pkafka.cli.kit.exit_status import ExitStatus


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topics: {a: [", "line 1: expected the node content"),
        ("topics: {a: {partition: 1}}", "topics.a: partition is not known"),
        ("\x00", "special characters are not allowed"),
    ],
)
def test_what_is_no_declaration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    assert apply.main.run(["diff", str(file)]) == ExitStatus.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert problem in said.err
