"""pk-pipeline killed in the middle of streams: Parquet files hold each record once, a topic at least once. And on a
machine that is too busy to start what reads in the time that Spark gives it."""

import json
import random
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pkafka.clients.producer import Producer
from pkafka.testing import Broker
from tests.faults.spark_kills import kill_somewhere
from tests.spark import END_S, of_program
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


SLOW_PYTHON = """\
#!/bin/sh
case "$*" in *python_streaming_source_runner*)
    echo "$$" >> "{starts}"
    [ "$(wc -l < "{starts}")" -gt 1 ] || exec sleep 12
esac
exec {python} "$@"
"""
"""Spark waits ten seconds for what reads a stream, and no setting makes that more."""


def started(file: Path, *words: str, **environment: str) -> subprocess.Popen[bytes]:
    """A pipeline that runs in processes of its own: this program, a JVM, workers."""
    program = [sys.executable, "-c", "from pkafka.cli.pipeline import main; main()"]
    command = [*program, "run", str(file), "--master", "local[1]", *words]
    # Of its temporary files a kill of all of it leaves some.
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=of_program(file.with_suffix(".tmp")) | environment,
    )


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
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.timeout(3600))])
@pytest.mark.timeout(1200)
def test_killed_streams_lose_nothing(kills: int, pkafka_broker: Broker, tmp_path: Path) -> None:
    when = random.Random(kills)
    with talking(pkafka_broker.bootstrap) as talk:
        source, target = new_topic(talk), new_topic(talk)
        options = json.dumps({"kafka.bootstrap.servers": pkafka_broker.bootstrap, "topic": target})
        out = tmp_path / "out"
        sinks = {
            "files": f"{{format: parquet, path: {out}}}",
            "topic": f"{{format: pkafka, options: {options}}}",
        }
        for name, sink in sinks.items():
            place = {"directory": tmp_path / name, "servers": pkafka_broker.bootstrap, "topic": source}
            (tmp_path / f"{name}.yaml").write_text(STREAM.format(**place, sink=sink))
        count = 0
        for _ in range(kills):
            count = send(pkafka_broker, source, count)
            for name, files in (("files", out), ("topic", None)):
                process = started(tmp_path / f"{name}.yaml")
                kill_somewhere(process, when, tmp_path / name / "checkpoint", files)
        for name in sinks:
            last = started(tmp_path / f"{name}.yaml", "--set", "trigger=available-now")
            said = last.communicate(timeout=END_S)[1]
            assert last.returncode == 0, said
        expected = {b"%d" % number for number in range(count)}
        copied = [record.value for partition in range(PARTITIONS) for record in talk.read(target, partition)]
        assert set(copied) == expected
        # Not by Spark, which would leave out what no finished batch names: other programs take every file.
        written: Counter[str] = Counter()
        for part in out.glob("*.parquet"):
            written.update(pq.ParquetFile(part).read().column("value").to_pylist())
        assert [each for each, times in written.items() if times > 1] == []
        assert {each.encode() for each in written} == expected


@pytest.mark.nightly
@pytest.mark.timeout(END_S)
def test_a_stream_whose_reader_starts_late_is_started_again(pkafka_broker: Broker, tmp_path: Path) -> None:
    late, starts = tmp_path / "python", tmp_path / "starts"
    late.write_text(SLOW_PYTHON.format(starts=starts, python=sys.executable))
    late.chmod(0o755)
    with talking(pkafka_broker.bootstrap) as talk:
        topic = new_topic(talk)
        talk.send(topic, b"1", b"2")
    out = tmp_path / "out"
    place = {"directory": tmp_path, "servers": pkafka_broker.bootstrap, "topic": topic}
    file = tmp_path / "late.yaml"
    file.write_text(STREAM.format(**place, sink=f"{{format: parquet, path: {out}}}"))
    process = started(file, "--set", "trigger=available-now", PYSPARK_DRIVER_PYTHON=str(late))
    said = process.communicate(timeout=END_S)[1]
    assert process.returncode == 0, said
    assert b"starting it again" in said
    assert len(starts.read_text().splitlines()) > 1
    values = [
        value
        for part in out.glob("*.parquet")
        for value in pq.ParquetFile(part).read().column("value").to_pylist()
    ]
    assert sorted(values) == ["1", "2"]
