"""What a consumer that is killed loses or repeats follows from when it commits (PKG-10), on both systems."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.clients.producer import Producer
from tests.interop.conftest import System
from tests.talk import Talk

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

MEMBER = Path(__file__).with_name("delivering_member.py")
SENT = [str(number) for number in range(100)]


@pytest.mark.parametrize("way", ["at-most-once", "at-least-once", "exactly-once"])
def test_a_consumer_delivers_as_it_commits(system: System, topic: str, tmp_path: Path, way: str) -> None:
    group = f"group-of-{topic}"
    talk = Talk(system.bootstrap)
    talk.create(topic)
    talk.close()
    with Producer({"bootstrap.servers": system.bootstrap}) as producer:
        for value in SENT:
            producer.send(topic, value=value.encode(), partition=0)
    results = tmp_path / "results"
    for count in (10, 25, 40):
        assert run(system, topic, group, way, results, count) == -signal.SIGKILL
    assert run(system, topic, group, way, results, -1) == 0
    with sqlite3.connect(results) as connection:
        done = [row[0] for row in connection.execute("SELECT value FROM done ORDER BY rowid")]
    connection.close()
    if way == "at-most-once":
        assert len(done) == len(set(done)), "something was done twice"
        assert 0 < len(SENT) - len(done) <= 3 * 7, "what was committed and not done yet is lost"
    elif way == "at-least-once":
        assert set(done) == set(SENT), "something was lost"
        assert len(done) > len(SENT), "what was done and not committed yet comes again"
    else:
        assert done == SENT


def run(system: System, topic: str, group: str, way: str, results: Path, count: int) -> int:
    """How a member that dies after so many records ended."""
    command = [sys.executable, str(MEMBER), system.bootstrap, topic, group, way, str(results), str(count)]
    return subprocess.run(command, timeout=60, check=False).returncode
