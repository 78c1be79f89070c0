"""pk-pipeline killed in the middle of streams: Parquet files hold each record once, a topic at least once."""

import json
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import IO

import psutil
import pyarrow.parquet as pq
import pytest

from pkafka.clients.producer import Producer
from pkafka.testing import Broker
from tests.talk import Talk, talking

PARTITIONS = 2
RECORDS_A_ROUND = 10_000
STREAM = """\
mode: stream
checkpoint: {directory}/checkpoint
parameters: {{trigger: 0s}}
trigger: ${{trigger}}
source:
  format: pkafka
  options:
    kafka.bootstrap.servers: {servers}
    subscribe: {topic}
    startingOffsets: earliest
    maxOffsetsPerTrigger: 1000
steps:
  - sql: select string(value) value from source
sink: {sink}
"""


class Run:
    """A pipeline that runs in processes of its own: this program, a JVM, workers."""

    def __init__(self, file: Path, *words: str) -> None:
        program = [sys.executable, "-c", "from pkafka.cli.pipeline import main; main()"]
        command = [*program, "run", str(file), "--master", "local[1]", *words]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    @property
    def _said(self) -> IO[bytes]:
        assert self._process.stderr is not None
        return self._process.stderr

    def wait_for_batch(self) -> None:
        """Until a batch is done."""
        line = self._said.readline()
        assert json.loads(line)["rows_read"], line

    def kill(self) -> None:
        """kill -9 of all of it at once."""
        process = psutil.Process(self._process.pid)
        parts = [process, *process.children(recursive=True)]
        for part in parts:
            part.kill()
        self._process.communicate(timeout=30)
        psutil.wait_procs(parts, timeout=30)

    def end(self) -> None:
        """Until it ends by itself."""
        said = self._process.communicate(timeout=200)[1]
        assert self._process.returncode == 0, said


def send(broker: Broker, topic: str, first: int) -> int:
    """Write the records of a round; the number of the next."""
    values = [b"%d" % number for number in range(first, first + RECORDS_A_ROUND)]
    with Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for at in range(0, RECORDS_A_ROUND, 100):  # batches of the log, spread over its partitions
            producer.send_batch(topic, values[at : at + 100], partition=at // 100 % PARTITIONS).result(30)
    return first + RECORDS_A_ROUND


def new_topic(talk: Talk) -> str:
    topic = f"pipeline-{uuid.uuid4().hex[:8]}"
    talk.create(topic, PARTITIONS)
    return topic


@pytest.mark.nightly  # three minutes even with two kills: Spark starts each time
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.timeout(900))])
@pytest.mark.timeout(300)
def test_killed_streams_lose_nothing(kills: int, pkafka_broker: Broker, tmp_path: Path) -> None:
    when = random.Random(kills)
    with talking(pkafka_broker.bootstrap) as talk:
        source, target = new_topic(talk), new_topic(talk)
        options = json.dumps({"kafka.bootstrap.servers": pkafka_broker.bootstrap, "topic": target})
        sinks = {
            "files": f"{{format: parquet, path: {tmp_path}/out}}",
            "topic": f"{{format: pkafka, options: {options}}}",
        }
        files = []
        for name, sink in sinks.items():
            place = {"directory": tmp_path / name, "servers": pkafka_broker.bootstrap, "topic": source}
            files.append(tmp_path / f"{name}.yaml")
            files[-1].write_text(STREAM.format(**place, sink=sink))
        count = 0
        for _ in range(kills):
            count = send(pkafka_broker, source, count)
            runs = [Run(file) for file in files]
            for each in runs:
                each.wait_for_batch()
            time.sleep(when.uniform(0, 3))  # some place in a batch: that is what is tried
            for each in runs:
                each.kill()
        for file in files:
            Run(file, "--set", "trigger=available-now").end()
        expected = {b"%d" % number for number in range(count)}
        copied = [record.value for partition in range(PARTITIONS) for record in talk.read(target, partition)]
        assert set(copied) == expected
        # Not by Spark, which would leave out what no finished batch names: other programs take every file.
        written: Counter[str] = Counter()
        for part in (tmp_path / "out").glob("*.parquet"):
            written.update(pq.ParquetFile(part).read().column("value").to_pylist())
        assert [each for each, times in written.items() if times > 1] == []
        assert {each.encode() for each in written} == expected
