"""What a transactional id goes through, as traces: tests/scenarios/transactions/*.txt.

PKAFKA_REWRITE=1 writes the files anew; the difference is to be reviewed like code.
"""

import os
from pathlib import Path

import pytest

from tests.unit.server.transactions.machine import played

SCRIPTS = sorted((Path(__file__).parents[3] / "scenarios" / "transactions").glob("*.txt"))


@pytest.mark.parametrize("file", SCRIPTS, ids=[file.stem for file in SCRIPTS])
def test_trace(file: Path) -> None:
    text = file.read_text()
    actual = played(text.rstrip("\n"))
    if os.environ.get("PKAFKA_REWRITE"):
        file.write_text(actual)
        return
    assert actual == text


def test_there_are_traces() -> None:
    assert len(SCRIPTS) >= 8
