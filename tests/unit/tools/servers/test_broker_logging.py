"""Each of Kafka's logs has its file, and the foreground has all of them in one place."""

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = (
    "pkafka.server.processes.worker",
    "kafka.controller.KafkaController",
    "state.change.logger",
    "kafka.log.LogCleaner",
)
SCRIPT = """
import logging, pathlib, sys
from pkafka.tools.servers.broker_logging import log_to_files, log_to_standard_error
if sys.argv[1:]:
    log_to_files(pathlib.Path(sys.argv[1]))
else:
    log_to_standard_error()
for name in (*{names}, "kafka.request.logger"):
    logging.getLogger(name).info("said by %s", name)
    logging.getLogger(name).error("complaint of %s", name)
""".replace("{names}", repr(NAMES))


def run(*words: object) -> str:
    # A process of its own: what is set up is of a whole process, and stays.
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr


@pytest.mark.parametrize(
    ("file", "name"),
    list(zip(("server.log", "controller.log", "state-change.log", "log-cleaner.log"), NAMES, strict=True)),
)
def test_a_log_has_its_own_file_and_nothing_else_is_in_it(tmp_path: Path, file: str, name: str) -> None:
    assert run(tmp_path) == ""
    said, complained = (tmp_path / file).read_text().splitlines()
    assert "] INFO [" in said
    assert said.endswith(f"said by {name} ({name})")
    assert complained.endswith(f"] complaint of {name} ({name})")


def test_requests_are_not_written_until_somebody_asks(tmp_path: Path) -> None:
    run(tmp_path)
    [line] = (tmp_path / "kafka-request.log").read_text().splitlines()
    assert "] ERROR [" in line


def test_the_foreground_leaves_out_changes_of_single_partitions() -> None:
    lines = run().splitlines()
    said, complained = (
        [line.rpartition("(")[2].rstrip(")") for line in lines if word in line]
        for word in ("said by", "complaint of")
    )
    assert complained == [*NAMES, "kafka.request.logger"]
    assert said == [each for each in NAMES if each != "state.change.logger"]
