"""A stream of Spark's that writes exactly once, through kill -9 at every step, on both systems."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from tests.dying_sink import STEPS
from tests.interop.conftest import JavaTool, System
from tests.spark import END_S, of_program
from tests.talk import talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.nightly, pytest.mark.timeout(3_000)]

PARTITIONS: Final = 3
RECORDS: Final = 300
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PIPELINE: Final = "from pkafka.cli.pipeline import main; main()"


class Copy:
    """A topic of records in a known order, and its copy."""

    def __init__(self, system: System, topic: str, directory: Path) -> None:
        self.bootstrap = system.bootstrap
        self.source, self.target = topic, f"{topic}-copied"
        self._directory = directory
        self.state = directory / "state"
        self.sent = [[f"{number % 7}:{number}" for number in range(RECORDS)] for _ in range(PARTITIONS)]
        with talking(system.bootstrap) as talk:
            for name in (self.source, self.target):
                talk.create(name, PARTITIONS)
        with Producer({"bootstrap.servers": system.bootstrap}) as producer:
            for partition, values in enumerate(self.sent):
                keys = [value.partition(":")[0].encode() for value in values]
                producer.send_batch(
                    self.source, [value.encode() for value in values], keys, partition=partition
                )

    def run(self, steps: str, *, run: int, kill_driver: bool = False, attempts: int = 1) -> int:
        """Copy until the end, or a death; how the driver ended."""
        seen = self._directory / f"steps-{run}"
        seen.mkdir()
        told = {
            "bootstrap": self.bootstrap,
            "source": self.source,
            "target": self.target,
            "state": str(self.state),
            "die": {"steps": str(seen), "dieAt": steps},
            "kill_driver": kill_driver,
            "attempts": attempts,
        }
        program = [sys.executable, "-m", "tests.interop.spark_copier", json.dumps(told)]
        files = self._directory / "files"
        code = subprocess.run(program, env=of_program(files), timeout=END_S, check=False).returncode
        shutil.rmtree(files)  # a killed driver removes nothing
        return code

    def read(self, level: str = "read_committed") -> list[list[str]]:
        """What is in each partition of the copy."""
        found: list[list[str]] = [[] for _ in range(PARTITIONS)]
        keys = {
            "bootstrap.servers": self.bootstrap,
            "isolation.level": level,
            "auto.offset.reset": "earliest",
        }
        with Consumer(keys) as consumer:
            consumer.assign([TopicPartition(self.target, number) for number in range(PARTITIONS)])
            with talking(self.bootstrap) as talk:
                ends = {each: talk.ends(self.target, each.partition)[1] for each in consumer.assignment()}
            # A commit has an answer before its markers are written everywhere.
            wait_for(lambda: consumer.end_offsets(ends) == ends, what="the end of the last transaction")
            while any(consumer.position(each) < end for each, end in ends.items()):
                for record in consumer.poll(500):
                    found[record.partition].append((record.value or b"").decode())
        return found


@pytest.fixture
def copy(system: System, topic: str, tmp_path: Path) -> Copy:
    return Copy(system, topic, tmp_path)


def test_tasks_that_are_killed_at_every_step(copy: Copy) -> None:
    """Spark tries each of them again, in one run of the driver."""
    code = copy.run(",".join(STEPS[: STEPS.index("checking")]), run=0, attempts=20)
    assert code == 0
    assert len(list((copy.state.parent / "steps-0").iterdir())) == STEPS.index("checking")
    assert copy.read() == copy.sent


def test_a_driver_that_is_killed_at_every_step(copy: Copy, java_tool: JavaTool) -> None:
    """Started again from its checkpoint each time."""
    for run, step in enumerate(STEPS):
        assert copy.run(step, run=run, kill_driver=True) == -signal.SIGKILL, step
    assert copy.run("", run=len(STEPS)) == 0
    assert copy.read() == copy.sent
    everything = copy.read("read_uncommitted")
    assert sum(map(len, everything)) > PARTITIONS * RECORDS, (
        "what was aborted is there for those who read all"
    )
    arguments = ("--bootstrap-server", copy.bootstrap, "--topic", copy.target, "--from-beginning")
    committed = ("--isolation-level", "read_committed", "--max-messages", PARTITIONS * RECORDS)
    shown = java_tool(CONSOLE_CONSUMER, *arguments, *committed, "--timeout-ms", 50_000).stdout.split()
    assert sorted(shown) == sorted(value for values in copy.sent for value in values)


PIPELINE_FILE: Final = """\
mode: stream
checkpoint: {state}
source:
  format: pkafka
  options:
    kafka.bootstrap.servers: "{servers}"
    subscribe: {source}
    startingOffsets: earliest
    maxOffsetsPerTrigger: 150
    kafka.isolation.level: read_committed
steps:
  - sql: select key, value, partition from source
sink:
  format: pkafka
  options: {{kafka.bootstrap.servers: "{servers}", topic: {target}, delivery: exactly-once, transactionScope: {scope}}}
trigger: available-now
"""


@pytest.mark.parametrize("scope", ["task", "batch"])
def test_a_pipeline_whose_processes_are_killed_at_any_time(copy: Copy, scope: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.yaml"
    file.write_text(
        PIPELINE_FILE.format(
            state=copy.state, servers=copy.bootstrap, source=copy.source, target=copy.target, scope=scope
        )
    )
    chance = random.Random(copy.source)
    for _ in range(20):
        if run_pipeline(file, tmp_path / "files", chance) == 0:
            break
    else:
        raise AssertionError("it did not come to its end")
    assert copy.read() == copy.sent


def run_pipeline(file: Path, files: Path, chance: random.Random) -> int:
    """Run a pipeline, and kill it or one of its workers at some time after its first micro-batch; how it ended."""
    state = file.parent / "state"
    command = [sys.executable, "-c", PIPELINE, "run", str(file), "--master", "local[2]"]
    with subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env=of_program(files),
    ) as process:
        before = _batches(state)
        try:
            wait_for(
                lambda: process.poll() is not None or _batches(state) > before,
                timeout_s=END_S,
                what="a micro-batch, or the end",
            )
            time.sleep(chance.random() * 2)
            if chance.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                _kill_a_worker(process.pid, chance)
                process.wait(END_S)
        except ProcessLookupError:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    shutil.rmtree(files)
    return process.returncode


def _batches(state: Path) -> int:
    """How many micro-batches a checkpoint has the ends of."""
    return len(list((state / "offsets").glob("[0-9]*")))


def _kill_a_worker(pid: int, chance: random.Random) -> None:
    """Kill one of the Python processes that do the work."""
    try:
        found = [each for each in psutil.Process(pid).children(recursive=True) if "python" in each.name()]
        if found:
            chance.choice(found).kill()
    except psutil.NoSuchProcess:
        pass
