"""Standalone workers of Kafka Connect, Java's and pkafka's: the same session of REST calls has the same answers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.connect_workers import PATIENT, ConnectWorker, connector_file, java_command, standalone
from tests.interop.conftest import System
from tests.interop.connect_replay import played, step_differences
from tests.interop.connect_session import SESSION
from tests.talk import talking, wait_for


@pytest.fixture
def java(pkafka: System | None, tmp_path: Path) -> Iterator[ConnectWorker]:
    assert pkafka is not None
    worker = ConnectWorker(java_command(tmp_path), tmp_path / "java", pkafka.bootstrap, PATIENT)
    yield worker
    worker.close()


def test_a_session_of_calls_has_the_same_answers(
    java: ConnectWorker, pkafka: System | None, tmp_path: Path, topic: str
) -> None:
    assert pkafka is not None
    with standalone(tmp_path / "ours", pkafka.bootstrap, starts=False) as ours:
        java.start()
        theirs = played(java, f"{topic}-java", pkafka.bootstrap)
        ours.start()
        found = played(ours, f"{topic}-ours", pkafka.bootstrap)
    assert len(SESSION) >= 120
    shown = []
    for step, one, other in zip(SESSION, found, theirs, strict=True):
        shown += [f"{step.method} {step.path}: {each}" for each in step_differences(step, one, other)]
    assert not shown, "\n".join(shown)


def test_either_worker_goes_on_where_the_other_has_stopped(
    java: ConnectWorker, pkafka: System | None, tmp_path: Path, topic: str
) -> None:
    assert pkafka is not None
    with talking(pkafka.bootstrap) as talk:
        talk.create(topic)
    lines = java.directory / "in.txt"
    source = connector_file(
        tmp_path / "source.properties",
        {
            "name": topic,
            "connector.class": "FileStreamSource",
            "file": str(lines),
            "topic": topic,
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        },
    )
    settings = {**PATIENT, "offset.storage.file.filename": str(java.offsets)}
    with standalone(tmp_path / "ours", pkafka.bootstrap, settings, starts=False) as ours:
        sent = []
        for number, worker in enumerate((ours, java, ours)):
            sent += [f"{number}-{each}" for each in range(3)]
            lines.write_text("".join(f"{each}\n" for each in sent))
            worker.start(source)
            wait_for(partial(_has, pkafka, topic, list(sent)), timeout_s=60)
            # The file keeps what is stored at the end.
            worker.stop()
    assert _values(pkafka, topic) == sent


def _has(system: System, topic: str, wanted: list[str]) -> bool:
    return _values(system, topic) == wanted


def _values(system: System, topic: str) -> list[str]:
    with talking(system.bootstrap) as talk:
        return [each.value.decode() for each in talk.read(topic) if each.value is not None]
