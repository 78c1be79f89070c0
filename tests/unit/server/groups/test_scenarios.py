"""Group behaviour as traces: tests/scenarios/groups/*.txt, here on the machine alone (tests/interop: on brokers).

PKAFKA_REWRITE=1 writes the files anew; the difference is to be reviewed like code, and played on Apache Kafka.
"""

import os
from pathlib import Path

import pytest

from tests.group_script import SCRIPTS, played, steps_of, text_of
from tests.unit.server.groups.machine import MACHINE_SETTINGS, Machine


@pytest.mark.parametrize("file", SCRIPTS, ids=[file.stem for file in SCRIPTS])
def test_trace(file: Path) -> None:
    text = file.read_text()
    actual = text_of(played(steps_of(text), Machine(MACHINE_SETTINGS)))
    if os.environ.get("PKAFKA_REWRITE"):
        file.write_text(actual)
        return
    assert actual == text


def test_there_are_traces() -> None:
    assert len(SCRIPTS) >= 12
