"""pk-pipeline as a program: its documents, its progress, its metrics, and how it stops."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.pipeline import main
from pkafka.testing import Broker
from tests.json_schemas import check
from tests.spark import END_S, of_program
from tests.talk import Talk

pytestmark = pytest.mark.timeout(900)

Run = Callable[..., tuple[str, str]]
PROGRAM = [sys.executable, "-c", "from pkafka.cli.pipeline import main; main()"]
STREAM = """\
mode: stream
checkpoint: {directory}/state
parameters: {{trigger: 100ms, expression: string(value)}}
trigger: ${{trigger}}
source:
  format: pkafka
  options: {{kafka.bootstrap.servers: "{servers}", subscribe: {topic}, startingOffsets: earliest}}
steps:
  - sql: select ${{expression}} value from source
sink: {{format: parquet, path: {directory}/out}}
"""
SLOW = """\
source: {{format: csv, path: {directory}/in, schema: id long}}
steps:
  - sql: select id from range(1000000000000) where id * 7 % 1001 = -5
sink: {{format: parquet, path: {directory}/slow}}
"""


@pytest.fixture
def topic(talk: Talk) -> str:
    topic = f"pipeline-{uuid.uuid4().hex[:8]}"
    talk.create(topic)
    talk.send(topic, b"a", b"b")
    return topic


@pytest.fixture
def file(topic: str, pkafka_broker: Broker, tmp_path: Path) -> Path:
    file = tmp_path / "stream.yaml"
    file.write_text(STREAM.format(directory=tmp_path, servers=pkafka_broker.bootstrap, topic=topic))
    return file


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, main)


@contextmanager
def running(directory: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A program of its own; of its temporary files, in ``directory``, none may be left."""
    command = [*PROGRAM, *map(str, words), "--master", "local[1]"]
    pipe = subprocess.PIPE
    files = directory / "files"
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=of_program(files)
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert list(files.iterdir()) == []


@pytest.mark.nightly  # starts Spark in programs of its own
def test_what_a_pipeline_is_and_what_it_did(run: Run, file: Path, tmp_path: Path) -> None:
    printed, said = run("validate", file, "--output", "json")
    found = json.loads(printed)
    check(found, "pk-pipeline.validate")
    assert (found["pipeline"], found["mode"], said) == ("stream", "stream", "")
    assert [each["columns"] for each in found["stages"][1:]] == [["value string"]] * 2
    words = ["run", file, "--set", "trigger=available-now"]
    printed, _ = run(*words, "--dry-run", "--output", "json")
    check(json.loads(printed), "pk-pipeline.run")
    assert json.loads(printed)["summary"]["status"] == "checked"
    assert not (tmp_path / "out").exists()
    printed, said = run(*words, "--output", "json")
    found = json.loads(printed)
    check(found, "pk-pipeline.run")
    assert [each["rows_written"] for each in found["batches"]] == [2]
    assert (found["summary"]["status"], found["summary"]["rows_written"], said) == ("complete", 2, "")
    printed, said = run(*words)
    assert re.fullmatch(r"stream: 0 batches in [0-9.]+ s\n", printed)
    assert said == ""


def test_a_mistake_in_sql_is_one_line_and_no_data_is_touched(run: Run, file: Path, tmp_path: Path) -> None:
    printed, said = run(
        "run", file, "--set", "expression=values_", "--output", "json", status=ExitStatus.USAGE
    )
    check(json.loads(printed), "error")
    assert said.count("\n") == 1
    assert said.startswith(f"pk-pipeline: {file}, line 9: ")
    assert "`values_`" in said
    assert [each.name for each in tmp_path.iterdir()] == ["stream.yaml"]


def test_a_job_that_fails_is_one_line(run: Run, file: Path) -> None:
    words = ["run", file, "--set", "expression=raise_error('seven')", "--set", "trigger=available-now"]
    printed, said = run(*words, "--output", "json", status=ExitStatus.FAILURE)
    check(json.loads(printed), "error")
    assert said.count("\n") == 1
    assert "seven" in said


@pytest.mark.nightly  # starts Spark in programs of their own
def test_a_stream_ends_when_it_is_told_to_and_goes_on_later(
    file: Path, topic: str, talk: Talk, tmp_path: Path
) -> None:
    read_batch(tmp_path, file, signal.SIGTERM, ExitStatus.TERMINATED, rows=2)
    talk.send(topic, b"c")
    read_batch(tmp_path, file, signal.SIGINT, ExitStatus.INTERRUPTED, rows=1)


def read_batch(directory: Path, file: Path, number: signal.Signals, status: ExitStatus, *, rows: int) -> None:
    """Run a stream whose next batch has so many rows, and end it with a signal."""
    with running(directory, "run", file, "--metrics", "127.0.0.1:0") as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        batch = json.loads(process.stderr.readline())
        check(batch, "pk-pipeline.run", "row")
        assert (batch["rows_written"], batch["lag"]) == (rows, 0)
        with urllib.request.urlopen(found[0], timeout=60) as answer:
            text = answer.read().decode()
        assert f'pkafka_pipeline_rows_written_total{{pipeline="stream"}} {rows}.0\n' in text
        process.send_signal(number)
        printed, said = process.communicate(timeout=END_S)
    assert (process.returncode, said) == (status, "")
    told = rf"stream: 1 batch, {rows} rows read, {rows} rows written in [0-9.]+ s\n"
    assert re.fullmatch(told, printed)


@pytest.mark.nightly
def test_a_batch_ends_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    file = tmp_path / "slow.yaml"
    file.write_text(SLOW.format(directory=tmp_path))
    with running(tmp_path, "run", file, "--output", "json") as process:
        wait_until(lambda: (tmp_path / "slow").exists(), process)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=END_S)
    assert (process.returncode, said) == (ExitStatus.INTERRUPTED, "")
    found = json.loads(printed)
    check(found, "pk-pipeline.run")
    assert (found["batches"], found["summary"]["status"]) == ([], "interrupted")


def wait_until(is_so: Callable[[], bool], process: "subprocess.Popen[Any]") -> None:
    """Look again and again, for as long as a process runs."""
    while not is_so():
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"it ended with {process.returncode}: {process.communicate()}")
